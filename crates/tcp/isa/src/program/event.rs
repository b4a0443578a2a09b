//! What the command processors did, in the order in which it happened: all that observers of a run (values,
//! findings) see.
//!
//! A simulator makes these, the values and the findings listen. Images are resolved: every size is a number.

use std::sync::Arc;

use tilewright_base::Span;
use tilewright_num::Dtype;

use super::exec::Exec;
use super::transfer::{Address, Transfer};
use crate::program::exec::Context;

/// A PE of some chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PeId {
    /// Chip.
    pub chip: u64,
    /// PE of it.
    pub pe: u64,
}

/// Numbers commands of a run in the order in which queues issue them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// What runs commands in order, side by side with the others of its PE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExecUnit {
    /// The main context.
    Main,
    /// The sub context.
    Sub,
    /// The DMA engine.
    Dma,
    /// The control core, which reads memories.
    Core,
}

impl ExecUnit {
    /// Whoever runs a context's commands.
    pub fn of(context: Context) -> ExecUnit {
        match context {
            Context::Main => ExecUnit::Main,
            Context::Sub => ExecUnit::Sub,
        }
    }

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            ExecUnit::Main => "main",
            ExecUnit::Sub => "sub",
            ExecUnit::Dma => "dma",
            ExecUnit::Core => "core",
        }
    }
}

/// The command behind a ticket; whoever needs it longer shares it.
#[derive(Clone, Copy, Debug)]
pub enum CommandImage<'a> {
    /// A tensor unit command.
    Exec(&'a Arc<Exec>),
    /// A DMA command.
    Transfer(&'a Arc<Transfer>),
}

/// One thing that happened.
#[derive(Clone, Copy, Debug)]
pub enum RunEvent<'a> {
    /// A queue issued a command. What it waited for before is ordered before it.
    Issue {
        /// Names it from now on.
        ticket: Ticket,
        /// Whose queue; the first PE of the group.
        pe: PeId,
        /// Unit that will run the command.
        unit: ExecUnit,
        /// The id it is waited for by.
        id: u8,
        /// Resolved image of the command.
        image: CommandImage<'a>,
        /// Messages that the core had taken, and commands that it had awaited, when it pushed the command:
        /// later ones are not ordered before it, even if they came before it was issued.
        received: u64,
        /// The `dma` or `exec` step.
        span: Span,
        /// Cycle at which it happened.
        at_cycles: u64,
    },
    /// A command began to run.
    Start {
        /// Ticket of the command.
        ticket: Ticket,
        /// Cycle at which it happened.
        at_cycles: u64,
    },
    /// A command ended.
    Done {
        /// Ticket of the command.
        ticket: Ticket,
        /// Cycle at which it happened.
        at_cycles: u64,
    },
    /// A wait let the queue go on: all that this PE issues from now on is ordered after the command.
    Waited {
        /// PE whose queue it is.
        pe: PeId,
        /// The command that was waited for.
        ticket: Ticket,
    },
    /// A control core saw its queue empty and all commands done: all it does from now on is ordered after
    /// them.
    Synced {
        /// PE of the control core.
        pe: PeId,
    },
    /// A control core saw one of its commands done: all it does and pushes from now on is ordered after it.
    Awaited {
        /// PE of the control core.
        pe: PeId,
        /// The command.
        ticket: Ticket,
    },
    /// A core rang another's doorbell: carries all that is ordered before the core itself.
    Posted {
        /// Sender.
        from: PeId,
        /// Receiver.
        to: PeId,
    },
    /// A core took the next message of another: all it does from now on, and all commands that it pushes from
    /// now on, is ordered after what the message carried.
    Received {
        /// Receiver.
        pe: PeId,
        /// Sender.
        from: PeId,
    },
    /// A core, just synced, read a value of the device.
    Read {
        /// Names it among the commands.
        ticket: Ticket,
        /// PE of the control core.
        pe: PeId,
        /// First byte.
        address: Address,
        /// As what.
        dtype: Dtype,
        /// The step.
        span: Span,
        /// Cycle at which it happened.
        at_cycles: u64,
    },
}
