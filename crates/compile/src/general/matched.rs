//! Tiles of contractions that are changed to those of others whose results they find, or that find theirs: a
//! value between them then stays in data memory ([`super::residents`]), which may save more than the best tiles
//! of each alone.

use std::collections::BTreeMap;

use super::contraction_facts::{apart_cycles, contraction, rooms};
use super::kernel::Kernels;
use super::link::Chosen;
use super::plan::{Options, WORD_BYTES, readers};
use super::residents::{brought_by, given, issuer};
use super::tiled::{TileSearches, TiledContraction};

/// Part of what a value saves that other tiles may cost.
const MOST_LOST: (u64, u64) = (3, 4);

/// A value that one contraction leaves and another could find.
struct Pair {
    maker: usize,
    reader: usize,
    /// Cycles of transfers that are not needed then.
    saved: u64,
}

/// Contractions whose tiles are the same already.
struct Alike(BTreeMap<usize, usize>);

impl Alike {
    fn of(&self, number: usize) -> usize {
        self.0.get(&number).copied().unwrap_or(number)
    }

    fn join(&mut self, one: usize, other: usize) {
        let (to, from) = (self.of(one), self.of(other));
        self.0.insert(one, to);
        self.0.insert(other, to);
        self.0.values_mut().filter(|group| **group == from).for_each(|group| *group = to);
    }

    fn is_alone(&self, number: usize) -> bool {
        let group = self.of(number);
        self.0.iter().all(|(other, own)| *own != group || *other == number)
    }
}

struct Matcher<'m> {
    searches: &'m TileSearches<'m>,
    all: &'m Kernels,
    options: &'m Options,
}

impl Matcher<'_> {
    /// Values that contractions with different tiles leave and find; those with the same are joined.
    fn pairs(&self, chosen: &Chosen, alike: &mut Alike) -> Vec<Pair> {
        let readers = readers(self.all);
        let mut pairs = Vec::new();
        for (maker, tiled) in &chosen.tiled {
            for (stored, value) in given(self.all, chosen, *maker).into_iter().enumerate() {
                if tiled.leaves(stored).is_none() {
                    continue;
                }
                let bytes = self.all.values[value].count() * WORD_BYTES;
                let saved = apart_cycles(self.searches.machine, bytes, self.options.pes);
                for reader in readers[value].iter().map(|reader| issuer(chosen, *reader)) {
                    if reader <= *maker || brought_by(chosen, reader, value).is_none() {
                        continue;
                    }
                    match chosen.tiled.get(&reader) {
                        Some(other) if tiled.lies_like(other) => alike.join(*maker, reader),
                        Some(_) => pairs.push(Pair { maker: *maker, reader, saved }),
                        None => {}
                    }
                }
            }
        }
        pairs.sort_by_key(|pair| (std::cmp::Reverse(pair.saved), pair.maker, pair.reader));
        pairs
    }

    /// A contraction with the tiles of another, and how many more cycles it takes.
    fn changed(&self, chosen: &Chosen, number: usize, other: usize) -> Option<(u64, TiledContraction)> {
        let (_, sizes) = contraction(self.all, number)?;
        let (own, other) = (chosen.tiled.get(&number)?, chosen.tiled.get(&other)?);
        let epilogue = chosen.joined.get(&number).map(|joined| &joined.epilogue);
        let room = *rooms(self.searches, self.all, number, self.options).first()?;
        let whole = self.options.keep && epilogue.is_some();
        let found = self.searches.like(sizes, room, (epilogue, own.windows.as_ref()), whole, other)?;
        Some((found.cycles.saturating_sub(own.cycles), found))
    }
}

/// Changes tiles where a value that need not pass HBM saves more.
pub(super) fn match_tiles(
    searches: &TileSearches<'_>,
    all: &Kernels,
    options: &Options,
    chosen: &mut Chosen,
) {
    if !chosen.tactics.is_empty() {
        return;
    }
    let matcher = Matcher { searches, all, options };
    let mut alike = Alike(BTreeMap::new());
    for Pair { maker, reader, saved } in matcher.pairs(chosen, &mut alike) {
        if alike.of(maker) == alike.of(reader) {
            continue;
        }
        let ways = [(reader, maker), (maker, reader)].into_iter().filter(|(own, _)| alike.is_alone(*own));
        let found = ways.filter_map(|(own, other)| {
            let (more, tiled) = matcher.changed(chosen, own, other)?;
            (more * MOST_LOST.1 < saved * MOST_LOST.0).then_some((more, own, tiled))
        });
        let Some((_, own, tiled)) = found.min_by_key(|(more, ..)| *more) else { continue };
        chosen.tiled.insert(own, tiled);
        alike.join(maker, reader);
    }
}
