//! Every order in which the steps of a small program can be taken, one state after the other.
//!
//! A control core takes its steps one by one: it pushes commands, waits for its queue, for a command or for a
//! message. A queue takes its commands in order and holds at an `exec` whose context still runs a command of
//! this queue. A command starts when its context is free on all of its PEs, and ends at any time after that.

use std::collections::BTreeSet;

use tilewright_tcp_isa::program::control::StepKind;
use tilewright_tcp_isa::program::exec::Context;
use tilewright_tcp_isa::program::{Command, Program};

/// An `exec` of a program: which image, on which PE's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Issue {
    pub(super) exec: usize,
    pub(super) pe: u64,
    id: u8,
    context: Context,
    pes: u64,
}

/// How far a command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Progress {
    Ahead,
    Issued,
    Running,
    Done,
}

/// Where everything stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    /// Steps that each core has taken.
    cores: Vec<usize>,
    /// Steps of each core whose commands the queue has taken; never more than the core's.
    queues: Vec<usize>,
    commands: Vec<Progress>,
    /// Messages on their way, by sender.
    messages: Vec<u64>,
}

/// Pairs of commands of which neither always ends before the other starts.
pub(super) fn unordered(program: &Program) -> Vec<(Issue, Issue)> {
    let search = Search::new(program);
    let late = search.explore();
    let count = search.issues.len();
    let pairs = (0..count).flat_map(|one| (one + 1..count).map(move |other| (one, other)));
    let pairs = pairs.filter(|&(one, other)| late.contains(&(one, other)) && late.contains(&(other, one)));
    pairs.map(|(one, other)| (search.issues[one], search.issues[other])).collect()
}

struct Search<'a> {
    program: &'a Program,
    issues: Vec<Issue>,
    /// The command of each step of each queue, if it starts one.
    by_step: Vec<Vec<Option<usize>>>,
}

impl Search<'_> {
    fn new(program: &Program) -> Search<'_> {
        let (mut issues, mut by_step) = (Vec::new(), Vec::new());
        for queue in &program.queues {
            let mut loaded = [0, 0];
            let mut own = Vec::new();
            for step in &queue.steps {
                let mut started = None;
                match step.kind {
                    StepKind::Push(Command::Load(exec)) => {
                        let exec = exec.0 as usize;
                        loaded[program.execs[exec].context as usize] = exec;
                    }
                    StepKind::Push(Command::Exec { context, id }) => {
                        let exec = loaded[context as usize];
                        started = Some(issues.len());
                        issues.push(Issue { exec, pe: queue.pe, id, context, pes: program.execs[exec].pes });
                    }
                    _ => {}
                }
                own.push(started);
            }
            by_step.push(own);
        }
        Search { program, issues, by_step }
    }

    /// Pairs `(a, b)` such that `b` can start while `a` is not done.
    fn explore(&self) -> BTreeSet<(usize, usize)> {
        let queues = self.program.queues.len();
        let first = State {
            cores: vec![0; queues],
            queues: vec![0; queues],
            commands: vec![Progress::Ahead; self.issues.len()],
            messages: vec![0; queues],
        };
        let (mut seen, mut open) = (BTreeSet::from([first.clone()]), vec![first]);
        let mut late = BTreeSet::new();
        while let Some(state) = open.pop() {
            for next in self.successors(&state, &mut late) {
                if seen.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        late
    }

    fn successors(&self, state: &State, late: &mut BTreeSet<(usize, usize)>) -> Vec<State> {
        let mut next = Vec::new();
        for at in 0..state.cores.len() {
            next.extend(self.core_steps(state, at));
            next.extend(self.queue_takes(state, at));
        }
        for (command, progress) in state.commands.iter().enumerate() {
            let after = match progress {
                Progress::Issued if self.is_free(state, command) => {
                    let open = |other: &usize| state.commands[*other] != Progress::Done;
                    let others = (0..self.issues.len()).filter(|other| *other != command).filter(open);
                    late.extend(others.map(|other| (other, command)));
                    Progress::Running
                }
                Progress::Running => Progress::Done,
                _ => continue,
            };
            let mut state = state.clone();
            state.commands[command] = after;
            next.push(state);
        }
        next
    }

    /// The context of a command is free on all of its PEs.
    fn is_free(&self, state: &State, command: usize) -> bool {
        let own = self.issues[command];
        let meets = |other: &Issue| {
            other.context == own.context && other.pe < own.pe + own.pes && own.pe < other.pe + other.pes
        };
        let running = |(other, progress): (&Issue, &Progress)| meets(other) && *progress == Progress::Running;
        !self.issues.iter().zip(&state.commands).any(running)
    }

    fn core_steps(&self, state: &State, at: usize) -> Option<State> {
        let queue = &self.program.queues[at];
        let step = queue.steps.get(state.cores[at])?;
        let mut next = state.clone();
        match step.kind {
            StepKind::Push(_) => {}
            StepKind::Sync => {
                let taken = state.queues[at] == state.cores[at];
                (taken && self.all_done(state, queue.pe)).then_some(())?;
            }
            StepKind::Await { id, .. } => self.is_done(state, queue.pe, id).then_some(())?,
            StepKind::Post { .. } => next.messages[at] += 1,
            StepKind::Receive { .. } => {
                let sender = 1 - at;
                next.messages[sender] = next.messages[sender].checked_sub(1)?;
            }
            _ => panic!("a step that is not drawn"),
        }
        // What is no command never is in the queue.
        if !matches!(step.kind, StepKind::Push(_)) && next.queues[at] == next.cores[at] {
            next.queues[at] += 1;
        }
        next.cores[at] += 1;
        Some(next)
    }

    fn queue_takes(&self, state: &State, at: usize) -> Option<State> {
        let queue = &self.program.queues[at];
        let head = state.queues[at];
        (head < state.cores[at]).then_some(())?;
        let mut next = state.clone();
        match queue.steps[head].kind {
            StepKind::Push(Command::Exec { context, .. }) => {
                let busy = |(other, progress): (&Issue, &Progress)| {
                    (other.pe, other.context) == (queue.pe, context)
                        && matches!(progress, Progress::Issued | Progress::Running)
                };
                (!self.issues.iter().zip(&state.commands).any(busy)).then_some(())?;
                next.commands[self.by_step[at][head].unwrap()] = Progress::Issued;
            }
            StepKind::Push(Command::WaitE(id)) => self.is_done(state, queue.pe, id).then_some(())?,
            _ => {}
        }
        next.queues[at] += 1;
        Some(next)
    }

    fn is_done(&self, state: &State, pe: u64, id: u8) -> bool {
        let named = |issue: &Issue| issue.pe == pe && issue.id == id;
        let mut known = self.issues.iter().zip(&state.commands);
        known.any(|(issue, progress)| named(issue) && *progress == Progress::Done)
    }

    /// Every command of a queue that it has taken is done.
    fn all_done(&self, state: &State, pe: u64) -> bool {
        let open = |(issue, progress): (&Issue, &Progress)| {
            issue.pe == pe && matches!(progress, Progress::Issued | Progress::Running)
        };
        !self.issues.iter().zip(&state.commands).any(open)
    }
}
