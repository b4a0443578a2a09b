//! Why a program cannot be run. Each names where in the program, if it is somewhere.

use tilewright_base::{Diagnostic, Span};
use tilewright_record::RecordError;
use tilewright_tcp_isa::program::event::PeId;

/// Why a run stops before its end.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// More chips than a run has room for.
    #[error("{chips} chips, but at most {most} are simulated")]
    Chips {
        /// Asked for.
        chips: u64,
        /// Possible.
        most: u64,
    },
    /// A queue, a message or a command names a PE that the machine lacks.
    #[error("chip {} has no PE {}", .pe.chip, .pe.pe)]
    NoSuchPe {
        /// The PE.
        pe: PeId,
        /// The place in the program.
        span: Span,
    },
    /// Two queues for one PE.
    #[error("PE {} of chip {} has two queues", .pe.pe, .pe.chip)]
    TwoQueues {
        /// Whose.
        pe: PeId,
        /// The second queue.
        span: Span,
    },
    /// PEs that cannot work as one group.
    #[error("PE {} of chip {} cannot be the first of {pes} fused PEs", .pe.pe, .pe.chip)]
    Group {
        /// The first.
        pe: PeId,
        /// How many PEs.
        pes: u64,
        /// The command.
        span: Span,
    },
    /// An id that the program does not define.
    #[error("the program has no {what} {id}")]
    Unknown {
        /// What kind of thing.
        what: &'static str,
        /// The id that is not defined.
        id: u32,
        /// The place in the program.
        span: Span,
    },
    /// A transfer from or to an address where no memory is.
    #[error("transfer `{name}` starts where no memory is")]
    NoMemory {
        /// Its name.
        name: String,
        /// The place in the program.
        span: Span,
    },
    /// An execution of a context that has no image.
    #[error("an execution starts before an image was loaded into its context")]
    NothingLoaded {
        /// The place in the program.
        span: Span,
    },
    /// A register left its range.
    #[error("register `{name}` would be {value}, but goes from {least} to {most}")]
    Register {
        /// Its name.
        name: String,
        /// The value.
        value: i64,
        /// Least allowed.
        least: i64,
        /// Largest allowed.
        most: i64,
        /// The place in the program.
        span: Span,
    },
    /// A control core reads the device, but nobody computes values.
    #[error("a control core reads a value of the device, which needs values to be computed")]
    NoValue {
        /// The place in the program.
        span: Span,
    },
    /// Too many steps of control cores.
    #[error("control cores took more than {most} steps; the program may not end")]
    Steps {
        /// The bound.
        most: u64,
        /// The step that was one too many.
        span: Span,
    },
    /// Too many messages that nobody takes.
    #[error("PE {} of chip {} has more than {most} messages waiting", .pe.pe, .pe.chip)]
    Messages {
        /// Whose area.
        pe: PeId,
        /// How many fit.
        most: usize,
        /// The post.
        span: Span,
    },
    /// The run is longer than cycles can count.
    #[error("the run lasts longer than cycles can be counted")]
    TooLong,
    /// The record refused something.
    #[error(transparent)]
    Record(#[from] RecordError),
}

impl SimError {
    /// As a complaint with its place and what to write instead.
    pub fn to_diagnostic(&self) -> Diagnostic {
        let (code, allowed, instead) = match self {
            SimError::Chips { most, .. } => ("sim/chips", format!("1 to {most} chips"), "fewer chips"),
            SimError::NoSuchPe { .. } => ("sim/pe", "PEs of the machine".to_string(), "another PE"),
            SimError::TwoQueues { .. } => {
                ("sim/queues", "one queue a PE".to_string(), "one queue with all steps")
            }
            SimError::Group { pes, .. } => (
                "sim/group",
                format!("groups that begin at a multiple of {pes}"),
                "the first PE of the group",
            ),
            SimError::Unknown { what, .. } => ("sim/unknown", format!("a {what} of the program"), "its name"),
            SimError::NoMemory { .. } => {
                ("sim/memory", "addresses of hbm, dm or spm".to_string(), "an address inside a memory")
            }
            SimError::NothingLoaded { .. } => {
                ("sim/load", "an execution behind a load".to_string(), "`load NAME` before it")
            }
            SimError::Register { least, most, .. } => (
                "sim/register",
                format!("{least} to {most}"),
                "a loop that ends earlier, or a wider range where the register is declared",
            ),
            SimError::NoValue { .. } => {
                ("sim/value", "values that are computed".to_string(), "a run with values")
            }
            SimError::Steps { most, .. } => (
                "sim/steps",
                format!("{most} steps"),
                "a loop whose condition changes, or --max-steps N for a longer run",
            ),
            SimError::Messages { most, .. } => {
                ("sim/messages", format!("{most} messages"), "a receiver that takes them")
            }
            SimError::TooLong => ("sim/cycles", "2^64 cycles".to_string(), "a shorter run"),
            SimError::Record(_) => ("sim/record", "a trace that can be written".to_string(), "another file"),
        };
        let complaint = Diagnostic::error(code, self.to_string());
        let complaint = match self.span() {
            Some(span) => complaint.at(span, ""),
            None => complaint,
        };
        complaint.allowed(allowed).instead(instead)
    }

    /// Where in the program it is.
    pub fn span(&self) -> Option<Span> {
        match self {
            SimError::NoSuchPe { span, .. }
            | SimError::TwoQueues { span, .. }
            | SimError::Group { span, .. }
            | SimError::Unknown { span, .. }
            | SimError::NoMemory { span, .. }
            | SimError::NothingLoaded { span }
            | SimError::Register { span, .. }
            | SimError::NoValue { span }
            | SimError::Steps { span, .. }
            | SimError::Messages { span, .. } => Some(*span),
            SimError::Chips { .. } | SimError::TooLong | SimError::Record(_) => None,
        }
    }
}
