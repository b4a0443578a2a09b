//! Choices by cost (paper section V-C: heuristics, then search evaluated by simulated time): how much of a
//! weight is loaded at once, how many slots wait for weights, how rows are cut.
//!
//! 1. A model of one or two blocks stands for all of them: blocks are alike.
//! 2. Dynamic programming over its chain of kernels chooses the fills of each weight, with the engines'
//!    closed forms ([`chain`]).
//! 3. A population of choices, which begins with the rule, with that, with more bands, and with commands put
//!    in order a few at a time by integer programming, is bred by changes and crossings, and evaluated by
//!    what a simulation takes: time, energy, both, or time below a power.
//! 4. The best is compiled for the whole model and kept if the whole model is better with it than with the
//!    rule.
//!
//! General graphs have choices of their own ([`tune_graph`]).
//!
//! Effort counts evaluations, not time, and all draws come from one fixed seed: the same input gives the same
//! programs.

pub mod chain;
mod cost;
mod graph;
mod worth;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use tilewright_base::invariant::{OrBroken, to_index};

use thiserror::Error;
use tilewright_compile::general::Refusal;
use tilewright_compile::kernel::{Kernel, Kernels};
use tilewright_compile::tcp::bands::bands;
use tilewright_compile::tcp::choices::{MOST_BANDS, MOST_SLOTS, Solver, WHOLE, classes};
use tilewright_compile::{Choices, CompileError, Compiled, Options, compile_chosen};
use tilewright_explore::Goal;
use tilewright_machine::tcp::Tcp;

pub use cost::{ChoiceScore, ProgramCosts, TokenCost};
pub use graph::{GraphGoal, TunedGraph, graph_options, order_searches, tune_graph};
pub use worth::{GraphWorth, OrderGain, PartWorth, order_gains, worth};

/// Blocks of the model that stands for all.
const BLOCKS: usize = 2;
/// Commands that are put in order together; more take longer to solve than they gain.
const WINDOWS: [u64; 2] = [4, 6];
/// Choices that live on.
const POPULATION: usize = 6;

/// Why there is no model.
#[derive(Debug, Error)]
pub enum TuneError {
    /// It does not compile.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// A general graph with a node that is not lowered.
    #[error(transparent)]
    Graph(#[from] Refusal),
    /// No choice stays below the power that the goal allows.
    #[error(
        "no choice that was evaluated stays below {} W\n  = allowed: {} W, the least of {evaluated} choices",
        watts(*.most_milliwatts), watts(*.least_milliwatts)
    )]
    Power {
        /// What the goal allows.
        most_milliwatts: u64,
        /// The least that any choice takes.
        least_milliwatts: u64,
        /// Choices that were evaluated.
        evaluated: u64,
    },
    /// The goal needs a simulation, and the programs cannot be simulated without values.
    #[error("its programs cannot be timed, so their power is not known")]
    Untimed,
    /// Whoever listened wanted no more of it.
    #[error("the search was stopped")]
    Stopped,
}

/// Milliwatts as watts with three digits behind the point.
pub fn watts(milliwatts: u64) -> String {
    format!("{}.{:03}", milliwatts / 1000, milliwatts % 1000)
}

/// A model with the best choices that were found.
#[derive(Clone, Debug)]
pub struct TunedModel {
    /// The model.
    pub compiled: Compiled,
    /// Choices that were evaluated.
    pub evaluations: u64,
    /// The whole model by the rule, and as it is.
    pub times: Option<(ProgramCosts, ProgramCosts)>,
}

/// What choices are looked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TuneGoal {
    /// How long: [`budget`].
    pub effort: u64,
    /// What is to be least.
    pub goal: Goal,
    /// Who puts commands in order; whoever asks sees to it that it is there.
    pub solver: Solver,
}

impl TuneGoal {
    /// The least time, with the solver in Rust.
    pub fn time(effort: u64) -> TuneGoal {
        TuneGoal { effort, goal: Goal::Time, solver: Solver::Microlp }
    }
}

/// Evaluations of an effort.
pub fn budget(effort: u64) -> u64 {
    match effort {
        0 => 0,
        1 => 12,
        more => 60_u64.saturating_mul(more - 1),
    }
}

/// Compiles with an effort, 0 is the rule; what is to be least is a token of each program, simulated.
///
/// For other goals than time the choices that are best by time are found first, and evaluated like all
/// others: no goal ends with a choice that ranks behind the one of time.
///
/// # Errors
/// A model that does not compile by the rule; a power that no choice stays below.
pub fn tune(
    machine: &Tcp,
    kernels: &Kernels,
    options: Options,
    aim: TuneGoal,
) -> Result<TunedModel, TuneError> {
    let rule = compile_chosen(machine, kernels, options, &Choices::default())?;
    improved(machine, kernels, rule, aim, &mut |_, _| ControlFlow::Continue(()))
}

/// What [`tune`] does for kernels that are compiled by the rule already: they are not compiled so again.
/// `listener` hears how many steps of how many are done; the number of all may turn out to be smaller.
///
/// # Errors
/// A power that no choice stays below; a listener that breaks.
pub fn tune_compiled(
    machine: &Tcp,
    kernels: &Kernels,
    rule: Compiled,
    aim: TuneGoal,
    listener: &mut StepListener<'_>,
) -> Result<TunedModel, TuneError> {
    improved(machine, kernels, rule, aim, listener)
}

/// Hears how many steps are done, and how many there are at most; breaks to end the search before the next.
pub type StepListener<'t> = dyn FnMut(u64, u64) -> ControlFlow<()> + 't;

/// Choices that the whole model is compiled with, at most.
fn most_found(goal: Goal) -> u64 {
    match goal {
        Goal::Time => 1,
        Goal::Energy | Goal::EnergyDelay => 3,
        Goal::TimeBelow(_) => 2 * POPULATION as u64 + 1,
    }
}

/// Evaluations on a part of the model, at most: goals other than time search twice.
fn most_evaluated(effort: u64, goal: Goal) -> u64 {
    budget(effort).saturating_mul(if goal == Goal::Time { 1 } else { 2 })
}

/// The best of the rule's programs and those of the choices that an effort finds.
fn improved(
    machine: &Tcp,
    kernels: &Kernels,
    rule: Compiled,
    aim: TuneGoal,
    listener: &mut StepListener<'_>,
) -> Result<TunedModel, TuneError> {
    let options = rule.plan.options;
    let TuneGoal { effort, goal, .. } = aim;
    let limited = matches!(goal, Goal::TimeBelow(_));
    if effort == 0 && !limited {
        return Ok(TunedModel { compiled: rule, evaluations: 0, times: None });
    }
    let Some(before) = ProgramCosts::of(machine, &rule) else {
        if limited {
            return Err(TuneError::Untimed);
        }
        return Ok(TunedModel { compiled: rule, evaluations: 0, times: None });
    };
    let searched = most_evaluated(effort, goal);
    let all = searched.saturating_add(most_found(goal));
    let mut stopped = false;
    let (found, evaluations) = candidates(machine, kernels, options, aim, &mut |done| {
        let next = listener(done, all);
        stopped |= next.is_break();
        next
    });
    if stopped {
        return Err(TuneError::Stopped);
    }
    let mut best = (before.score(&before, goal), rule, before);
    let mut least_milliwatts = before.milliwatts();
    for (at, choices) in (0..).zip(&found) {
        if listener(searched.saturating_add(at).min(all), all).is_break() {
            return Err(TuneError::Stopped);
        }
        let Ok(compiled) = compile_chosen(machine, kernels, options, choices) else { continue };
        let Some(times) = ProgramCosts::of(machine, &compiled) else { continue };
        least_milliwatts = least_milliwatts.min(times.milliwatts());
        let score = times.score(&before, goal);
        if score < best.0 {
            best = (score, compiled, times);
        }
        // They come in the order of their rank: none of the others is likely to be faster.
        if limited && score.excess_milliwatts == 0 {
            break;
        }
    }
    let (score, compiled, after) = best;
    match goal {
        Goal::TimeBelow(most_milliwatts) if score.excess_milliwatts > 0 => {
            let evaluated = evaluations.max(1);
            Err(TuneError::Power { most_milliwatts, least_milliwatts, evaluated })
        }
        _ => Ok(TunedModel { compiled, evaluations, times: Some((before, after)) }),
    }
}

/// Choices that the whole model is compiled with, and how many were evaluated on a part of it.
fn candidates(
    machine: &Tcp,
    kernels: &Kernels,
    options: Options,
    TuneGoal { effort, goal, solver }: TuneGoal,
    listener: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> (Vec<Choices>, u64) {
    if effort == 0 {
        return (Vec::new(), 0);
    }
    let mut search = TuneSearch {
        machine,
        kernels: short(kernels),
        options,
        goal: Goal::Time,
        solver,
        known: BTreeMap::new(),
        left: budget(effort),
        done: 0,
        listener,
        is_stopped: false,
        rule: ProgramCosts::default(),
    };
    let Some(own) = search.times(&Choices::default()) else { return (Vec::new(), 0) };
    search.rule = own;
    let mut found: Vec<Choices> = search.breed().into_iter().take(1).collect();
    if goal != Goal::Time {
        // Towards the least power whatever the limit is: what one search says can be reached, another one
        // with that limit reaches.
        let limited = matches!(goal, Goal::TimeBelow(_));
        search.goal = if limited { Goal::TimeBelow(0) } else { goal };
        search.left = budget(effort);
        let frugal = search.breed();
        search.goal = goal;
        let ranked = search.living().into_iter().map(|(_, choices)| choices);
        // What stays below a power in a part of the model may not do so in the whole.
        let most = if limited { POPULATION } else { 1 };
        found = ranked.take(most).chain(found).chain(frugal.into_iter().take(most)).collect();
    }
    // The rule is evaluated in any case.
    found.retain(|choices| *choices != Choices::default());
    found.dedup();
    (found, search.known.len() as u64)
}

/// The first blocks of a model, with its ends.
fn short(kernels: &Kernels) -> Kernels {
    let mut short = kernels.clone();
    let attends = |kernel: &&Kernel| matches!(kernel, Kernel::Attend { .. });
    let all = kernels.kernels.iter().filter(attends).count();
    if all <= BLOCKS {
        return short;
    }
    // Blocks follow the embedding, a norm and the head follow them.
    let inner = kernels.kernels.len().saturating_sub(3);
    let kept = 1 + inner / all * BLOCKS;
    let mut parts: Vec<Kernel> = kernels.kernels.iter().take(kept).cloned().collect();
    let last = parts.iter().rev().find_map(Kernel::out);
    let ends = kernels.kernels.iter().skip(kernels.kernels.len().saturating_sub(2)).cloned();
    parts.extend(ends.map(|kernel| match (kernel, last) {
        (Kernel::Norm { norm, gain, bias, epsilon, out, .. }, Some(input)) => {
            Kernel::Norm { norm, input, gain, bias, epsilon, out }
        }
        (kernel, _) => kernel,
    }));
    short.kernels = parts;
    short.caches = BLOCKS;
    short
}

struct TuneSearch<'s> {
    machine: &'s Tcp,
    kernels: Kernels,
    options: Options,
    goal: Goal,
    solver: Solver,
    /// What was evaluated, and how.
    known: BTreeMap<Choices, Option<ProgramCosts>>,
    left: u64,
    /// Evaluations that are behind.
    done: u64,
    listener: &'s mut dyn FnMut(u64) -> ControlFlow<()>,
    is_stopped: bool,
    rule: ProgramCosts,
}

impl TuneSearch<'_> {
    fn times(&mut self, choices: &Choices) -> Option<ProgramCosts> {
        if let Some(known) = self.known.get(choices) {
            return *known;
        }
        let compiled = compile_chosen(self.machine, &self.kernels, self.options, choices).ok();
        let found = compiled.and_then(|compiled| ProgramCosts::of(self.machine, &compiled));
        self.known.insert(choices.clone(), found);
        found
    }

    /// Evaluates choices as long as there is budget.
    fn evaluate(&mut self, choices: &Choices, living: &mut Vec<(ChoiceScore, Choices)>) {
        // Without windows there is nothing to solve.
        let solver = if choices.window > 0 { self.solver } else { Solver::Microlp };
        let choices = Choices { solver, ..choices.clone() };
        if self.is_stopped || self.left == 0 || self.known.contains_key(&choices) {
            return;
        }
        self.left -= 1;
        self.done += 1;
        self.is_stopped |= (self.listener)(self.done).is_break();
        if self.is_stopped {
            return;
        }
        if let Some(times) = self.times(&choices) {
            living.push((times.score(&self.rule, self.goal), choices));
            living.sort();
            living.truncate(POPULATION);
        }
    }

    /// What was evaluated already, the best few.
    fn living(&self) -> Vec<(ChoiceScore, Choices)> {
        let evaluated = |(choices, times): (&Choices, &Option<ProgramCosts>)| {
            Some(((*times)?.score(&self.rule, self.goal), choices.clone()))
        };
        let mut living: Vec<_> = self.known.iter().filter_map(evaluated).collect();
        living.sort();
        living.truncate(POPULATION);
        living
    }

    /// The best few, best first.
    fn breed(&mut self) -> Vec<Choices> {
        let count = classes(&self.kernels).into_iter().flatten().max().map_or(0, |last| last + 1);
        let rule = Choices::default();
        let mut living = self.living();
        let mut first: Vec<Choices> = (2..=4).map(|slots| Choices { slots, ..rule.clone() }).collect();
        for slots in [2, 4] {
            first.extend(chain::choose(self.machine, &self.kernels, self.options, slots, self.goal));
        }
        let most = bands(self.machine, &self.kernels, &self.options, MOST_BANDS);
        let more = chain::powers(most).skip(1).map(|bands| Choices { bands, ..rule.clone() });
        first.extend(more);
        first.extend(WINDOWS.map(|window| Choices { window, ..rule.clone() }));
        first.iter().for_each(|choices| self.evaluate(choices, &mut living));
        let mut draw = TuneRandom(0x5eed);
        // Draws that repeat what is known cost nothing, so they are bounded too.
        let mut tries = self.left.saturating_mul(8);
        while self.left > 0 && tries > 0 {
            tries -= 1;
            let parent = draw.of(&living);
            let other = draw.of(&living);
            let child = changed(&crossed(&parent, &other, count, &mut draw), count, &mut draw);
            self.evaluate(&child, &mut living);
        }
        living.into_iter().map(|(_, choices)| choices).collect()
    }
}

/// Numbers that look random and are always the same. Choices in goldens rest on this sequence.
struct TuneRandom(u64);

impl TuneRandom {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most.max(1)
    }

    /// One of the living, the better ones more often.
    fn of(&mut self, living: &[(ChoiceScore, Choices)]) -> Choices {
        let at = self.below(living.len() as u64).min(self.below(living.len() as u64));
        living.get(to_index(at)).map(|(_, choices)| choices.clone()).or_broken("some choices live")
    }
}

fn whole(fills: &[u64], count: usize) -> Vec<u64> {
    (0..count).map(|class| fills.get(class).copied().unwrap_or(WHOLE)).collect()
}

fn crossed(one: &Choices, other: &Choices, count: usize, draw: &mut TuneRandom) -> Choices {
    let mut child = one.clone();
    let theirs = whole(&other.fills, count);
    child.fills = whole(&one.fills, count);
    for (own, its) in child.fills.iter_mut().zip(theirs) {
        if draw.below(2) == 0 {
            *own = its;
        }
    }
    if draw.below(2) == 0 {
        child.slots = other.slots;
    }
    // What has no bands draws as if there were none.
    if one.bands != other.bands && draw.below(2) == 0 {
        child.bands = other.bands;
    }
    if draw.below(2) == 0 {
        child.parts = other.parts;
    }
    if draw.below(2) == 0 {
        child.window = other.window;
    }
    child
}

fn changed(choices: &Choices, count: usize, draw: &mut TuneRandom) -> Choices {
    let mut child = choices.clone();
    match draw.below(6) {
        0 => child.slots = (child.slots + 1 + draw.below(3)).min(MOST_SLOTS),
        1 => child.slots = child.slots.saturating_sub(1).max(2),
        2 => child.parts = 1 << draw.below(4),
        3 => {
            let drawn = to_index(draw.below(WINDOWS.len() as u64 + 1));
            child.window = WINDOWS.get(drawn).copied().unwrap_or(0);
        }
        4 => child.rows = Some(1 << draw.below(4)).filter(|rows| *rows < WHOLE),
        _ => {
            let class = to_index(draw.below(count as u64));
            if let Some(eighths) = child.fills.get_mut(class) {
                *eighths = 1 << draw.below(4);
            }
        }
    }
    if child.fills.iter().all(|eighths| *eighths == WHOLE) {
        child.fills = Vec::new();
    }
    child
}
