//! The NeuronCore's instructions as data: what they may do and how long each takes, without any values.
//!
//! - [`chip`]: the figures of a machine file that the rules below ask for; [`memory`], [`engine_kind`]: where
//!   and who;
//! - [`tensor`], [`pattern`], [`operand`]: tensors as declared, access patterns over them, both together;
//! - [`alu`], [`function`], [`mx`]: operators, activation functions and block-scaled words, element by
//!   element;
//! - [`limits`]: rules that all engines share; [`refusal`]: what an illegal instruction is answered with;
//! - [`cost`]: how long single instructions take; [`network`]: devices of an instance and their links;
//! - [`region`], [`instruction`], [`program`]: what was executed, and the bytes that it touched;
//! - [`opcode`], [`text`]: names of instructions, and the text of a program, which reads back as an equal
//!   one;
//! - [`written_elements`]: which elements of a place earlier writes put there;
//! - [`mod@verify`]: whether a program that was read can be scheduled.

pub mod alu;
pub mod chip;
pub mod cost;
pub mod engine_kind;
pub mod function;
pub mod instruction;
pub mod limits;
pub mod memory;
pub mod mx;
pub mod network;
pub mod opcode;
pub mod operand;
pub mod pattern;
pub mod program;
pub mod refusal;
pub mod region;
pub mod tensor;
pub mod text;
pub mod verify;
pub mod written_elements;

pub use chip::{Chip, Generation};
pub use memory::MemorySpace;
pub use operand::TensorAccess;
pub use pattern::{PatternDim, TensorView};
pub use program::{EngineKind, Instruction, InstructionCost, NeuronProgram, TensorRegion};
pub use refusal::Refusal;
pub use tensor::TensorDecl;
