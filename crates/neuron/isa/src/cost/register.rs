//! What loads of a sequencer's register take: what issuing an instruction takes.

use crate::Chip;
use crate::chip::cycles_ps;
use crate::program::{EngineKind, InstructionCost};

/// Cost of a load of a register of that engine's sequencer.
pub fn load(chip: &Chip, engine: EngineKind) -> InstructionCost {
    let neuron = &chip.neuron;
    let clock_hz = match engine {
        EngineKind::Tensor => neuron.tensor.clock_hz,
        EngineKind::Vector => neuron.vector.clock_hz,
        EngineKind::Gpsimd => neuron.gpsimd.clock_hz,
        EngineKind::Scalar | EngineKind::Dma | EngineKind::Sync => neuron.scalar.clock_hz,
    };
    InstructionCost { busy_ps: cycles_ps(neuron.sync.dispatch_cycles, clock_hz), latency_ps: 0 }
}
