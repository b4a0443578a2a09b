//! The tiles of one PE in time: its engine moves them, its tensor unit multiplies, its sub context finishes
//! sums, each in order.

use super::grid::Tile;
use super::tile::Estimate;

/// One PE's engine and tensor unit in time.
pub(super) struct Pipeline {
    pub(super) engine: u64,
    pub(super) unit: u64,
    pub(super) sub: u64,
    /// When the last tile that was asked for is there.
    pub(super) ready: u64,
    /// When each tile is computed.
    pub(super) ends: Vec<u64>,
    /// Cycles of the engine for rows, columns, results and what is brought beside sums.
    pub(super) cycles: [u64; 4],
    /// From a transfer to an execution of another PE, and back.
    pub(super) message: u64,
}

impl Pipeline {
    /// Asks for a tile: what the engine brings for it.
    pub(super) fn load(&mut self, tiles: &[Tile], at: usize) {
        let Some(tile) = tiles.get(at) else { return };
        // Its buffers are those of the tile before the last.
        if let Some(end) = at.checked_sub(2).and_then(|before| self.ends.get(before)) {
            self.engine = self.engine.max(*end + self.message);
        }
        if tile.brings_rows {
            self.engine += self.cycles[0];
        }
        if tile.row_tile == 0 {
            self.engine += self.cycles[1];
        }
        self.engine += self.cycles[3];
        self.ready = self.engine + self.message;
    }

    /// Computes a tile that was asked for.
    pub(super) fn run(&mut self, tiles: &[Tile], at: usize, estimate: &Estimate) {
        let load = if tiles[at].row_tile == 0 { estimate.load_cycles } else { 0 };
        self.unit = self.unit.max(self.ready) + load + estimate.contract_cycles;
        self.sub = self.sub.max(self.unit) + estimate.finish_cycles;
        if estimate.serial {
            self.unit = self.sub;
        }
        self.ends.push(if estimate.finish_cycles == 0 { self.unit } else { self.sub });
    }

    /// Writes what a tile gave.
    pub(super) fn store(&mut self, at: usize) {
        if let Some(end) = self.ends.get(at) {
            self.engine = self.engine.max(*end + self.message) + self.cycles[2];
        }
    }
}
