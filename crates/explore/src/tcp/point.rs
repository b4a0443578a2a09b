//! One candidate: how an einsum is cut into commands, slices, lanes, packets and loops (paper sections II-B
//! and IV-C).
//!
//! A frame says what is settled first: commands, slices, and which operand the register files hold. A choice
//! says the rest. Together they give a nest, the sizes of all loops, from which everything else follows.

use tilewright_notation::syntax::ast::Operand;
use tilewright_tcp_isa::program::exec::Drain;

use crate::cost_math::{CostMath, INFINITE};
use crate::tcp::task::{AxisClass, MAX_AXES, TcpTask};

/// What the axes of a class do once it is known which operand is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AxisRole {
    /// In both inputs and the output.
    Batch,
    /// Only the held operand has it: lanes and repeats.
    Held,
    /// Only the streamed operand has it: rows, columns of a packet.
    Streamed,
    /// Summed: the tree and the accumulators.
    Summed,
}

impl AxisRole {
    /// All roles.
    pub const ALL: [AxisRole; 4] = [AxisRole::Batch, AxisRole::Held, AxisRole::Streamed, AxisRole::Summed];
}

/// Commands, slices and the operand in the register files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpFrame {
    /// The operand that the register files hold.
    pub stationary: Operand,
    /// Commands along each axis.
    pub parts: [u64; MAX_AXES],
    /// Slices along each axis, as a power of two.
    pub slices_log2: [u8; MAX_AXES],
    /// Positions of each axis in one command.
    pub extents: [u64; MAX_AXES],
}

/// How the streamed operand reaches slices that differ in held axes only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StreamSupply {
    /// There are none, or each has its own copy in data memory.
    Own,
    /// Rows are spread over them, slice after slice; a ring multicasts each slice's rows in turn.
    RingOuter,
    /// The same, where slices take turns row by row, inside the loop over sums.
    RingInner,
}

impl StreamSupply {
    /// What is said of it.
    pub fn name(self) -> &'static str {
        match self {
            StreamSupply::Own => "own",
            StreamSupply::RingOuter => "ring",
            StreamSupply::RingInner => "ring by row",
        }
    }
}

/// Which context loads the register files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoadContext {
    /// The main context: wide, before the contraction.
    Main,
    /// The sub context.
    Sub,
}

/// What a frame leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpChoice {
    /// Lanes in use.
    pub lanes: u64,
    /// Rows in one packet: columns of each lane.
    pub columns: u64,
    /// Summed elements of a packet.
    pub tree: u64,
    /// Steps for which the feed unit holds a packet.
    pub repeats: u64,
    /// How the stream arrives.
    pub supply: StreamSupply,
    /// Which of [`ORDERS`] the loops in time have.
    pub order: u8,
    /// Bytes that lie together in data memory where a packet is read.
    pub fetch_bytes: u64,
    /// Who loads.
    pub loading: LoadContext,
    /// The order in which sums leave.
    pub drain: Drain,
    /// Bytes that the commit unit writes at once.
    pub commit_bytes: u64,
}

impl TcpChoice {
    /// A choice before any is made.
    pub fn open() -> TcpChoice {
        TcpChoice {
            lanes: 1,
            columns: 1,
            tree: 1,
            repeats: 1,
            supply: StreamSupply::Own,
            order: 0,
            fetch_bytes: 0,
            loading: LoadContext::Main,
            drain: Drain::Interleaved,
            commit_bytes: 0,
        }
    }

    /// A number that differs from that of any other choice of the same frame, and orders ties: wide fetches
    /// first, then wide writes.
    pub fn code(&self) -> u64 {
        let fields = [
            (log2(self.lanes), 4),
            (log2(self.columns), 4),
            (self.tree, 10),
            (self.repeats, 22),
            (self.supply as u64, 2),
            (u64::from(self.order), 5),
            (127_u64.saturating_sub(self.fetch_bytes), 7),
            (self.loading as u64, 1),
            (self.drain as u64, 1),
            (127_u64.saturating_sub(self.commit_bytes), 7),
        ];
        fields.into_iter().fold(0, |code, (field, bits)| code << bits | field.min((1 << bits) - 1))
    }
}

/// Lanes and columns are powers of two.
fn log2(value: u64) -> u64 {
    u64::from(value.max(1).ilog2())
}

/// A loop in time, by what it runs over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeLoop {
    /// Batch positions.
    Batch,
    /// Held positions past lanes and repeats: the stream passes again for each.
    Passes,
    /// Packets of rows.
    Rows,
    /// Packets along the sum.
    Chunks,
}

/// All orders of the loops around the repeats, outermost first.
pub const ORDERS: [[TimeLoop; 4]; 24] = {
    use TimeLoop::{Batch as B, Chunks as C, Passes as P, Rows as R};
    [
        [B, P, R, C],
        [B, P, C, R],
        [B, R, P, C],
        [B, R, C, P],
        [B, C, P, R],
        [B, C, R, P],
        [P, B, R, C],
        [P, B, C, R],
        [P, R, B, C],
        [P, R, C, B],
        [P, C, B, R],
        [P, C, R, B],
        [R, B, P, C],
        [R, B, C, P],
        [R, P, B, C],
        [R, P, C, B],
        [R, C, B, P],
        [R, C, P, B],
        [C, B, P, R],
        [C, B, R, P],
        [C, P, B, R],
        [C, P, R, B],
        [C, R, B, P],
        [C, R, P, B],
    ]
};

/// Sizes of all loops of one command on one slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopNest {
    /// Batch positions.
    pub batch: u64,
    /// Passes of the stream.
    pub passes: u64,
    /// Packets of rows that a slice has itself.
    pub rows: u64,
    /// Slices of a ring whose rows pass in turn; 1 without one.
    pub ring: u64,
    /// Packets along the sum.
    pub chunks: u64,
    /// Steps that hold a packet.
    pub repeats: u64,
    /// Lanes.
    pub lanes: u64,
    /// Rows in a packet.
    pub columns: u64,
    /// Summed elements in a packet.
    pub tree: u64,
    /// Positions of each axis on one slice, padding included.
    pub share: [u64; MAX_AXES],
    /// Slices along each axis that work.
    pub live: [u64; MAX_AXES],
    /// Slices along held, streamed and summed axes, idle ones included.
    pub held_slices: u64,
    /// See `held_slices`.
    pub streamed_slices: u64,
    /// See `held_slices`.
    pub summed_slices: u64,
    /// All slices that the command spans.
    pub slices: u64,
    /// All of them that work.
    pub live_slices: u64,
    /// The sum is shorter than its part of a packet.
    pub tree_padded: bool,
    /// Groups of slices with parts of the same sums, of which some slice works.
    pub live_groups: u64,
    /// The held operand, or the streamed one, has padding.
    pub held_padded: bool,
    /// See `held_padded`.
    pub streamed_padded: bool,
}

impl LoopNest {
    /// Steps of the contraction engine.
    pub fn steps(&self) -> u64 {
        self.packets().times_cost(self.repeats)
    }

    /// Packets that reach a slice.
    pub fn packets(&self) -> u64 {
        [self.batch, self.passes, self.rows, self.ring, self.chunks].into_iter().fold(1, u64::times_cost)
    }

    /// The size of a loop in time.
    pub fn turn(&self, turn: TimeLoop, supply: StreamSupply) -> u64 {
        match turn {
            TimeLoop::Batch => self.batch,
            TimeLoop::Passes => self.passes,
            TimeLoop::Rows if supply == StreamSupply::RingOuter => self.rows * self.ring,
            TimeLoop::Rows => self.rows,
            TimeLoop::Chunks => self.chunks,
        }
    }

    /// Elements of the held operand that a slice has.
    pub fn held_elements(&self) -> u64 {
        let rows = [self.batch, self.passes, self.chunks, self.repeats, self.lanes];
        rows.into_iter().fold(self.tree, u64::times_cost)
    }

    /// Elements of the streamed operand that a slice has.
    pub fn streamed_elements(&self) -> u64 {
        [self.batch, self.rows, self.chunks, self.columns].into_iter().fold(self.tree, u64::times_cost)
    }

    /// Results of a slice.
    pub fn results(&self) -> u64 {
        let loops = [self.batch, self.passes, self.rows, self.ring, self.repeats, self.lanes];
        loops.into_iter().fold(self.columns, u64::times_cost)
    }
}

impl TcpFrame {
    /// The role of an axis.
    pub fn role(&self, class: AxisClass) -> AxisRole {
        match (class, self.stationary) {
            (AxisClass::Batch, _) => AxisRole::Batch,
            (AxisClass::Contracted, _) => AxisRole::Summed,
            (AxisClass::Free0, Operand::In0) | (AxisClass::Free1, Operand::In1) => AxisRole::Held,
            _ => AxisRole::Streamed,
        }
    }

    /// The operand that is streamed.
    pub fn streamed(&self) -> Operand {
        if self.stationary == Operand::In0 { Operand::In1 } else { Operand::In0 }
    }

    /// Slices, idle ones included.
    pub fn slices(&self) -> u64 {
        1_u64.checked_shl(self.slices_log2.iter().map(|log2| u32::from(*log2)).sum()).unwrap_or(INFINITE)
    }

    /// Commands.
    pub fn commands(&self) -> u64 {
        self.parts.iter().fold(1, |all: u64, parts| all.times_cost(*parts))
    }

    /// The axis of a role whose digits go to lanes, packets and repeats: the last that has more than one
    /// position, or the last.
    pub fn inner_axis(&self, task: &TcpTask<'_>, role: AxisRole) -> Option<usize> {
        let of_role = |index: &usize| self.role(task.axes[*index].class) == role;
        let long = (0..task.axes.len()).rev().filter(of_role).find(|index| self.extents[*index] > 1);
        long.or_else(|| (0..task.axes.len()).rev().find(of_role))
    }

    /// Positions of an axis on one slice before anything is rounded up.
    pub fn share(&self, axis: usize) -> u64 {
        self.extents[axis].div_ceil(1 << self.slices_log2[axis])
    }

    /// Slices along the axes of a role.
    pub fn role_slices(&self, task: &TcpTask<'_>, role: AxisRole) -> u64 {
        let of_role = task.axes.iter().enumerate().filter(|(_, axis)| self.role(axis.class) == role);
        of_role.fold(1, |all, (index, _)| all << self.slices_log2[index])
    }
}
