//! Vector engine: element-wise instructions, reductions, scans, statistics, selections and searches (NKI
//! architecture guide, vector engine; docs/hardware-rules.md#vector-engine and #vector-instructions).

mod dynamic;
mod elementwise;
mod exponential;
mod reduce;
mod search;
mod select;

pub use dynamic::tensor_copy_dynamic;
pub(crate) use elementwise::apply_steps;
pub use elementwise::{
    fill, memset, nc_stream_shuffle, reciprocal, scalar_tensor_tensor, tensor_copy, tensor_scalar,
    tensor_tensor, transpose,
};
pub use exponential::exponential;
pub use reduce::{
    Accumulate, bn_aggr, bn_stats, tensor_reduce, tensor_scalar_cumulative, tensor_scalar_reduce,
    tensor_tensor_scan,
};
pub use search::{max8, nc_find_index8, nc_match_replace8};
pub use select::{
    Bound, check_predicate, dropout, largest_only, range_select, select_reduce, tensor_copy_predicated,
    uniform,
};

use super::scalar::slowed;
use crate::chip::cycles_ps;
use crate::pattern::as_u64;
use crate::program::{Cost, EngineKind};
use crate::{Chip, Memory, Tile};

/// How fast an instruction can go where its operands allow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rate {
    /// One element of a lane in a cycle.
    Plain,
    /// `tensor_copy` and `tensor_scalar`: several 16-bit elements in a cycle, fewer if strided or in PSUM.
    Fast,
    /// `tensor_tensor`: as the strided rate, if all is 16 bits wide and in SBUF.
    Pair,
}

/// Cost of an instruction that takes `cycles` at one element a cycle.
fn cost(chip: &Chip, engine: EngineKind, cycles: u64, tiles: &[&Tile], rate: Rate) -> Cost {
    let neuron = &chip.neuron;
    match engine {
        EngineKind::Scalar => {
            let narrow = tiles.iter().all(|tile| tile.view.dtype.storage_bits() <= 16);
            let rate = if narrow { neuron.scalar.fast_rate } else { 1 };
            let cycles = (slowed(chip, tiles, cycles) / rate).max(neuron.scalar.turnaround_cycles);
            let latency = neuron.scalar.pipeline_cycles + neuron.access.start_cycles;
            Cost {
                busy_ps: cycles_ps(cycles, neuron.scalar.clock_hz),
                latency_ps: cycles_ps(latency, neuron.scalar.clock_hz),
            }
        }
        EngineKind::Gpsimd => {
            let cycles = slowed(chip, tiles, cycles) + neuron.gpsimd.startup_cycles;
            Cost { busy_ps: cycles_ps(cycles, neuron.gpsimd.clock_hz), latency_ps: 0 }
        }
        _ => {
            let rate = vector_rate(chip, tiles, rate);
            let cycles = (slowed(chip, tiles, cycles) / rate).max(neuron.sync.dispatch_cycles);
            let latency = neuron.vector.pipeline_cycles + neuron.access.start_cycles;
            Cost {
                busy_ps: cycles_ps(cycles + neuron.vector.fixed_cycles, neuron.vector.clock_hz),
                latency_ps: cycles_ps(latency, neuron.vector.clock_hz),
            }
        }
    }
}

/// Cost of an instruction at one element of a lane in a cycle, on that engine.
pub(super) fn cost_on(chip: &Chip, engine: EngineKind, cycles: u64, tiles: &[&Tile]) -> Cost {
    cost(chip, engine, cycles, tiles, Rate::Plain)
}

/// Cost of a Vector instruction at one element of a lane in a cycle.
pub(super) fn plain_cost(chip: &Chip, cycles: u64, tiles: &[&Tile]) -> Cost {
    cost(chip, EngineKind::Vector, cycles, tiles, Rate::Plain)
}

/// Whether an instruction runs in one of Vector's fast modes.
fn is_fast(chip: &Chip, engine: EngineKind, tiles: &[&Tile], rate: Rate) -> bool {
    engine == EngineKind::Vector && vector_rate(chip, tiles, rate) > 1
}

fn vector_rate(chip: &Chip, tiles: &[&Tile], rate: Rate) -> u64 {
    let vector = &chip.neuron.vector;
    let half = |tile: &&Tile| tile.view.dtype.is_float() && tile.view.dtype.storage_bits() == 16;
    if rate == Rate::Plain || !tiles.iter().all(half) {
        return 1;
    }
    let sbuf = tiles.iter().all(|tile| tile.storage.memory == Memory::Sbuf);
    let contiguous = tiles.iter().all(|tile| tile.view.free_contiguous());
    match rate {
        Rate::Fast if sbuf && contiguous => vector.fast_rate,
        Rate::Fast if sbuf || contiguous => vector.fast_strided_rate,
        Rate::Pair if sbuf => vector.fast_strided_rate,
        _ => 1,
    }
}

/// Cycles of an instruction with two tensor inputs: one pass if one of them comes from PSUM, two otherwise.
fn two_input_cycles(a: &Tile, b: &Tile) -> u64 {
    let columns = as_u64(a.view.free_elements().max(b.view.free_elements()));
    let psum = [a, b].iter().any(|tile| tile.storage.memory == Memory::Psum);
    if psum { columns } else { columns.saturating_mul(2) }
}
