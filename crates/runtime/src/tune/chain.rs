//! Dynamic programming over the chain of kernels: how much of each weight to load at once.
//!
//! Costs are closed forms of the commands that the compiler gives for a choice (`tilewright_compile::lowered`). The DMA engine fetches fills in
//! order, as far ahead as there are slots; the tensor unit takes each when it is there. A state of the chain is when both are done; what is
//! slower in both is dropped. Weights of one class share a choice, so blocks are decided once.

use std::collections::BTreeMap;

use tilewright_compile::kernel::Kernels;
use tilewright_compile::lowered::commands::segments;
use tilewright_compile::tcp::choices::{WHOLE, classes};
use tilewright_compile::{Choices, Options, compile_chosen};
use tilewright_machine::tcp::Tcp;

/// Eighths of the register files that are tried.
const TRIED: [u64; 4] = [WHOLE, WHOLE / 2, WHOLE / 4, WHOLE / 8];
/// States that are kept.
const STATES: usize = 64;

/// One kernel with one choice: fills, and cycles of all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Fills; 0 if it has no weights.
    pub fills: u64,
    /// Cycles of the main context.
    pub main: u64,
    /// Cycles of the DMA engine.
    pub dma: u64,
}

/// A way through the chain so far.
#[derive(Clone, Debug, Default)]
struct State {
    main: u64,
    dma: u64,
    /// When the last fills were taken.
    taken: Vec<u64>,
    fills: BTreeMap<usize, u64>,
}

impl State {
    fn follow(&mut self, link: Link, slots: usize) {
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

/// The choice of the chain with the earliest end, for so many slots; `None` if nothing compiles.
pub fn choose(machine: &Tcp, kernels: &Kernels, options: Options, slots: u64) -> Option<Choices> {
    let classes = classes(kernels);
    let tables: Vec<(u64, Vec<Link>)> = TRIED
        .iter()
        .filter_map(|eighths| Some((*eighths, links(machine, kernels, options, slots, *eighths)?)))
        .collect();
    let states = walk(&classes, &tables, usize::try_from(slots).unwrap_or(1));
    let best = states.into_iter().min_by_key(|state| (state.main, state.dma))?;
    let count = classes.iter().flatten().max().map_or(0, |last| last + 1);
    let fills = (0..count).map(|class| best.fills.get(&class).copied().unwrap_or(WHOLE)).collect();
    Some(Choices { slots, fills, ..Choices::default() })
}

/// Both programs of a choice, one behind the other.
fn links(machine: &Tcp, kernels: &Kernels, options: Options, slots: u64, eighths: u64) -> Option<Vec<Link>> {
    let count = classes(kernels).into_iter().flatten().max().map_or(0, |last| last + 1);
    let choices = Choices { slots, fills: vec![eighths; count], ..Choices::default() };
    let compiled = compile_chosen(machine, kernels, options, &choices).ok()?;
    let mut all: Vec<Link> = Vec::new();
    for outline in compiled.outlines.iter().filter(|outline| outline.name != "batch") {
        let segments = segments(machine, &compiled, outline);
        all.extend(segments.iter().enumerate().map(|(index, segment)| Link {
            fills: compiled.plan.packed(index).map_or(0, |packed| packed.fills.len() as u64),
            main: segment.cycles.main,
            dma: segment.cycles.dma,
        }));
    }
    Some(all)
}

fn walk(classes: &[Option<usize>], tables: &[(u64, Vec<Link>)], slots: usize) -> Vec<State> {
    let length = tables.first().map_or(0, |(_, links)| links.len());
    let mut states = vec![State::default()];
    for index in 0..length {
        let class = classes.get(index % classes.len().max(1)).copied().flatten();
        let mut next: Vec<State> = Vec::new();
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
        states = kept(next);
    }
    states
}

/// Those that no other beats in both, and that are not too many.
fn kept(mut states: Vec<State>) -> Vec<State> {
    states.sort_by(|a, b| (a.main, a.dma, &a.fills).cmp(&(b.main, b.dma, &b.fills)));
    let mut kept: Vec<State> = Vec::new();
    for state in states {
        // Ways that decided differently may still meet other costs in later blocks.
        let beaten = kept.iter().any(|other| other.dma <= state.dma && other.fills == state.fills);
        if !beaten && kept.len() < STATES {
            kept.push(state);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_takes_the_choice_that_overlaps() {
        // One weight: as a whole its fetch is waited for; in halves the second half comes while the first is used.
        let whole = (WHOLE, vec![Link { fills: 1, main: 100, dma: 100 }]);
        let halves = (WHOLE / 2, vec![Link { fills: 2, main: 110, dma: 110 }]);
        let states = walk(&[Some(0)], &[whole, halves], 2);
        let best = states.iter().min_by_key(|state| state.main).unwrap();
        assert_eq!((best.main, best.fills.get(&0)), (165, Some(&(WHOLE / 2))));
    }

    #[test]
    fn weights_of_a_class_share_a_choice() {
        let whole = (WHOLE, vec![Link { fills: 1, main: 10, dma: 5 }, Link { fills: 1, main: 90, dma: 80 }]);
        let halves =
            (WHOLE / 2, vec![Link { fills: 2, main: 30, dma: 10 }, Link { fills: 2, main: 80, dma: 60 }]);
        for state in walk(&[Some(0), Some(0)], &[whole, halves], 2) {
            assert_eq!(state.fills.len(), 1);
        }
    }
}
