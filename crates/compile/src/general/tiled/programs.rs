//! Commands of the tiles of a candidate, buffers for all of them, and whether its transfers move whole
//! granules.

use std::collections::BTreeMap;

use super::super::emit::dm_bytes;
use super::super::kernel::Sizes;
use super::grid::Tile;
use super::rooms::Rooms;
use super::search::{Candidate, Search};
use super::tile::{TileProgram, WORD_BYTES, tile_program};
use super::traffic::{operand_place, result_place, row_place, vector_place};

/// Commands by rows, columns and elements of the sum of a tile, and buffers for all of them.
type Made = (BTreeMap<[u64; 3], TileProgram>, Rooms);

impl Search<'_> {
    /// The commands of a candidate.
    ///
    /// # Errors
    /// Why there are none.
    pub(super) fn made(&mut self, candidate: &Candidate) -> Result<Made, String> {
        let mut programs: BTreeMap<[u64; 3], TileProgram> = BTreeMap::new();
        let machine = self.machine;
        let blocks = candidate.tiling.blocks(self.sizes) > 1;
        for pe in 0..candidate.tiling.grid.pes() {
            for tile in candidate.tiling.tiles(self.sizes, pe) {
                let key = tile.counts();
                if programs.contains_key(&key) {
                    continue;
                }
                let batch = candidate.tiling.planes;
                let [rows, columns, summed] = key;
                let sizes = Sizes { batch, rows, columns, summed, ..self.sizes };
                let chain = ((self.epilogue, self.windows), self.whole || blocks);
                let known = &mut self.known.passes;
                programs.insert(key, tile_program(machine, sizes, candidate.split, chain, known)?);
            }
        }
        let all = programs.values().map(|program| program.rooms(machine, blocks));
        let rooms = all.reduce(|all, one| all.joined(machine, &one)).ok_or("no tile")?;
        let rooms = self.roomy(rooms, candidate.tiling);
        if rooms.bytes() > dm_bytes(machine) {
            return Err("tiles that do not fit data memory".to_string());
        }
        let strips = candidate.tiling.column_tiles(self.sizes);
        let batch = self.sizes.batch.div_ceil(candidate.tiling.grid.batch);
        let rooms = if blocks {
            rooms
        } else {
            rooms.with_columns(machine, strips * batch.div_ceil(candidate.tiling.planes))
        };
        let edge = candidate.tiling.columns * WORD_BYTES;
        let granule = self.machine.tdma.alignment_bytes;
        let whole = edge.is_multiple_of(granule) || candidate.tiling.columns >= self.sizes.columns;
        let mut all = programs.iter();
        let planes = candidate.tiling.planes;
        let shared = |program: &TileProgram| program.finish.brought.iter().any(|(_, is_plane)| *is_plane);
        if planes > 1 && programs.values().any(shared) {
            return Err("several positions of the batch beside a value that they share".to_string());
        }
        if whole && all.all(|(key, program)| self.aligned(planes, *key, program)) {
            Ok((programs, rooms))
        } else {
            Err("tiles whose parts are no whole granules".to_string())
        }
    }

    /// Whether all transfers of a tile move whole granules.
    fn aligned(&self, planes: u64, key: [u64; 3], program: &TileProgram) -> bool {
        let tile = Tile::first(planes, key);
        let mut places = vec![
            program.rows_place(self.sizes, &tile, self.windows),
            operand_place(self.sizes, &tile, &program.operands[1], 1),
        ];
        let stored = program.finish.stored.iter();
        places.extend(stored.filter_map(|one| match (one.narrow, &program.row_values) {
            (true, Some(placed)) => Some(row_place(self.sizes, &tile, placed)),
            (true, None) => None,
            _ => {
                let bytes = one.element_bytes();
                Some(result_place(self.sizes, &tile, program.result(bytes), bytes).stored(self.windows))
            }
        }));
        if !program.finish.brought.is_empty() || self.whole {
            let place = result_place(self.sizes, &tile, program.result(WORD_BYTES), WORD_BYTES);
            places.push(place.through(self.windows));
        }
        let operands = program.finish.operands.iter().zip(&program.vectors);
        places.extend(operands.map(|(one, placed)| vector_place(self.sizes, &tile, one.input, placed)));
        places.iter().enumerate().all(|(at, place)| place.is_aligned(self.machine, at < 2))
    }
}
