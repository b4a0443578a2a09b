//! The exact search: frames in the order of their bounds, choices within a frame with bounds of their own.
//!
//! Frames go in batches of fixed sizes. Within a batch each frame is searched by itself against what was kept before it, so that
//! what is found and what is counted do not depend on the number of threads.

use rayon::prelude::*;
use tilewright_tcp::Setup;
use tilewright_tcp::cost::command_cycles;

use crate::bound::{Bound, Settled, bound};
use crate::cloud::Cloud;
use crate::cost::{Commands, load};
use crate::events::{counts, cycle_fj, energy};
use crate::goal::{Candidate, Goal, Kept, milliwatts};
use crate::legality::{check_banks, check_loading, check_sizes};
use crate::nest::Framed;
use crate::point::{Choice, Frame, Loading, Nest, ORDERS};
use crate::refusal::{Reason, Refusal, Refusals};
use crate::space;
use crate::task::Task;

/// Frames that are searched side by side: few at first, so that the others meet what these found, then more.
const BATCHES: std::ops::RangeInclusive<usize> = 2..=64;

/// How to search.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// What is sought.
    pub goal: Goal,
    /// How many of the best are kept.
    pub keep: usize,
    /// Leave out what bounds exclude; without it every candidate is looked at.
    pub prune: bool,
    /// Mark where candidates lie, for a picture.
    pub cloud: bool,
}

/// How far a search is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Frames that are done.
    pub frames: usize,
    /// Frames that there are.
    pub of_frames: usize,
    /// Candidates whose cost was computed.
    pub evaluated: u64,
}

/// What a search found.
#[derive(Clone, Debug)]
pub struct Found {
    /// All frames, which candidates name by number.
    pub frames: Vec<Frame>,
    /// The best and the front.
    pub kept: Kept,
    /// Candidates whose cost was computed.
    pub evaluated: u64,
    /// Of them, those that are legal.
    pub legal: u64,
    /// Refusals; an early one stands for all candidates that it rules out.
    pub refused: Refusals,
    /// Frames that their bound excluded as a whole.
    pub excluded_frames: u64,
    /// Sets of choices that a bound excluded.
    pub excluded_sets: u64,
    /// Where candidates lie, if that was asked for.
    pub cloud: Cloud,
    /// Nothing takes less than this.
    pub bound: Option<Bound>,
    /// The whole space was looked at or excluded.
    pub complete: bool,
}

/// Searches all of a task's space, until `stop` says so.
pub fn search(task: &Task<'_>, options: &Options, stop: &mut dyn FnMut(&Progress, &Kept) -> bool) -> Found {
    let mut refused = Refusals::default();
    let frames = space::frames_and_misses(task, &mut refused);
    let mut order: Vec<(Bound, u32)> = (0_u32..)
        .zip(&frames)
        .map(|(number, frame)| {
            let open = Settled { lanes: task.setup.machine.ce.lanes, packet: None };
            (bound(task, &Framed::new(task, frame), open), number)
        })
        .collect();
    let value = |bound: &Bound| options.goal.value(bound.cycles, bound.energy_fj);
    order.sort_by_key(|(bound, number)| (value(bound), *number));
    let mut found = Found {
        bound: order
            .iter()
            .map(|(bound, _)| *bound)
            .reduce(|a, b| Bound { cycles: a.cycles.min(b.cycles), energy_fj: a.energy_fj.min(b.energy_fj) }),
        frames,
        kept: Kept::new(options.goal, options.keep),
        evaluated: 0,
        legal: 0,
        refused,
        excluded_frames: 0,
        excluded_sets: 0,
        cloud: Cloud::default(),
        complete: true,
    };
    let (mut done, mut size) = (0, *BATCHES.start());
    while done < order.len() {
        let numbers = &order[done..(done + size).min(order.len())];
        let progress = Progress { frames: done, of_frames: order.len(), evaluated: found.evaluated };
        if stop(&progress, &found.kept) {
            found.complete = false;
            return found;
        }
        done += numbers.len();
        size = (size * 2).min(*BATCHES.end());
        let tallies: Vec<Tally> = numbers
            .par_iter()
            .map(|(bound, number)| one_frame(task, options, &found, *bound, *number))
            .collect();
        for tally in &tallies {
            found.take(tally);
        }
    }
    found
}

impl Found {
    fn take(&mut self, tally: &Tally) {
        self.evaluated += tally.evaluated;
        self.legal += tally.legal;
        self.refused.merge(&tally.refused);
        self.excluded_frames += tally.excluded_frames;
        self.excluded_sets += tally.excluded_sets;
        self.cloud.merge(&tally.cloud);
        if let Some(kept) = &tally.kept {
            kept.best().iter().chain(kept.front()).for_each(|candidate| self.kept.add(*candidate));
        }
    }
}

/// What a frame gave.
#[derive(Default)]
struct Tally {
    kept: Option<Kept>,
    evaluated: u64,
    legal: u64,
    refused: Refusals,
    excluded_frames: u64,
    excluded_sets: u64,
    cloud: Cloud,
}

fn one_frame(task: &Task<'_>, options: &Options, found: &Found, bound: Bound, number: u32) -> Tally {
    let before = &found.kept;
    if options.prune && before.excludes(bound.cycles, bound.energy_fj) {
        return Tally { excluded_frames: 1, ..Tally::default() };
    }
    let Some(frame) = usize::try_from(number).ok().and_then(|index| found.frames.get(index)) else {
        return Tally::default();
    };
    let framed = Framed::new(task, frame);
    let mut walk = Walk {
        task,
        options,
        framed: &framed,
        number,
        before,
        cycle_fj: cycle_fj(&task.setup),
        tally: Tally { kept: Some(Kept::new(options.goal, options.keep)), ..Tally::default() },
    };
    walk.packets();
    walk.tally
}

/// The choices of one frame, one after the other.
struct Walk<'a> {
    task: &'a Task<'a>,
    options: &'a Options,
    framed: &'a Framed,
    number: u32,
    before: &'a Kept,
    cycle_fj: u64,
    tally: Tally,
}

impl Walk<'_> {
    fn excluded(&mut self, settled: Settled) -> bool {
        if !self.options.prune {
            return false;
        }
        let bound = bound(self.task, self.framed, settled);
        let excludes = |kept: &Kept| kept.excludes(bound.cycles, bound.energy_fj);
        let excluded = excludes(self.before) || self.tally.kept.as_ref().is_some_and(excludes);
        self.tally.excluded_sets += u64::from(excluded);
        excluded
    }

    /// Lanes and packets, widest first.
    fn packets(&mut self) {
        let setup = &self.task.setup;
        for lanes in space::lanes(setup) {
            if self.excluded(Settled { lanes, packet: None }) {
                continue;
            }
            for columns in space::columns(setup, self.framed) {
                for tree in space::trees(setup, self.framed, columns) {
                    if !self.excluded(Settled { lanes, packet: Some((columns, tree)) }) {
                        self.nests(lanes, columns, tree);
                    }
                }
            }
        }
    }

    /// Repeats and supplies.
    fn nests(&mut self, lanes: u64, columns: u64, tree: u64) {
        for repeats in space::repeats(self.framed, lanes) {
            for supply in space::supplies(self.framed) {
                let choice = Choice {
                    lanes,
                    columns,
                    tree,
                    repeats,
                    supply: *supply,
                    order: 0,
                    fetch_bytes: 0,
                    loading: Loading::Main,
                };
                let nest = self.framed.nest(&choice);
                let checked =
                    nest.and_then(|nest| check_sizes(&self.task.setup, &nest, *supply).map(|()| nest));
                match checked {
                    Ok(nest) => self.orders(&nest, choice),
                    Err(refusal) => self.tally.refused.add(refusal),
                }
            }
        }
    }

    /// Orders of loops, widths of fetches, contexts of loads. What does not change is computed outside.
    fn orders(&mut self, nest: &Nest, choice: Choice) {
        let setup = &self.task.setup;
        let loads = LOADINGS.map(|loading| load_cycles(setup, nest, loading));
        for order in 0..u8::try_from(ORDERS.len()).unwrap_or(0) {
            if !space::is_canonical(nest, order, choice.supply) {
                continue;
            }
            let choice = Choice { order, ..choice };
            match ordered(self.task, &self.framed.frame, nest, &choice) {
                Ok(ordered) => self.fetches(nest, choice, &ordered, loads),
                Err(refusal) => self.tally.refused.add(refusal),
            }
        }
    }

    fn fetches(&mut self, nest: &Nest, choice: Choice, ordered: &Ordered, loads: [u64; 2]) {
        let setup = &self.task.setup;
        for fetch_bytes in space::fetch_widths(setup, nest) {
            let choice = Choice { fetch_bytes, ..choice };
            if let Err(refusal) = check_banks(setup, nest, &choice) {
                self.tally.refused.add(refusal);
                continue;
            }
            let mut contract = ordered.commands.contract;
            if let Some(fetch) = &mut contract.fetch {
                fetch.read_bytes = fetch_bytes;
            }
            let contract = command_cycles(setup.machine, &contract).total_cycles;
            let others = contract.saturating_add(ordered.bridge_cycles);
            for (loading, load) in LOADINGS.into_iter().zip(loads) {
                let cycles = others.saturating_add(load).saturating_mul(ordered.parts);
                let energy_fj = ordered.events_fj.saturating_add(self.cycle_fj.saturating_mul(cycles));
                match check_loading(nest, loading) {
                    Ok(()) => self.evaluated(cycles, energy_fj, Choice { loading, ..choice }),
                    Err(refusal) => self.tally.refused.add(refusal),
                }
            }
        }
    }

    fn evaluated(&mut self, cycles: u64, energy_fj: u64, choice: Choice) {
        self.tally.evaluated += 1;
        if let Goal::TimeBelow(have) = self.options.goal {
            let need = milliwatts(self.task.setup.machine, cycles, energy_fj);
            if need > have {
                return self.tally.refused.add(Refusal { reason: Reason::Power, need, have });
            }
        }
        self.tally.legal += 1;
        if self.options.cloud {
            self.tally.cloud.add(cycles, energy_fj);
        }
        let candidate = Candidate { cycles, energy_fj, frame: self.number, choice };
        if let Some(kept) = &mut self.tally.kept {
            kept.add(candidate);
        }
    }
}

/// Who may load.
const LOADINGS: [Loading; 2] = [Loading::Main, Loading::Sub];

fn load_cycles(setup: &Setup<'_>, nest: &Nest, loading: Loading) -> u64 {
    command_cycles(setup.machine, &load(setup, nest, loading)).total_cycles
}

/// A candidate as far as the order of its loops decides.
struct Ordered {
    commands: Commands,
    bridge_cycles: u64,
    /// Energy of all events of all parts.
    events_fj: u64,
    parts: u64,
}

fn ordered(task: &Task<'_>, frame: &Frame, nest: &Nest, choice: &Choice) -> Result<Ordered, Refusal> {
    let setup = &task.setup;
    let commands = Commands::new(setup, nest, choice)?;
    let parts = frame.commands();
    let counts = counts(setup, nest, choice, &commands);
    let events_fj =
        energy(setup, &counts, 0, parts).iter().fold(0, |all: u64, part| all.saturating_add(*part));
    let bridge = commands.bridge.as_ref();
    let bridge_cycles = bridge.map_or(0, |bridge| command_cycles(setup.machine, bridge).total_cycles);
    Ok(Ordered { commands, bridge_cycles, events_fj, parts })
}
