//! Which command each PE issues next: list scheduling of all PEs at once (stage 5; paper section V-C).
//!
//! A queue is in order: a command that waits holds all behind it, and one of a context is issued when the
//! context is free. The control core goes on meanwhile, but for barriers and messages. A [`Rule`] chooses
//! among the next commands in program order whose predecessors are issued; all rules are tried on the same
//! model of queues, contexts, engines, barriers and HBM, and the one that ends first is kept.

use std::collections::{BTreeMap, VecDeque};

use rayon::prelude::*;
use tilewright_base::invariant::OrBroken;
use tilewright_machine::tcp::Tcp;

use super::order::{Core, Job, Unit};
use super::without::{Choice, Without};

/// Cycles before the engine is free at which the next transfer is given to it.
const EARLY_CYCLES: u64 = 400;
/// Commands that start within so many cycles of each other are compared by their paths.
const NEAR_CYCLES: u64 = 64;
/// Commands that are looked at in all, over all rules: beyond, fewer rules are tried.
const MOST_LOOKS: usize = 400_000_000;

/// How the next command is chosen.
#[derive(Clone, Copy, Debug)]
struct Rule {
    /// Commands that are looked at beyond the first that is not issued.
    ahead: usize,
    /// Barriers of all PEs that a prefetch may come before: more takes the engine from what is needed sooner.
    passed: usize,
    /// The longest path to the end decides, not the first start alone.
    by_path: bool,
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

/// What the model takes from the chip.
pub(super) struct Figures {
    /// From a message that is sent to one that is received.
    message_cycles: u64,
    /// What the control core takes for a command.
    push_cycles: u64,
}

impl Figures {
    pub(super) fn new(machine: &Tcp) -> Figures {
        let doorbell =
            u128::from(machine.noc.doorbell_ns) * u128::from(machine.chip.clock_hz) / 1_000_000_000;
        Figures {
            message_cycles: u64::try_from(doorbell).or_broken("cycles of a message fit 64 bits"),
            push_cycles: machine.queue.push_cycles,
        }
    }
}

/// Commands of each PE by number, in the order in which they are issued, and when the last has ended.
pub(super) fn order(figures: &Figures, lines: &[Vec<Job>], without: Without) -> (u64, Vec<Vec<usize>>) {
    let jobs: usize = lines.iter().map(Vec::len).sum();
    let mut looks = 0;
    let affordable = |rule: &&Rule| {
        looks += jobs * rule.ahead;
        looks <= MOST_LOOKS
    };
    let (first, others) = RULES.split_at(1);
    let mut rules: Vec<&Rule> = first.iter().chain(others.iter().take_while(affordable)).collect();
    if without.has(Choice::Order) {
        rules = vec![&PROGRAM_ORDER];
    } else if without.has(Choice::Rules) {
        rules.truncate(1);
    }
    let ahead = rules.iter().map(|rule| rule.ahead).max().unwrap_or(RULES[0].ahead);
    let mut graphs: Vec<Graph<'_>> = lines.par_iter().map(|jobs| Graph::new(jobs, ahead)).collect();
    Graph::rank(&mut graphs);
    let run = |rule: &&Rule| {
        let first = Run::new(figures, &graphs, **rule).done();
        let again = Run { waits: first.waits.clone(), ..Run::new(figures, &graphs, **rule) }.done();
        [first, again].into_iter().min_by_key(|one| one.cycles)
    };
    let all: Vec<Option<Schedule>> = rules.par_iter().map(run).collect();
    let best = all.into_iter().flatten().min_by_key(|one| one.cycles);
    let best = best.or_broken("at least one rule is tried");
    (best.cycles, best.orders)
}

/// What a rule gives.
struct Schedule {
    /// When the last command has ended.
    cycles: u64,
    /// Commands of each PE, in the order in which they are issued.
    orders: Vec<Vec<usize>>,
    /// How long each PE waits for the others at each barrier.
    waits: Vec<Vec<u64>>,
}

/// The commands of a PE and what each waits for, among those that may be looked at with it.
struct Graph<'j> {
    jobs: &'j [Job],
    followers: Vec<Vec<usize>>,
    /// How many each follows.
    before: Vec<usize>,
    /// Barriers up to each.
    met: Vec<usize>,
    /// Cycles from the start of each to the end of all that wait for it.
    path: Vec<u64>,
}

impl<'j> Graph<'j> {
    fn new(jobs: &'j [Job], ahead: usize) -> Graph<'j> {
        let mut followers = vec![Vec::new(); jobs.len()];
        let mut before = vec![0; jobs.len()];
        for at in 0..jobs.len() {
            for earlier in at.saturating_sub(ahead - 1)..at {
                if jobs[at].follows(earlier, &jobs[earlier]) {
                    followers[earlier].push(at);
                    before[at] += 1;
                }
            }
        }
        let met = jobs.iter().scan(0, |met, job| {
            *met += usize::from(job.core == Core::Barrier);
            Some(*met)
        });
        let met = met.collect();
        Graph { jobs, followers, before, met, path: vec![0; jobs.len()] }
    }

    /// Longest paths of all, over barriers of all PEs.
    fn rank(graphs: &mut [Graph<'_>]) {
        let mut ends: Vec<usize> = graphs.iter().map(|graph| graph.jobs.len()).collect();
        let most = graphs.iter().filter_map(|graph| graph.met.last()).copied().max().unwrap_or_default();
        for met in (0..=most).rev() {
            let mut longest = 0;
            for (graph, end) in graphs.iter_mut().zip(&mut ends) {
                while *end > 0 && graph.met[*end - 1] == met {
                    *end -= 1;
                    let behind = graph.followers[*end].iter().map(|follower| graph.path[*follower]).max();
                    graph.path[*end] = graph.jobs[*end].cycles + behind.unwrap_or_default();
                }
                let barrier = graph.path.get(*end).filter(|_| graph.met.get(*end) == Some(&met));
                longest = longest.max(barrier.copied().unwrap_or_default());
            }
            for (graph, end) in graphs.iter_mut().zip(&ends) {
                if graph.jobs.get(*end).is_some_and(|job| job.core == Core::Barrier) && graph.met[*end] == met
                {
                    graph.path[*end] = longest;
                }
            }
        }
    }
}

/// Why a PE does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// It goes on.
    No,
    /// It is at a barrier since then.
    Barrier { job: usize, since: u64 },
    /// It waits for messages.
    Hear { job: usize, since: u64 },
    /// Nothing is left.
    End,
}

/// A PE while its commands are issued.
struct Pe<'g> {
    graph: &'g Graph<'g>,
    /// The control core.
    core: u64,
    /// The queue: when its last command was issued.
    issue: u64,
    free: [u64; 4],
    first: usize,
    blocked: Vec<usize>,
    /// When what each waits for has ended.
    ready: Vec<u64>,
    issued: Vec<bool>,
    order: Vec<usize>,
    stop: Stop,
    /// How long it waited for others at each barrier.
    waited: Vec<u64>,
    /// Cycles of transfers that were issued before the next barrier because it would wait there.
    filled: u64,
}

impl<'g> Pe<'g> {
    fn new(graph: &'g Graph<'g>) -> Pe<'g> {
        let jobs = graph.jobs.len();
        Pe {
            graph,
            core: 0,
            issue: 0,
            free: [0; 4],
            first: 0,
            blocked: graph.before.clone(),
            ready: vec![0; jobs],
            issued: vec![false; jobs],
            order: Vec::with_capacity(jobs),
            stop: if jobs == 0 { Stop::End } else { Stop::No },
            waited: Vec::new(),
            filled: 0,
        }
    }

    /// A transfer that brings what nobody writes and fits into what is left of a wait at the next barrier.
    fn filler(&self, rule: Rule, wait: u64) -> Option<usize> {
        let left = wait.saturating_sub(self.filled);
        let Graph { jobs, path, .. } = self.graph;
        let open = self.open(rule).into_iter().map(|(at, _)| at);
        let fits = |at: &usize| jobs[*at].free && jobs[*at].unit == Unit::Dma && jobs[*at].cycles <= left;
        open.filter(fits).max_by_key(|at| (path[*at], std::cmp::Reverse(*at)))
    }

    fn start(&self, job: &Job, ready: u64) -> u64 {
        let free = self.free[job.unit as usize];
        let held = if job.unit == Unit::Dma { free.saturating_sub(EARLY_CYCLES) } else { free };
        (self.issue + 1).max(self.core).max(ready).max(held)
    }

    /// Jobs that may be issued, with when they would start.
    fn open(&self, rule: Rule) -> Vec<(usize, u64)> {
        let graph = self.graph;
        let end = graph.jobs.len().min(self.first + rule.ahead);
        let near = graph.met[self.first] + rule.passed;
        let all = (self.first..end)
            .filter(|at| !self.issued[*at] && self.blocked[*at] == 0 && graph.met[*at] <= near);
        all.map(|at| (at, self.start(&graph.jobs[at], self.ready[at]))).collect()
    }

    /// When jobs in sight can start, as far as is known: those before them run one after the other.
    fn starts(&self, ahead: usize) -> Vec<Option<u64>> {
        let graph = self.graph;
        let end = graph.jobs.len().min(self.first + ahead);
        let mut ready: Vec<u64> = self.ready[self.first..end].to_vec();
        let mut starts = vec![None; end - self.first];
        for at in (self.first..end).filter(|at| !self.issued[*at]) {
            let start = self.start(&graph.jobs[at], ready[at - self.first]);
            starts[at - self.first] = Some(start);
            for follower in graph.followers[at].iter().take_while(|follower| **follower < end) {
                let ready = &mut ready[follower - self.first];
                *ready = (*ready).max(start + graph.jobs[at].cycles);
            }
        }
        starts
    }

    fn next(&self, rule: Rule) -> Option<usize> {
        let mut open = self.open(rule);
        let starts = self.starts(rule.ahead);
        let graph = self.graph;
        if rule.by_path {
            let first = open.iter().map(|(_, start)| *start).min()?;
            let late = |start: u64| if start <= first + NEAR_CYCLES { 0 } else { start };
            open.sort_by_key(|(at, start)| (late(*start), std::cmp::Reverse(graph.path[*at]), *at));
            let held = |at: usize, start: u64| self.is_held(at, start, &starts);
            return open.iter().find(|(at, start)| !held(*at, *start)).or(open.first()).map(|(at, _)| *at);
        }
        open.sort_by_key(|(at, start)| (*start, *at));
        let free = open.iter().find(|(at, start)| !self.holds_up(*at, *start, &open, &starts));
        free.or(open.first()).map(|(at, _)| *at)
    }

    /// Whether an earlier job of the unit would have to wait longer for it than it for that one.
    fn holds_up(&self, at: usize, start: u64, open: &[(usize, u64)], starts: &[Option<u64>]) -> bool {
        let jobs = self.graph.jobs;
        let (unit, end) = (jobs[at].unit, start + jobs[at].cycles);
        if unit == Unit::Queue {
            return false;
        }
        let before = starts.iter().take(at - self.first).enumerate();
        // What still waits for others may wait longer than is known: only prefetches make way for it.
        let same = |other: &usize| {
            jobs[*other].unit == unit && (jobs[at].free || open.iter().any(|(at, _)| at == other))
        };
        let mut same = before.filter(|(other, _)| same(&(self.first + other)));
        same.any(|(_, its)| its.is_some_and(|its| its < end && its.saturating_sub(start) < end - its))
    }

    /// Whether all ends sooner if another job of the unit, which starts before its end, comes first.
    fn is_held(&self, at: usize, start: u64, starts: &[Option<u64>]) -> bool {
        let Graph { jobs, path, .. } = self.graph;
        let (unit, end) = (jobs[at].unit, start + jobs[at].cycles);
        if unit == Unit::Queue {
            return false;
        }
        let others = starts.iter().enumerate().map(|(number, its)| (self.first + number, its));
        let mut others = others.filter(|(other, _)| *other != at && jobs[*other].unit == unit);
        others.any(|(other, its)| {
            its.is_some_and(|its| {
                let first = (start + path[at]).max(end + path[other]);
                let second = (its + path[other]).max(its + jobs[other].cycles + path[at]);
                its < end && second < first
            })
        })
    }

    /// A job is issued and ends then.
    fn done(&mut self, at: usize, end: u64) {
        let graph = self.graph;
        self.issued[at] = true;
        self.order.push(at);
        let unit = graph.jobs[at].unit;
        for follower in &graph.followers[at] {
            let same = graph.jobs[*follower].unit == unit && matches!(unit, Unit::Main | Unit::Sub);
            self.blocked[*follower] -= 1;
            if !same {
                self.ready[*follower] = self.ready[*follower].max(end);
            }
        }
        while self.first < graph.jobs.len() && self.issued[self.first] {
            self.first += 1;
        }
        if self.first == graph.jobs.len() {
            self.stop = Stop::End;
        }
    }
}

/// All PEs while their commands are issued.
struct Run<'g> {
    figures: &'g Figures,
    rule: Rule,
    pes: Vec<Pe<'g>>,
    /// Messages under way by sender and receiver: when they arrive.
    messages: BTreeMap<(usize, usize), VecDeque<u64>>,
    /// How long each PE waited at each barrier in a run before; none in the first.
    waits: Vec<Vec<u64>>,
    end: u64,
}

impl<'g> Run<'g> {
    fn new(figures: &'g Figures, graphs: &'g [Graph<'g>], rule: Rule) -> Run<'g> {
        let pes = graphs.iter().map(Pe::new).collect();
        Run { figures, rule, pes, messages: BTreeMap::new(), waits: Vec::new(), end: 0 }
    }

    /// The last cycle, and the order of each PE.
    fn done(mut self) -> Schedule {
        while let Some(pe) = self.turn() {
            self.step(pe);
        }
        let (orders, waits) = self.pes.into_iter().map(|pe| (pe.order, pe.waited)).unzip();
        Schedule { cycles: self.end, orders, waits }
    }

    /// The PE whose queue is the first to go on.
    fn turn(&mut self) -> Option<usize> {
        self.hear();
        let goes = |pe: &(usize, &Pe<'_>)| pe.1.stop == Stop::No;
        let first = self.pes.iter().enumerate().filter(goes).min_by_key(|(_, pe)| pe.issue.max(pe.core));
        let first = first.map(|(at, _)| at);
        if first.is_some() || self.pes.iter().all(|pe| pe.stop == Stop::End) {
            return first;
        }
        self.meet();
        self.pes.iter().position(|pe| pe.stop == Stop::No)
    }

    /// All PEs are at a barrier, and go on.
    fn meet(&mut self) {
        let since = self.pes.iter().filter_map(|pe| match pe.stop {
            Stop::Barrier { since, .. } => Some(since),
            _ => None,
        });
        let at =
            since.max().or_broken("PEs that do not go on are at a barrier") + self.figures.message_cycles;
        for pe in &mut self.pes {
            if let Stop::Barrier { job, since } = pe.stop {
                (pe.stop, pe.core) = (Stop::No, at);
                pe.waited.push(at - since);
                pe.filled = 0;
                pe.done(job, at);
            }
        }
    }

    /// PEs whose messages have been sent go on.
    fn hear(&mut self) {
        for number in 0..self.pes.len() {
            let pe = &mut self.pes[number];
            let Stop::Hear { job, since } = pe.stop else { continue };
            let Core::Hear { from } = &pe.graph.jobs[job].core else { continue };
            let sent = |from: &usize| self.messages.get(&(*from, number)).is_some_and(|all| !all.is_empty());
            if from.iter().all(sent) {
                let arrived =
                    from.iter().filter_map(|from| self.messages.get_mut(&(*from, number))?.pop_front());
                let at = arrived.fold(since, u64::max);
                (pe.stop, pe.core) = (Stop::No, at);
                pe.done(job, at);
            }
        }
    }

    fn step(&mut self, number: usize) {
        let sharing = self.pes.iter().enumerate();
        let issue = self.pes[number].issue;
        let sharing = sharing.filter(|(at, pe)| *at != number && pe.free[Unit::Dma as usize] > issue).count();
        let pe = &mut self.pes[number];
        let mut next = pe.next(self.rule).or_broken("a command that waits for none");
        if pe.graph.jobs[next].core == Core::Barrier
            && let Some(wait) = self.waits.get(number).and_then(|waits| waits.get(pe.waited.len()))
            && let Some(filler) = pe.filler(self.rule, *wait)
        {
            pe.filled += pe.graph.jobs[filler].cycles;
            next = filler;
        }
        let job = &pe.graph.jobs[next];
        pe.core += self.figures.push_cycles;
        let at = pe.core.max(pe.ready[next]);
        match &job.core {
            Core::Push => {
                let free = pe.free[job.unit as usize];
                pe.issue = (pe.issue + 1).max(at);
                if job.unit != Unit::Dma {
                    pe.issue = pe.issue.max(free);
                }
                let shared = job.hbm_cycles * (sharing as u64 + 1);
                let end = pe.issue.max(free) + job.cycles.max(shared);
                pe.free[job.unit as usize] = end;
                self.end = self.end.max(end);
                pe.done(next, end);
            }
            Core::Barrier => pe.stop = Stop::Barrier { job: next, since: at },
            Core::Tell { to, .. } => {
                for to in to {
                    let arrives = at + self.figures.message_cycles;
                    self.messages.entry((number, *to)).or_default().push_back(arrives);
                }
                pe.core = at;
                pe.done(next, at);
            }
            Core::Hear { .. } => pe.stop = Stop::Hear { job: next, since: at },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
                let mut graphs: Vec<Graph<'_>> =
                    lines.iter().map(|jobs| Graph::new(jobs, rule.ahead)).collect();
                Graph::rank(&mut graphs);
                let orders = Run::new(&FIGURES, &graphs, rule).done().orders;
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
            let mut graphs: Vec<Graph<'_>> = lines.iter().map(|jobs| Graph::new(jobs, 256)).collect();
            Graph::rank(&mut graphs);
            let first = RULES.map(|rule| Run::new(&FIGURES, &graphs, rule).done());
            let (best, _) = order(&FIGURES, &lines, Without::default());
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
        let (_, order) = order(&FIGURES, &[jobs], Without::default());
        let place = |at: usize| order[0].iter().position(|one| *one == at).unwrap();
        assert!(place(1) < place(2) && place(4) < place(2), "{order:?}");
    }
}
