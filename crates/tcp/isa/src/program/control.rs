//! Queues and the control core that feeds them (paper sections III-C, V-A).
//!
//! The command processor takes entries in order: `dma` and `exec` start work and return at once, waits hold
//! the queue. The core of each PE runs steps: it pushes commands, computes registers, branches on values of
//! the device, and talks to other cores.

use tilewright_base::Span;
use tilewright_num::Dtype;

use super::transfer::Address;
use super::{ExecId, RegisterId, TransferId};
use crate::program::exec::Context;

/// What one PE's control core does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Chip.
    pub chip: u64,
    /// PE of the chip; the first of the group for commands that fuse several.
    pub pe: u64,
    /// Steps in order.
    pub steps: Vec<Step>,
    /// Source span of the statement.
    pub span: Span,
}

/// An entry of the command queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Starts a transfer under an id.
    Dma {
        /// The transfer.
        transfer: TransferId,
        /// Names it until it is done.
        id: u8,
    },
    /// Copies a register image to its context's registers; sizes held in control registers are read now.
    Load(ExecId),
    /// Starts what is loaded in a context under an id; holds the queue while that context is busy.
    Exec {
        /// Context that runs the loaded image.
        context: Context,
        /// Names it until it is done.
        id: u8,
    },
    /// Holds the queue until a transfer is done.
    WaitD(u8),
    /// Holds the queue until an execution is done.
    WaitE(u8),
}

/// A step of the control core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Kind of step.
    pub kind: StepKind,
    /// Source span of the statement.
    pub span: Span,
}

/// Kinds of step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// Puts a command into the queue, waiting for room.
    Push(Command),
    /// Puts a command into the queue without looking whether there is room: an overflow loses it.
    PushUnchecked(Command),
    /// Gives a register a value.
    Set(RegisterId, ControlExpr),
    /// Reads a value of the device into a register, once the queue is empty and everything pushed is done.
    Read {
        /// Into.
        register: RegisterId,
        /// From.
        address: Address,
        /// As: i8, i16, i32.
        dtype: Dtype,
    },
    /// Runs the body for each value of a register from a first to before a last.
    For {
        /// Counts.
        register: RegisterId,
        /// First value.
        from: ControlExpr,
        /// Not reached.
        to: ControlExpr,
        /// Steps.
        body: Vec<Step>,
    },
    /// Runs one of two bodies.
    If {
        /// Condition of the branch.
        condition: Condition,
        /// If it holds.
        then: Vec<Step>,
        /// If it does not.
        otherwise: Vec<Step>,
    },
    /// Runs the body while a condition holds.
    While {
        /// Condition, evaluated before every iteration.
        condition: Condition,
        /// Steps.
        body: Vec<Step>,
    },
    /// Waits until the queue is empty and everything pushed is done.
    Sync,
    /// Waits until whatever was pushed under an id is done; the queue goes on.
    Await {
        /// Of a transfer, or else of an execution.
        transfer: bool,
        /// The id.
        id: u8,
    },
    /// Writes a message into another PE's area and rings its doorbell.
    Post {
        /// Chip of the receiver.
        chip: u64,
        /// PE of the receiver.
        pe: u64,
        /// The message.
        value: ControlExpr,
    },
    /// Waits for the next message of a PE.
    Receive {
        /// Chip of the sender.
        chip: u64,
        /// PE of the sender.
        pe: u64,
        /// Register that receives the message; none discards it.
        register: Option<RegisterId>,
    },
}

/// Integer arithmetic of the control core: two operands at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlExpr {
    /// One operand.
    Operand(ControlOperand),
    /// Two operands and their operation.
    Binary(ControlOperand, ControlOp, ControlOperand),
}

/// An operand of the control core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlOperand {
    /// A number.
    Number(i64),
    /// A register.
    Register(RegisterId),
}

/// Operations of the control core; they wrap, and division by zero gives zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlOp {
    /// Sum.
    Add,
    /// Difference.
    Sub,
    /// Product.
    Mul,
    /// Quotient, towards zero.
    Div,
    /// Remainder.
    Rem,
    /// Minimum of both.
    Min,
    /// Maximum of both.
    Max,
}

/// A comparison of the control core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Left.
    pub left: ControlOperand,
    /// Order that the comparison asks for.
    pub relation: super::vector::Relation,
    /// Right.
    pub right: ControlOperand,
}
