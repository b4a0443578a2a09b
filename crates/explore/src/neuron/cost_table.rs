//! What the instructions of a candidate take: those that only tiles decide, for a frame, and transfers, for
//! its blocks.

use tilewright_base::invariant::{Exact, to_index};
use tilewright_neuron_isa::{EngineKind, Refusal};

use super::blocked_axis::BlockedAxis;
use super::instruction_cost::{DrainStep, InstructionCost, idle_fj_per_ps, leave, load, matmul, store};
use super::point::{BlockCopies, MatmulAxis, NeuronFrame};
use super::task::NeuronTask;

/// Engines that take results out of PSUM.
pub const DRAINS: [EngineKind; 2] = [EngineKind::Vector, EngineKind::Scalar];

/// Instructions that the tiles of a frame decide. Indices say whether a tile is the short last one.
#[derive(Clone, Debug)]
pub struct TileCosts {
    /// By held, moving, summed, and whether PSUM is added to.
    pub matmul: [[[[InstructionCost; 2]; 2]; 2]; 2],
    /// By held, moving, how, and engine.
    pub leave: [[[[InstructionCost; 2]; 4]; 2]; 2],
    /// Energy of the core for a picosecond.
    pub idle_fj_per_ps: f64,
}

impl TileCosts {
    /// Asks the engine.
    ///
    /// # Errors
    /// What the engine refuses.
    pub fn new(task: &NeuronTask<'_>, frame: &NeuronFrame) -> Result<TileCosts, Refusal> {
        let extents = task.extents(frame.stationary);
        let cut = |side: MatmulAxis| BlockedAxis {
            extent: extents[side as usize],
            tile: frame.tile[side as usize],
            block: 1,
        };
        // Where there is no short tile, a whole one stands for it.
        let size = |side: MatmulAxis, short: usize| {
            let cut = cut(side);
            cut.size(short == 1 && cut.counts()[1] > 0)
        };
        let mut tiles = TileCosts {
            matmul: Default::default(),
            leave: Default::default(),
            idle_fj_per_ps: idle_fj_per_ps(task.chip),
        };
        for held in 0..2 {
            for moving in 0..2 {
                let (rows, columns) = (size(MatmulAxis::Held, held), size(MatmulAxis::Moving, moving));
                for summed in 0..2 {
                    let sizes = [rows, columns, size(MatmulAxis::Summed, summed)];
                    for accumulate in 0..2 {
                        tiles.matmul[held][moving][summed][accumulate] =
                            matmul(task, sizes, accumulate == 1)?;
                    }
                }
                for (at, how) in DrainStep::ALL.into_iter().enumerate() {
                    for (engine, kind) in DRAINS.into_iter().enumerate() {
                        tiles.leave[held][moving][at][engine] = leave(task, how, [rows, columns], kind)?;
                    }
                }
            }
        }
        Ok(tiles)
    }
}

/// The copies of one block of an input.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BlockLoad {
    /// A copy of whole tiles.
    pub main: InstructionCost,
    /// How many of them there are.
    pub copies: u64,
    /// Tiles that each brings.
    pub tiles_each: u64,
    /// The copy of the short last tile.
    pub short: Option<InstructionCost>,
}

impl BlockLoad {
    fn new(
        task: &NeuronTask<'_>,
        free: &BlockedAxis,
        summed: &BlockedAxis,
        (free_block, summed_block): (u64, u64),
        how: BlockCopies,
    ) -> Result<BlockLoad, Refusal> {
        let columns = free.block_extent(free_block);
        let tiles = summed.block_tiles(summed_block);
        let last = tiles.exact_sub(1);
        let short = summed.is_short(summed_block, last);
        let whole = tiles - u64::from(short);
        let (copies, tiles_each) = match how {
            _ if whole == 0 => (0, 0),
            BlockCopies::Block => (1, whole),
            BlockCopies::Tile => (whole, 1),
        };
        let main = if copies == 0 {
            InstructionCost::default()
        } else {
            load(task, [summed.size(false), tiles_each, columns], free.extent, free.widest_block())?
        };
        let short = if short {
            Some(load(task, [summed.tile_extent(summed_block, last), 1, columns], free.extent, columns)?)
        } else {
            None
        };
        Ok(BlockLoad { main, copies, tiles_each, short })
    }

    /// All copies in order.
    pub fn each(&self) -> impl Iterator<Item = (&InstructionCost, u64)> {
        let main = std::iter::repeat_n((&self.main, self.tiles_each), to_index(self.copies));
        main.chain(self.short.as_ref().map(|short| (short, 1)))
    }

    /// The first copy.
    pub fn first(&self) -> &InstructionCost {
        match &self.short {
            Some(short) if self.copies == 0 => short,
            _ => &self.main,
        }
    }
}

/// Whether a block is the smaller last one, as an index.
pub fn kind(cut: &BlockedAxis, block: u64) -> usize {
    usize::from(
        cut.block_extent(block) < cut.block.exact_mul(cut.tile) && block + 1 == cut.blocks() && block > 0,
    )
}

/// Blocks of an input: by kind along its own side, and along the sum.
pub type InputLoads = [[BlockLoad; 2]; 2];

/// Asks the engine for all kinds of blocks of an input.
///
/// # Errors
/// What the engine refuses.
pub fn input_loads(
    task: &NeuronTask<'_>,
    free: &BlockedAxis,
    summed: &BlockedAxis,
    how: BlockCopies,
) -> Result<InputLoads, Refusal> {
    let mut loads = InputLoads::default();
    for (free_block, _) in free.kinds() {
        for (summed_block, _) in summed.kinds() {
            loads[kind(free, free_block)][kind(summed, summed_block)] =
                BlockLoad::new(task, free, summed, (free_block, summed_block), how)?;
        }
    }
    Ok(loads)
}

/// Stores of a row of tiles: by whether the held tile is short, and by kind of the block along the moving
/// side.
pub type RowStores = [[InstructionCost; 2]; 2];

/// Asks the engine for all kinds of stores.
///
/// # Errors
/// What the engine refuses.
pub fn stores(task: &NeuronTask<'_>, held: &BlockedAxis, moving: &BlockedAxis) -> Result<RowStores, Refusal> {
    let mut stores = RowStores::default();
    for (short, _) in held.counts().into_iter().enumerate().filter(|(_, count)| *count > 0) {
        for (block, _) in moving.kinds() {
            let sizes = [held.size(short == 1), moving.block_extent(block)];
            stores[short][kind(moving, block)] = store(task, sizes, moving.extent)?;
        }
    }
    Ok(stores)
}

/// Everything that a candidate's instructions take.
#[derive(Clone, Copy, Debug)]
pub struct CostTable<'a> {
    /// Instructions of tiles.
    pub tiles: &'a TileCosts,
    /// Loads of the stationary operand, and of the moving one.
    pub loads: [&'a InputLoads; 2],
    /// Stores.
    pub stores: &'a RowStores,
}
