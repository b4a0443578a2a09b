//! Searches for tiles, each made once for all plans of a graph: the same contraction is looked for in blocks
//! that repeat, in plans that begin cold and warm, and whole beside its parts.
//!
//! What a tile takes does not depend on what a plan may use, so that a second search of the same contraction
//! finds most of its work done.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tilewright_machine::tcp::Tcp;

use super::super::kernel::Sizes;
use super::epilogue::Epilogue;
use super::lines::Windows;
use super::search::{KnownTiles, Room, TiledContraction, candidate};
use super::tile::Behind;

/// What a search gave, or why nothing.
type Found = Result<TiledContraction, String>;

/// Searches for tiles on one machine; the same question is answered from memory.
pub(in super::super) struct TileSearches<'m> {
    /// The machine.
    pub(in super::super) machine: &'m Tcp,
    known: Mutex<BTreeMap<Sizes, Vec<Arc<Searched>>>>,
}

/// A contraction with what runs on its tiles.
struct Searched {
    epilogue: Option<Epilogue>,
    windows: Option<Windows>,
    /// Sums are kept besides.
    whole: bool,
    state: Mutex<SearchState>,
}

/// What is known of a contraction: its tiles, and the best by what it may use.
#[derive(Default)]
struct SearchState {
    tiles: KnownTiles,
    found: Vec<(Room, Found)>,
}

/// A search that panicked ends the run: nobody looks at what it left.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'m> TileSearches<'m> {
    /// Nothing is known yet.
    pub(in super::super) fn new(machine: &'m Tcp) -> TileSearches<'m> {
        TileSearches { machine, known: Mutex::default() }
    }

    /// The tiled contraction that takes least in a room, with the chain behind it and rows through windows;
    /// sums may be kept besides.
    ///
    /// # Errors
    /// Why there is none.
    pub(in super::super) fn candidate(
        &self,
        sizes: Sizes,
        room: Room,
        behind: Behind<'_>,
        whole: bool,
    ) -> Found {
        let searched = self.searched(sizes, behind, whole);
        let mut state = locked(&searched.state);
        if let Some((_, found)) = state.found.iter().find(|(other, _)| *other == room) {
            return found.clone();
        }
        let found = candidate(self.machine, sizes, room, behind, whole, &mut state.tiles);
        state.found.push((room, found.clone()));
        found
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
        let one = Arc::new(Searched { epilogue, windows, whole, state: Mutex::default() });
        all.push(one.clone());
        one
    }
}

#[cfg(test)]
mod tests {
    use tilewright_base::Sources;

    use super::super::super::kernel::Packing;
    use super::*;

    fn machine() -> Tcp {
        let mut sources = Sources::default();
        let id = sources.add("tcp", tilewright_machine::builtin("tcp").unwrap());
        tilewright_machine::load(&mut sources, id, &|_| None).unwrap().machine.tcp().unwrap().clone()
    }

    /// What was found out for one room does not change what is found for another.
    #[test]
    fn a_search_gives_what_it_gives_alone() {
        let machine = machine();
        let shared = TileSearches::new(&machine);
        let text = |found: Found| found.map_or_else(|why| why, |found| found.to_string());
        for [batch, rows, columns, summed] in [[1, 64, 128, 256], [4, 96, 64, 64], [1, 7, 5, 64]] {
            let sizes = Sizes::new(batch, rows, columns, summed, Packing::Half);
            for warm in [[false, false], [false, true], [false, false], [true, true]] {
                let room = Room { pes: 4, fused: None, warm, refined: true };
                let alone = TileSearches::new(&machine).candidate(sizes, room, (None, None), false);
                let found = shared.candidate(sizes, room, (None, None), false);
                assert_eq!(text(found), text(alone), "{sizes:?} {room:?}");
            }
        }
        let rooms = |one: &Arc<Searched>| locked(&one.state).found.len();
        let counts: Vec<usize> = locked(&shared.known).values().flatten().map(rooms).collect();
        assert_eq!(counts, [3, 3, 3], "one search for each room");
    }
}
