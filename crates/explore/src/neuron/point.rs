//! One candidate: which operand is stationary, tiles of the tensor engine, blocks in SBUF, and the order of
//! it all.

use tilewright_base::invariant::Exact;
use tilewright_notation::syntax::ast::Operand;

use super::blocked_axis::BlockedAxis;
use super::task::NeuronTask;
use crate::target::TargetChoice;

/// An axis of the matmul, by what the tensor engine does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatmulAxis {
    /// Columns of the stationary tile; partitions of the result.
    Held,
    /// Columns of the moving tile and of the result.
    Moving,
    /// Partitions of both tiles.
    Summed,
}

impl MatmulAxis {
    /// All of them.
    pub const ALL: [MatmulAxis; 3] = [MatmulAxis::Held, MatmulAxis::Moving, MatmulAxis::Summed];
}

/// The stationary operand and the tiles of one matmul instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeuronFrame {
    /// The operand whose tiles the array holds.
    pub stationary: Operand,
    /// Positions of a tile along each side.
    pub tile: [u64; 3],
}

/// Where sums over blocks are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PartialSums {
    /// In PSUM, by the tensor engine.
    Psum,
    /// In SBUF, by the Vector engine, block by block.
    Sbuf,
}

/// How a block is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BlockCopies {
    /// With one copy.
    Block,
    /// With one copy for each tile along the sum: more copies, but the first tile is there earlier.
    Tile,
}

/// Who takes results out of PSUM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DrainEngine {
    /// The Vector engine.
    Vector,
    /// The Scalar engine.
    Scalar,
    /// Both in turn.
    Both,
}

/// What a frame leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeuronChoice {
    /// Tiles of a block in SBUF along each side.
    pub block: [u64; 3],
    /// Which of [`ORDERS`] the loops over blocks have.
    pub order: u8,
    /// Where sums over blocks are added.
    pub sums: PartialSums,
    /// How blocks are loaded.
    pub copies: BlockCopies,
    /// Blocks of each input that SBUF has room for: with more than one, loads run ahead.
    pub buffers: u8,
    /// Who takes results out of PSUM.
    pub drain: DrainEngine,
}

impl TargetChoice for NeuronChoice {
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
pub const ORDERS: [[MatmulAxis; 3]; 6] = {
    use MatmulAxis::{Held as H, Moving as M, Summed as S};
    [[H, M, S], [M, H, S], [H, S, M], [M, S, H], [S, H, M], [S, M, H]]
};

/// A candidate with its loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TilingPlan {
    /// What it is.
    pub frame: NeuronFrame,
    /// The rest of what it is.
    pub choice: NeuronChoice,
    /// Each side in blocks of tiles.
    pub cuts: [BlockedAxis; 3],
    /// Batch positions.
    pub batch: u64,
}

impl TilingPlan {
    /// The loops of a candidate.
    pub fn new(task: &NeuronTask<'_>, frame: &NeuronFrame, choice: &NeuronChoice) -> TilingPlan {
        let extents = task.extents(frame.stationary);
        let cut = |side: MatmulAxis| BlockedAxis {
            extent: extents[side as usize],
            tile: frame.tile[side as usize],
            block: choice.block[side as usize],
        };
        TilingPlan { frame: *frame, choice: *choice, cuts: MatmulAxis::ALL.map(cut), batch: task.batch }
    }

    /// A side in blocks.
    pub fn cut(&self, side: MatmulAxis) -> &BlockedAxis {
        &self.cuts[side as usize]
    }

    /// Loops over blocks, outermost first.
    pub fn order(&self) -> [MatmulAxis; 3] {
        ORDERS.get(usize::from(self.choice.order)).copied().unwrap_or(ORDERS[0])
    }

    /// Whether partial sums of blocks are added in SBUF.
    pub fn adds(&self) -> bool {
        self.choice.sums == PartialSums::Sbuf && self.cut(MatmulAxis::Summed).blocks() > 1
    }

    /// Loads of an input: how often its block changes. `free` is the side that only it has.
    pub fn loads(&self, free: MatmulAxis) -> u64 {
        let mut loads = 1_u64;
        let mut outside = 1_u64;
        for side in self.order() {
            let blocks = self.cut(side).blocks();
            outside = outside.exact_mul(blocks);
            if (side == free || side == MatmulAxis::Summed) && blocks > 1 {
                loads = outside;
            }
        }
        loads.exact_mul(self.batch)
    }

    /// Blocks of the output that are open at once: those inside the loop over the sum.
    pub fn open_blocks(&self) -> u64 {
        if self.cut(MatmulAxis::Summed).blocks() == 1 {
            return 1;
        }
        let inside = self.order().into_iter().rev().take_while(|side| *side != MatmulAxis::Summed);
        inside.fold(1, |all: u64, side| all.exact_mul(self.cut(side).blocks()))
    }

    /// Tiles of the output that are open at once.
    pub fn open_tiles(&self) -> u64 {
        let tiles = |side: MatmulAxis| self.cut(side).block.min(self.cut(side).tiles());
        self.open_blocks().exact_mul(tiles(MatmulAxis::Held)).exact_mul(tiles(MatmulAxis::Moving))
    }

    /// Blocks of an input that SBUF has room for; never more than there are.
    pub fn buffers(&self, free: MatmulAxis) -> u64 {
        u64::from(self.choice.buffers).min(self.loads(free)).max(1)
    }
}
