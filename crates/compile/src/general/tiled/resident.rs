//! Results of tiles that stay in data memory for tiles of later contractions, which find them beside their
//! own sums: both must have the same tiles, and results that lie alike.

use tilewright_machine::tcp::Tcp;

use super::super::emit::dm_bytes;
use super::super::kernel::{Packing, Sizes};
use super::finish::{Slot, Stored};
use super::grid::{Tile, Tiling};
use super::rooms::{Buffers, Rooms};
use super::search::{Candidate, KnownTiles, Room, Search, TiledContraction};
use super::split::Split;
use super::tile::{Behind, TileProgram, WORD_BYTES};

/// Candidates with the tiles of another contraction that are compared.
const MOST_LIKE: usize = 4;

/// Bytes of each slice that a value has, for all tiles of a PE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct TileRoom {
    pub(in super::super) tile_bytes: u64,
    pub(in super::super) tiles: u64,
}

impl TileRoom {
    fn buffers(&self, base: u64) -> Buffers {
        Buffers { base, each: self.tile_bytes, count: self.tiles }
    }
}

/// A result that stays: its number among those that are stored, and where.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct LeftResult {
    pub(in super::super) stored: usize,
    pub(in super::super) room: TileRoom,
    pub(in super::super) base: u64,
    /// Others read it in HBM.
    pub(in super::super) is_stored: bool,
}

/// A value that is there beside the sums: its number among those that are brought, and where.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct FoundBeside {
    pub(in super::super) brought: usize,
    pub(in super::super) room: TileRoom,
    pub(in super::super) base: u64,
}

/// Values of a contraction that do not pass HBM.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct ResidentTiles {
    pub(in super::super) left: Vec<LeftResult>,
    pub(in super::super) found: Vec<FoundBeside>,
}

impl ResidentTiles {
    /// Whether a value that would be brought is there.
    pub(super) fn has(&self, brought: usize) -> bool {
        self.found.iter().any(|one| one.brought == brought)
    }

    /// Whether a result is not written to HBM.
    pub(super) fn stays(&self, stored: usize) -> bool {
        self.left.iter().any(|one| one.stored == stored && !one.is_stored)
    }
}

/// A contraction with the tiles of another and results that lie alike, with what runs on them; `None` if it
/// has none.
pub(super) fn like(
    machine: &Tcp,
    sizes: Sizes,
    room: Room,
    (epilogue, windows): Behind<'_>,
    whole: bool,
    other: &TiledContraction,
) -> Option<TiledContraction> {
    let sizes = windows.map_or(sizes, |windows| windows.padded(sizes));
    let mut known = KnownTiles::default();
    let mut search = Search::new(machine, sizes, room, (epilogue, windows), whole, &mut known);
    let Tiling { planes, rows, columns, .. } = other.tiling;
    let spread = |one: &Split| (one.fused, one.columns_log2, one.summed_log2);
    let mut all: Vec<Candidate> = Vec::new();
    for split in search.splits(1).into_iter().filter(|split| spread(split) == spread(&other.split)) {
        let Some(estimate) = search.estimated([planes, rows, columns, sizes.summed], split) else { continue };
        for resident in [true, false] {
            let tiling = Tiling { resident, summed: sizes.summed, ..other.tiling };
            if search.roomy(estimate.rooms.clone(), tiling).bytes() > dm_bytes(machine) {
                continue;
            }
            let tiles = search.last_tiles(tiling);
            all.push(Candidate { tiling, split, cycles: search.time(tiling, &tiles, 1, &estimate) });
        }
    }
    all.sort_by_key(|candidate| candidate.cycles);
    let made = all.into_iter().filter_map(|candidate| search.tiled(candidate).ok());
    let alike = made.filter(|(one, _)| one.lies_like(other)).take(MOST_LIKE);
    let (best, compared) = alike.min_by_key(|(one, _)| one.cycles)?;
    Some(TiledContraction { compared: vec![compared], ..best })
}

/// Where a stored result lies; `None` if it has no words of its own.
fn slot_of(program: &TileProgram, stored: usize) -> Option<Slot> {
    let Stored { stream, packing, narrow } = *program.finish.stored.get(stored)?;
    let slot = program.finish.slot(stream).filter(|_| packing == Packing::Words && !narrow)?;
    (!matches!(slot, Slot::Brought(_))).then_some(slot)
}

/// The buffers of a slot.
fn buffers_of(rooms: &mut Rooms, slot: Slot, exchanged: bool) -> &mut Buffers {
    match slot {
        Slot::Sums if exchanged => &mut rooms.traded,
        Slot::Sums => &mut rooms.sums,
        Slot::Brought(number) => &mut rooms.brought[number],
        Slot::Made(number) => &mut rooms.made[number],
    }
}

impl TiledContraction {
    /// Bytes of each slice's data memory.
    pub(in super::super) fn room_bytes(&self) -> u64 {
        self.rooms.bytes()
    }

    /// Whether each tile is computed at once, by one PE.
    pub(in super::super) fn is_plain(&self) -> bool {
        self.split.fused == 1 && self.tiling.blocks(self.sizes) == 1
    }

    fn all_tiles(&self) -> impl Iterator<Item = Vec<Tile>> {
        (0..self.tiling.grid.pes()).map(|pe| self.tiling.tiles(self.sizes, pe))
    }

    /// Room for a stored result that stays until others have read it; `None` if it cannot.
    pub(in super::super) fn leaves(&self, stored: usize) -> Option<TileRoom> {
        if !self.is_plain() {
            return None;
        }
        let mut slots = self.programs.values().map(|program| slot_of(program, stored));
        let first = slots.next()??;
        if !slots.all(|slot| slot == Some(first)) {
            return None;
        }
        let exchanged = self.programs.values().any(|program| program.exchange.ring > 1);
        let buffers = *buffers_of(&mut self.rooms.clone(), first, exchanged);
        let tiles = self.all_tiles().map(|tiles| tiles.len() as u64).max()?;
        Some(TileRoom { tile_bytes: buffers.each, tiles })
    }

    /// The number of an input among those that are brought beside the sums; `None` if it is not, or if tiles
    /// do not agree.
    pub(in super::super) fn brings(&self, input: usize) -> Option<usize> {
        let place = |program: &TileProgram| {
            let at = program.finish.brought.iter().position(|one| one.0 == input)?;
            (!program.finish.brought[at].1).then_some(at)
        };
        let mut places = self.programs.values().map(place);
        let first = places.next()??;
        places.all(|other| other == Some(first)).then_some(first)
    }

    /// Whether another has the same tiles in the same order, and results that lie alike.
    pub(in super::super) fn lies_like(&self, other: &TiledContraction) -> bool {
        let lines = |one: &TiledContraction| one.windows.as_ref().map(|windows| windows.rows().clone());
        let same = |(one, its): (&Tile, &Tile)| {
            (one.batch, one.planes, one.rows, one.columns) == (its.batch, its.planes, its.rows, its.columns)
        };
        let tiles =
            |(one, its): (Vec<Tile>, Vec<Tile>)| one.len() == its.len() && one.iter().zip(&its).all(same);
        let alike = |(one, its): (&TileProgram, &TileProgram)| {
            one.result(WORD_BYTES) == its.result(WORD_BYTES) && one.finish.words == its.finish.words
        };
        self.is_plain()
            && other.is_plain()
            && self.tiling.grid == other.tiling.grid
            && lines(self) == lines(other)
            && self.all_tiles().zip(other.all_tiles()).all(tiles)
            && self.programs.len() == other.programs.len()
            && self.programs.values().zip(other.programs.values()).all(alike)
    }

    /// Buffers with those of values that stay at their places.
    pub(super) fn resident_rooms(&self, mut rooms: Rooms, resident: &ResidentTiles) -> Rooms {
        let programs = || self.programs.values();
        for LeftResult { stored, room, base, .. } in &resident.left {
            let exchanged = programs().any(|program| program.exchange.ring > 1);
            if let Some(slot) = programs().next().and_then(|program| slot_of(program, *stored)) {
                *buffers_of(&mut rooms, slot, exchanged) = room.buffers(*base);
            }
        }
        for FoundBeside { brought, room, base } in &resident.found {
            rooms.brought[*brought] = room.buffers(*base);
        }
        rooms
    }
}
