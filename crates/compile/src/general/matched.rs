//! Tiles of contractions that are changed to those of others whose results they find, or that find theirs: a
//! value between them then stays in data memory ([`super::residents`]), which may save more than the best
//! tiles of each alone.

use std::collections::BTreeMap;

use super::contraction_facts::{apart_cycles, contraction, rooms};
use super::kernel::Kernels;
use super::link::Chosen;
use super::options::Options;
use super::plan::{WORD_BYTES, readers};
use super::residents::{brought_by, given, issuer};
use super::tiled::{Room, TileSearches, TiledContraction};

/// Part of what a value saves that other tiles may cost.
const MOST_LOST: (u64, u64) = (3, 4);

/// A value that one contraction leaves and another could find.
struct Pair {
    maker: usize,
    /// Its number among what the maker stores.
    stored: usize,
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
    /// Values that one contraction writes in words and another reads beside its sums.
    fn pairs(&self, chosen: &Chosen) -> Vec<Pair> {
        let readers = readers(self.all);
        let mut pairs = Vec::new();
        for maker in chosen.tiled.keys().copied() {
            for (stored, value) in given(self.all, chosen, maker).into_iter().enumerate() {
                let count = self.all.values[value].count();
                let bytes = count * self.all.values[value].element_bytes();
                if bytes != count * WORD_BYTES {
                    continue;
                }
                let saved = apart_cycles(self.searches.machine, bytes, self.options.pes);
                let all = readers[value].iter().map(|reader| issuer(chosen, *reader));
                let finds = |reader: &usize| *reader > maker && brought_by(chosen, *reader, value).is_some();
                pairs.extend(all.filter(finds).map(|reader| Pair { maker, stored, reader, saved }));
            }
        }
        pairs.sort_by_key(|pair| (std::cmp::Reverse(pair.saved), pair.maker, pair.reader));
        pairs
    }

    /// A contraction of a pair whose tiles are computed by several PEs or in parts, with tiles that are not,
    /// if that costs less than what its values save.
    fn plain(&self, chosen: &Chosen, number: usize, saved: u64) -> Option<TiledContraction> {
        let (_, sizes) = contraction(self.all, number)?;
        let own = chosen.tiled.get(&number).filter(|own| !own.is_plain())?;
        let epilogue = chosen.joined.get(&number).map(|joined| &joined.epilogue);
        let room = *rooms(self.searches, self.all, number, self.options).first()?;
        let room = Room { fused: Some(1), blocks: false, ..room };
        let whole = self.options.keep && epilogue.is_some();
        let found = self.searches.candidate(sizes, &[room], (epilogue, own.windows.as_ref()), whole).ok()?;
        let more = found.cycles.max(own.cycles) - own.cycles;
        (more * MOST_LOST.1 < saved * MOST_LOST.0).then_some(found)
    }

    /// A contraction with the tiles of another, and how many more cycles it takes.
    fn changed(&self, chosen: &Chosen, number: usize, other: usize) -> Option<(u64, TiledContraction)> {
        let (_, sizes) = contraction(self.all, number)?;
        let (own, other) = (chosen.tiled.get(&number)?, chosen.tiled.get(&other)?);
        let epilogue = chosen.joined.get(&number).map(|joined| &joined.epilogue);
        let room = *rooms(self.searches, self.all, number, self.options).first()?;
        let whole = self.options.keep && epilogue.is_some();
        let found = self.searches.like(sizes, room, (epilogue, own.windows.as_ref()), whole, other)?;
        Some((found.cycles.max(own.cycles) - own.cycles, found))
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
    let pairs = matcher.pairs(chosen);
    let mut saved: BTreeMap<usize, u64> = BTreeMap::new();
    for pair in &pairs {
        *saved.entry(pair.maker).or_default() += pair.saved;
        *saved.entry(pair.reader).or_default() += pair.saved;
    }
    let mut former: BTreeMap<usize, TiledContraction> = BTreeMap::new();
    for (number, saved) in saved {
        let Some(plain) = matcher.plain(chosen, number, saved) else { continue };
        former.extend(chosen.tiled.insert(number, plain).map(|own| (number, own)));
    }
    let mut alike = Alike(BTreeMap::new());
    for pair in &pairs {
        let [one, other] = [pair.maker, pair.reader].map(|number| chosen.tiled.get(&number));
        if one.zip(other).is_some_and(|(one, other)| one.lies_like(other)) {
            alike.join(pair.maker, pair.reader);
        }
    }
    for Pair { maker, stored, reader, saved } in pairs {
        let leaves = chosen.tiled.get(&maker).is_some_and(|tiled| tiled.leaves(stored).is_some());
        if alike.of(maker) == alike.of(reader) || !leaves {
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
    chosen.tiled.extend(former.into_iter().filter(|(number, _)| alike.is_alone(*number)));
}
