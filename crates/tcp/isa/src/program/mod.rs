//! The program level of the TCP: register images, transfers, and the control steps that put commands into
//! queues (paper sections III-C and V-A; engines in the order of the vISA book).
//!
//! A program is data. Nothing here checks or runs it: [`verify`](mod@crate::verify) says whether registers
//! can hold it, `crates/tcp/exec` what it computes, `crates/tcp/cost` how long a command takes. Units follow
//! registers literally, so a wrong stride gives wrong values.
//!
//! | file | holds |
//! |---|---|
//! | [`exec`] | one tensor unit command: fetch, switch, contraction, cast, transpose, commit |
//! | [`vector`] | the vector engine's part of it |
//! | [`transfer`] | one DMA command, and addresses |
//! | [`control`] | queues and the steps of the control core |
//! | [`tensor`] | named data: where inputs start and outputs are found |
//! | [`text`] | the text form: reader and printer |
//! | [`binary`] | the same in a file of checked sections, with arrays |
//! | [`grant`] | what address translation lets through |
//! | [`event`] | the events that observers of a run see |

pub mod binary;
pub mod control;
pub mod event;
pub mod exec;
pub mod grant;
mod loops;
mod resolve;
pub mod tensor;
pub mod text;
pub mod transfer;
pub mod vector;

pub use control::{Command, Queue, Step};
pub use exec::Exec;
pub use grant::Grant;
pub use tensor::Tensor;
pub use transfer::Transfer;

use tilewright_base::Span;
use tilewright_base::invariant::OrBroken;

/// Index into [`Program::execs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExecId(pub u32);

/// Index into [`Program::transfers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TransferId(pub u32);

/// Index into [`Program::registers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RegisterId(pub u32);

/// Index into [`Program::tensors`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TensorId(pub u32);

/// Commands on queues over named memories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The machine it was made for, by name.
    pub machine: String,
    /// Chips, joined by PCIe.
    pub chips: u64,
    /// Control registers that sizes and steps may name.
    pub registers: Vec<Register>,
    /// Named data.
    pub tensors: Vec<Tensor>,
    /// DMA commands.
    pub transfers: Vec<Transfer>,
    /// Tensor unit commands.
    pub execs: Vec<Exec>,
    /// One for each PE that works.
    pub queues: Vec<Queue>,
    /// What PEs may touch besides their own memories; none means that all share one space.
    pub grants: Vec<Grant>,
}

/// A control register: each PE has its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Register {
    /// Its name.
    pub name: String,
    /// Value at the start.
    pub initial: i64,
    /// Smallest value that a step may give it.
    pub least: i64,
    /// Largest value that a step may give it; memory is allocated for it.
    pub most: i64,
    /// Where it is declared.
    pub span: Span,
}

/// A size: a number, or a control register read when the image is loaded (paper section V-A: dynamic shapes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Known.
    Fixed(u64),
    /// The value of a register, at most its largest.
    Register(RegisterId),
}

impl Program {
    /// The first register that a size names and the program does not declare.
    pub fn missing_register(&self, mut counts: impl Iterator<Item = Count>) -> Option<RegisterId> {
        counts.find_map(|count| match count {
            Count::Register(id) if id.0 as usize >= self.registers.len() => Some(id),
            _ => None,
        })
    }

    /// The largest value of a size; a register whose largest value is negative counts as 0.
    pub fn most(&self, count: Count) -> u64 {
        match count {
            Count::Fixed(value) => value,
            Count::Register(id) => {
                let register =
                    self.registers.get(id.0 as usize).or_broken("an image names registers that exist");
                u64::try_from(register.most.max(0)).or_broken("a value that is not negative")
            }
        }
    }
}
