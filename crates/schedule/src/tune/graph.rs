//! Choices of a general graph by what its program takes, simulated: over how many PEs it is cut, how many
//! tactics are weighed for each contraction, and whether parts that estimates choose are used at all.
//!
//! What an effort tries is among what every greater one tries, and the rule is among all: more effort is
//! never worse.

use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_compile::general::{Choice, Options, Planned, Refusal};
use tilewright_explore::Goal;
use tilewright_explore::goal::milliwatts;
use tilewright_machine::tcp::Tcp;
use tilewright_tcp_sim::RunEnd;

use super::{TokenCost, TuneError};
use crate::timing::simulated;

/// Tactics of a contraction that are weighed instead of the rule's; two more with each effort above 1.
const TACTICS: [usize; 8] = [4, 24, 1, 48, 2, 8, 16, 32];

/// Parts that are used where estimates say that they save something: plans without each of them are
/// simulated, two more with each effort above 1.
const DOUBTED: [Choice; 11] = [
    Choice::Epilogue,
    Choice::Shared,
    Choice::Fused,
    Choice::Parts,
    Choice::Strided,
    Choice::Explorer,
    Choice::Groups,
    Choice::Windows,
    Choice::Order,
    Choice::Refine,
    Choice::Turned,
];

/// A graph with the best choices that were found.
#[derive(Clone, Debug)]
pub struct TunedGraph {
    /// The graph.
    pub planned: Planned,
    /// How it was planned.
    pub options: Options,
    /// Plans that were simulated.
    pub evaluations: u64,
    /// What a run takes by the rule, and as it is, if that was looked at.
    pub costs: Option<(TokenCost, TokenCost)>,
}

/// What choices of a graph are looked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GraphGoal {
    /// How many choices are simulated: 0 none, which is the rule.
    pub effort: u64,
    /// What is to be least.
    pub goal: Goal,
}

/// Plans of an effort beside the rule's: fewer PEs first, then other numbers of tactics, then without parts.
pub fn graph_options(rule: Options, effort: u64) -> Vec<Options> {
    let mut all = Vec::new();
    let pes: Vec<u64> =
        std::iter::successors(Some(rule.pes), |pes| Some(pes / 2)).take_while(|pes| *pes > 0).collect();
    let more = usize::try_from(effort.saturating_sub(1)).unwrap_or(usize::MAX).saturating_mul(2);
    let tactics = std::iter::once(rule.tactics).chain(TACTICS.into_iter().take(more));
    for tactics in tactics {
        all.extend(pes.iter().map(|pes| Options { pes: *pes, tactics, ..rule }));
    }
    for part in DOUBTED.into_iter().take(more).filter(|part| !rule.without.has(*part)) {
        all.push(Options { without: rule.without.and(part), ..rule });
    }
    let is_rule =
        |one: &Options| (one.pes, one.tactics, one.without) == (rule.pes, rule.tactics, rule.without);
    all.retain(|one| effort > 0 && !is_rule(one));
    all
}

/// Plans a graph with an effort; `plan` makes a plan of options, and `listener` is given how many of all
/// choices are done.
///
/// # Errors
/// A graph that the rule refuses; a power that no choice stays below.
pub fn tune_graph(
    machine: &Tcp,
    rule: Options,
    aim: GraphGoal,
    plan: &dyn Fn(&Options) -> Result<Planned, Refusal>,
    listener: &mut dyn FnMut(u64, u64),
) -> Result<TunedGraph, TuneError> {
    let planned = plan(&rule)?;
    let limited = matches!(aim.goal, Goal::TimeBelow(_));
    let untuned = |planned: Planned| TunedGraph { planned, options: rule, evaluations: 0, costs: None };
    if aim.effort == 0 && !limited {
        return Ok(untuned(planned));
    }
    let Some(before) = cost(machine, &planned) else {
        return if limited { Err(TuneError::Untimed) } else { Ok(untuned(planned)) };
    };
    let others = graph_options(rule, aim.effort);
    let all = others.len() as u64 + 1;
    listener(1, all);
    let mut best = TunedGraph { planned, options: rule, evaluations: all, costs: Some((before, before)) };
    let mut best_rank = rank(before, aim.goal);
    let mut least_milliwatts = before.milliwatts;
    for (done, options) in (2..).zip(others) {
        let made = plan(&options).ok().and_then(|planned| Some((cost(machine, &planned)?, planned)));
        listener(done, all);
        let Some((taken, planned)) = made else { continue };
        least_milliwatts = least_milliwatts.min(taken.milliwatts);
        if rank(taken, aim.goal) < best_rank {
            best_rank = rank(taken, aim.goal);
            best = TunedGraph { planned, options, evaluations: all, costs: Some((before, taken)) };
        }
    }
    match aim.goal {
        Goal::TimeBelow(most_milliwatts) if best_rank.0 > 0 => {
            Err(TuneError::Power { most_milliwatts, least_milliwatts, evaluated: all })
        }
        _ => Ok(best),
    }
}

/// Power above what a goal allows, and what it wants least of; less is better.
fn rank(taken: TokenCost, goal: Goal) -> (u64, u128) {
    let excess = match goal {
        Goal::TimeBelow(most) => taken.milliwatts.saturating_sub(most),
        _ => 0,
    };
    (excess, goal.value(taken.millicycles, taken.energy_fj))
}

/// What one run takes; `None` if it cannot be timed without values, or does not end.
pub(super) fn cost(machine: &Tcp, planned: &Planned) -> Option<TokenCost> {
    let outcome = simulated(machine, &planned.program, &[]).ok()?;
    if outcome.ended != RunEnd::Finished {
        return None;
    }
    let sum: u128 = outcome.energy_fj.iter().sum();
    let energy_fj = u64::try_from(sum).or_broken("the energy of a run fits 64 bits");
    Some(TokenCost {
        millicycles: outcome.cycles.exact_mul(1000),
        energy_fj,
        milliwatts: milliwatts(machine.chip.clock_hz, outcome.cycles, energy_fj),
    })
}
