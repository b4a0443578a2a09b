//! Why a program cannot be run. Each names where in the program, if it is somewhere.

use tilewright_base::Span;
use tilewright_record::RecordError;
use tilewright_tcp::program::event::PeId;

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
        /// Which.
        pe: PeId,
        /// Where.
        span: Span,
    },
    /// Two queues for one PE.
    #[error("PE {} of chip {} has two queues", .pe.pe, .pe.chip)]
    TwoQueues {
        /// Whose.
        pe: PeId,
        /// The second.
        span: Span,
    },
    /// PEs that cannot work as one group.
    #[error("PE {} of chip {} cannot be the first of {pes} fused PEs", .pe.pe, .pe.chip)]
    Group {
        /// The first.
        pe: PeId,
        /// How many.
        pes: u64,
        /// The command.
        span: Span,
    },
    /// An id that the program does not define.
    #[error("the program has no {what} {id}")]
    Unknown {
        /// What kind of thing.
        what: &'static str,
        /// Which.
        id: u32,
        /// Where.
        span: Span,
    },
    /// A transfer from or to an address where no memory is.
    #[error("transfer `{name}` starts where no memory is")]
    NoMemory {
        /// Its name.
        name: String,
        /// Where.
        span: Span,
    },
    /// An execution of a context that has no image.
    #[error("an execution starts before an image was loaded into its context")]
    NothingLoaded {
        /// Where.
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
        /// Greatest allowed.
        most: i64,
        /// Where.
        span: Span,
    },
    /// A control core reads the device, but nobody computes values.
    #[error("a control core reads a value of the device, which needs values to be computed")]
    NoValue {
        /// Where.
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
