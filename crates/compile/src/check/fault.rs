//! What the checker has against a program.

use std::fmt;

use tilewright_tcp_isa::program::event::PeId;

/// Kinds of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// Two commands touch the same bytes, one writes, and nothing orders them.
    Unordered,
    /// A command reads bytes that nothing has written.
    Unwritten,
    /// A command reads what a kernel wrote that its own kernel does not read.
    Stale,
    /// Nothing reads what a command wrote.
    Unread,
    /// Nothing reads what a command wrote that must be read.
    Lost,
    /// A transfer meets HBM where the plan has something else.
    Misplaced,
    /// A command touches bytes that no memory has.
    Outside,
    /// A wait for an id that no command has, or a start without an image.
    NeverIssued,
    /// A message that nobody takes.
    NoReceiver,
    /// PEs that wait for each other's messages.
    Deadlock,
    /// Branches and loops that are too many to follow.
    NotFollowed,
}

impl FaultKind {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            FaultKind::Unordered => "unordered",
            FaultKind::Unwritten => "unwritten",
            FaultKind::Stale => "stale",
            FaultKind::Unread => "unread",
            FaultKind::Lost => "lost",
            FaultKind::Misplaced => "misplaced",
            FaultKind::Outside => "outside",
            FaultKind::NeverIssued => "never-issued",
            FaultKind::NoReceiver => "no-receiver",
            FaultKind::Deadlock => "deadlock",
            FaultKind::NotFollowed => "not-followed",
        }
    }
}

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CheckFault {
    /// What kind.
    pub kind: FaultKind,
    /// Whose queue.
    pub pe: (u64, u64),
    /// The step of that queue, counted without the steps inside of others.
    pub step: usize,
    /// In words.
    pub message: String,
}

impl CheckFault {
    pub(super) fn new(kind: FaultKind, pe: PeId, step: usize, message: String) -> CheckFault {
        CheckFault { kind, pe: (pe.chip, pe.pe), step, message }
    }
}

impl fmt::Display for CheckFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (chip, pe) = self.pe;
        write!(f, "{}: chip {chip} pe {pe}, step {}: {}", self.kind.name(), self.step, self.message)
    }
}
