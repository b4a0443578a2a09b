//! A tiled contraction as commands: a queue for each PE, tiles loaded one ahead, results stored one behind.
//!
//! Where PEs are fused, the first has the executions and each moves what lies in its own slices.

use std::collections::BTreeSet;

use tilewright_base::invariant::to_index;
use tilewright_tcp_isa::program::exec::Exec;

use super::super::emit::{Emitter, Range};
use super::super::fused::by_pe;
use super::super::kernel::{Sizes, Strides};
use super::super::moves::pieces;
use super::super::refusal::Lowered;
use super::empty::Hole;
use super::epilogue::Input;
use super::finish::Slot;
use super::grid::Tile;
use super::resident::ResidentTiles;
use super::rooms::{BUFFERS, Buffers, Rooms};
use super::search::TiledContraction;
use super::tile::{TileProgram, WORD_BYTES};
use super::traffic::{Place, operand_place, result_place, row_place, vector_place};

/// Bytes of a transfer that comes early at most: others that are needed sooner may come between two.
const MOST_BYTES: u64 = 1 << 19;

/// First bytes of values in HBM, all row-major.
#[derive(Clone, Debug)]
pub(in super::super) struct Operands {
    pub(in super::super) rows: u64,
    /// All bytes of the value that has the rows.
    pub(in super::super) rows_range: Range,
    pub(in super::super) columns: u64,
    /// Whether rows and columns may be brought while contractions before it compute.
    pub(in super::super) early: [bool; 2],
    /// What is written.
    pub(in super::super) results: Vec<u64>,
    /// Inputs of the chain, in its order.
    pub(in super::super) inputs: Vec<u64>,
    /// Where sums are kept besides.
    pub(in super::super) sums: Option<u64>,
    /// Values that do not pass HBM.
    pub(in super::super) resident: ResidentTiles,
}

/// Bytes that hold nothing, and the slices that have them.
type Bare = ((u64, u64), Vec<(u64, u64)>);

/// One PE's commands in the making.
struct Worker<'e, 'm> {
    emitter: &'e mut Emitter<'m>,
    tiled: &'e TiledContraction,
    operands: &'e Operands,
    /// The PE, or the first of those that are fused.
    pe: usize,
    tiles: Vec<Tile>,
    rooms: Rooms,
    /// Transfers since the last message, by number among the commands of each PE: the first PE learns that
    /// tiles have come, and that results are gone whose buffers come next.
    loads: Vec<Vec<usize>>,
    /// Executions of each tile, by number among the commands of the first PE.
    execs: Vec<Vec<usize>>,
}

impl TiledContraction {
    /// Records the commands of every PE.
    ///
    /// # Errors
    /// Shapes whose digits do not make up an axis.
    pub(in super::super) fn emit(&self, emitter: &mut Emitter<'_>, operands: &Operands) -> Lowered<()> {
        let fused = self.split.fused;
        let reads: Vec<(usize, Range)> =
            (0..self.tiling.grid.pes()).flat_map(|group| self.reads(operands, group)).collect();
        emitter.meet_before(&reads);
        for group in 0..self.tiling.grid.pes() {
            let pe = to_index(group * fused);
            emitter.fused = fused;
            let tiles = self.tiling.tiles(self.sizes, group);
            let rooms = self.rooms.clone().moved(emitter.next_region_of(pe, self.rooms.bytes()));
            let rooms = self.resident_rooms(rooms, &operands.resident);
            let loads = vec![Vec::new(); to_index(fused)];
            let execs = vec![Vec::new(); tiles.len()];
            Worker { emitter, tiled: self, operands, pe, tiles, rooms, loads, execs }.work()?;
        }
        emitter.fused = 1;
        Ok(())
    }
}

impl TiledContraction {
    /// Bytes of operands that a PE, or the first of a group, reads in all of its tiles.
    fn reads(&self, operands: &Operands, group: u64) -> Vec<(usize, Range)> {
        let pe = to_index(group * self.split.fused);
        let element_bytes = self.sizes.operands.element_bytes();
        let tiles = self.tiling.tiles(self.sizes, group);
        let hull = |base: u64, operand: usize| {
            let Strides { first, batch, own } = self.sizes.strides[operand];
            let numbers = self.sizes.numbers(operand);
            let ranges = tiles.iter().map(|tile| {
                let part = if operand == 0 { tile.rows } else { tile.columns };
                let bytes = |elements: u64| elements * element_bytes / numbers;
                let at = |number: u64| base + bytes(first + tile.batch * batch + number * own);
                let others = if operand == 0 { 0 } else { (tile.planes - 1) * batch };
                let last = at(part.first + part.count.saturating_sub(1)) + bytes(others);
                (at(part.first), last + bytes(self.sizes.summed))
            });
            ranges.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)))
        };
        let rows = match &self.windows {
            Some(_) => Some(operands.rows_range),
            None => hull(operands.rows, 0),
        };
        let columns = hull(operands.columns, 1);
        rows.into_iter().chain(columns).map(|range| (pe, range)).collect()
    }
}

impl Worker<'_, '_> {
    fn work(&mut self) -> Lowered<()> {
        self.clear();
        self.load(0)?;
        self.loaded(true);
        for at in 0..self.tiles.len() {
            self.contract(at)?;
            if at > 0 {
                self.done(at - 1);
            }
            // Nothing of the first PE waits behind what runs after the contraction.
            if self.loads.len() == 1 {
                self.finish(at)?;
            }
            if at > 0 {
                self.store(at - 1)?;
            }
            self.load(at + 1)?;
            if self.loads.len() > 1 {
                self.finish(at)?;
                self.loaded(false);
            }
        }
        match self.tiles.len().checked_sub(1) {
            Some(last) => {
                self.done(last);
                self.store(last)
            }
            None => Ok(()),
        }
    }

    /// Bytes of each slice that belong to the contraction.
    fn region(&self) -> (u64, u64) {
        (self.rooms.rows.base, self.rooms.rows.base + self.rooms.bytes())
    }

    /// The first PE learns that a tile has come, and at the beginning that others have ended what was before.
    fn loaded(&mut self, execs: bool) {
        let (region, loads) = (self.region(), self.loads.clone());
        self.emitter.tell_first(self.pe, &loads, execs, region);
        self.loads.iter_mut().for_each(Vec::clear);
    }

    /// The other PEs learn that a tile is computed.
    fn done(&mut self, at: usize) {
        let region = self.region();
        self.emitter.tell_group(self.pe, self.execs[at].clone(), region);
    }

    fn exec(&mut self, at: usize, exec: Exec) {
        self.emitter.turn_to(self.pe as u64);
        self.execs[at].push(self.emitter.ops[self.pe].len());
        self.emitter.exec(exec);
    }

    fn program(&self, tile: &Tile) -> Lowered<&TileProgram> {
        let known = self.tiled.programs.get(&tile.counts());
        known.ok_or_else(|| "a tile without commands".to_string())
    }

    /// Places of operands that no transfer fills are read with those beside them.
    fn clear(&mut self) {
        self.emitter.turn_to(self.pe as u64);
        let mut empty: [BTreeSet<Bare>; 2] = Default::default();
        for program in self.tiles.iter().filter_map(|tile| self.program(tile).ok()) {
            for (all, own) in empty.iter_mut().zip(&program.empty) {
                all.extend(own.iter().map(|(bytes, slices)| (*bytes, slices.clone())));
            }
        }
        let programs = self.tiles.iter().filter_map(|tile| self.program(tile).ok());
        let holes: BTreeSet<(Hole, Vec<(u64, u64)>)> =
            programs.flat_map(|program| program.holes.clone()).collect();
        let all = |empty: &[BTreeSet<Bare>; 2]| empty.iter().any(|one| !one.is_empty());
        let padded = self.tiles.iter().filter_map(|tile| self.program(tile).ok()).any(TileProgram::is_padded);
        let vectors = self.rooms.operands.len() + self.rooms.brought.len();
        let short = self.tiles.first().and_then(|tile| self.program(tile).ok());
        let short = short.map_or(Vec::new(), |program| program.finish.padded());
        let has_padding = all(&empty) || !holes.is_empty() || padded && vectors > 0;
        if !has_padding && short.is_empty() {
            return;
        }
        self.loaded(true);
        let first = self.emitter.ops[self.pe].len();
        let tiles = 0..self.tiles.len();
        let rows: BTreeSet<u64> = tiles.clone().map(|at| self.rows_at(at)).collect();
        let columns: BTreeSet<u64> = tiles.map(|at| self.columns_at(at)).collect();
        for (buffers, empty) in [&rows, &columns].into_iter().zip(empty) {
            for ((first, end), slices) in empty {
                for base in buffers {
                    self.emitter.clear_slices("clear", base + first, end - first, &slices);
                }
            }
        }
        for (hole, slices) in holes {
            for base in &rows {
                let (base, lines) = (base + hole.first, (hole.lines, hole.pitch));
                self.emitter.clear_lines("clear", base, hole.bytes, lines, &slices);
            }
        }
        if padded {
            let brought = self.rooms.brought.iter().enumerate();
            let brought = brought.filter(|(number, _)| !self.operands.resident.has(*number));
            let buffers: Vec<Buffers> =
                self.rooms.operands.iter().chain(brought.map(|(_, one)| one)).copied().collect();
            for buffers in buffers {
                self.emitter.clear("clear", buffers.base, buffers.each * buffers.count);
            }
        }
        for number in short {
            let buffers = self.rooms.made[number];
            self.emitter.clear("clear", buffers.base, buffers.each * buffers.count);
        }
        let cleared = (first..self.emitter.ops[self.pe].len()).collect();
        let region = self.region();
        self.emitter.tell_group(self.pe, cleared, region);
    }

    /// Where the rows of a tile lie.
    fn rows_at(&self, at: usize) -> u64 {
        let (tile, tiling) = (&self.tiles[at], &self.tiled.tiling);
        // The next position of the batch begins in the buffer that is left.
        let position = (tile.batch - self.tiles[0].batch) / tiling.planes;
        let whole = position * tiling.row_tiles(self.tiled.sizes) + tile.row_tile;
        let number = if tiling.resident { whole } else { at as u64 };
        self.rooms.rows.at(self.of_block(tile, number))
    }

    /// Where the columns of a tile lie.
    fn columns_at(&self, at: usize) -> u64 {
        let tile = &self.tiles[at];
        self.rooms.columns.at(self.of_block(tile, tile.strip))
    }

    /// The buffer of a block: one that is shorter than those before it has its own.
    fn of_block(&self, tile: &Tile, number: u64) -> u64 {
        let (tiling, sizes) = (&self.tiled.tiling, self.tiled.sizes);
        match tiling.blocks(sizes) {
            1 => number,
            _ if tile.ends && tiling.ends_short(sizes) => BUFFERS,
            _ => number % BUFFERS,
        }
    }

    /// Brings what a tile needs and does not find.
    fn load(&mut self, at: usize) -> Lowered<()> {
        let Some(tile) = self.tiles.get(at).copied() else { return Ok(()) };
        let sizes = self.tiled.sizes;
        let program = self.program(&tile)?.clone();
        if tile.brings_columns {
            let place = operand_place(sizes, &tile, &program.operands[1], 1);
            let (hbm, offset) = (self.operands.columns, self.columns_at(at));
            self.moved("bring_columns", Place { hbm, offset, ..place }, true)?;
        }
        if tile.brings_rows {
            let place = program.rows_place(sizes, &tile, self.tiled.windows.as_ref());
            self.moved(
                "bring_rows",
                Place { hbm: self.operands.rows, offset: self.rows_at(at), ..place },
                true,
            )?;
        }
        if at == 0 {
            self.load_columns_of_chain()?;
        }
        if !tile.ends {
            return Ok(());
        }
        for (number, operand) in program.finish.operands.iter().enumerate() {
            if operand.input == Input::Rows {
                let place = vector_place(sizes, &tile, operand.input, &program.vectors[number]);
                let hbm = self.operands.inputs[operand.number];
                let offset = self.rooms.operands[number].at(turn(operand.input, &tile, at));
                self.moved("bring_vector", Place { hbm, offset, ..place }, true)?;
            }
        }
        for (number, (input, is_plane)) in program.finish.brought.iter().enumerate() {
            if self.operands.resident.has(number) {
                continue;
            }
            let one = if *is_plane {
                (Sizes { batch: 1, ..sizes }, Tile { batch: 0, ..tile })
            } else {
                (sizes, tile)
            };
            let place = result_place(one.0, &one.1, program.result(WORD_BYTES), WORD_BYTES);
            let place = place.through(self.tiled.windows.as_ref());
            let (hbm, offset) = (self.operands.inputs[*input], self.rooms.brought[number].at(at as u64));
            self.moved("bring_beside", Place { hbm, offset, ..place }, true)?;
        }
        Ok(())
    }

    /// Brings what a chain has for each column, of all strips: those of the same size at once.
    fn load_columns_of_chain(&mut self) -> Lowered<()> {
        let mut strips: Vec<Tile> = self.tiles.clone();
        strips.sort_by_key(|tile| tile.column_tile);
        strips.dedup_by_key(|tile| tile.column_tile);
        for alike in strips.chunk_by(|one, other| one.columns.count == other.columns.count) {
            let Some(first) = alike.first() else { continue };
            let program = self.program(first)?.clone();
            for (number, operand) in program.finish.operands.iter().enumerate() {
                if operand.input == Input::Rows {
                    continue;
                }
                let buffers = self.rooms.operands[number];
                let hbm = self.operands.inputs[operand.number];
                let offset = buffers.at(first.column_tile);
                let strips = (alike.len() as u64, first.columns.count, buffers.each);
                let place = vector_place(self.tiled.sizes, first, operand.input, &program.vectors[number]);
                self.moved("bring_vector", Place { hbm, offset, strips, ..place }, true)?;
            }
        }
        Ok(())
    }

    fn store(&mut self, at: usize) -> Lowered<()> {
        let tile = self.tiles[at];
        if !tile.ends {
            return Ok(());
        }
        let program = self.program(&tile)?.clone();
        let exchanged = program.exchange.ring > 1;
        let slot = |rooms: &Rooms, slot: Slot| rooms.slot(slot, exchanged, at as u64);
        for (number, one) in program.finish.stored.iter().enumerate() {
            if self.operands.resident.stays(number) {
                continue;
            }
            let from = match program.finish.slot(one.stream) {
                Some(own) if !one.packing.is_narrow() || program.finish.narrows_sums().is_some() => {
                    slot(&self.rooms, own)
                }
                _ => self.rooms.narrow[number].at(at as u64),
            };
            let (sizes, bytes) = (self.tiled.sizes, one.element_bytes());
            let place = match (one.narrow, &program.row_values) {
                (true, Some(placed)) => row_place(sizes, &tile, placed),
                _ => result_place(sizes, &tile, program.result(bytes), bytes)
                    .stored(self.tiled.windows.as_ref()),
            };
            let hbm = self.operands.results[number];
            self.moved("store", Place { hbm, offset: from, ..place }, false)?;
        }
        if let Some(hbm) = self.operands.sums {
            let place = result_place(self.tiled.sizes, &tile, program.result(WORD_BYTES), WORD_BYTES);
            let place = place.through(self.tiled.windows.as_ref());
            let offset = slot(&self.rooms, Slot::Sums);
            self.moved("keep", Place { hbm, offset, ..place }, false)?;
        }
        Ok(())
    }

    fn moved(&mut self, name: &str, place: Place<'_>, to_dm: bool) -> Lowered<()> {
        let machine = self.emitter.machine;
        let slice = self.pe as u64 * machine.pe.slices;
        let all = Place { slice, ..place }.transfers(machine, name, to_dm);
        let all = all.ok_or("digits that do not make up an axis")?;
        let early = to_dm && self.operands.early.get(place.operand).is_some_and(|early| *early);
        let most = if early { MOST_BYTES } else { u64::MAX };
        for transfer in all.into_iter().flat_map(|one| pieces(one, most)) {
            let parts = by_pe(machine, transfer, to_dm).ok_or("a transfer that is not slice by slice")?;
            for (pe, part) in parts {
                self.emitter.turn_to(pe as u64);
                let known = self.emitter.ops[pe].len();
                self.emitter.bring(part, self.tiled.tiling.grid.pes());
                self.loads[pe - self.pe].extend(known..self.emitter.ops[pe].len());
            }
        }
        Ok(())
    }

    /// Operands to register files, and the contraction.
    fn contract(&mut self, at: usize) -> Lowered<()> {
        let tile = self.tiles[at];
        let program = self.program(&tile)?.clone();
        let machine = self.emitter.machine;
        if tile.brings_columns {
            self.exec(at, program.load_from(machine, self.columns_at(at)));
        }
        for (at_operand, operand) in program.finish.operands.iter().enumerate() {
            if tile.ends && (operand.input == Input::Rows || tile.row_tile == 0) {
                let from = self.rooms.operands[at_operand].at(turn(operand.input, &tile, at));
                self.exec(at, program.finish.load(self.emitter.machine, at_operand, from));
            }
        }
        let Rooms { sums, parts, .. } = self.rooms;
        let number = at as u64;
        let own = if tile.begins { sums } else { parts }.at(number);
        self.exec(at, program.contract_at(machine, self.rows_at(at), own));
        if !tile.begins {
            let before = sums.at(number - 1);
            self.exec(at, program.add(machine, [before, own], sums.at(number)));
        }
        Ok(())
    }

    /// What follows the contraction.
    fn finish(&mut self, at: usize) -> Lowered<()> {
        if !self.tiles[at].ends {
            return Ok(());
        }
        let program = self.program(&self.tiles[at])?.clone();
        let (machine, number) = (self.emitter.machine, at as u64);
        let exchanged = program.exchange.ring > 1;
        if exchanged {
            let (from, to) = (self.rooms.sums.at(number), self.rooms.traded.at(number));
            self.exec(at, program.exchange.exec(from, to, &program.finish));
        }
        let rooms = self.rooms.clone();
        let place = |slot: Slot| rooms.slot(slot, exchanged, number);
        let narrow = |result: usize| rooms.narrow[result].at(number);
        for exec in program.finish.execs(machine, &place, &narrow) {
            self.exec(at, exec);
        }
        Ok(())
    }
}

/// Which buffer of a register file operand a tile uses.
fn turn(input: Input, tile: &Tile, at: usize) -> u64 {
    if input == Input::Rows { at as u64 } else { tile.column_tile }
}
