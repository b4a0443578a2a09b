//! Searches for tiles, each made once for all plans of a graph: the same contraction is looked for in blocks
//! that repeat, in plans that begin cold and warm, and whole beside its parts.
//!
//! What a tile takes does not depend on what a plan may use, so that all rooms that a contraction will be
//! looked for in are looked at together, and what was found out about its tiles is then forgotten.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tilewright_machine::tcp::Tcp;

use super::super::kernel::{Part, Sizes};
use super::epilogue::Epilogue;
use super::lines::Windows;
use super::resident::like;
use super::search::{KnownTiles, Room, TiledContraction, candidate};
use super::tile::Behind;

/// What a search gave, or why nothing.
type Found = Result<TiledContraction, String>;

/// Searches for tiles on one machine; the same question is answered from memory.
pub(in super::super) struct TileSearches<'m> {
    /// The machine.
    pub(in super::super) machine: &'m Tcp,
    /// Plans will be made that begin cold and others that begin warm.
    pub(in super::super) both: bool,
    known: Mutex<BTreeMap<Sizes, Vec<Arc<Searched>>>>,
    /// Cycles of moves between two places of HBM, by bytes of an element and parts.
    moves: Mutex<BTreeMap<(u64, Vec<Part>), u64>>,
}

/// A contraction with what runs on its tiles.
struct Searched {
    epilogue: Option<Epilogue>,
    windows: Option<Windows>,
    /// Sums are kept besides.
    whole: bool,
    /// The best by what the contraction may use.
    found: Mutex<Vec<(Room, Found)>>,
}

/// A search that panicked ends the run: nobody looks at what it left.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'m> TileSearches<'m> {
    /// Nothing is known yet; there may be plans that begin cold and others that begin warm.
    pub(in super::super) fn new(machine: &'m Tcp, both: bool) -> TileSearches<'m> {
        TileSearches { machine, both, known: Mutex::default(), moves: Mutex::default() }
    }

    /// What a move takes, looked at once.
    pub(in super::super) fn move_cycles(
        &self,
        parts: Vec<Part>,
        element_bytes: u64,
        cycles: fn(&Tcp, &[Part], u64) -> u64,
    ) -> u64 {
        let key = (element_bytes, parts);
        if let Some(known) = locked(&self.moves).get(&key) {
            return *known;
        }
        let found = cycles(self.machine, &key.1, element_bytes);
        locked(&self.moves).insert(key, found);
        found
    }

    /// The tiled contraction that takes least in the first of some rooms, with the chain behind it and rows
    /// through windows; sums may be kept besides. It will be looked for in the other rooms too.
    ///
    /// # Errors
    /// Why there is none.
    pub(in super::super) fn candidate(
        &self,
        sizes: Sizes,
        rooms: &[Room],
        behind: Behind<'_>,
        whole: bool,
    ) -> Found {
        let searched = self.searched(sizes, behind, whole);
        let mut found = locked(&searched.found);
        let known = |found: &[(Room, Found)], room: &Room| found.iter().position(|(other, _)| other == room);
        let asked = rooms.first().ok_or("no room")?;
        if known(&found, asked).is_none() {
            let mut tiles = KnownTiles::default();
            for room in rooms {
                if known(&found, room).is_none() {
                    found.push((*room, candidate(self.machine, sizes, *room, behind, whole, &mut tiles)));
                }
            }
        }
        known(&found, asked).map_or_else(|| Err("no room".to_string()), |at| found[at].1.clone())
    }

    /// A contraction with the tiles of another, whose results lie like its own.
    pub(in super::super) fn like(
        &self,
        sizes: Sizes,
        room: Room,
        behind: Behind<'_>,
        whole: bool,
        other: &TiledContraction,
    ) -> Option<TiledContraction> {
        like(self.machine, sizes, room, behind, whole, other)
    }

    fn searched(&self, sizes: Sizes, (epilogue, windows): Behind<'_>, whole: bool) -> Arc<Searched> {
        let mut known = locked(&self.known);
        let all = known.entry(sizes).or_default();
        let same = |one: &&Arc<Searched>| {
            (one.epilogue.as_ref(), one.windows.as_ref(), one.whole) == (epilogue, windows, whole)
        };
        if let Some(one) = all.iter().find(same) {
            return one.clone();
        }
        let (epilogue, windows) = (epilogue.cloned(), windows.cloned());
        let one = Arc::new(Searched { epilogue, windows, whole, found: Mutex::default() });
        all.push(one.clone());
        one
    }
}

#[cfg(test)]
mod tests {

    use super::super::super::kernel::Packing;
    use super::*;
    use tilewright_testkit::tcp as machine;

    /// What was found out for one room does not change what is found for another.
    #[test]
    fn a_search_gives_what_it_gives_alone() {
        let machine = machine();
        let shared = TileSearches::new(&machine, true);
        let text = |found: Found| found.map_or_else(|why| why, |found| found.to_string());
        let rooms = [[false, false], [false, true], [true, true]];
        let rooms =
            rooms.map(|warm| Room { pes: 4, fused: None, warm, scarce: None, refined: true, blocks: true });
        for [batch, rows, columns, summed] in [[1, 64, 128, 256], [4, 96, 64, 64], [1, 7, 5, 64]] {
            let sizes = Sizes::new(batch, rows, columns, summed, Packing::Half);
            for (at, room) in rooms.iter().enumerate() {
                let alone = TileSearches::new(&machine, true).candidate(sizes, &[*room], (None, None), false);
                let found = shared.candidate(sizes, &rooms[at..], (None, None), false);
                assert_eq!(text(found), text(alone), "{sizes:?} {room:?}");
            }
        }
        let count = |one: &Arc<Searched>| locked(&one.found).len();
        let counts: Vec<usize> = locked(&shared.known).values().flatten().map(count).collect();
        assert_eq!(counts, [3, 3, 3], "one search for each room");
    }
}
