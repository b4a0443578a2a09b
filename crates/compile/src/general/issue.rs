//! Which command each PE issues next: list scheduling of all PEs at once (stage 5; paper section V-C).
//!
//! A queue is in order: a command that waits holds all behind it, and one of a context is issued when the
//! context is free. The control core goes on meanwhile, but for barriers and messages. A [`Rule`] chooses
//! among the next commands in program order whose predecessors are issued, or an order is given; either runs
//! on one model of queues, contexts, engines, barriers and HBM. `issue_search` says what is tried.

use std::collections::BTreeMap;

use rayon::prelude::*;
use tilewright_base::invariant::{OrBroken, broken};
use tilewright_machine::tcp::Tcp;

use super::issue_windows::Given;
use super::order::{Core, Job, Unit};

/// Cycles before the engine is free at which the next transfer is given to it.
const EARLY_CYCLES: u64 = 400;
/// Commands that start within so many cycles of each other are compared by their paths.
const NEAR_CYCLES: u64 = 64;
/// How the next command is chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    /// Commands that are looked at beyond the first that is not issued.
    pub(super) ahead: usize,
    /// Barriers of all PEs that a prefetch may come before: more takes the engine from what is needed sooner.
    pub(super) passed: usize,
    /// The longest path to the end decides, not the first start alone.
    pub(super) by_path: bool,
}

/// What the model takes from the chip.
pub(super) struct Figures {
    /// From a message that is sent to one that is received.
    pub(super) message_cycles: u64,
    /// What the control core takes for a command.
    pub(super) push_cycles: u64,
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

/// What a rule or a given order comes to.
pub(super) struct Schedule {
    /// When the last command has ended.
    pub(super) cycles: u64,
    /// Commands of each PE, in the order in which they are issued.
    pub(super) orders: Vec<Vec<usize>>,
    /// How long each PE waits for the others at each barrier.
    pub(super) waits: Vec<Vec<u64>>,
    /// When the last message that each command of each PE waits for has arrived.
    pub(super) arrivals: Vec<Vec<u64>>,
}

/// The commands of a PE and what each waits for, among those that may be looked at with it.
pub(super) struct Graph<'j> {
    pub(super) jobs: &'j [Job],
    followers: Vec<Vec<usize>>,
    /// How many each follows.
    before: Vec<usize>,
    /// Barriers, and waits for signals, up to each.
    met: Vec<usize>,
    /// Commands of other PEs that wait for a message of this one, by command.
    sends: BTreeMap<usize, Vec<(usize, usize)>>,
    /// Cycles from the start of each to the end of all that wait for it.
    pub(super) path: Vec<u64>,
}

impl<'j> Graph<'j> {
    pub(super) fn new(jobs: &'j [Job], ahead: usize) -> Graph<'j> {
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
            *met += usize::from(matches!(job.core, Core::Barrier | Core::Await { .. }));
            Some(*met)
        });
        let met = met.collect();
        Graph { jobs, followers, before, met, sends: BTreeMap::new(), path: vec![0; jobs.len()] }
    }

    /// Commands of all PEs, which look so far ahead, with messages between them and longest paths.
    pub(super) fn all(figures: &Figures, lines: &'j [Vec<Job>], ahead: usize) -> Vec<Graph<'j>> {
        let mut graphs: Vec<Graph<'_>> = lines.par_iter().map(|jobs| Graph::new(jobs, ahead)).collect();
        Graph::link(&mut graphs);
        Graph::rank(figures, &mut graphs);
        graphs
    }

    /// Finds who waits for which message: those of a pair of PEs arrive in order.
    fn link(graphs: &mut [Graph<'_>]) {
        let mut heard: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
        for (pe, graph) in graphs.iter().enumerate() {
            for (at, job) in graph.jobs.iter().enumerate() {
                job.core.senders().iter().for_each(|from| heard.entry((*from, pe)).or_default().push(at));
            }
        }
        let mut sent: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        for (pe, graph) in graphs.iter_mut().enumerate() {
            for (at, job) in graph.jobs.iter().enumerate() {
                for to in job.core.receivers() {
                    let number = sent.entry((pe, *to)).or_default();
                    let wait = heard.get(&(pe, *to)).and_then(|all| all.get(*number));
                    let wait = *wait.or_broken("each message is waited for");
                    graph.sends.entry(at).or_default().push((*to, wait));
                    *number += 1;
                }
            }
        }
    }

    /// Longest paths of all, over barriers of all PEs and messages between them.
    fn rank(figures: &Figures, graphs: &mut [Graph<'_>]) {
        let mut ends: Vec<usize> = graphs.iter().map(|graph| graph.jobs.len()).collect();
        while ends.iter().any(|end| *end > 0) {
            let before = ends.clone();
            for pe in 0..graphs.len() {
                while let Some(at) =
                    ends[pe].checked_sub(1).filter(|at| graphs[pe].is_ranked_next(*at, &ends))
                {
                    let messages = graphs[pe].sends.get(&at).into_iter().flatten();
                    let messages =
                        messages.map(|(to, wait)| graphs[*to].path[*wait] + figures.message_cycles);
                    let message = messages.max().unwrap_or_default();
                    let graph = &mut graphs[pe];
                    let behind = graph.followers[at].iter().map(|follower| graph.path[*follower]).max();
                    graph.path[at] = graph.jobs[at].cycles + behind.unwrap_or_default().max(message);
                    ends[pe] = at;
                }
            }
            if ends == before {
                Graph::rank_barrier(graphs, &mut ends);
            }
        }
    }

    /// Whether all is known that the path of a command goes on with.
    fn is_ranked_next(&self, at: usize, ends: &[usize]) -> bool {
        let known = |(to, wait): &(usize, usize)| *wait >= ends[*to];
        self.jobs[at].core != Core::Barrier && self.sends.get(&at).into_iter().flatten().all(known)
    }

    /// The paths of a barrier, at which all PEs have arrived from the end.
    fn rank_barrier(graphs: &mut [Graph<'_>], ends: &mut [usize]) {
        let mut longest = 0;
        let mut met = Vec::new();
        for (pe, graph) in graphs.iter().enumerate() {
            let Some(at) = ends[pe].checked_sub(1) else { continue };
            if graph.jobs[at].core == Core::Barrier {
                let behind = graph.followers[at].iter().map(|follower| graph.path[*follower]).max();
                longest = longest.max(behind.unwrap_or_default());
                met.push((pe, at));
            }
        }
        if met.is_empty() {
            broken(format_args!("messages of PEs that wait for one another"));
        }
        for (pe, at) in met {
            graphs[pe].path[at] = longest;
            ends[pe] = at;
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
pub(super) struct Pe<'g> {
    pub(super) graph: &'g Graph<'g>,
    /// Which of several commands comes first: mostly the longest path.
    ranks: &'g [u64],
    /// The control core.
    pub(super) core: u64,
    /// The queue: when its last command was issued.
    pub(super) issue: u64,
    pub(super) free: [u64; 4],
    first: usize,
    blocked: Vec<usize>,
    /// When what each waits for has ended.
    pub(super) ready: Vec<u64>,
    issued: Vec<bool>,
    pub(super) order: Vec<usize>,
    stop: Stop,
    /// Messages that each command still waits for.
    missing: Vec<usize>,
    /// When the last message has arrived that each waits for.
    arrivals: Vec<u64>,
    /// The same as a run before had it.
    expected: &'g [u64],
    /// How long it waited for others at each barrier.
    waited: Vec<u64>,
    /// Cycles of transfers that were issued before the next barrier because it would wait there.
    filled: u64,
}

impl<'g> Pe<'g> {
    fn new(graph: &'g Graph<'g>, ranks: &'g [u64]) -> Pe<'g> {
        let jobs = graph.jobs.len();
        Pe {
            graph,
            ranks,
            core: 0,
            issue: 0,
            free: [0; 4],
            first: 0,
            blocked: graph.before.clone(),
            ready: vec![0; jobs],
            issued: vec![false; jobs],
            order: Vec::with_capacity(jobs),
            stop: if jobs == 0 { Stop::End } else { Stop::No },
            missing: graph.jobs.iter().map(|job| job.core.senders().len()).collect(),
            arrivals: vec![0; jobs],
            expected: &[],
            waited: Vec::new(),
            filled: 0,
        }
    }

    /// A transfer that brings what nobody writes and fits into what is left of a wait at the next barrier.
    fn filler(&self, rule: Rule, wait: u64) -> Option<usize> {
        let left = wait.saturating_sub(self.filled);
        let (jobs, path) = (self.graph.jobs, self.ranks);
        let open = self.open(rule).into_iter().map(|(at, _)| at);
        let fits = |at: &usize| jobs[*at].free && jobs[*at].unit == Unit::Dma && jobs[*at].cycles <= left;
        open.filter(fits).max_by_key(|at| (path[*at], std::cmp::Reverse(*at)))
    }

    /// When a command would start whose predecessors have ended; `None` if that is not known.
    fn start(&self, at: usize, ready: u64) -> Option<u64> {
        let job = &self.graph.jobs[at];
        let free = self.free[job.unit as usize];
        let held = if job.unit == Unit::Dma { free.saturating_sub(EARLY_CYCLES) } else { free };
        let arrival = match self.missing[at] {
            0 => self.arrivals[at],
            _ => *self.expected.get(at)?,
        };
        Some((self.issue + 1).max(self.core).max(ready).max(held).max(arrival))
    }

    /// Jobs that may be issued, with when they would start. Who waits for messages of which nothing is known
    /// waits when nothing else is left: the first of all jobs is never held up by later ones.
    fn open(&self, rule: Rule) -> Vec<(usize, u64)> {
        let graph = self.graph;
        let end = graph.jobs.len().min(self.first + rule.ahead);
        let near = graph.met[self.first] + rule.passed;
        let all = (self.first..end)
            .filter(|at| !self.issued[*at] && self.blocked[*at] == 0 && graph.met[*at] <= near);
        let last = |at: usize| (at == self.first).then_some(u64::MAX);
        all.filter_map(|at| Some((at, self.start(at, self.ready[at]).or(last(at))?))).collect()
    }

    /// When jobs in sight can start, as far as is known: those before them run one after the other.
    fn starts(&self, ahead: usize) -> Vec<Option<u64>> {
        let graph = self.graph;
        let end = graph.jobs.len().min(self.first + ahead);
        let mut ready: Vec<Option<u64>> = self.ready[self.first..end].iter().copied().map(Some).collect();
        let mut starts = vec![None; end - self.first];
        for at in (self.first..end).filter(|at| !self.issued[*at]) {
            let start = ready[at - self.first].and_then(|ready| self.start(at, ready));
            starts[at - self.first] = start;
            for follower in graph.followers[at].iter().take_while(|follower| **follower < end) {
                let ready = &mut ready[follower - self.first];
                let behind = start.map(|start| start + graph.jobs[at].cycles);
                *ready = ready.zip(behind).map(|(ready, behind)| ready.max(behind));
            }
        }
        starts
    }

    fn next(&self, rule: Rule) -> Option<usize> {
        let mut open = self.open(rule);
        let starts = self.starts(rule.ahead);
        if rule.by_path {
            let first = open.iter().map(|(_, start)| *start).min()?;
            let late = |start: u64| if start <= first + NEAR_CYCLES { 0 } else { start };
            open.sort_by_key(|(at, start)| (late(*start), std::cmp::Reverse(self.ranks[*at]), *at));
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
        let (jobs, path) = (self.graph.jobs, self.ranks);
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
pub(super) struct Run<'g> {
    figures: &'g Figures,
    rule: Rule,
    /// The order that is followed instead of the rule.
    given: Option<Given>,
    pes: Vec<Pe<'g>>,
    /// PEs wait for one another.
    stuck: bool,
    /// How long each PE waited at each barrier in a run before; none in the first.
    waits: Vec<Vec<u64>>,
    end: u64,
}

impl<'g> Run<'g> {
    pub(super) fn new(figures: &'g Figures, graphs: &'g [Graph<'g>], rule: Rule) -> Run<'g> {
        let pes = graphs.iter().map(|graph| Pe::new(graph, &graph.path)).collect();
        Run { figures, rule, given: None, pes, stuck: false, waits: Vec::new(), end: 0 }
    }

    /// The same by other ranks of commands than their paths.
    pub(super) fn ranked(mut self, ranks: &'g [Vec<u64>]) -> Run<'g> {
        self.pes.iter_mut().zip(ranks).for_each(|(pe, ranks)| pe.ranks = ranks);
        self
    }

    /// Brings forward what fits into waits at barriers, and expects messages, as a run before it had them.
    pub(super) fn again(mut self, before: &'g Schedule) -> Run<'g> {
        self.waits.clone_from(&before.waits);
        self.pes.iter_mut().zip(&before.arrivals).for_each(|(pe, arrivals)| pe.expected = arrivals);
        self
    }

    /// Follows an order, which keeps what must be kept.
    pub(super) fn given(mut self, given: Given) -> Run<'g> {
        self.given = Some(given);
        self
    }

    /// The last cycle, and the order of each PE; `None` if PEs come to wait for one another, since they
    /// expected messages that did not come.
    pub(super) fn done(mut self) -> Option<Schedule> {
        while let Some(pe) = self.turn() {
            self.step(pe);
        }
        if self.stuck {
            return None;
        }
        let mut schedule =
            Schedule { cycles: self.end, orders: Vec::new(), waits: Vec::new(), arrivals: Vec::new() };
        for pe in self.pes {
            schedule.orders.push(pe.order);
            schedule.waits.push(pe.waited);
            schedule.arrivals.push(pe.arrivals);
        }
        Some(schedule)
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
        if self.pes.iter().any(|pe| matches!(pe.stop, Stop::Hear { .. })) {
            self.stuck = true;
            return None;
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
        for pe in &mut self.pes {
            let Stop::Hear { job, since } = pe.stop else { continue };
            if pe.missing[job] == 0 {
                let at = since.max(pe.arrivals[job]);
                (pe.stop, pe.core) = (Stop::No, at);
                pe.done(job, at);
            }
        }
    }

    /// A PE sends the messages of a command.
    fn send(&mut self, number: usize, command: usize, at: u64) {
        let arrives = at + self.figures.message_cycles;
        let graph = self.pes[number].graph;
        for (to, wait) in graph.sends.get(&command).into_iter().flatten() {
            let pe = &mut self.pes[*to];
            pe.missing[*wait] -= 1;
            pe.arrivals[*wait] = pe.arrivals[*wait].max(arrives);
        }
    }

    fn step(&mut self, number: usize) {
        let sharing = self.pes.iter().enumerate();
        let issue = self.pes[number].issue;
        let sharing = sharing.filter(|(at, pe)| *at != number && pe.free[Unit::Dma as usize] > issue).count();
        let pe = &mut self.pes[number];
        let mut next = match &mut self.given {
            Some(given) => given.next(number, pe, sharing),
            None => pe.next(self.rule).or_broken("a command that waits for none"),
        };
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
            Core::Tell { .. } | Core::Signal { .. } => {
                pe.core = at;
                pe.done(next, at);
                self.send(number, next, at);
            }
            Core::Hear { .. } | Core::Await { .. } => pe.stop = Stop::Hear { job: next, since: at },
        }
    }
}
