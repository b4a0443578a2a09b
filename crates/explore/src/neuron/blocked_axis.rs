//! A side of the matmul cut into blocks of tiles; the last of each may be smaller.

use tilewright_base::invariant::Exact;

/// An axis in tiles, and tiles in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockedAxis {
    /// Positions.
    pub extent: u64,
    /// Positions of a tile.
    pub tile: u64,
    /// Tiles of a block.
    pub block: u64,
}

impl BlockedAxis {
    /// Tiles.
    pub fn tiles(&self) -> u64 {
        self.extent.div_ceil(self.tile.max(1)).max(1)
    }

    /// Blocks.
    pub fn blocks(&self) -> u64 {
        self.tiles().div_ceil(self.block.max(1)).max(1)
    }

    /// Tiles of a block by number.
    pub fn block_tiles(&self, block: u64) -> u64 {
        self.block.min(self.tiles().exact_sub(block.exact_mul(self.block)))
    }

    /// First position of a block.
    pub fn block_start(&self, block: u64) -> u64 {
        block.exact_mul(self.block).exact_mul(self.tile)
    }

    /// Positions of a block.
    pub fn block_extent(&self, block: u64) -> u64 {
        let whole = self.block.exact_mul(self.tile);
        whole.min(self.extent.exact_sub(self.block_start(block)))
    }

    /// Positions of the widest block.
    pub fn widest_block(&self) -> u64 {
        self.block.exact_mul(self.tile).min(self.extent)
    }

    /// Positions of a tile of a block.
    pub fn tile_extent(&self, block: u64, tile: u64) -> u64 {
        let start = self.block_start(block).exact_add(tile.exact_mul(self.tile));
        self.tile.min(self.extent.exact_sub(start))
    }

    /// Whether a tile of a block is the smaller last one.
    pub fn is_short(&self, block: u64, tile: u64) -> bool {
        self.tile_extent(block, tile) < self.tile
    }

    /// Positions of a tile, whole or last.
    pub fn size(&self, short: bool) -> u64 {
        if short { self.extent - (self.tiles() - 1) * self.tile } else { self.tile.min(self.extent) }
    }

    /// Tiles that are whole, and those that are short: none or one.
    pub fn counts(&self) -> [u64; 2] {
        let short = u64::from(!self.extent.is_multiple_of(self.tile.max(1)));
        [self.tiles() - short, short]
    }

    /// Blocks of the same make, as the number of one of them and how many there are: whole ones, and the last
    /// if it differs.
    pub fn kinds(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let blocks = self.blocks();
        let differs = self.block_extent(blocks - 1) < self.block.exact_mul(self.tile);
        let (whole, last) = if differs { (blocks - 1, 1) } else { (blocks, 0) };
        [(0, whole), (blocks - 1, last)].into_iter().filter(|(_, count)| *count > 0)
    }
}
