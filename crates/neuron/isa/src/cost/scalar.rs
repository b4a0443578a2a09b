//! What instructions of the Scalar engine take (NKI architecture guide, scalar engine;
//! docs/hardware-rules.md#scalar-engine).

use smallvec::SmallVec;

use crate::chip::cycles_ps;
use crate::pattern::as_u64;
use crate::program::InstructionCost;
use crate::{Chip, TensorAccess, TensorView};
use tilewright_base::invariant::Exact;

/// Cost of an activation; reading the accumulated sums takes some cycles more.
pub fn activation(
    chip: &Chip,
    dst: &impl TensorAccess,
    data: &impl TensorAccess,
    reads_sums: bool,
) -> InstructionCost {
    let scalar = &chip.neuron.scalar;
    let narrow = [dst.view(), data.view()].iter().all(|view| view.dtype.storage_bits() <= 16);
    let rate = if narrow { scalar.fast_rate } else { 1 };
    let columns = slowed_views(chip, &[dst.view(), data.view()], as_u64(data.view().free_elements()));
    let read_sums = if reads_sums { scalar.accumulator_read_cycles } else { 0 };
    let cycles = (columns / rate).max(scalar.turnaround_cycles) + read_sums;
    InstructionCost {
        busy_ps: cycles_ps(cycles, scalar.clock_hz),
        latency_ps: cycles_ps(scalar.pipeline_cycles + chip.neuron.access.start_cycles, scalar.clock_hz),
    }
}

/// Cycles of a pass over tiles: twice as many if one of them is read or written with a long stride.
pub fn slowed(chip: &Chip, tiles: &[&impl TensorAccess], cycles: u64) -> u64 {
    let views: SmallVec<[&TensorView; 4]> = tiles.iter().map(|tile| tile.view()).collect();
    slowed_views(chip, &views, cycles)
}

fn slowed_views(chip: &Chip, views: &[&TensorView], cycles: u64) -> u64 {
    let slow = |view: &&TensorView| as_u64(view.inner_stride_bytes()) >= chip.neuron.access.slow_stride_bytes;
    if views.iter().any(slow) { cycles.exact_mul(2) } else { cycles }
}
