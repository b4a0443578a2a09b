//! One candidate: which operand is stationary, tiles of the tensor engine, blocks in SBUF, and the order of it all.

use tilewright_notation::syntax::ast::Operand;

use super::cut::Cut;
use super::task::Task;
use crate::target::Pick;

/// An axis of the matmul, by what the tensor engine does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Columns of the stationary tile; partitions of the result.
    Held,
    /// Columns of the moving tile and of the result.
    Moving,
    /// Partitions of both tiles.
    Summed,
}

impl Side {
    /// All of them.
    pub const ALL: [Side; 3] = [Side::Held, Side::Moving, Side::Summed];
}

/// The stationary operand and the tiles of one matmul instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The operand whose tiles the array holds.
    pub stationary: Operand,
    /// Positions of a tile along each side.
    pub tile: [u64; 3],
}

/// Where sums over blocks are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sums {
    /// In PSUM, by the tensor engine.
    Psum,
    /// In SBUF, by the Vector engine, block by block.
    Sbuf,
}

/// How a block is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Copies {
    /// With one copy.
    Block,
    /// With one copy for each tile along the sum: more copies, but the first tile is there earlier.
    Tile,
}

/// Who takes results out of PSUM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Drain {
    /// The Vector engine.
    Vector,
    /// The Scalar engine.
    Scalar,
    /// Both in turn.
    Both,
}

/// What a frame leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Tiles of a block in SBUF along each side.
    pub block: [u64; 3],
    /// Which of [`ORDERS`] the loops over blocks have.
    pub order: u8,
    /// Where sums over blocks are added.
    pub sums: Sums,
    /// How blocks are loaded.
    pub copies: Copies,
    /// Blocks of each input that SBUF has room for: with more than one, loads run ahead.
    pub buffers: u8,
    /// Who takes results out of PSUM.
    pub drain: Drain,
}

impl Pick for Choice {
    fn code(&self) -> u64 {
        let [held, moving, summed] = self.block;
        let fields = [
            (held, 16),
            (moving, 16),
            (summed, 16),
            (u64::from(self.order), 3),
            (self.sums as u64, 1),
            (self.copies as u64, 1),
            (u64::from(self.buffers), 2),
            (self.drain as u64, 2),
        ];
        fields.into_iter().fold(0, |code, (field, bits)| code << bits | field.min((1 << bits) - 1))
    }
}

/// All orders of the loops over blocks, outermost first.
pub const ORDERS: [[Side; 3]; 6] = {
    use Side::{Held as H, Moving as M, Summed as S};
    [[H, M, S], [M, H, S], [H, S, M], [M, S, H], [S, H, M], [S, M, H]]
};

/// A candidate with its loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What it is.
    pub frame: Frame,
    /// The rest of what it is.
    pub choice: Choice,
    /// Each side in blocks of tiles.
    pub cuts: [Cut; 3],
    /// Batch positions.
    pub batch: u64,
}

impl Plan {
    /// The loops of a candidate.
    pub fn new(task: &Task<'_>, frame: &Frame, choice: &Choice) -> Plan {
        let extents = task.extents(frame.stationary);
        let cut = |side: Side| Cut {
            extent: extents[side as usize],
            tile: frame.tile[side as usize],
            block: choice.block[side as usize],
        };
        Plan { frame: *frame, choice: *choice, cuts: Side::ALL.map(cut), batch: task.batch }
    }

    /// A side in blocks.
    pub fn cut(&self, side: Side) -> &Cut {
        &self.cuts[side as usize]
    }

    /// Loops over blocks, outermost first.
    pub fn order(&self) -> [Side; 3] {
        ORDERS.get(usize::from(self.choice.order)).copied().unwrap_or(ORDERS[0])
    }

    /// Whether partial sums of blocks are added in SBUF.
    pub fn adds(&self) -> bool {
        self.choice.sums == Sums::Sbuf && self.cut(Side::Summed).blocks() > 1
    }

    /// Loads of an input: how often its block changes. `free` is the side that only it has.
    pub fn loads(&self, free: Side) -> u64 {
        let mut loads = 1_u64;
        let mut outside = 1_u64;
        for side in self.order() {
            let blocks = self.cut(side).blocks();
            outside = outside.saturating_mul(blocks);
            if (side == free || side == Side::Summed) && blocks > 1 {
                loads = outside;
            }
        }
        loads.saturating_mul(self.batch)
    }

    /// Blocks of the output that are open at once: those inside the loop over the sum.
    pub fn open_blocks(&self) -> u64 {
        if self.cut(Side::Summed).blocks() == 1 {
            return 1;
        }
        let inside = self.order().into_iter().rev().take_while(|side| *side != Side::Summed);
        inside.fold(1, |all: u64, side| all.saturating_mul(self.cut(side).blocks()))
    }

    /// Tiles of the output that are open at once.
    pub fn open_tiles(&self) -> u64 {
        let tiles = |side: Side| self.cut(side).block.min(self.cut(side).tiles());
        self.open_blocks().saturating_mul(tiles(Side::Held)).saturating_mul(tiles(Side::Moving))
    }

    /// Blocks of an input that SBUF has room for; never more than there are.
    pub fn buffers(&self, free: Side) -> u64 {
        u64::from(self.choice.buffers).min(self.loads(free)).max(1)
    }
}
