//! Dynamic programming over the chain of kernels: how much of each weight to load at once, for each number of
//! bands that a model may have.
//!
//! Costs are closed forms of the commands that the compiler gives for a choice
//! (`tilewright_compile::lowered`). The DMA engine fetches fills in order, as far ahead as there are slots;
//! the tensor unit takes each when it is there. A state of the chain is when both are done; what is slower in
//! both is dropped. Weights of one class share a choice, so blocks are decided once. What commands take of
//! energy does not depend on when they run; clock and leakage follow the end.

use std::collections::BTreeMap;
use tilewright_base::invariant::{Exact, OrBroken, to_index};

use tilewright_compile::kernel::Kernels;
use tilewright_compile::lowered::commands::segments;
use tilewright_compile::tcp::bands::bands;
use tilewright_compile::tcp::choices::{MOST_BANDS, WHOLE, classes};
use tilewright_compile::{Choices, Options, compile_chosen};
use tilewright_explore::Goal;
use tilewright_explore::goal::milliwatts;
use tilewright_machine::tcp::Tcp;
use tilewright_tcp_cost::energy::standing_fj;

/// Eighths of the register files that are tried.
const TRIED: [u64; 4] = [WHOLE, WHOLE / 2, WHOLE / 4, WHOLE / 8];
/// States that are kept.
const STATES: usize = 64;

/// One kernel with one choice: fills, and cycles of all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelCost {
    /// Fills; 0 if it has no weights.
    pub fills: u64,
    /// Cycles of the main context.
    pub main: u64,
    /// Cycles of the DMA engine.
    pub dma: u64,
    /// Energy of its commands on all PEs.
    pub energy_fj: u64,
}

/// What ends of chains are ranked by.
#[derive(Clone, Copy, Debug)]
struct ChainGoal {
    goal: Goal,
    clock_hz: u64,
    /// Clock and leakage of all chips.
    standing_fj_per_cycle: u64,
}

impl ChainGoal {
    fn of(machine: &Tcp, chips: u64, goal: Goal) -> ChainGoal {
        let each: u128 = standing_fj(machine, chips, 1).iter().sum();
        let standing_fj_per_cycle = u64::try_from(each).or_broken("standing energy of a cycle fits 64 bits");
        ChainGoal { goal, clock_hz: machine.chip.clock_hz, standing_fj_per_cycle }
    }

    /// Power above what is allowed, and what is to be least.
    fn rank(&self, state: &ChainPrefix) -> (u64, u128) {
        let standing = state.main.exact_mul(self.standing_fj_per_cycle);
        let energy_fj = state.energy_fj.exact_add(standing);
        let excess = match self.goal {
            Goal::TimeBelow(most) => milliwatts(self.clock_hz, state.main, energy_fj).saturating_sub(most),
            _ => 0,
        };
        (excess, self.goal.value(state.main, energy_fj))
    }
}

/// A way through the chain so far.
#[derive(Clone, Debug, Default)]
struct ChainPrefix {
    main: u64,
    dma: u64,
    energy_fj: u64,
    /// When the last fills were taken.
    taken: Vec<u64>,
    fills: BTreeMap<usize, u64>,
}

impl ChainPrefix {
    fn follow(&mut self, link: KernelCost, slots: usize) {
        self.energy_fj = self.energy_fj.exact_add(link.energy_fj);
        if link.fills == 0 {
            // What it fetches is made by what comes before it.
            if link.dma > 0 {
                self.dma = self.dma.max(self.main) + link.dma;
                self.main = self.dma;
            }
            self.main += link.main;
            return;
        }
        for _ in 0..link.fills {
            let free = self.taken.len().checked_sub(slots).and_then(|at| self.taken.get(at)).copied();
            self.dma = self.dma.max(free.unwrap_or(0)) + link.dma / link.fills;
            self.main = self.main.max(self.dma) + link.main / link.fills;
            self.taken.push(self.main);
        }
        let old = self.taken.len().saturating_sub(slots);
        self.taken.drain(..old);
    }
}

/// The choice whose chain is best by a goal, for so many slots; `None` if nothing compiles.
pub fn choose(machine: &Tcp, kernels: &Kernels, options: Options, slots: u64, goal: Goal) -> Option<Choices> {
    let aim = ChainGoal::of(machine, options.chips, goal);
    let classes = classes(kernels);
    let most = bands(machine, kernels, &options, MOST_BANDS);
    let ends = powers(most).flat_map(|bands| {
        let links = |eighths: &u64| links(machine, kernels, options, (slots, bands), *eighths);
        let tables: Vec<(u64, Vec<KernelCost>)> =
            TRIED.iter().filter_map(|eighths| Some((*eighths, links(eighths)?))).collect();
        let states = walk(&classes, &tables, to_index(slots), &aim);
        states.into_iter().map(move |state| (bands, state))
    });
    let (bands, best) = ends.min_by_key(|(_, state)| (aim.rank(state), state.main, state.dma))?;
    let count = classes.iter().flatten().max().map_or(0, |last| last + 1);
    let fills = (0..count).map(|class| best.fills.get(&class).copied().unwrap_or(WHOLE)).collect();
    Some(Choices { slots, bands, fills, ..Choices::default() })
}

/// Powers of two, from one on.
pub(super) fn powers(most: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(1_u64), |power| power.checked_mul(2)).take_while(move |power| *power <= most)
}

/// Both programs of a choice, one behind the other.
fn links(
    machine: &Tcp,
    kernels: &Kernels,
    options: Options,
    (slots, bands): (u64, u64),
    eighths: u64,
) -> Option<Vec<KernelCost>> {
    let count = classes(kernels).into_iter().flatten().max().map_or(0, |last| last + 1);
    let choices = Choices { slots, bands, fills: vec![eighths; count], ..Choices::default() };
    let compiled = compile_chosen(machine, kernels, options, &choices).ok()?;
    let mut all: Vec<KernelCost> = Vec::new();
    for outline in compiled.outlines.iter().filter(|outline| outline.name != "batch") {
        let segments = segments(machine, &compiled, outline);
        // Segments are those of the first PE, and all do alike.
        let queues = compiled.program(outline.name).map_or(1, |program| program.queues.len() as u64);
        all.extend(segments.iter().enumerate().map(|(index, segment)| KernelCost {
            fills: compiled.plan.packed(index).map_or(0, |packed| packed.fills.len() as u64),
            main: segment.cycles.main,
            dma: segment.cycles.dma,
            energy_fj: segment.energy_fj.exact_mul(queues),
        }));
    }
    Some(all)
}

fn walk(
    classes: &[Option<usize>],
    tables: &[(u64, Vec<KernelCost>)],
    slots: usize,
    aim: &ChainGoal,
) -> Vec<ChainPrefix> {
    let length = tables.first().map_or(0, |(_, links)| links.len());
    let mut states = vec![ChainPrefix::default()];
    for index in 0..length {
        let class = classes.get(index % classes.len().max(1)).copied().flatten();
        let mut next: Vec<ChainPrefix> = Vec::new();
        for state in &states {
            for (eighths, links) in tables {
                let decided = class.and_then(|class| state.fills.get(&class));
                let wanted = class.map_or(WHOLE, |_| *decided.unwrap_or(eighths));
                if *eighths != wanted {
                    continue;
                }
                let Some(link) = links.get(index) else { continue };
                let mut state = state.clone();
                state.follow(*link, slots);
                class.map(|class| state.fills.insert(class, *eighths));
                next.push(state);
            }
        }
        states = kept(next, aim);
    }
    states
}

/// Those that no other with the same decisions beats in both, and that are not too many.
fn kept(mut states: Vec<ChainPrefix>, aim: &ChainGoal) -> Vec<ChainPrefix> {
    let key = |state: &ChainPrefix| (aim.rank(state), state.main, state.dma);
    states.sort_by(|a, b| key(a).cmp(&key(b)).then_with(|| a.fills.cmp(&b.fills)));
    let mut kept: Vec<ChainPrefix> = Vec::new();
    for state in states {
        // Ways that decided differently may still meet other costs in later blocks.
        let beaten = kept
            .iter()
            .any(|other| other.main <= state.main && other.dma <= state.dma && other.fills == state.fills);
        if !beaten && kept.len() < STATES {
            kept.push(state);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aim(goal: Goal) -> ChainGoal {
        ChainGoal { goal, clock_hz: 1_000_000_000, standing_fj_per_cycle: 10_000 }
    }

    fn link(fills: u64, main: u64, dma: u64, energy_fj: u64) -> KernelCost {
        KernelCost { fills, main, dma, energy_fj }
    }

    #[test]
    fn a_chain_takes_the_choice_that_overlaps() {
        // One weight: as a whole its fetch is waited for; in halves the second half comes while the first is
        // used.
        let whole = (WHOLE, vec![link(1, 100, 100, 0)]);
        let halves = (WHOLE / 2, vec![link(2, 110, 110, 0)]);
        let states = walk(&[Some(0)], &[whole, halves], 2, &aim(Goal::Time));
        let best = states.iter().min_by_key(|state| state.main).unwrap();
        assert_eq!((best.main, best.fills.get(&0)), (165, Some(&(WHOLE / 2))));
    }

    #[test]
    fn the_goal_decides_between_fast_and_frugal() {
        // Whole: 200 cycles, 2000 pJ standing and 1000 of commands. Halves: 165 cycles, 1650 standing and
        // 2000 of commands.
        let whole = (WHOLE, vec![link(1, 100, 100, 1_000_000)]);
        let halves = (WHOLE / 2, vec![link(2, 110, 110, 2_000_000)]);
        let tables = [whole, halves];
        let best = |goal: Goal| {
            let aim = aim(goal);
            let states = walk(&[Some(0)], &tables, 2, &aim);
            states.iter().min_by_key(|state| aim.rank(state)).unwrap().fills.get(&0).copied()
        };
        assert_eq!(best(Goal::Time), Some(WHOLE / 2));
        assert_eq!(best(Goal::Energy), Some(WHOLE));
        // 3000 pJ in 200 ns are 15 mW, 3650 in 165 ns are 22.
        assert_eq!(best(Goal::TimeBelow(15)), Some(WHOLE));
        assert_eq!(best(Goal::TimeBelow(22)), Some(WHOLE / 2));
        // Where nothing stays below, the least power.
        assert_eq!(best(Goal::TimeBelow(1)), Some(WHOLE));
    }

    #[test]
    fn weights_of_a_class_share_a_choice() {
        let whole = (WHOLE, vec![link(1, 10, 5, 0), link(1, 90, 80, 0)]);
        let halves = (WHOLE / 2, vec![link(2, 30, 10, 0), link(2, 80, 60, 0)]);
        for state in walk(&[Some(0), Some(0)], &[whole, halves], 2, &aim(Goal::Time)) {
            assert_eq!(state.fills.len(), 1);
        }
    }
}
