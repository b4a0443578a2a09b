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
        if tile.brings_columns {
            self.engine += self.cycles[1];
        }
        if tile.ends {
            self.engine += self.cycles[3];
        }
        self.ready = self.engine + self.message;
    }

    /// Computes a tile that was asked for.
    pub(super) fn run(&mut self, tiles: &[Tile], at: usize, estimate: &Estimate) {
        let tile = tiles[at];
        let load = if tile.brings_columns { estimate.load_cycles } else { 0 };
        let add = if tile.begins { 0 } else { estimate.add_cycles };
        let [behind, finish] = if tile.ends { estimate.finish_cycles } else { [0; 2] };
        self.unit = self.unit.max(self.ready) + load + estimate.contract_cycles + add + behind;
        if finish == 0 {
            self.ends.push(self.unit);
            return;
        }
        self.sub = self.sub.max(self.unit) + finish;
        if estimate.serial {
            self.unit = self.sub;
        }
        self.ends.push(self.sub);
    }

    /// Writes what a tile gave.
    pub(super) fn store(&mut self, tiles: &[Tile], at: usize) {
        if let Some(end) = self.ends.get(at).filter(|_| tiles[at].ends) {
            self.engine = self.engine.max(*end + self.message) + self.cycles[2];
        }
    }
}
