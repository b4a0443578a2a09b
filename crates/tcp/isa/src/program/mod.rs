//! The program level of the TCP: register images, transfers, and the control steps that put commands into queues
//! (paper sections III-C and V-A; engines in the order of the vISA book).
//!
//! A program is data. Nothing here checks or runs it: [`verify`](mod@crate::verify) says whether registers can hold it,
//! `crates/tcp/exec` what it computes, `crates/tcp/cost` how long a command takes. Units follow registers literally, so a wrong stride gives wrong values.
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
//! | [`event`] | what a run tells those who judge it |

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
    /// Least value that a step may give it.
    pub least: i64,
    /// Greatest value that a step may give it; memory is laid out for it.
    pub most: i64,
    /// Where it is declared.
    pub span: Span,
}

/// A size: a number, or a control register read when the image is loaded (paper section V-A: dynamic shapes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Known.
    Fixed(u64),
    /// The value of a register, at most its greatest.
    Register(RegisterId),
}

impl Program {
    /// The greatest value of a size.
    pub fn most(&self, count: Count) -> u64 {
        match count {
            Count::Fixed(value) => value,
            Count::Register(id) => {
                let register = self.registers.get(id.0 as usize);
                register.and_then(|register| u64::try_from(register.most).ok()).unwrap_or(0)
            }
        }
    }
}
