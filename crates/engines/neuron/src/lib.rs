//! The NeuronCore: tile storage, access patterns, and the instructions of `nki.isa`, each in the file of its engine.
//!
//! - [`chip`]: the figures of a machine file that the rules below ask for;
//! - [`storage`], [`pattern`], [`explicit`], `late`: tensors with real bytes, the views over them, and copies that wait for a sum;
//! - [`alu`], [`function`], [`convert`], [`mx`]: operators, activation functions, casts and block-scaled words as values;
//! - [`engine`]: instructions by engine: may it, what does it give, how long;
//! - [`network`]: devices of an instance, their links, and which rank is where;
//! - [`program`]: what was executed, as data; [`schedule`]: when each of it runs on the real engines;
//! - [`compiler`]: what the compiler of the first dialect changes before;
//! - [`reading`]: utilisation, critical path, energy, suggestions;
//! - [`findings`], `accumulation`, `outside`, [`placement`], [`sharing`]: what is wrong though it ran;
//! - [`refusal`]: what an illegal instruction is answered with.

mod accumulation;
pub mod alu;
pub mod chip;
pub mod compiler;
pub mod convert;
pub mod cost;
pub mod engine;
pub mod engine_kind;
pub mod explicit;
pub mod findings;
pub mod function;
pub mod instruction;
mod late;
pub mod limits;
pub mod matmul;
pub mod memory;
pub mod mx;
pub mod network;
pub mod operand;
mod outside;
pub mod pattern;
pub mod placement;
pub mod program;
pub mod reading;
pub mod recycle;
pub mod refusal;
pub mod region;
pub mod schedule;
pub mod sharing;
pub mod storage;
pub mod tensor;

pub use chip::{Chip, Generation};
pub use memory::Memory;
pub use operand::Access;
pub use pattern::{Dim, View};
pub use program::{Cost, EngineKind, Instruction, Program, Region};
pub use refusal::Refusal;
pub use storage::Storage;
pub use tensor::TensorDecl;

/// An operand: a tensor and the part of it that is meant.
#[derive(Clone, Debug)]
pub struct Tile {
    /// The bytes.
    pub storage: std::sync::Arc<Storage>,
    /// The part.
    pub view: View,
}

impl Access for Tile {
    fn tensor(&self) -> &TensorDecl {
        &self.storage.tensor
    }

    fn view(&self) -> &View {
        &self.view
    }
}
