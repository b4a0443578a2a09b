//! Why a command could not be run: which unit, on which slice, and what did not fit.

use std::error::Error;
use std::fmt;

use tilewright_num::{Dtype, NumError};
use tilewright_tcp_isa::program::event::PeId;
use tilewright_tcp_isa::program::transfer::{Address, MemoryInstance, MemoryLocation};
use tilewright_tcp_isa::switch::SwitchError;

use crate::values::ContractError;

/// A command that cannot run as its registers say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecFault {
    /// The unit that failed.
    pub stage: ExecStage,
    /// Slice of the group, if it is of one slice.
    pub slice: Option<u64>,
    /// What did not fit.
    pub problem: ExecProblem,
}

/// Units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the units' own")]
pub enum ExecStage {
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
pub enum ExecProblem {
    /// Two counts that should be equal.
    Unequal {
        /// What is counted.
        what: &'static str,
        /// How many there are of what is counted.
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
        /// How many there are of what is counted.
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
    /// A first byte or slice from which steps cannot be counted.
    TooFar {
        /// What is counted from.
        what: &'static str,
        /// Its number.
        first: u64,
        /// The largest that is allowed.
        most: u64,
    },
    /// No memory is there.
    Unmapped(Address),
    /// A step of so many bytes from an address leaves the address space.
    Stepped(Address, i64),
    /// No such chip, PE or slice.
    Nowhere {
        /// The kind of thing that is missing.
        what: &'static str,
        /// Its number.
        number: u64,
        /// How many there are.
        count: u64,
    },
    /// A byte that the address translation of a PE does not let through.
    NotGranted {
        /// Whose command it is.
        pe: PeId,
        /// The first such byte.
        address: Address,
        /// Written rather than read.
        write: bool,
        /// Whose byte it is, in words.
        owner: String,
    },
    /// Bytes that the command reads after it has written them itself; first address and bytes of both.
    SelfOverlap {
        /// What is read.
        read: (Address, u64),
        /// What was written.
        written: (Address, u64),
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

impl ExecProblem {
    /// The fault of a unit.
    pub(super) fn at(self, stage: ExecStage) -> ExecFault {
        ExecFault { stage, slice: None, problem: self }
    }
}

impl ExecFault {
    /// Whether the command touches bytes that no memory has; otherwise its registers do not fit.
    pub fn is_out_of_bounds(&self) -> bool {
        matches!(
            self.problem,
            ExecProblem::OutOfBounds { .. }
                | ExecProblem::TooFar { .. }
                | ExecProblem::Unmapped(_)
                | ExecProblem::Stepped(..)
                | ExecProblem::Nowhere { .. }
        )
    }

    /// Whether the command touches bytes that are not granted to its PE.
    pub fn is_not_granted(&self) -> bool {
        matches!(self.problem, ExecProblem::NotGranted { .. })
    }

    /// Whether the command reads what it has written itself.
    pub fn is_self_overlap(&self) -> bool {
        matches!(self.problem, ExecProblem::SelfOverlap { .. })
    }

    /// The same, of one slice.
    pub(super) fn on(mut self, slice: usize) -> ExecFault {
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
) -> Result<(), ExecProblem> {
    if count == of_other { Ok(()) } else { Err(ExecProblem::Unequal { what, count, other, of_other }) }
}

/// An access past the end of a memory, by its first byte.
pub(super) fn out_of_bounds(memory: &'static str, first: u64, bytes: u64, capacity: u64) -> ExecProblem {
    match i64::try_from(first) {
        Ok(offset) => ExecProblem::OutOfBounds { memory, offset, bytes, capacity },
        Err(_) => ExecProblem::TooFar { what: "the first byte of an access", first, most: capacity },
    }
}

/// How often `of` goes into a count; it must do so without rest.
pub(super) fn divide(what: &'static str, count: u64, of: u64) -> Result<u64, ExecProblem> {
    match count.checked_rem(of) {
        Some(0) => Ok(count / of),
        _ => Err(ExecProblem::NotMultiple { what, count, of }),
    }
}

/// A product that may not exceed a limit.
pub(super) fn product(
    what: &'static str,
    factors: impl IntoIterator<Item = u64>,
    most: u64,
) -> Result<u64, ExecProblem> {
    let mut all = Some(1_u64);
    for factor in factors {
        if factor == 0 {
            return Ok(0);
        }
        all = all.and_then(|all| all.checked_mul(factor)).filter(|all| *all <= most);
    }
    all.ok_or(ExecProblem::TooLarge { what, most })
}

impl fmt::Display for ExecProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExecProblem::Unequal { what, count, other, of_other } => {
                write!(f, "{count} {what} meet {of_other} {other}; make the loops of both agree")
            }
            ExecProblem::NotMultiple { what, count, of } => {
                write!(f, "{count} {what} are no multiple of {of}; pad them or choose another size")
            }
            ExecProblem::TooLarge { what, most } => {
                write!(f, "more than {most} {what} in one command; split the command")
            }
            ExecProblem::OutOfBounds { memory, offset, bytes, capacity } => {
                write!(
                    f,
                    "{bytes} bytes at {offset} of {memory}, which has {capacity} bytes; move or shorten"
                )
            }
            ExecProblem::TooFar { what, first, most } => {
                write!(f, "{what} is {first}, above {most}; start inside the memory")
            }
            ExecProblem::Stepped(address, bytes) => {
                write!(
                    f,
                    "{bytes} bytes from {:#x} there is no memory; check table, base and strides",
                    address.0
                )
            }
            ExecProblem::Unmapped(address) => {
                write!(f, "no memory is mapped at {:#x}; check base and strides", address.0)
            }
            ExecProblem::Nowhere { what, number, count } => match count.checked_sub(1) {
                Some(last) => write!(f, "there is no {what} {number}, only 0 to {last}"),
                None => write!(f, "there is no {what} {number}, and no other"),
            },
            ExecProblem::NotGranted { pe, address, write, owner } => {
                let does = if *write { "write" } else { "read" };
                write!(
                    f,
                    "chip {} pe {} may not {does} {}, which is {owner}",
                    pe.chip,
                    pe.pe,
                    located(*address)
                )
            }
            ExecProblem::SelfOverlap { read, written } => write!(
                f,
                "reads {} bytes at {} after it wrote {} bytes at {}",
                read.1,
                located(read.0),
                written.1,
                located(written.0)
            ),
            ExecProblem::Dtype(dtype) => write!(f, "{dtype} does not pass here; convert it first"),
            ExecProblem::Setting(setting) => f.write_str(setting),
            ExecProblem::Number(error) => error.fmt(f),
            ExecProblem::Switch(error) => write!(f, "the network cannot exchange these packets: {error:?}"),
            ExecProblem::Contract(error) => error.fmt(f),
            ExecProblem::Vector(error) => f.write_str(error),
        }
    }
}

impl fmt::Display for ExecFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.stage {
            ExecStage::Fetch => "fetch unit",
            ExecStage::Switch => "switch engine",
            ExecStage::Contraction => "contraction engine",
            ExecStage::Vector => "vector engine",
            ExecStage::Cast => "cast engine",
            ExecStage::Transpose => "transpose engine",
            ExecStage::Commit => "commit unit",
            ExecStage::Dma => "DMA engine",
            ExecStage::Memory => "memory",
            ExecStage::Tensor => "tensor",
        };
        match self.slice {
            Some(slice) => write!(f, "{stage}, slice {slice}: {}", self.problem),
            None => write!(f, "{stage}: {}", self.problem),
        }
    }
}

/// An address as the memory that it lies in and the byte there.
fn located(address: Address) -> String {
    match address.locate() {
        Some(MemoryLocation { chip, medium, offset }) => match medium {
            MemoryInstance::Hbm => format!("hbm+{offset:#x} of chip {chip}"),
            MemoryInstance::Dm { slice } => format!("dm[{slice}]+{offset:#x} of chip {chip}"),
            MemoryInstance::Spm { pe } => format!("spm[{pe}]+{offset:#x} of chip {chip}"),
        },
        None => format!("{:#x}", address.0),
    }
}

impl Error for ExecFault {}

impl From<NumError> for ExecProblem {
    fn from(error: NumError) -> ExecProblem {
        ExecProblem::Number(error)
    }
}

impl From<ContractError> for ExecProblem {
    fn from(error: ContractError) -> ExecProblem {
        ExecProblem::Contract(error)
    }
}
