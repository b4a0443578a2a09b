//! Which orders are tried (stage 5; paper section V-C): rules of list scheduling always; if a plan is
//! searched, a genetic search over their priorities, and integer programs over windows of commands.
//!
//! All of them run on the model of `issue`, and the order that ends first there is kept.

use std::fmt;

use rayon::prelude::*;
use tilewright_base::invariant::OrBroken;

use super::issue::{Figures, Graph, Rule, Run, Schedule};
use super::issue_genetic::bred;
use super::issue_windows::Given;
use super::order::Job;
use super::without::{Choice, Without};

/// Commands that are looked at in all, over all rules: beyond, fewer rules are tried.
const MOST_LOOKS: usize = 400_000_000;
/// Times that windows are gone through, as long as each ends sooner than the one before.
const MOST_PASSES: usize = 3;

/// How hard the order of commands is looked for, beyond the rules of list scheduling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct OrderSearch {
    /// Commands that an integer program orders together; none solves none.
    pub window: usize,
    /// Children of a genetic search over priorities.
    pub children: usize,
}

impl fmt::Display for OrderSearch {
    /// What is searched, each with a space in front; nothing if only rules are tried.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, count) in [("window", self.window), ("children", self.children)] {
            if count > 0 {
                write!(f, " {name}={count}")?;
            }
        }
        Ok(())
    }
}

const RULES: [Rule; 7] = [
    Rule { ahead: 32, passed: 1, by_path: false },
    Rule { ahead: 32, passed: 1, by_path: true },
    Rule { ahead: 64, passed: 2, by_path: true },
    Rule { ahead: 64, passed: 4, by_path: true },
    Rule { ahead: 128, passed: 2, by_path: true },
    Rule { ahead: 128, passed: 8, by_path: true },
    Rule { ahead: 256, passed: 16, by_path: true },
];

/// The next command in program order, whatever it waits for.
const PROGRAM_ORDER: Rule = Rule { ahead: 1, passed: 0, by_path: false };

/// Commands of each PE by number, in the order in which they are issued, and when the last has ended.
pub(super) fn order(
    figures: &Figures,
    lines: &[Vec<Job>],
    without: Without,
    search: OrderSearch,
) -> (u64, Vec<Vec<usize>>) {
    let jobs: usize = lines.iter().map(Vec::len).sum();
    let rules = rules(jobs, without);
    let ahead = rules.iter().map(|rule| rule.ahead).max().unwrap_or(RULES[0].ahead);
    let graphs = Graph::all(figures, lines, ahead);
    let run = |rule: &Rule| run_twice(|| Run::new(figures, &graphs, *rule));
    let all: Vec<Option<Schedule>> = rules.par_iter().map(run).collect();
    let best = all.into_iter().flatten().min_by_key(|one| one.cycles);
    let best = best.or_broken("at least one rule is tried");
    if without.has(Choice::Order) {
        return (best.cycles, best.orders);
    }
    let best = genetic(figures, &graphs, &rules, search, best);
    let best = windows(figures, &graphs, search, best);
    (best.cycles, best.orders)
}

/// The better of a run and another one that knows how long PEs waited in the first.
pub(super) fn run_twice<'g>(run: impl Fn() -> Run<'g>) -> Option<Schedule> {
    let first = run().done()?;
    let again = run().again(&first).done();
    again.into_iter().chain([first]).min_by_key(|one| one.cycles)
}

/// As many rules as so many commands can be looked at with.
fn rules(jobs: usize, without: Without) -> Vec<Rule> {
    let mut looks = 0;
    let affordable = |rule: &&Rule| {
        looks += jobs * rule.ahead;
        looks <= MOST_LOOKS
    };
    if without.has(Choice::Order) {
        return vec![PROGRAM_ORDER];
    }
    let (first, others) = RULES.split_at(1);
    let mut rules: Vec<Rule> = first.iter().chain(others.iter().take_while(affordable)).copied().collect();
    if without.has(Choice::Rules) {
        rules.truncate(1);
    }
    rules
}

/// The better of a schedule and what a genetic search finds.
fn genetic(
    figures: &Figures,
    graphs: &[Graph<'_>],
    rules: &[Rule],
    search: OrderSearch,
    best: Schedule,
) -> Schedule {
    if search.children == 0 {
        return best;
    }
    let jobs: usize = graphs.iter().map(|graph| graph.jobs.len()).sum();
    let ahead = rules.iter().map(|rule| rule.ahead).max().unwrap_or_default();
    let affordable = MOST_LOOKS / (jobs * ahead).max(1);
    let found = bred(figures, graphs, rules, search.children.min(affordable), SEED);
    found.filter(|found| found.cycles < best.cycles).unwrap_or(best)
}

/// Where the genetic search begins to draw.
const SEED: u64 = 0x5eed;

/// The better of a schedule and the same with its windows put in order.
fn windows(figures: &Figures, graphs: &[Graph<'_>], search: OrderSearch, mut best: Schedule) -> Schedule {
    for _ in 0..if search.window > 1 { MOST_PASSES } else { 0 } {
        let given = Given::windows(best.orders.clone(), search.window);
        match Run::new(figures, graphs, PROGRAM_ORDER).given(given).done() {
            Some(found) if found.cycles < best.cycles => best = found,
            _ => break,
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::strategy::ValueTree as _;
    use proptest::test_runner::TestCaseError;

    use super::*;
    use crate::general::order::Unit;
    use crate::general::signals::Signal;

    const FIGURES: Figures = Figures { message_cycles: 300, push_cycles: 10 };

    /// Commands of a PE between barriers: unit, cycles, first byte, whether it writes, whether it is free.
    type Plan = Vec<Vec<(u8, u64, u64, bool, bool)>>;

    fn jobs(plan: &Plan) -> Vec<Job> {
        let job = |(unit, cycles, first, write, free): &(u8, u64, u64, bool, bool)| {
            let unit = [Unit::Main, Unit::Sub, Unit::Dma][usize::from(unit % 3)];
            let free = *free && unit == Unit::Dma;
            Job::test(unit, *cycles, (*first, *first + 8), *write || free, free)
        };
        let mut all = Vec::new();
        for (number, part) in plan.iter().enumerate() {
            if number > 0 {
                all.push(Job::meet());
            }
            all.extend(part.iter().map(job));
        }
        all
    }

    fn plans() -> impl Strategy<Value = Vec<Plan>> {
        let one = (any::<u8>(), 1..5000_u64, 0..64_u64, any::<bool>(), any::<bool>());
        let plan = proptest::collection::vec(proptest::collection::vec(one, 0..12), 3);
        proptest::collection::vec(plan, 1..4)
    }

    proptest! {
        #[test]
        fn commands_that_meet_keep_their_order(plans in plans()) {
            let lines: Vec<Vec<Job>> = plans.iter().map(jobs).collect();
            for rule in RULES {
                let graphs = Graph::all(&FIGURES, &lines, rule.ahead);
                let orders = Run::new(&FIGURES, &graphs, rule).done().unwrap().orders;
                for (jobs, order) in lines.iter().zip(&orders) {
                    let mut places = vec![usize::MAX; jobs.len()];
                    order.iter().enumerate().for_each(|(place, at)| places[*at] = place);
                    prop_assert!(order.len() == jobs.len() && !places.contains(&usize::MAX));
                    for at in 0..jobs.len() {
                        for before in (0..at).filter(|before| jobs[at].follows(*before, &jobs[*before])) {
                            prop_assert!(places[before] < places[at], "{before} {at} {order:?}");
                        }
                    }
                }
            }
        }

        #[test]
        fn the_best_rule_is_kept(plans in plans()) {
            let lines: Vec<Vec<Job>> = plans.iter().map(jobs).collect();
            let graphs = Graph::all(&FIGURES, &lines, 256);
            let first = RULES.map(|rule| Run::new(&FIGURES, &graphs, rule).done().unwrap());
            let (best, _) = order(&FIGURES, &lines, Without::default(), OrderSearch::default());
            prop_assert!(first.iter().all(|one| one.cycles >= best));
            // A path of one PE alone is never shorter than its longest unit.
            let unit = |jobs: &Vec<Job>, unit: Unit| -> u64 {
                jobs.iter().filter(|job| job.unit == unit).map(|job| job.cycles).sum()
            };
            let units = |jobs: &Vec<Job>| [Unit::Main, Unit::Sub, Unit::Dma].map(|one| unit(jobs, one));
            let busiest = lines.iter().flat_map(units);
            prop_assert!(best >= busiest.max().unwrap());
        }
    }

    /// Commands of three PEs with signals between them: each signal is given behind a transfer of its PE,
    /// and a transfer of another comes behind the wait for it.
    fn signalled(moves: &[(u8, u8, u64, u64)]) -> Vec<Vec<Job>> {
        let mut lines: Vec<Vec<Job>> = (0..3).map(|_| Vec::new()).collect();
        for (from, to, cycles, first) in moves {
            let (from, to) = (usize::from(from % 3), usize::from(to % 3));
            let job = |unit, write| Job::test(unit, *cycles, (*first, *first + 8), write, false);
            lines[from].push(job(Unit::Main, true));
            lines[from].push(job(Unit::Dma, false));
            if from != to {
                let after = vec![lines[from].len() - 1];
                lines[from].push(Job::signal(&Signal { to: vec![to], after }));
                let wait = lines[to].len();
                lines[to].push(Job::wait(&[from]));
                lines[to].push(job(Unit::Dma, true).behind(&[wait]));
            }
            lines[to].push(job(Unit::Main, false));
        }
        lines
    }

    proptest! {
        /// No rule has PEs wait for one another for ever, and whatever depends keeps its order.
        #[test]
        fn signals_keep_their_order(
            moves in proptest::collection::vec((any::<u8>(), any::<u8>(), 1..5000_u64, 0..64_u64), 0..24),
        ) {
            let lines = signalled(&moves);
            for rule in RULES.into_iter().chain([PROGRAM_ORDER]) {
                let graphs = Graph::all(&FIGURES, &lines, rule.ahead);
                let first = Run::new(&FIGURES, &graphs, rule).done();
                let first = first.ok_or_else(|| TestCaseError::fail("PEs wait for one another"))?;
                prop_assert!(is_kept(&lines, &first.orders), "{:?}", first.orders);
                if let Some(again) = Run::new(&FIGURES, &graphs, rule).again(&first).done() {
                    prop_assert!(is_kept(&lines, &again.orders), "{:?}", again.orders);
                }
            }
        }
    }

    /// A PE goes on with what it has while it waits for another.
    #[test]
    fn nobody_waits_who_has_something_to_do() {
        let long = |first: u64| Job::test(Unit::Main, 5000, (first, first + 8), true, false);
        let sender = vec![
            long(0),
            Job::test(Unit::Dma, 500, (0, 8), false, false),
            Job::signal(&Signal { to: vec![1], after: vec![1] }),
        ];
        let reader = vec![
            Job::wait(&[0]),
            Job::test(Unit::Dma, 500, (16, 24), true, false).behind(&[0]),
            Job::test(Unit::Main, 1000, (16, 24), false, false),
            long(32),
        ];
        let (cycles, orders) = order(&FIGURES, &[sender, reader], Without::default(), OrderSearch::default());
        assert_eq!(orders[1][0], 3, "{orders:?}");
        assert!(cycles < 8000, "{cycles}");
    }

    /// What a search must keep: each command once, behind those that it depends on.
    fn is_kept(lines: &[Vec<Job>], orders: &[Vec<usize>]) -> bool {
        lines.iter().zip(orders).all(|(jobs, order)| {
            let mut places = vec![usize::MAX; jobs.len()];
            order.iter().enumerate().for_each(|(place, at)| places[*at] = place);
            let kept = |at: usize| {
                (0..at).all(|before| !jobs[at].follows(before, &jobs[before]) || places[before] < places[at])
            };
            order.len() == jobs.len() && !places.contains(&usize::MAX) && (0..jobs.len()).all(kept)
        })
    }

    /// Cycles of an order that is followed as it is.
    fn followed(lines: &[Vec<Job>], orders: Vec<Vec<usize>>) -> u64 {
        let graphs = Graph::all(&FIGURES, lines, 256);
        Run::new(&FIGURES, &graphs, PROGRAM_ORDER).given(Given::as_is(orders)).done().unwrap().cycles
    }

    /// Searches keep what must be kept, end when they say, never later than the rules, and sometimes sooner.
    #[test]
    fn searches_pay_and_are_never_worse() {
        let windows = OrderSearch { window: 5, children: 0 };
        let genetic = OrderSearch { window: 0, children: 32 };
        let both = OrderSearch { window: 5, children: 32 };
        let mut sooner = [0; 3];
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        for _ in 0..24 {
            let plans = plans().new_tree(&mut runner).unwrap().current();
            let lines: Vec<Vec<Job>> = plans.iter().map(jobs).collect();
            let (rules, _) = order(&FIGURES, &lines, Without::default(), OrderSearch::default());
            for (search, sooner) in [windows, genetic, both].into_iter().zip(&mut sooner) {
                let (cycles, orders) = order(&FIGURES, &lines, Without::default(), search);
                assert!(is_kept(&lines, &orders), "{search:?}: {orders:?}");
                assert_eq!(followed(&lines, orders), cycles, "{search:?}");
                assert!(cycles <= rules, "{search:?}: {cycles} {rules}");
                *sooner += u32::from(cycles < rules);
            }
        }
        assert!(sooner.iter().all(|count| *count > 0), "{sooner:?}");
    }

    /// Program order is left as it is, however hard the search.
    #[test]
    fn nothing_is_searched_without_orders() {
        let line: Vec<Job> = (0..4)
            .map(|at| Job::test(Unit::Dma, 900 * (4 - at), (16 * at, 16 * at + 8), true, true))
            .collect();
        let search = OrderSearch { window: 4, children: 8 };
        let (_, orders) = order(&FIGURES, &[line], Choice::Order.into(), search);
        assert_eq!(orders, [vec![0, 1, 2, 3]]);
    }

    /// A long transfer that nobody needs soon makes way for a short one on which everything waits.
    #[test]
    fn a_prefetch_makes_way() {
        let jobs = vec![
            Job::test(Unit::Main, 1000, (0, 8), true, false),
            Job::test(Unit::Dma, 500, (0, 8), false, false),
            Job::test(Unit::Dma, 9000, (32, 40), true, true),
            Job::meet(),
            Job::test(Unit::Dma, 500, (64, 72), true, false),
            Job::test(Unit::Main, 20_000, (64, 72), false, false),
            Job::test(Unit::Main, 100, (32, 40), false, false),
        ];
        let (_, order) = order(&FIGURES, &[jobs], Without::default(), OrderSearch::default());
        let place = |at: usize| order[0].iter().position(|one| *one == at).unwrap();
        assert!(place(1) < place(2) && place(4) < place(2), "{order:?}");
    }
}
