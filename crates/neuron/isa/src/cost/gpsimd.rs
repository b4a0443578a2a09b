//! What instructions of the GpSimd engine take (docs/hardware-rules.md#gpsimd-engine).

use crate::Chip;
use crate::chip::cycles_ps;
use crate::program::InstructionCost;
use tilewright_base::invariant::Exact;

/// Cost of an instruction that takes `cycles` after its start.
pub fn cost(chip: &Chip, cycles: u64) -> InstructionCost {
    let gpsimd = &chip.neuron.gpsimd;
    InstructionCost {
        busy_ps: cycles_ps(cycles.exact_add(gpsimd.startup_cycles), gpsimd.clock_hz),
        latency_ps: 0,
    }
}
