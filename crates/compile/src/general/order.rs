//! The order in which a PE issues its commands: list scheduling (stage 5; paper section V-C).
//!
//! A queue is in order: a command that waits holds all behind it, and one of a context is issued when the
//! context is free. Of the next commands in program order whose predecessors are issued, the one that can
//! start first comes next. Commands that touch the same bytes keep their order; so do all around a barrier of
//! PEs, but for transfers that bring what nobody writes. Messages between PEs keep their order among each
//! other: what a message tells comes before it, and behind one that is received comes all that may need it.

use std::ops::Range;

use tilewright_machine::tcp::Tcp;
use tilewright_tcp_cost::cycles::image::{exec_cycles, transfer_cost};
use tilewright_tcp_isa::footprint::{MemoryAccess, of_exec, of_transfer};
use tilewright_tcp_isa::program::event::PeId;
use tilewright_tcp_isa::program::exec::{Context, Exec};
use tilewright_tcp_isa::program::transfer::Transfer;

/// Commands that are looked at beyond the first that is not issued.
const AHEAD: usize = 32;
/// Barriers of all PEs that a prefetch may come before: more takes the engine from what is needed sooner.
const PASSED: usize = 1;
/// Cycles before the engine is free at which the next transfer is given to it.
const EARLY_CYCLES: u64 = 400;

/// Who runs a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Main,
    Sub,
    Dma,
    /// The queue itself.
    Queue,
}

/// What the control core does itself.
#[derive(Debug, PartialEq, Eq)]
enum Core {
    /// It gives a command to the queue.
    Push,
    /// All PEs wait for each other.
    Barrier,
    /// Others learn that some commands, or all executions so far, are done.
    Tell { after: Vec<usize>, execs: bool },
    /// It waits for others.
    Hear,
}

/// A command as far as its place among others goes.
#[derive(Debug)]
pub(super) struct Job {
    core: Core,
    unit: Unit,
    cycles: u64,
    accesses: Vec<MemoryAccess>,
    /// Nothing passes it, but for what is free.
    barrier: bool,
    /// It brings what nobody writes, so that it may pass a meeting.
    pub(super) free: bool,
}

impl Job {
    /// A command of the tensor unit; one that stays at a bank keeps its place.
    pub(super) fn exec(machine: &Tcp, pe: u64, exec: &Exec, stays: bool) -> Job {
        let unit = if exec.context == Context::Main { Unit::Main } else { Unit::Sub };
        let accesses = of_exec(machine, exec, PeId { chip: 0, pe }, &[]).accesses;
        let cycles = exec_cycles(machine, exec).total_cycles;
        Job { core: Core::Push, unit, cycles, accesses, barrier: stays, free: false }
    }

    /// A transfer, as long as it takes when nobody else asks HBM.
    pub(super) fn transfer(machine: &Tcp, transfer: &Transfer, free: bool) -> Job {
        let accesses = of_transfer(machine, transfer, &[]).accesses;
        let alone = transfer_cost(machine, transfer).map_or(0, |cost| cost.cycles.total_cycles);
        let barrier = transfer.index.is_some();
        Job { core: Core::Push, unit: Unit::Dma, cycles: alone, accesses, barrier, free }
    }

    /// All PEs wait for each other.
    pub(super) fn meet() -> Job {
        Job::of_core(Core::Barrier, Vec::new())
    }

    /// Others learn that commands of the PE, by number, or all of its executions so far are done.
    pub(super) fn tell(after: &[usize], execs: bool) -> Job {
        Job::of_core(Core::Tell { after: after.to_vec(), execs }, Vec::new())
    }

    /// The PE learns that others are done, which have touched some bytes of its own until then.
    pub(super) fn hear(accesses: Vec<MemoryAccess>) -> Job {
        Job::of_core(Core::Hear, accesses)
    }

    fn of_core(core: Core, accesses: Vec<MemoryAccess>) -> Job {
        Job { core, unit: Unit::Queue, cycles: 0, accesses, barrier: true, free: false }
    }

    fn is_exec(&self) -> bool {
        matches!(self.unit, Unit::Main | Unit::Sub)
    }

    /// Whether it comes behind another one, whose number is given.
    fn follows(&self, number: usize, before: &Job) -> bool {
        match (&self.core, &before.core) {
            // PEs wait for each other for what lies in HBM, which executions do not touch.
            (Core::Barrier, Core::Push) => !before.free && !before.is_exec(),
            (Core::Push, Core::Barrier) => !self.free && !self.is_exec(),
            (Core::Tell { after, execs }, Core::Push) => {
                after.contains(&number) || *execs && before.is_exec()
            }
            (Core::Push, Core::Tell { .. }) => false,
            (Core::Hear, Core::Push) => !before.free,
            (Core::Push, Core::Hear) => !self.free || meets(&self.accesses, &before.accesses),
            (Core::Push, Core::Push) => {
                self.barrier || before.barrier || meets(&self.accesses, &before.accesses)
            }
            _ => true,
        }
    }
}

fn meets(a: &[MemoryAccess], b: &[MemoryAccess]) -> bool {
    let conflict = |a: &MemoryAccess, b: &MemoryAccess| {
        (a.write || b.write) && a.meets(b) && a.bytes.overlap(&b.bytes).is_some()
    };
    a.iter().any(|a| b.iter().any(|b| conflict(a, b)))
}

/// What is known of a job while others are issued.
#[derive(Clone, Debug, Default)]
struct State {
    /// Jobs before it that are not issued.
    blocked: usize,
    /// When what it waits for has ended.
    ready: u64,
    /// Jobs behind it that wait for it.
    followers: Vec<usize>,
    issued: bool,
}

/// Times of the queue and of the units.
#[derive(Default)]
struct Clock {
    issue: u64,
    free: [u64; 4],
}

impl Clock {
    fn start(&self, job: &Job, ready: u64) -> u64 {
        let free = self.free[job.unit as usize];
        let held = if job.unit == Unit::Dma { free.saturating_sub(EARLY_CYCLES) } else { free };
        (self.issue + 1).max(ready).max(held)
    }

    fn issued(&mut self, job: &Job, ready: u64) -> u64 {
        let free = self.free[job.unit as usize];
        self.issue = (self.issue + 1).max(ready);
        if job.unit != Unit::Dma {
            self.issue = self.issue.max(free);
        }
        let end = self.issue.max(free) + job.cycles;
        self.free[job.unit as usize] = end;
        end
    }
}

/// Jobs by number in the order in which they are issued.
pub(super) fn order(jobs: &[Job]) -> Vec<usize> {
    let mut states = vec![State::default(); jobs.len()];
    let segments: Vec<usize> = jobs
        .iter()
        .scan(0, |met, job| {
            *met += usize::from(job.core == Core::Barrier);
            Some(*met)
        })
        .collect();
    let mut clock = Clock::default();
    let (mut first, mut seen) = (0, 0);
    let mut all = Vec::with_capacity(jobs.len());
    while first < jobs.len() {
        while seen < jobs.len().min(first + AHEAD) {
            enter(jobs, &mut states, first, seen);
            seen += 1;
        }
        let near = segments[first] + PASSED;
        let open = (first..seen)
            .filter(|at| !states[*at].issued && states[*at].blocked == 0 && segments[*at] <= near);
        let open: Vec<(usize, u64)> = open.map(|at| (at, clock.start(&jobs[at], states[at].ready))).collect();
        let sight = Sight::new(jobs, &states, &clock, first..seen);
        let Some(next) = sight.soonest(&open) else { break };
        let end = clock.issued(&jobs[next], states[next].ready);
        states[next].issued = true;
        all.push(next);
        for follower in std::mem::take(&mut states[next].followers) {
            let same = jobs[follower].unit == jobs[next].unit && jobs[next].unit != Unit::Dma;
            let state = &mut states[follower];
            state.blocked -= 1;
            state.ready = if same { state.ready } else { state.ready.max(end) };
        }
        while first < jobs.len() && states[first].issued {
            first += 1;
        }
    }
    all
}

/// When jobs in sight can start, as far as is known: those before them run one after the other.
struct Sight<'j> {
    jobs: &'j [Job],
    first: usize,
    /// Start of each job that is not issued, from the first on.
    starts: Vec<Option<u64>>,
}

impl<'j> Sight<'j> {
    fn new(jobs: &'j [Job], states: &[State], clock: &Clock, seen: Range<usize>) -> Sight<'j> {
        let first = seen.start;
        let mut ready: Vec<u64> = seen.clone().map(|at| states[at].ready).collect();
        let mut starts = vec![None; seen.len()];
        for at in seen.filter(|at| !states[*at].issued) {
            let start = clock.start(&jobs[at], ready[at - first]);
            starts[at - first] = Some(start);
            for follower in &states[at].followers {
                let ready = &mut ready[follower - first];
                *ready = (*ready).max(start + jobs[at].cycles);
            }
        }
        Sight { jobs, first, starts }
    }

    /// Of the jobs that may be issued the one that starts first, but for those for which an earlier one of
    /// their unit would have to wait longer than they for it.
    fn soonest(&self, open: &[(usize, u64)]) -> Option<usize> {
        let mut open = open.to_vec();
        open.sort_by_key(|(at, start)| (*start, *at));
        let free = open.iter().find(|(at, start)| !self.holds_up(*at, *start, &open));
        free.or(open.first()).map(|(at, _)| *at)
    }

    fn holds_up(&self, at: usize, start: u64, open: &[(usize, u64)]) -> bool {
        let (unit, end) = (self.jobs[at].unit, start + self.jobs[at].cycles);
        if unit == Unit::Queue {
            return false;
        }
        let before = self.starts.iter().take(at - self.first).enumerate();
        // What still waits for others may wait longer than is known: only prefetches make way for it.
        let same = |other: &usize| {
            self.jobs[*other].unit == unit && (self.jobs[at].free || open.iter().any(|(at, _)| at == other))
        };
        let mut same = before.filter(|(other, _)| same(&(self.first + other)));
        same.any(|(_, its)| its.is_some_and(|its| its < end && its.saturating_sub(start) < end - its))
    }
}

/// A job comes into sight: what it waits for among those that are not issued.
fn enter(jobs: &[Job], states: &mut [State], first: usize, at: usize) {
    for before in first..at {
        if !states[before].issued && jobs[at].follows(before, &jobs[before]) {
            states[before].followers.push(at);
            states[at].blocked += 1;
        }
    }
}
