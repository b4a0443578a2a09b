//! Why a command could not be run: which unit, on which slice, and what did not fit.

use std::error::Error;
use std::fmt;

use tilewright_num::{Dtype, NumError};
use tilewright_tcp_isa::program::transfer::Address;
use tilewright_tcp_isa::switch::SwitchError;

use crate::values::ContractError;

/// A command that cannot run as its registers say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub stage: Stage,
    /// Slice of the group, if it is of one slice.
    pub slice: Option<u64>,
    /// What.
    pub problem: Problem,
}

/// Units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the units' own")]
pub enum Stage {
    Fetch,
    Switch,
    Contraction,
    Vector,
    Cast,
    Transpose,
    Commit,
    Dma,
    Memory,
    Tensor,
}

/// What did not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Two counts that should be equal.
    Unequal {
        /// What is counted.
        what: &'static str,
        /// How many.
        count: u64,
        /// What it meets.
        other: &'static str,
        /// How many of those.
        of_other: u64,
    },
    /// A count that should be a multiple of another.
    NotMultiple {
        /// What is counted.
        what: &'static str,
        /// How many.
        count: u64,
        /// Of this.
        of: u64,
    },
    /// More than a command may have.
    TooLarge {
        /// What is counted.
        what: &'static str,
        /// The limit.
        most: u64,
    },
    /// An access past the end of a memory.
    OutOfBounds {
        /// Which memory.
        memory: &'static str,
        /// First byte.
        offset: i64,
        /// Bytes.
        bytes: u64,
        /// Bytes that it has.
        capacity: u64,
    },
    /// No memory is there.
    Unmapped(Address),
    /// A step of so many bytes from an address leaves the address space.
    Stepped(Address, i64),
    /// No such chip, PE or slice.
    Nowhere {
        /// What.
        what: &'static str,
        /// Which.
        number: u64,
        /// How many there are.
        count: u64,
    },
    /// A type that the unit does not take.
    Dtype(Dtype),
    /// A setting that the unit does not have.
    Setting(&'static str),
    /// A value outside its type.
    Number(NumError),
    /// An exchange that the network cannot make.
    Switch(SwitchError),
    /// Operands that are not contracted.
    Contract(ContractError),
    /// What the vector engine says.
    Vector(String),
}

impl Problem {
    /// The fault of a unit.
    pub(super) fn at(self, stage: Stage) -> Fault {
        Fault { stage, slice: None, problem: self }
    }
}

impl Fault {
    /// Whether the command touches bytes that no memory has; otherwise its registers do not fit.
    pub fn is_out_of_bounds(&self) -> bool {
        matches!(
            self.problem,
            Problem::OutOfBounds { .. }
                | Problem::Unmapped(_)
                | Problem::Stepped(..)
                | Problem::Nowhere { .. }
        )
    }

    /// The same, of one slice.
    pub(super) fn on(mut self, slice: usize) -> Fault {
        self.slice = self.slice.or(Some(slice as u64));
        self
    }
}

/// Checks that two counts are equal.
pub(super) fn equal(
    what: &'static str,
    count: u64,
    other: &'static str,
    of_other: u64,
) -> Result<(), Problem> {
    if count == of_other { Ok(()) } else { Err(Problem::Unequal { what, count, other, of_other }) }
}

/// How often `of` goes into a count; it must do so without rest.
pub(super) fn divide(what: &'static str, count: u64, of: u64) -> Result<u64, Problem> {
    match count.checked_rem(of) {
        Some(0) => Ok(count / of),
        _ => Err(Problem::NotMultiple { what, count, of }),
    }
}

/// A product that may not exceed a limit.
pub(super) fn product(
    what: &'static str,
    factors: impl IntoIterator<Item = u64>,
    most: u64,
) -> Result<u64, Problem> {
    let mut all = Some(1_u64);
    for factor in factors {
        if factor == 0 {
            return Ok(0);
        }
        all = all.and_then(|all| all.checked_mul(factor)).filter(|all| *all <= most);
    }
    all.ok_or(Problem::TooLarge { what, most })
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Unequal { what, count, other, of_other } => {
                write!(f, "{count} {what} meet {of_other} {other}; make the loops of both agree")
            }
            Problem::NotMultiple { what, count, of } => {
                write!(f, "{count} {what} are no multiple of {of}; pad them or choose another size")
            }
            Problem::TooLarge { what, most } => {
                write!(f, "more than {most} {what} in one command; split the command")
            }
            Problem::OutOfBounds { memory, offset, bytes, capacity } => {
                write!(
                    f,
                    "{bytes} bytes at {offset} of {memory}, which has {capacity} bytes; move or shorten"
                )
            }
            Problem::Stepped(address, bytes) => {
                write!(
                    f,
                    "{bytes} bytes from {:#x} there is no memory; check table, base and strides",
                    address.0
                )
            }
            Problem::Unmapped(address) => {
                write!(f, "no memory is mapped at {:#x}; check base and strides", address.0)
            }
            Problem::Nowhere { what, number, count } => {
                write!(f, "there is no {what} {number}, only 0 to {}", count.saturating_sub(1))
            }
            Problem::Dtype(dtype) => write!(f, "{dtype} does not pass here; convert it first"),
            Problem::Setting(setting) => f.write_str(setting),
            Problem::Number(error) => error.fmt(f),
            Problem::Switch(error) => write!(f, "the network cannot exchange these packets: {error:?}"),
            Problem::Contract(error) => error.fmt(f),
            Problem::Vector(error) => f.write_str(error),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.stage {
            Stage::Fetch => "fetch unit",
            Stage::Switch => "switch engine",
            Stage::Contraction => "contraction engine",
            Stage::Vector => "vector engine",
            Stage::Cast => "cast engine",
            Stage::Transpose => "transpose engine",
            Stage::Commit => "commit unit",
            Stage::Dma => "DMA engine",
            Stage::Memory => "memory",
            Stage::Tensor => "tensor",
        };
        match self.slice {
            Some(slice) => write!(f, "{stage}, slice {slice}: {}", self.problem),
            None => write!(f, "{stage}: {}", self.problem),
        }
    }
}

impl Error for Fault {}

impl From<NumError> for Problem {
    fn from(error: NumError) -> Problem {
        Problem::Number(error)
    }
}

impl From<ContractError> for Problem {
    fn from(error: ContractError) -> Problem {
        Problem::Contract(error)
    }
}
