//! Which tiles every contraction of a graph has: with what runs on them, through windows and into padding,
//! whatever of it takes least (stage 3). Contractions that ask the same are looked at once, several beside
//! each other.

use std::collections::BTreeMap;

use rayon::prelude::*;
use tilewright_machine::tcp::Tcp;

use super::contraction_facts::{Inside, Looked, apart_cycles, contraction, rooms};
use super::kernel::{Kernels, Origin, Sizes, Work};
use super::options::Options;
use super::plan::readers;
use super::tiled::{Epilogue, Input, Joined, Padding, Room, TileSearches, TiledContraction, Uses, Windows};
use super::turned::copy_cycles;
use super::without::Choice;

/// Contractions in tiles, by the number of their kernel.
pub(super) type Tilings = BTreeMap<usize, TiledContraction>;

/// The windows that are the rows of a contraction: a chain that does nothing but read by strides makes them.
pub(super) fn windows(machine: &Tcp, all: &Kernels, number: usize) -> Option<(Looked, Windows)> {
    let ([rows, _], sizes) = contraction(all, number).filter(|(_, sizes)| sizes.is_dense())?;
    let chain = all.kernels.iter().position(|kernel| kernel.results[..] == [rows])?;
    let Work::Chain { inputs, lines, streams } = &all.kernels[chain].work else { return None };
    let ([view], [], [0]) = (&inputs[..], &lines[..], &streams[..]) else { return None };
    if all.values[view.value].packing != sizes.operands || all.is_whole(view) {
        return None;
    }
    let found = Windows::new(view, sizes, machine.tdma.alignment_bytes)?;
    Some((Looked { chain, source: view.value }, found))
}

/// The padding that the one result of a contraction, or of what runs on its tiles, is moved into; nobody else
/// reads it.
pub(super) fn padding(
    all: &Kernels,
    uses: &[Vec<usize>],
    number: usize,
    joined: Option<&Joined>,
) -> Option<(Inside, Padding)> {
    let (_, sizes) = contraction(all, number)?;
    let given = joined.map_or_else(|| all.kernels[number].results.clone(), Joined::given);
    let [value] = given[..] else { return None };
    let [mover] = uses[value][..] else { return None };
    let kernel = all.kernels.get(mover)?;
    let (Work::Move(parts), [target]) = (&kernel.work, &kernel.results[..]) else { return None };
    let ([part], Origin::Filled(_)) = (&parts[..], &all.values[*target].origin) else { return None };
    let alike = all.values[*target].packing == all.values[value].packing && sizes.batch == 1;
    let found = Padding::new(part, sizes).filter(|_| alike)?;
    Some((Inside { mover, value, target: *target }, found))
}

/// Whether rows that are padding of lines hinder nothing that runs on tiles.
fn takes_lines(epilogue: Option<&Epilogue>) -> bool {
    let rows = |one: &Epilogue| one.inputs.iter().chain(&one.more).any(|input| *input == Input::Rows);
    epilogue.is_none_or(|one| !one.has_rows() && !rows(one))
}

/// Kernels that may run on the tiles of a contraction, and the ways to look for tiles then.
#[derive(Clone, Debug, PartialEq)]
struct Variant {
    /// What runs on tiles.
    epilogue: Option<Epilogue>,
    /// How many kernels that is.
    joined: usize,
    /// What it takes besides that kernels are left out.
    apart_cycles: u64,
    /// Windows and padding, and what it takes besides.
    ways: Vec<(Option<Windows>, u64)>,
}

/// All that is asked about tiles of a contraction.
#[derive(Clone, Debug, PartialEq)]
struct Question {
    sizes: Sizes,
    /// What it may use, and what it may use in other plans.
    rooms: Vec<Room>,
    /// Sums are kept if something runs on tiles.
    keep: bool,
    variants: Vec<Variant>,
}

impl Question {
    /// The variant and its tiles that take least.
    fn best(&self, searches: &TileSearches<'_>) -> Option<(usize, TiledContraction)> {
        let mut best: Option<(u64, usize, TiledContraction)> = None;
        for (number, variant) in self.variants.iter().enumerate() {
            // A chain alone behind a contraction always takes more in a kernel of its own.
            let alone = best.as_ref().is_some_and(|(_, at, _)| self.variants[*at].joined == 1);
            if variant.joined == 0 && alone {
                continue;
            }
            let epilogue = variant.epilogue.as_ref();
            let whole = self.keep && epilogue.is_some();
            for (windows, besides) in &variant.ways {
                let behind = (epilogue, windows.as_ref());
                let Ok(tiled) = searches.candidate(self.sizes, &self.rooms, behind, whole) else { continue };
                let cycles = tiled.cycles + variant.apart_cycles + besides;
                if best.as_ref().is_none_or(|(least, ..)| cycles < *least) {
                    best = Some((cycles, number, tiled));
                }
            }
        }
        best.map(|(_, number, tiled)| (number, tiled))
    }
}

/// Asks about contractions of a graph.
struct Asker<'a> {
    searches: &'a TileSearches<'a>,
    all: &'a Kernels,
    options: &'a Options,
    readers: Vec<Vec<usize>>,
    uses: Uses<'a>,
}

impl Asker<'_> {
    /// What is asked about a contraction, and the kernels of each variant.
    fn question(&self, number: usize) -> Option<(Question, Vec<Option<Joined>>)> {
        let (machine, options, without) = (self.searches.machine, self.options, self.options.without);
        let (_, sizes) = contraction(self.all, number)?;
        let seen = windows(machine, self.all, number).filter(|_| !without.has(Choice::Windows));
        let written = seen.as_ref().map_or(0, |(looked, _)| self.written(looked.chain, sizes));
        let seen = seen.map(|(_, windows)| windows);
        let joined = if without.has(Choice::Epilogue) { Vec::new() } else { self.uses.epilogues(number) };
        let joined: Vec<Option<Joined>> = joined.into_iter().map(Some).chain([None]).collect();
        let count = |one: &Option<Joined>| one.as_ref().map_or(0, |one| one.kernels.len());
        let most = joined.iter().map(count).max().unwrap_or_default();
        let results = sizes.batch * sizes.rows * sizes.columns;
        let each = apart_cycles(machine, results * 4, options.pes);
        let variant = |one: &Option<Joined>| Variant {
            epilogue: one.as_ref().map(|one| one.epilogue.clone()),
            joined: count(one),
            apart_cycles: (most - count(one)) as u64 * each,
            ways: self.ways(number, sizes, (seen.as_ref(), written), one.as_ref()),
        };
        let variants = joined.iter().map(variant).collect();
        let rooms = rooms(self.searches, self.all, number, options);
        Some((Question { sizes, rooms, keep: options.keep, variants }, joined))
    }

    /// What it takes that a chain writes windows which the contraction does not take as they lie.
    fn written(&self, chain: usize, sizes: Sizes) -> u64 {
        let (machine, pes) = (self.searches.machine, self.options.pes);
        let bytes = sizes.batch * sizes.rows * sizes.summed * sizes.operands.element_bytes();
        let least = copy_cycles(machine, pes, self.all, chain);
        least.unwrap_or_default().max(apart_cycles(machine, bytes, pes))
    }

    /// Windows and padding that a contraction may use, and what it takes besides.
    fn ways(
        &self,
        number: usize,
        sizes: Sizes,
        (seen, written): (Option<&Windows>, u64),
        joined: Option<&Joined>,
    ) -> Vec<(Option<Windows>, u64)> {
        let (machine, options) = (self.searches.machine, self.options);
        let stays = options.keep || options.without.has(Choice::Inside);
        let pad = padding(self.all, &self.readers, number, joined).filter(|_| !stays);
        // What is moved crosses HBM twice.
        let moved = pad.as_ref().map_or(0, |(one, _)| {
            let results = sizes.batch * sizes.rows * sizes.columns;
            let bytes = results * self.all.values[one.value].element_bytes();
            apart_cycles(machine, 2 * bytes, options.pes)
        });
        let mut ways = vec![(None, written + moved)];
        if takes_lines(joined.map(|one| &one.epilogue)) {
            let inside = pad.map(|(_, inside)| inside);
            let both = seen.cloned().zip(inside.clone());
            ways.extend(both.and_then(|(one, inside)| Some((Some(one.into_padding(inside)?), 0))));
            ways.extend(seen.map(|windows| (Some(windows.clone()), moved)));
            ways.extend(inside.map(|inside| (Some(Windows::plain(sizes, inside)), written)));
        }
        ways
    }
}

/// Contractions in tiles by kernel, with what can run on their tiles; each question is answered once.
pub(super) fn tilings(
    searches: &TileSearches<'_>,
    all: &Kernels,
    options: &Options,
) -> (Tilings, BTreeMap<usize, Joined>) {
    let readers = readers(all);
    let uses = Uses::new(all, readers.clone(), options.keep);
    let asker = Asker { searches, all, options, readers, uses };
    let mut questions: Vec<Question> = Vec::new();
    let mut by_sizes: BTreeMap<Sizes, Vec<usize>> = BTreeMap::new();
    let mut asked = Vec::new();
    for number in 0..all.kernels.len() {
        let Some((question, joined)) = asker.question(number) else { continue };
        let alike = by_sizes.entry(question.sizes).or_default();
        let known = alike.iter().copied().find(|at| questions[*at] == question);
        let at = known.unwrap_or_else(|| {
            alike.push(questions.len());
            questions.push(question);
            questions.len() - 1
        });
        asked.push((number, at, joined));
    }
    // One at a time is taken from the list: some take a hundred times as long as others.
    let answers = questions.par_iter().with_max_len(1).map(|question| question.best(searches));
    let answers: Vec<Option<(usize, TiledContraction)>> = answers.collect();
    let (mut found, mut together) = (Tilings::new(), BTreeMap::new());
    for (number, at, mut joined) in asked {
        let Some((variant, tiled)) = &answers[at] else { continue };
        found.insert(number, tiled.clone());
        together.extend(joined.swap_remove(*variant).map(|one| (number, one)));
    }
    (found, together)
}
