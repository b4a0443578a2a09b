//! Contractions that hand their results on without a way through row-major order, and the choice of tactics
//! with what that takes (stage 3).
//!
//! A chain that alone reads a contraction's result runs where the result lies in data memory. What the chain
//! gives is laid from there straight into the shape in which a later contraction takes it, where the digits
//! of both shapes allow it.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_machine::tcp::Tcp;
use tilewright_tcp_cost::cycles::image::transfer_cost;

use super::choose::{Bridge, choose, total};
use super::contraction_facts::{Inside, LETTERS, Looked, contraction, operand_sizes};
use super::emit::{hbm, shared_loop};
use super::kernel::{Kernels, Origin, Part, Sizes, Work};
use super::moves::{Bytes, hbm_cycles, transfers};
use super::options::Options;
use super::plan::readers;
use super::tactic::{Tactic, tactics};
use super::tiled::{Joined, TileSearches, TiledContraction, Windows};
use super::tilings::{Tilings, padding, tilings, windows};
use super::view::signed;
use super::without::{Choice, Without};

/// What was chosen for the contractions of a graph.
#[derive(Clone, Debug, Default)]
pub struct Chosen {
    /// Tactic of each contraction, by the number of its kernel.
    pub tactics: BTreeMap<usize, Tactic>,
    /// Contractions in tiles, by the number of their kernel.
    pub tiled: BTreeMap<usize, TiledContraction>,
    /// The chain that runs where a contraction leaves its result.
    pub tails: BTreeMap<usize, usize>,
    /// Kernels that run on the tiles of a contraction.
    pub epilogues: BTreeMap<usize, Vec<usize>>,
    /// The same with what they read and give.
    pub(super) joined: BTreeMap<usize, Joined>,
    /// Contractions in tiles that take rows through windows, by the number of their kernel.
    pub windows: BTreeMap<usize, Looked>,
    /// Contractions in tiles that write inside of padding, by the number of their kernel.
    pub padded: BTreeMap<usize, Inside>,
    /// Chains that would write windows which contractions take as they lie.
    pub unwritten: BTreeSet<usize>,
    /// Operands that come straight from a contraction: by kernel and operand, the contraction.
    pub straight: BTreeMap<(usize, usize), usize>,
    /// Which of how many tactics each contraction got, the fastest alone first.
    pub picks: BTreeMap<usize, (usize, usize)>,
    /// What was weighed for each contraction.
    pub weighed: BTreeMap<usize, WeighedContraction>,
    /// Cycles of contractions and bridges by closed forms: as chosen, and with the fastest tactic for each
    /// alone.
    pub cycles: (u64, u64),
}

/// Estimates that a contraction was chosen by, in cycles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WeighedContraction {
    /// In tiles, with the chain behind it if that runs apart; none if it has no tiles.
    pub tiled: Option<u64>,
    /// By each of the explorer's tactics, the fastest alone first, with transfers between row-major order and
    /// its shapes.
    pub tactics: Vec<u64>,
}

impl Chosen {
    /// Whether a move takes something inside of padding that is written there.
    pub fn is_inside(&self, mover: usize) -> bool {
        self.padded.values().any(|one| one.mover == mover)
    }

    /// Whether a chain runs where a contraction leaves its result.
    pub fn is_tail(&self, chain: usize) -> bool {
        self.tails.values().chain(self.epilogues.values().flatten()).any(|tail| *tail == chain)
    }
}

/// Chains by the contraction whose result they alone read, last of all that they read.
fn tails(all: &Kernels, readers: &[Vec<usize>]) -> BTreeMap<usize, usize> {
    let makers = makers(all);
    let mut tails = BTreeMap::new();
    for (number, kernel) in all.kernels.iter().enumerate() {
        let Work::Chain { inputs, .. } = &kernel.work else { continue };
        let Some(inputs) = all.whole_inputs(inputs) else { continue };
        let made = inputs.iter().filter_map(|value| Some((makers[*value]?, *value)));
        let Some((last, value)) = made.max() else { continue };
        if contraction(all, last).is_some() && readers[value].iter().all(|reader| *reader == number) {
            tails.insert(last, number);
        }
    }
    tails
}

/// The kernel that makes each value, if one does.
fn makers(all: &Kernels) -> Vec<Option<usize>> {
    let mut makers = vec![None; all.values.len()];
    for (number, kernel) in all.kernels.iter().enumerate() {
        for value in &kernel.results {
            makers[*value].get_or_insert(number);
        }
    }
    makers
}

/// Cycles of moving elements between two places of HBM.
pub(super) fn cycles(machine: &Tcp, parts: &[Part], element_bytes: u64) -> u64 {
    costs(machine, parts, element_bytes).0
}

/// The same where so many PEs each move some of them: HBM is one for all.
pub(super) fn shared_cycles(machine: &Tcp, parts: &[Part], element_bytes: u64, pes: u64) -> u64 {
    let shared = |part: &Part| shared_loop(part.loops.iter().map(|row| row.0), pes).is_some();
    let one = |part: &Part| {
        let (engine, hbm) = costs(machine, std::slice::from_ref(part), element_bytes);
        (engine / if shared(part) { pes } else { 1 }).max(hbm)
    };
    parts.iter().map(one).sum()
}

/// Cycles of one engine, and of HBM if nobody else asks it.
fn costs(machine: &Tcp, parts: &[Part], element_bytes: u64) -> (u64, u64) {
    let scale = |elements: i64| elements.exact_mul(signed(element_bytes));
    let one = |part: &Part| {
        let loops = part.loops.iter().map(|(size, from, to)| (*size, scale(*from), scale(*to))).collect();
        let bytes = Bytes { source: hbm(0), target: hbm(1 << 30), loops, inside: element_bytes };
        let all = transfers(machine, "lay", &bytes);
        let costs = all.iter().filter_map(|one| transfer_cost(machine, one));
        costs.fold((0, 0), |(engine, hbm), cost| (engine + cost.cycles.total_cycles, hbm + hbm_cycles(&cost)))
    };
    parts.iter().map(one).fold((0, 0), |all, part| (all.0 + part.0, all.1 + part.1))
}

struct Weigher<'w> {
    machine: &'w Tcp,
    searches: &'w TileSearches<'w>,
    all: &'w Kernels,
    tails: &'w BTreeMap<usize, usize>,
    /// Kernels that read each value; the graph's results are read behind the last.
    readers: &'w [Vec<usize>],
    candidates: BTreeMap<usize, Vec<Tactic>>,
}

impl Weigher<'_> {
    /// Whether a chain can run where a tactic leaves its result.
    fn joins(&self, number: usize, tactic: &Tactic) -> bool {
        let Some((_, sizes)) = contraction(self.all, number) else { return false };
        self.tails.get(&number).is_some_and(|tail| tactic.takes_tail(self.machine, self.all, *tail, sizes))
    }

    /// What it takes to lay an operand as a tactic takes it, from row-major order.
    fn lays(&self, number: usize, operand: usize, tactic: &Tactic) -> u64 {
        let Some((values, sizes)) = contraction(self.all, number) else { return 0 };
        if matches!(self.all.values[values[operand]].origin, Origin::Constant(_)) && tactic.chunk == sizes {
            return 0;
        }
        let dims = operand_sizes(sizes, operand);
        let placed = &tactic.operands[operand];
        let axes = placed.axes_of(LETTERS[operand], dims, dims);
        let bytes = sizes.operands.element_bytes();
        let cycles = |parts: Vec<Part>| self.searches.move_cycles(parts, bytes, cycles);
        placed.image.parts(0, &axes, true).map_or(u64::MAX, cycles)
    }

    /// What it takes to lay a result in row-major order.
    fn unlays(&self, number: usize, tactic: &Tactic, element_bytes: u64) -> u64 {
        let Some((_, sizes)) = contraction(self.all, number) else { return 0 };
        let dims = [sizes.batch, sizes.rows, sizes.columns];
        let placed = &tactic.operands[2];
        let axes = placed.axes_of(LETTERS[2], dims, dims);
        placed.image.parts(0, &axes, false).map_or(u64::MAX, |parts| {
            let turned: Vec<Part> = parts.iter().map(Part::turned).collect();
            self.searches.move_cycles(turned, element_bytes, cycles)
        })
    }
}

/// Operands that a contraction may take straight from another: by kernel and operand, the value and the
/// contraction that it comes from.
type Handed = BTreeMap<(usize, usize), (usize, usize)>;

fn handed(all: &Kernels, tails: &BTreeMap<usize, usize>) -> Handed {
    let mut contractions = BTreeMap::new();
    for (from, tail) in tails {
        for value in &all.kernels[*tail].results {
            contractions.entry(*value).or_insert(*from);
        }
    }
    let mut found = Handed::new();
    for number in 0..all.kernels.len() {
        let Some((values, sizes)) = contraction(all, number) else { continue };
        for (operand, value) in values.iter().enumerate() {
            let Some(from) = contractions.get(value) else { continue };
            let same = contraction(all, *from)
                .is_some_and(|(_, own)| [own.batch, own.rows, own.columns] == operand_sizes(sizes, operand));
            if same {
                found.insert((number, operand), (*value, *from));
            }
        }
    }
    found
}

/// The tactics of each contraction, and why some have none.
type Tactics = (BTreeMap<usize, Vec<Tactic>>, BTreeMap<usize, String>);

/// Products from which on several PEs in tiles take less than one PE by any tactic, so that none is looked
/// for.
pub(super) const MANY_PRODUCTS: u64 = 1 << 24;

fn candidates(machine: &Tcp, all: &Kernels, options: &Options, tilings: &Tilings) -> Tactics {
    let mut found: BTreeMap<Sizes, Result<Vec<Tactic>, String>> = BTreeMap::new();
    let (mut candidates, mut without) = (BTreeMap::new(), BTreeMap::new());
    for number in 0..all.kernels.len() {
        let Some((_, sizes)) = contraction(all, number) else { continue };
        let products = sizes.batch * sizes.rows * sizes.columns * sizes.summed;
        let tiled = tilings.contains_key(&number);
        let is_paired = sizes.held != sizes.operands;
        if !sizes.is_dense() || is_paired || sizes.runs.is_some() {
            if !tiled {
                let what = match (is_paired, sizes.runs) {
                    (true, _) => "weights of four bits",
                    (_, Some(_)) => "windows of few channels",
                    _ => "operands by strides",
                };
                without.insert(number, format!("{what}, which no tile takes"));
            }
            candidates.insert(number, Vec::new());
            continue;
        }
        let many = options.pes > 1 && products >= MANY_PRODUCTS && !options.without.has(Choice::Tiled);
        if tiled && (many || options.without.has(Choice::Explorer)) {
            candidates.insert(number, Vec::new());
            continue;
        }
        let known = match found.entry(sizes) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(open) => {
                let keep = options.tactics.max(1);
                open.insert(tactics(machine, sizes, keep))
            }
        };
        match known {
            Ok(known) => {
                candidates.insert(number, known.clone());
            }
            Err(why) => {
                without.insert(number, why.clone());
                candidates.insert(number, Vec::new());
            }
        }
    }
    (candidates, without)
}

/// Contractions that take less in tiles, a chain behind them included, which then reads what they wrote; and
/// what was weighed for each.
fn tiled(
    weigher: &Weigher<'_>,
    tilings: &Tilings,
    chains: &BTreeMap<usize, Joined>,
    without: Without,
) -> (BTreeMap<usize, TiledContraction>, BTreeMap<usize, WeighedContraction>) {
    let (machine, all) = (weigher.machine, weigher.all);
    let (mut tiled, mut weighed) = (BTreeMap::new(), BTreeMap::new());
    for (number, tactics) in &weigher.candidates {
        let Some((_, sizes)) = contraction(all, *number) else { continue };
        let own = tactics.iter().map(|tactic| weigher.own(*number, tactic, &Handed::new()));
        let mut estimates = WeighedContraction { tiled: None, tactics: own.collect() };
        let own = estimates.tactics.iter().copied().min();
        let Some(one) = tilings.get(number) else {
            weighed.insert(*number, estimates);
            continue;
        };
        if own.is_some() && without.has(Choice::Tiled) {
            weighed.insert(*number, estimates);
            continue;
        }
        let apart = weigher.tails.get(number).filter(|_| !chains.contains_key(number));
        let chain = apart.map_or(0, |tail| {
            let kernel = &all.kernels[*tail];
            let values = kernel.reads().len() + kernel.results.len();
            let elements = sizes.batch * sizes.rows * sizes.columns;
            elements * 4 * values as u64 / machine.tdma.bandwidth_bytes_per_cycle
        });
        let in_tiles = one.cycles.saturating_add(chain);
        estimates.tiled = Some(in_tiles);
        weighed.insert(*number, estimates);
        if own.is_none_or(|own| in_tiles < own) {
            tiled.insert(*number, one.clone());
        }
    }
    (tiled, weighed)
}

/// Chains whose results only contractions read that look at them through windows.
fn unwritten(all: &Kernels, uses: &[Vec<usize>], windows: &BTreeMap<usize, Looked>) -> BTreeSet<usize> {
    let looks = |reader: &usize, chain: usize| windows.get(reader).is_some_and(|one| one.chain == chain);
    let chains = windows.values().map(|one| one.chain);
    let alone = |chain: &usize| {
        all.kernels[*chain]
            .results
            .iter()
            .all(|value| uses[*value].iter().all(|reader| looks(reader, *chain)))
    };
    chains.filter(alone).collect()
}

/// Tactics for all contractions, by dynamic programming.
///
/// # Errors
/// The first contraction without a tactic, and why.
pub(super) fn chosen(
    searches: &TileSearches<'_>,
    all: &Kernels,
    options: &Options,
) -> Result<Chosen, (usize, String)> {
    let machine = searches.machine;
    let readers = readers(all);
    let apart = options.without.has(Choice::Epilogue);
    let mut tails = if apart { BTreeMap::new() } else { tails(all, &readers) };
    let (tilings, mut joined) = tilings(searches, all, options);
    let (candidates, without) = candidates(machine, all, options, &tilings);
    let weigher =
        Weigher { machine, searches, all, tails: &tails, readers: &readers, candidates: candidates.clone() };
    let (tiled, weighed) = tiled(&weigher, &tilings, &joined, options.without);
    joined.retain(|number, _| tiled.contains_key(number));
    if let Some((number, why)) = without.into_iter().find(|(number, _)| !tiled.contains_key(number)) {
        return Err((number, why));
    }
    tails.retain(|number, _| !tiled.contains_key(number));
    let mut weigher = Weigher { machine, searches, all, tails: &tails, readers: &readers, candidates };
    weigher.candidates.retain(|number, _| !tiled.contains_key(number));
    let mut handed = handed(all, &tails);
    handed.retain(|(to, _), _| !tiled.contains_key(to));
    let places: Vec<usize> = weigher.candidates.keys().copied().collect();
    let at = |number: usize| places.binary_search(&number).or_broken("bridges are between contractions");
    let own = |number: usize| {
        weigher.candidates[&number].iter().map(|tactic| weigher.own(number, tactic, &handed)).collect()
    };
    let kernels: Vec<Vec<u64>> = places.iter().map(|number| own(*number)).collect();
    let bridges = handed.iter().map(|((number, operand), (value, from))| {
        let costs = weigher.bridges(*from, (*number, *operand), *value);
        Bridge { from: at(*from), to: at(*number), costs }
    });
    let bridges: Vec<Bridge> = bridges.collect();
    let alone = vec![0; kernels.len()];
    let together = !options.without.has(Choice::Bridges);
    let choice = if together { choose(&kernels, &bridges) } else { alone.clone() };
    let totals = (total(&kernels, &bridges, &choice), total(&kernels, &bridges, &alone));
    let epilogues = joined.iter().map(|(number, one)| (*number, one.kernels.clone())).collect();
    let has = |one: &TiledContraction, is: fn(&Windows) -> bool| one.windows.as_ref().is_some_and(is);
    let looking = tiled.iter().filter(|(_, one)| has(one, Windows::looks)).map(|(number, _)| *number);
    let windows: BTreeMap<usize, Looked> =
        looking.filter_map(|number| Some((number, windows(machine, all, number)?.0))).collect();
    let unwritten = unwritten(all, &readers, &windows);
    let padding = tiled
        .iter()
        .filter(|(_, one)| has(one, Windows::pads))
        .filter_map(|(number, _)| Some((*number, padding(all, &readers, *number, joined.get(number))?.0)));
    let padded = padding.collect();
    let mut chosen = Chosen {
        cycles: totals,
        tiled,
        epilogues,
        joined,
        windows,
        padded,
        unwritten,
        weighed,
        ..Chosen::default()
    };
    for (number, pick) in places.iter().zip(&choice) {
        let candidates = &weigher.candidates[number];
        let tactic = candidates[*pick].clone();
        if weigher.joins(*number, &tactic) {
            chosen.tails.insert(*number, tails[number]);
        }
        chosen.picks.insert(*number, (*pick + 1, candidates.len()));
        chosen.tactics.insert(*number, tactic);
    }
    for ((number, operand), (value, from)) in handed {
        let (first, second) = (&chosen.tactics[&from], &chosen.tactics[&number]);
        if weigher.bridge((from, first), (number, operand, second), value).1 {
            chosen.straight.insert((number, operand), from);
        }
    }
    Ok(chosen)
}

impl Weigher<'_> {
    /// Costs of bridges of a value from each tactic of one contraction to each tactic of an operand's.
    fn bridges(&self, from: usize, (number, operand): (usize, usize), value: usize) -> Vec<Vec<u64>> {
        let bridge = |first, second| self.bridge((from, first), (number, operand, second), value).0;
        let row = |first| self.candidates[&number].iter().map(|second| bridge(first, second)).collect();
        self.candidates[&from].iter().map(row).collect()
    }

    /// What a contraction takes with the way from and to row-major order, but for operands that may come
    /// straight.
    fn own(&self, number: usize, tactic: &Tactic, handed: &Handed) -> u64 {
        let may = |operand: usize| handed.contains_key(&(number, operand));
        let lays = (0..2).filter(|operand| !may(*operand)).map(|operand| self.lays(number, operand, tactic));
        let results = match self.tails.get(&number).filter(|_| self.joins(number, tactic)) {
            Some(tail) => self.all.kernels[*tail].results.clone(),
            None => self.all.kernels[number].results.clone(),
        };
        let unlays = results
            .iter()
            .filter(|value| self.is_plain(**value, handed))
            .map(|value| self.unlays(number, tactic, self.all.values[*value].element_bytes()));
        lays.chain(unlays).fold(tactic.cycles, u64::saturating_add)
    }

    /// Whether a value must lie in row-major order whatever is chosen.
    fn is_plain(&self, value: usize, handed: &Handed) -> bool {
        let takes = |at: (usize, usize)| handed.get(&at).is_some_and(|(known, _)| *known == value);
        let is_straight = |reader: &usize| takes((*reader, 0)) || takes((*reader, 1));
        let readers = &self.readers[value];
        readers.is_empty() || !readers.iter().all(is_straight)
    }

    /// What it takes from the result of one tactic to the operand of another, and whether that is straight.
    fn bridge(
        &self,
        (from, first): (usize, &Tactic),
        (to, operand, second): (usize, usize, &Tactic),
        value: usize,
    ) -> (u64, bool) {
        let lays = self.lays(to, operand, second);
        if !self.joins(from, first) {
            return (lays, false);
        }
        let whole = contraction(self.all, to).is_some_and(|(_, sizes)| second.chunk == sizes);
        let parts = first.operands[2].parts_to(&second.operands[operand], operand);
        let bytes = self.all.values[value].element_bytes();
        let straight = parts.filter(|_| whole).map(|parts| cycles(self.machine, &parts, bytes));
        let around = lays.saturating_add(self.unlays(from, first, self.all.values[value].element_bytes()));
        match straight {
            Some(straight) if straight <= around => (straight, true),
            _ => (around, false),
        }
    }
}
