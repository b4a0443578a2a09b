//! Choices of a general graph by what its program takes, simulated: over how many PEs it is cut, how many
//! tactics are weighed for each contraction, and whether parts that estimates choose are used at all.
//!
//! From effort 2 on the order of commands of the best plan so far is searched too: by integer programs over
//! windows of commands, and from 3 on by a genetic search over priorities as well. Each effort begins with
//! all that the smaller ones did, and the best that was ever simulated is kept: more effort is never worse.

use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_compile::general::{Choice, Options, OrderSearch, Planned, Refusal};
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
const DOUBTED: [Choice; 12] = [
    Choice::Epilogue,
    Choice::Shared,
    Choice::Fused,
    Choice::Parts,
    Choice::Blocks,
    Choice::Strided,
    Choice::Explorer,
    Choice::Groups,
    Choice::Windows,
    Choice::Order,
    Choice::Refine,
    Choice::Turned,
];

/// Commands that an integer program puts in order together, with effort 2 and more.
const WINDOW: usize = 6;

/// Children of the genetic searches for each effort above 2: what is best on the model that orders are
/// compared on is not always what the simulator finds best, so that a short search is simulated too.
const CHILDREN: [usize; 2] = [24, 96];

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

/// Searches for the order of commands that an effort adds to those before it, one after the other.
pub fn order_searches(effort: u64) -> Vec<OrderSearch> {
    if effort < 2 {
        return Vec::new();
    }
    let times = usize::try_from(effort - 2).unwrap_or(usize::MAX);
    let genetic = CHILDREN.into_iter().filter(|_| times > 0).map(|children| children.saturating_mul(times));
    std::iter::once(0).chain(genetic).map(|children| OrderSearch { window: WINDOW, children }).collect()
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
    let orders: usize = (0..=aim.effort).map(|effort| order_searches(effort).len()).sum();
    let all = (graph_options(rule, aim.effort).len() + orders) as u64 + 1;
    listener(1, all);
    let best = TunedGraph { planned, options: rule, evaluations: 1, costs: Some((before, before)) };
    let best_rank = rank(before, aim.goal);
    let mut search = GraphSearch {
        machine,
        goal: aim.goal,
        plan,
        listener: &mut |done| listener(done, all),
        before,
        tried: vec![rule],
        best,
        best_rank,
        least_milliwatts: before.milliwatts,
    };
    for effort in 1..=aim.effort {
        graph_options(rule, effort).into_iter().for_each(|options| search.try_one(options));
        for order in order_searches(effort) {
            search.try_one(Options { search: order, ..search.best.options });
        }
    }
    let GraphSearch { best, best_rank, least_milliwatts, .. } = search;
    match aim.goal {
        Goal::TimeBelow(most_milliwatts) if best_rank.0 > 0 => {
            Err(TuneError::Power { most_milliwatts, least_milliwatts, evaluated: best.evaluations })
        }
        _ => Ok(best),
    }
}

/// Plans that are simulated one after the other; the best is kept.
struct GraphSearch<'s> {
    machine: &'s Tcp,
    goal: Goal,
    plan: &'s dyn Fn(&Options) -> Result<Planned, Refusal>,
    listener: &'s mut dyn FnMut(u64),
    before: TokenCost,
    tried: Vec<Options>,
    best: TunedGraph,
    best_rank: (u64, u128),
    least_milliwatts: u64,
}

impl GraphSearch<'_> {
    /// Simulates a plan, unless it was tried already.
    fn try_one(&mut self, options: Options) {
        let key = |one: &Options| (one.pes, one.tactics, one.without, one.search);
        if self.tried.iter().any(|one| key(one) == key(&options)) {
            return;
        }
        self.tried.push(options);
        let made = (self.plan)(&options).ok();
        let made = made.and_then(|planned| Some((cost(self.machine, &planned)?, planned)));
        self.best.evaluations += 1;
        (self.listener)(self.best.evaluations);
        let Some((taken, planned)) = made else { return };
        self.least_milliwatts = self.least_milliwatts.min(taken.milliwatts);
        let its = rank(taken, self.goal);
        if its < self.best_rank {
            self.best_rank = its;
            self.best = TunedGraph { planned, options, costs: Some((self.before, taken)), ..self.best };
        }
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
