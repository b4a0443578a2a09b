//! A tiled contraction as commands: a queue for each PE, tiles loaded one ahead, results stored one behind.

use std::collections::BTreeSet;

use super::super::emit::Emitter;
use super::super::refusal::Lowered;
use super::epilogue::Input;
use super::finish::Slot;
use super::grid::Tile;
use super::rooms::Rooms;
use super::search::TiledContraction;
use super::tile::{TileProgram, WORD_BYTES};
use super::traffic::{Place, operand_place, result_place, vector_place};

/// First bytes of values in HBM, all row-major.
#[derive(Clone, Debug)]
pub(in super::super) struct Operands {
    pub(in super::super) rows: u64,
    pub(in super::super) columns: u64,
    /// What is written.
    pub(in super::super) results: Vec<u64>,
    /// Inputs of the chain, in its order.
    pub(in super::super) inputs: Vec<u64>,
    /// Where sums are kept besides.
    pub(in super::super) sums: Option<u64>,
}

/// Bytes that hold nothing, and the slices that have them.
type Bare = ((u64, u64), Vec<(u64, u64)>);

/// One PE's commands in the making.
struct Worker<'e, 'm> {
    emitter: &'e mut Emitter<'m>,
    tiled: &'e TiledContraction,
    operands: &'e Operands,
    pe: u64,
    tiles: Vec<Tile>,
    rooms: Rooms,
}

impl TiledContraction {
    /// Records the commands of every PE.
    ///
    /// # Errors
    /// Shapes whose digits do not make up an axis.
    pub(in super::super) fn emit(&self, emitter: &mut Emitter<'_>, operands: &Operands) -> Lowered<()> {
        for pe in 0..self.tiling.grid.pes() {
            emitter.turn_to(pe);
            let tiles = self.tiling.tiles(self.sizes, pe);
            let rooms = self.rooms.clone().moved(emitter.next_region(self.rooms.bytes()));
            Worker { emitter, tiled: self, operands, pe, tiles, rooms }.work()?;
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
        let mut empty: [BTreeSet<Bare>; 2] = Default::default();
        for program in self.tiles.iter().filter_map(|tile| self.program(tile).ok()) {
            for (all, own) in empty.iter_mut().zip(&program.empty) {
                all.extend(own.iter().map(|(bytes, slices)| (*bytes, slices.clone())));
            }
        }
        let strips = self.tiles.last().map_or(0, |tile| tile.strip + 1);
        let (rows, columns) = (self.rooms.rows, self.rooms.columns);
        let used = [(rows, rows.count.min(self.tiles.len() as u64)), (columns, columns.count.min(strips))];
        for ((buffers, count), empty) in used.into_iter().zip(empty) {
            for ((first, end), slices) in empty {
                for number in 0..count {
                    self.emitter.clear_slices("clear", buffers.at(number) + first, end - first, &slices);
                }
            }
        }
        let programs = self.tiles.iter().filter_map(|tile| self.program(tile).ok());
        if programs.into_iter().any(TileProgram::is_padded) {
            for buffers in self.rooms.operands.iter().chain(&self.rooms.brought) {
                self.emitter.clear("clear", buffers.base, buffers.each * buffers.count);
            }
        }
    }

    /// Where the rows of a tile lie.
    fn rows_at(&self, at: usize) -> u64 {
        let tile = &self.tiles[at];
        let number = if self.tiled.tiling.resident { tile.row_tile } else { at as u64 };
        self.rooms.rows.at(number)
    }

    /// Brings what a tile needs and does not find.
    fn load(&mut self, at: usize) -> Lowered<()> {
        let Some(tile) = self.tiles.get(at).copied() else { return Ok(()) };
        let sizes = self.tiled.sizes;
        let program = self.program(&tile)?.clone();
        if tile.row_tile == 0 {
            let place = operand_place(sizes, &tile, &program.operands[1], 1);
            let (hbm, offset) = (self.operands.columns, self.rooms.columns.at(tile.strip));
            self.moved("bring_columns", Place { hbm, offset, ..place }, true)?;
        }
        if tile.brings_rows {
            let place = operand_place(sizes, &tile, &program.operands[0], 0);
            self.moved(
                "bring_rows",
                Place { hbm: self.operands.rows, offset: self.rows_at(at), ..place },
                true,
            )?;
        }
        for (number, operand) in program.finish.operands.iter().enumerate() {
            if operand.input == Input::Rows || tile.row_tile == 0 {
                let place = vector_place(sizes, &tile, operand);
                let hbm = self.operands.inputs[operand.stream];
                let offset = self.rooms.operands[number].at(turn(operand.input, &tile, at));
                self.moved("bring_vector", Place { hbm, offset, ..place }, true)?;
            }
        }
        for (number, stream) in program.finish.brought.iter().enumerate() {
            let place = result_place(sizes, &tile, program.result(WORD_BYTES), WORD_BYTES);
            let (hbm, offset) = (self.operands.inputs[*stream], self.rooms.brought[number].at(at as u64));
            self.moved("bring_beside", Place { hbm, offset, ..place }, true)?;
        }
        Ok(())
    }

    fn store(&mut self, at: usize) -> Lowered<()> {
        let tile = self.tiles[at];
        let program = self.program(&tile)?.clone();
        let exchanged = program.exchange.ring > 1;
        let slot = |rooms: &Rooms, slot: Slot| rooms.slot(slot, exchanged, at as u64);
        let stored = program.finish.stored.clone();
        for (number, (stream, packing)) in stored.into_iter().enumerate() {
            let from = match program.finish.slot(stream) {
                Some(own) if !packing.is_narrow() || program.finish.narrows_sums().is_some() => {
                    slot(&self.rooms, own)
                }
                _ => self.rooms.narrow[number].at(at as u64),
            };
            let element_bytes = packing.element_bytes();
            let place = result_place(self.tiled.sizes, &tile, program.result(element_bytes), element_bytes);
            let hbm = self.operands.results[number];
            self.moved("store", Place { hbm, offset: from, ..place }, false)?;
        }
        if let Some(hbm) = self.operands.sums {
            let place = result_place(self.tiled.sizes, &tile, program.result(WORD_BYTES), WORD_BYTES);
            let offset = slot(&self.rooms, Slot::Sums);
            self.moved("keep", Place { hbm, offset, ..place }, false)?;
        }
        Ok(())
    }

    fn moved(&mut self, name: &str, place: Place<'_>, to_dm: bool) -> Lowered<()> {
        let machine = self.emitter.machine;
        let all = Place { slice: self.pe * machine.pe.slices, ..place }.transfers(machine, name, to_dm);
        for transfer in all.ok_or("digits that do not make up an axis")? {
            self.emitter.transfer(transfer);
        }
        Ok(())
    }

    fn run(&mut self, at: usize) -> Lowered<()> {
        let tile = self.tiles[at];
        let program = self.program(&tile)?.clone();
        let machine = self.emitter.machine;
        let number = at as u64;
        if tile.row_tile == 0 {
            self.emitter.exec(program.load_from(machine, self.rooms.columns.at(tile.strip)));
        }
        for (at_operand, operand) in program.finish.operands.iter().enumerate() {
            if operand.input == Input::Rows || tile.row_tile == 0 {
                let from = self.rooms.operands[at_operand].at(turn(operand.input, &tile, at));
                self.emitter.exec(program.finish.load(at_operand, from));
            }
        }
        let sums = self.rooms.sums.at(number);
        self.emitter.exec(program.contract_at(machine, self.rows_at(at), sums));
        let exchanged = program.exchange.ring > 1;
        if exchanged {
            let narrow = program.finish.narrows_sums();
            self.emitter.exec(program.exchange.exec(sums, self.rooms.traded.at(number), narrow));
        }
        let rooms = self.rooms.clone();
        let place = |slot: Slot| rooms.slot(slot, exchanged, number);
        let narrow = |result: usize| rooms.narrow[result].at(number);
        for exec in program.finish.execs(machine, &place, &narrow) {
            self.emitter.exec(exec);
        }
        Ok(())
    }
}

/// Which buffer of a register file operand a tile uses.
fn turn(input: Input, tile: &Tile, at: usize) -> u64 {
    if input == Input::Rows { at as u64 } else { tile.strip }
}
