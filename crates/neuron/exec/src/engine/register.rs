//! Registers of the engines' sequencers: one element of SBUF or HBM that says where later operands lie, or
//! how often a loop runs (NKI reference of `register_alloc` and `register_load`;
//! docs/hardware-rules.md#engines and
//! #transfers-and-communication).
//!
//! Documented: each sequencer has registers of its own, and the compiler takes those of the engines that use
//! a value. Assumed, since no page says it: a load takes what issuing an instruction takes, wherever the
//! element lies, and Sync issues at the clock of Scalar.

use tilewright_neuron_isa::Chip;
use tilewright_neuron_isa::cost::register as cost;
use tilewright_neuron_isa::program::{EngineKind, Instruction};

use crate::Tile;

/// A register takes one element; `register` stands for it. It is Sync's until another engine uses it.
pub fn register_load(chip: &Chip, register: &Tile, src: &Tile) -> Instruction {
    let cost = cost::load(chip, EngineKind::Sync);
    let mut instruction = Instruction::new("register_load", EngineKind::Sync, cost, &[register], &[src]);
    // No lane of an engine reads it.
    instruction.offsets = Some(instruction.reads.to_vec().into());
    instruction
}

/// Makes a load that of the engine whose instruction uses it; transfers are triggered by Sync.
pub fn give_to(chip: &Chip, load: &mut Instruction, engine: EngineKind) {
    if engine != EngineKind::Dma {
        load.engine = engine;
        load.cost = cost::load(chip, engine);
    }
}
