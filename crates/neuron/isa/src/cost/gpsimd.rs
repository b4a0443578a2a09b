//! What instructions of the GpSimd engine take (neuron.md section 2.5).

use crate::Chip;
use crate::chip::cycles_ps;
use crate::program::InstructionCost;

/// Cost of an instruction that takes `cycles` after its start.
pub fn cost(chip: &Chip, cycles: u64) -> InstructionCost {
    let gpsimd = &chip.neuron.gpsimd;
    InstructionCost {
        busy_ps: cycles_ps(cycles.saturating_add(gpsimd.startup_cycles), gpsimd.clock_hz),
        latency_ps: 0,
    }
}
