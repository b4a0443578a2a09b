//! A tiled contraction as commands: a queue for each PE, tiles loaded one ahead, results stored one behind.

use std::collections::BTreeSet;

use super::super::emit::Emitter;
use super::super::refusal::Lowered;
use super::grid::Tile;
use super::search::{Buffers, TiledContraction};
use super::tile::{Empty, HALF_BYTES, TileProgram, WORD_BYTES};
use super::traffic::Place;

/// First bytes of the rows' operand, of the columns' and of the result in HBM, all row-major.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Operands {
    pub(in super::super) rows: u64,
    pub(in super::super) columns: u64,
    pub(in super::super) result: u64,
}

/// One PE's commands in the making.
struct Worker<'e, 'm> {
    emitter: &'e mut Emitter<'m>,
    tiled: &'e TiledContraction,
    operands: Operands,
    pe: u64,
    tiles: Vec<Tile>,
    /// Rows, columns, sums and exchanged sums in data memory.
    buffers: [Buffers; 4],
}

impl TiledContraction {
    /// Records the commands of every PE.
    ///
    /// # Errors
    /// Shapes whose digits do not make up an axis.
    pub(in super::super) fn emit(&self, emitter: &mut Emitter<'_>, operands: Operands) -> Lowered<()> {
        for pe in 0..self.tiling.grid.pes() {
            emitter.turn_to(pe);
            let tiles = self.tiling.tiles(self.sizes, pe);
            let taken = self.buffers.iter().map(|all| all.base + all.each * all.count).max().unwrap_or(0);
            let base = emitter.next_region(taken);
            let buffers = self.buffers.map(|all| Buffers { base: base + all.base, ..all });
            Worker { emitter, tiled: self, operands, pe, tiles, buffers }.work()?;
        }
        Ok(())
    }
}

impl Worker<'_, '_> {
    fn work(&mut self) -> Lowered<()> {
        self.clear();
        self.load(0)?;
        for at in 0..self.tiles.len() {
            self.run(at)?;
            if at > 0 {
                self.store(at - 1)?;
            }
            self.load(at + 1)?;
        }
        match self.tiles.len().checked_sub(1) {
            Some(last) => self.store(last),
            None => Ok(()),
        }
    }

    fn program(&self, tile: &Tile) -> Lowered<&TileProgram> {
        let known = self.tiled.programs.get(&(tile.rows.count, tile.columns.count));
        known.ok_or_else(|| "a tile without commands".to_string())
    }

    /// Places of operands that no transfer fills are read with those beside them.
    fn clear(&mut self) {
        let [rows, columns, ..] = self.buffers;
        let mut empty: [BTreeSet<Empty>; 2] = Default::default();
        for program in self.tiles.iter().filter_map(|tile| self.program(tile).ok()) {
            for (all, own) in empty.iter_mut().zip(&program.empty) {
                all.extend(own.iter().copied());
            }
        }
        let strips = self.tiles.last().map_or(0, |tile| tile.strip + 1);
        let used = [(rows, rows.count.min(self.tiles.len() as u64)), (columns, columns.count.min(strips))];
        for ((buffers, count), empty) in used.into_iter().zip(empty) {
            for Empty { slices, bytes: (first, end) } in empty {
                for number in 0..count {
                    self.emitter.clear_slices("clear", buffers.at(number) + first, end - first, &[slices]);
                }
            }
        }
    }

    /// Where the rows of a tile lie.
    fn rows_at(&self, at: usize) -> u64 {
        let tile = &self.tiles[at];
        let number = if self.tiled.tiling.resident { tile.row_tile } else { at as u64 };
        self.buffers[0].at(number)
    }

    /// Brings what a tile needs and does not find.
    fn load(&mut self, at: usize) -> Lowered<()> {
        let Some(tile) = self.tiles.get(at).copied() else { return Ok(()) };
        if tile.row_tile == 0 {
            let offset = self.buffers[1].at(tile.strip);
            self.moved("bring_columns", &tile, 1, offset)?;
        }
        if tile.brings_rows {
            self.moved("bring_rows", &tile, 0, self.rows_at(at))?;
        }
        Ok(())
    }

    fn store(&mut self, at: usize) -> Lowered<()> {
        let tile = self.tiles[at];
        let from = if self.program(&tile)?.exchange.ring > 1 { 3 } else { 2 };
        self.moved("store", &tile, 2, self.buffers[from].at(at as u64))
    }

    fn moved(&mut self, name: &str, tile: &Tile, operand: usize, offset: u64) -> Lowered<()> {
        let sizes = self.tiled.sizes;
        let (rows, columns, summed) = (tile.rows, tile.columns, sizes.summed);
        let [first, live, dims] = match operand {
            0 => [[tile.batch, rows.first, 0], [1, rows.count, summed], [sizes.batch, sizes.rows, summed]],
            1 => {
                let dims = [sizes.batch, sizes.columns, summed];
                [[tile.batch, columns.first, 0], [1, columns.count, summed], dims]
            }
            _ => {
                let live = [1, rows.count, columns.count];
                [[tile.batch, rows.first, columns.first], live, [sizes.batch, sizes.rows, sizes.columns]]
            }
        };
        let hbm = [self.operands.rows, self.operands.columns, self.operands.result][operand];
        let element_bytes = if operand == 2 { WORD_BYTES } else { HALF_BYTES };
        let machine = self.emitter.machine;
        let slice = self.pe * machine.pe.slices;
        let placed = &self.program(tile)?.operands[operand];
        let place = Place { operand, placed, hbm, dims, first, live, slice, offset, element_bytes };
        let all = place.transfers(machine, name, operand != 2);
        for transfer in all.ok_or("digits that do not make up an axis")? {
            self.emitter.transfer(transfer);
        }
        Ok(())
    }

    fn run(&mut self, at: usize) -> Lowered<()> {
        let tile = self.tiles[at];
        let [_, held, out, traded] = self.buffers;
        let program = self.program(&tile)?;
        let machine = self.emitter.machine;
        let contract = program.contract_at(machine, self.rows_at(at), out.at(at as u64));
        let load = (tile.row_tile == 0).then(|| program.load_from(machine, held.at(tile.strip)));
        let exchange = program.exchange;
        if let Some(load) = load {
            self.emitter.exec(load);
        }
        self.emitter.exec(contract);
        if exchange.ring > 1 {
            self.emitter.exec(exchange.exec(out.at(at as u64), traded.at(at as u64)));
        }
        Ok(())
    }
}
