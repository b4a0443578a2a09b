//! Choices by cost (paper section V-C: heuristics, then search judged by simulated time): how much of a weight is loaded at once, how many
//! slots wait for weights, how rows are cut.
//!
//! 1. A model of one or two blocks stands for all of them: blocks are alike.
//! 2. Dynamic programming over its chain of kernels chooses the fills of each weight, with the engines' closed forms ([`chain`]).
//! 3. A population of choices, which begins with the rule, with that, and with commands put in order a few at a time by integer programming,
//!    is bred by changes and crossings, and judged by simulated time.
//! 4. The best is compiled for the whole model and kept if the whole model is faster with it than with the rule.
//!
//! Effort counts evaluations, not time, and all draws come from one fixed seed: the same input gives the same programs.

pub mod chain;

use std::collections::BTreeMap;

use tilewright_compile::kernel::{Kernel, Kernels};
use tilewright_compile::tcp::choices::{MOST_SLOTS, WHOLE, classes};
use tilewright_compile::{Choices, CompileError, Compiled, Options, compile_chosen};
use tilewright_machine::tcp::Tcp;

use crate::schedule::{cycles, longest};

/// Blocks of the model that stands for all.
const BLOCKS: usize = 2;
/// How much more a cycle counts by which a program is slower than by the rule.
const SLOWER: u128 = 9;
/// Commands that are put in order together; more take longer to solve than they gain.
const WINDOWS: [u64; 2] = [4, 6];
/// Choices that live on.
const POPULATION: usize = 6;

/// How long the programs take, in cycles for each token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// A token behind the longest context.
    pub decode_cycles: u64,
    /// A token of the longest prompt, in thousandths of cycles.
    pub prefill_millicycles: u64,
}

impl Times {
    /// Millionths of the rule's times, both counted alike; what is slower than the rule counts more, so that no program pays for another.
    fn score(&self, rule: &Times) -> u64 {
        let part = |own: u64, whole: u64| {
            let whole = u128::from(whole.max(1));
            let millionths = u128::from(own) * 1_000_000 / whole;
            let worse = millionths.saturating_sub(1_000_000) * SLOWER;
            u64::try_from(millionths + worse).unwrap_or(u64::MAX)
        };
        part(self.decode_cycles, rule.decode_cycles)
            .saturating_add(part(self.prefill_millicycles, rule.prefill_millicycles))
    }
}

/// A model with the best choices that were found.
#[derive(Clone, Debug)]
pub struct Tuned {
    /// The model.
    pub compiled: Compiled,
    /// Choices that were judged.
    pub evaluations: u64,
    /// The whole model by the rule, and as it is.
    pub times: Option<(Times, Times)>,
}

/// Evaluations of an effort.
pub fn budget(effort: u64) -> u64 {
    match effort {
        0 => 0,
        1 => 12,
        more => 60_u64.saturating_mul(more - 1),
    }
}

/// Compiles with an effort: 0 is the rule.
///
/// # Errors
/// A model that does not compile by the rule.
pub fn tune(machine: &Tcp, kernels: &Kernels, options: Options, effort: u64) -> Result<Tuned, CompileError> {
    let rule = compile_chosen(machine, kernels, options, &Choices::default())?;
    let unchanged = |compiled, evaluations| Ok(Tuned { compiled, evaluations, times: None });
    if effort == 0 {
        return unchanged(rule, 0);
    }
    let mut search = Search {
        machine,
        kernels: short(kernels),
        options,
        known: BTreeMap::new(),
        left: budget(effort),
        rule: Times::default(),
    };
    let Some(own) = search.times(&Choices::default()) else {
        return unchanged(rule, 0);
    };
    search.rule = own;
    let best = search.breed();
    let evaluations = search.known.len() as u64;
    let before = times(machine, &rule);
    let chosen = compile_chosen(machine, kernels, options, &best).ok();
    let after = chosen.as_ref().and_then(|chosen| times(machine, chosen));
    let (Some(before), Some(after), Some(chosen)) = (before, after, chosen) else {
        return unchanged(rule, evaluations);
    };
    let better = after.score(&before) < before.score(&before);
    let (compiled, after) = if better { (chosen, after) } else { (rule, before) };
    Ok(Tuned { compiled, evaluations, times: Some((before, after)) })
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

/// Times of both programs; `None` if they do not run.
fn times(machine: &Tcp, compiled: &Compiled) -> Option<Times> {
    let of = |name: &str| {
        let outline = compiled.outlines.iter().find(|outline| outline.name == name)?;
        cycles(machine, compiled.program(name)?, &longest(compiled, outline)).ok()
    };
    let most = compiled.plan.options.context.min(compiled.kernels.positions);
    let tokens = compiled.most_tokens().min(most).max(1);
    Some(Times {
        decode_cycles: of("decode")?,
        prefill_millicycles: of("prefill")?.saturating_mul(1000) / tokens,
    })
}

struct Search<'s> {
    machine: &'s Tcp,
    kernels: Kernels,
    options: Options,
    /// What was judged, and how.
    known: BTreeMap<Choices, Option<Times>>,
    left: u64,
    rule: Times,
}

impl Search<'_> {
    fn times(&mut self, choices: &Choices) -> Option<Times> {
        if let Some(known) = self.known.get(choices) {
            return *known;
        }
        let compiled = compile_chosen(self.machine, &self.kernels, self.options, choices).ok();
        let found = compiled.and_then(|compiled| times(self.machine, &compiled));
        self.known.insert(choices.clone(), found);
        found
    }

    /// Judges choices as long as there is budget.
    fn judge(&mut self, choices: &Choices, living: &mut Vec<(u64, Choices)>) {
        if self.left == 0 || self.known.contains_key(choices) {
            return;
        }
        self.left -= 1;
        if let Some(times) = self.times(choices) {
            living.push((times.score(&self.rule), choices.clone()));
            living.sort();
            living.truncate(POPULATION);
        }
    }

    fn breed(&mut self) -> Choices {
        let count = classes(&self.kernels).into_iter().flatten().max().map_or(0, |last| last + 1);
        let rule = Choices::default();
        let mut living = vec![(self.rule.score(&self.rule), rule.clone())];
        let mut first: Vec<Choices> = (2..=4).map(|slots| Choices { slots, ..rule.clone() }).collect();
        for slots in [2, 4] {
            first.extend(chain::choose(self.machine, &self.kernels, self.options, slots));
        }
        first.extend(WINDOWS.map(|window| Choices { window, ..rule.clone() }));
        first.iter().for_each(|choices| self.judge(choices, &mut living));
        let mut draw = Draw(0x5eed);
        // Draws that repeat what is known cost nothing, so they are bounded too.
        let mut tries = self.left.saturating_mul(8);
        while self.left > 0 && tries > 0 {
            tries -= 1;
            let parent = draw.of(&living);
            let other = draw.of(&living);
            let child = changed(&crossed(&parent, &other, count, &mut draw), count, &mut draw);
            self.judge(&child, &mut living);
        }
        living.into_iter().next().map_or(rule, |(_, best)| best)
    }
}

/// Numbers that look random and are always the same.
struct Draw(u64);

impl Draw {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most.max(1)
    }

    /// One of the living, the better ones more often.
    fn of(&mut self, living: &[(u64, Choices)]) -> Choices {
        let at = self.below(living.len() as u64).min(self.below(living.len() as u64));
        usize::try_from(at)
            .ok()
            .and_then(|at| living.get(at))
            .map(|(_, choices)| choices.clone())
            .unwrap_or_default()
    }
}

fn whole(fills: &[u64], count: usize) -> Vec<u64> {
    (0..count).map(|class| fills.get(class).copied().unwrap_or(WHOLE)).collect()
}

fn crossed(one: &Choices, other: &Choices, count: usize, draw: &mut Draw) -> Choices {
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
    if draw.below(2) == 0 {
        child.parts = other.parts;
    }
    if draw.below(2) == 0 {
        child.window = other.window;
    }
    child
}

fn changed(choices: &Choices, count: usize, draw: &mut Draw) -> Choices {
    let mut child = choices.clone();
    match draw.below(6) {
        0 => child.slots = (child.slots + 1 + draw.below(3)).min(MOST_SLOTS),
        1 => child.slots = child.slots.saturating_sub(1).max(2),
        2 => child.parts = 1 << draw.below(4),
        3 => {
            let drawn = usize::try_from(draw.below(WINDOWS.len() as u64 + 1)).unwrap_or(0);
            child.window = WINDOWS.get(drawn).copied().unwrap_or(0);
        }
        4 => child.rows = Some(1 << draw.below(4)).filter(|rows| *rows < WHOLE),
        _ => {
            let class = usize::try_from(draw.below(count as u64)).unwrap_or(0);
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
