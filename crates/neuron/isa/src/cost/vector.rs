//! What instructions of the Vector engine take, and those that other engines can run too (NKI architecture
//! guide, vector engine; docs/hardware-rules.md#vector-engine and #vector-instructions).

use super::scalar::slowed;
use crate::chip::cycles_ps;
use crate::pattern::as_u64;
use crate::program::{EngineKind, InstructionCost};
use crate::{Chip, MemorySpace, TensorAccess, TensorView};
use tilewright_base::invariant::Exact;

/// How fast an instruction can go where its operands allow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VectorRate {
    /// One element of a lane in a cycle.
    Plain,
    /// `tensor_copy` and `tensor_scalar`: several 16-bit elements in a cycle, fewer if strided or in PSUM.
    Fast,
    /// `tensor_tensor`: as the strided rate, if all is 16 bits wide and in SBUF.
    Pair,
}

/// Cost of an instruction that takes `cycles` at one element a cycle.
pub fn cost(
    chip: &Chip,
    engine: EngineKind,
    cycles: u64,
    tiles: &[&impl TensorAccess],
    rate: VectorRate,
) -> InstructionCost {
    let neuron = &chip.neuron;
    match engine {
        EngineKind::Scalar => {
            let narrow = tiles.iter().all(|tile| tile.view().dtype.storage_bits() <= 16);
            let rate = if narrow { neuron.scalar.fast_rate } else { 1 };
            let cycles = (slowed(chip, tiles, cycles) / rate).max(neuron.scalar.turnaround_cycles);
            let latency = neuron.scalar.pipeline_cycles + neuron.access.start_cycles;
            InstructionCost {
                busy_ps: cycles_ps(cycles, neuron.scalar.clock_hz),
                latency_ps: cycles_ps(latency, neuron.scalar.clock_hz),
            }
        }
        EngineKind::Gpsimd => {
            let cycles = slowed(chip, tiles, cycles) + neuron.gpsimd.startup_cycles;
            InstructionCost { busy_ps: cycles_ps(cycles, neuron.gpsimd.clock_hz), latency_ps: 0 }
        }
        _ => {
            let rate = vector_rate(chip, tiles, rate);
            let cycles = (slowed(chip, tiles, cycles) / rate).max(neuron.sync.dispatch_cycles);
            let latency = neuron.vector.pipeline_cycles + neuron.access.start_cycles;
            InstructionCost {
                busy_ps: cycles_ps(cycles + neuron.vector.fixed_cycles, neuron.vector.clock_hz),
                latency_ps: cycles_ps(latency, neuron.vector.clock_hz),
            }
        }
    }
}

/// Cost of an instruction at one element of a lane in a cycle, on that engine.
pub fn cost_on(
    chip: &Chip,
    engine: EngineKind,
    cycles: u64,
    tiles: &[&impl TensorAccess],
) -> InstructionCost {
    cost(chip, engine, cycles, tiles, VectorRate::Plain)
}

/// Cost of a Vector instruction at one element of a lane in a cycle.
pub fn plain_cost(chip: &Chip, cycles: u64, tiles: &[&impl TensorAccess]) -> InstructionCost {
    cost(chip, EngineKind::Vector, cycles, tiles, VectorRate::Plain)
}

/// Whether an instruction runs in one of Vector's fast modes.
pub fn is_fast(chip: &Chip, engine: EngineKind, tiles: &[&impl TensorAccess], rate: VectorRate) -> bool {
    engine == EngineKind::Vector && vector_rate(chip, tiles, rate) > 1
}

fn vector_rate(chip: &Chip, tiles: &[&impl TensorAccess], rate: VectorRate) -> u64 {
    let vector = &chip.neuron.vector;
    let half = |view: &TensorView| view.dtype.is_float() && view.dtype.storage_bits() == 16;
    if rate == VectorRate::Plain || !tiles.iter().all(|tile| half(tile.view())) {
        return 1;
    }
    let sbuf = tiles.iter().all(|tile| tile.tensor().memory == MemorySpace::Sbuf);
    let contiguous = tiles.iter().all(|tile| tile.view().free_contiguous());
    match rate {
        VectorRate::Fast if sbuf && contiguous => vector.fast_rate,
        VectorRate::Fast if sbuf || contiguous => vector.fast_strided_rate,
        VectorRate::Pair if sbuf => vector.fast_strided_rate,
        _ => 1,
    }
}

/// Cycles of an instruction with two tensor inputs: one pass if one of them comes from PSUM, two otherwise.
pub fn two_input_cycles(a: &impl TensorAccess, b: &impl TensorAccess) -> u64 {
    let columns = as_u64(a.view().free_elements().max(b.view().free_elements()));
    let psum = [a.tensor(), b.tensor()].iter().any(|tensor| tensor.memory == MemorySpace::Psum);
    if psum { columns } else { columns.exact_mul(2) }
}
