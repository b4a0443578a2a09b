//! The order of a few commands, by integer programming (paper section V-C: heuristics, then integer linear
//! programming).
//!
//! A queue is in order: a command that waits holds all behind it. Of some commands that come one after the
//! other, those that touch the same bytes keep their order; the others may be issued in any. The program has
//! a time of issue and an end for each command, and for each pair without a fixed order one binary that says
//! which comes first:
//!
//! - commands are issued one after the other, a cycle or more apart;
//! - a command of a context is issued when what ran there before has ended, a transfer starts when the engine
//!   is free;
//! - what touches the same bytes in another unit, and a transfer that touches those of a transfer, is waited
//!   for before issue.
//!
//! The last end is least, what waits behind a command counted with it; of all such orders, one whose commands
//! end early.

use good_lp::{Expression, Solution, SolverModel, Variable, constraint, variable, variables};
use tilewright_base::invariant::OrBroken;

/// Units of a processing element that work beside each other.
pub(crate) const UNITS: usize = 3;
/// The DMA engine among them: it takes transfers before it can start them.
pub(crate) const DMA: usize = 2;
/// Commands of a window at most: binaries grow with their square.
pub const MOST: usize = 8;

/// Who solves the programs. Their best orders are equally good and may differ, so choices say who found them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Solver {
    /// microlp, in Rust.
    #[default]
    Microlp,
    /// HiGHS, if this was built with `--features highs`.
    Highs,
    /// CBC, if this was built with `--features cbc`; whoever asks for it sees to it that there is a program
    /// `cbc`.
    Cbc,
}

impl Solver {
    /// All.
    pub const ALL: [Solver; 3] = [Solver::Microlp, Solver::Highs, Solver::Cbc];

    /// The one of a name.
    pub fn find(name: &str) -> Option<Solver> {
        Solver::ALL.into_iter().find(|solver| solver.name() == name)
    }

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Solver::Microlp => "microlp",
            Solver::Highs => "highs",
            Solver::Cbc => "cbc",
        }
    }

    /// Whether it is part of this build.
    pub const fn is_built(self) -> bool {
        match self {
            Solver::Microlp => true,
            Solver::Highs => cfg!(feature = "highs"),
            Solver::Cbc => cfg!(feature = "cbc"),
        }
    }

    /// The program of its own that it calls, found by its name.
    pub const fn program(self) -> Option<&'static str> {
        match self {
            Solver::Cbc => Some("cbc"),
            Solver::Microlp | Solver::Highs => None,
        }
    }
}

/// A command of a window.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Job {
    /// Who runs it.
    pub(crate) unit: usize,
    /// For how long.
    pub(crate) cycles: u64,
    /// When everything before the window that it waits for has ended.
    pub(crate) ready: u64,
    /// Jobs before it in program order that touch the same bytes, as bits.
    pub(crate) after: u32,
    /// Cycles of what waits for its end, beyond the window.
    pub(crate) behind: u64,
}

/// When the queue and the units go on, in cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Clock {
    /// The queue.
    pub(crate) issue: u64,
    /// Units.
    pub(crate) free: [u64; UNITS],
}

impl Clock {
    /// The last end of all.
    pub(crate) fn end(&self) -> u64 {
        self.free.iter().copied().fold(self.issue, u64::max)
    }

    /// The same, times from a cycle on.
    pub(crate) fn since(&self, from: u64) -> Clock {
        let since = |at: u64| at.saturating_sub(from);
        Clock { issue: since(self.issue), free: self.free.map(since) }
    }

    /// Issues a command that waits until then; gives its end.
    pub(crate) fn issue(&mut self, unit: usize, cycles: u64, ready: u64) -> u64 {
        let free = *self.free.get(unit).or_broken("a command is of a unit that there is");
        self.issue = (self.issue + 1).max(ready);
        if unit != DMA {
            self.issue = self.issue.max(free);
        }
        let end = self.issue.max(free) + cycles;
        self.free[unit] = end;
        end
    }

    /// The clock behind jobs in an order, and their ends.
    pub(crate) fn behind(mut self, jobs: &[Job], order: &[usize]) -> (Clock, Vec<u64>) {
        let mut ends = vec![0; jobs.len()];
        for at in order.iter().copied() {
            let job = jobs.get(at).or_broken("an order is of its jobs");
            let waited = (0..jobs.len()).filter(|before| job.after >> before & 1 == 1).map(|before| {
                let same = jobs.get(before).is_some_and(|other| other.unit == job.unit && job.unit != DMA);
                if same { 0 } else { ends[before] }
            });
            let ready = waited.fold(job.ready, u64::max);
            let end = self.issue(job.unit, job.cycles, ready);
            if let Some(slot) = ends.get_mut(at) {
                *slot = end;
            }
        }
        (self, ends)
    }
}

/// The best order of some jobs; as they are if the solver gives up, or finds nothing better.
pub(crate) fn order(jobs: &[Job], clock: Clock, solver: Solver) -> Vec<usize> {
    let given: Vec<usize> = (0..jobs.len()).collect();
    let free = |&(i, j): &(usize, usize)| jobs.get(j).is_some_and(|job| job.after >> i & 1 == 0);
    if jobs.len() > MOST || !pairs(jobs.len()).any(|pair| free(&pair)) {
        return given;
    }
    let found = solved(jobs, clock, solver).unwrap_or_else(|| given.clone());
    let worth = |order: &[usize]| {
        let (after, ends) = clock.behind(jobs, order);
        let last = jobs.iter().zip(&ends).map(|(job, end)| end + job.behind);
        (last.fold(after.end(), u64::max), ends.iter().sum::<u64>())
    };
    if worth(&found) < worth(&given) { found } else { given }
}

fn pairs(count: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..count).flat_map(move |j| (0..j).map(move |i| (i, j)))
}

/// Cycles as the solver has them.
#[expect(clippy::cast_precision_loss, reason = "times within a window are far below 2^53")]
fn real(cycles: u64) -> f64 {
    cycles as f64
}

/// What the program says of a job.
#[derive(Clone, Copy)]
struct Times {
    issue: Variable,
    end: Variable,
}

fn solved(jobs: &[Job], clock: Clock, solver: Solver) -> Option<Vec<usize>> {
    match solver {
        Solver::Microlp => solved_by(jobs, clock, good_lp::microlp, Some),
        #[cfg(feature = "highs")]
        Solver::Highs => {
            // Only the very best: its own rule is content with a ten-thousandth more.
            solved_by(jobs, clock, good_lp::highs, |model| model.set_threads(1).set_mip_rel_gap(0.0).ok())
        }
        #[cfg(feature = "cbc")]
        Solver::Cbc => {
            solved_by(jobs, clock, good_lp::LpSolver(good_lp::solvers::lp_solvers::CbcSolver::new()), Some)
        }
        #[cfg(not(all(feature = "highs", feature = "cbc")))]
        _ => None,
    }
}

/// The order that a solver finds, told how by `told`.
fn solved_by<S: good_lp::Solver>(
    jobs: &[Job],
    clock: Clock,
    solver: S,
    told: impl Fn(S::Model) -> Option<S::Model>,
) -> Option<Vec<usize>> {
    let start = clock.issue;
    let late = |at: u64| real(at.saturating_sub(start));
    let longest = jobs.iter().map(|job| job.cycles + 1 + job.ready.saturating_sub(start)).sum::<u64>();
    let behind = jobs.iter().map(|job| job.behind).max().unwrap_or_default();
    let horizon = late(clock.end()) + real(longest);
    let mut vars = variables!();
    let times: Vec<Times> = jobs
        .iter()
        .map(|_| Times {
            issue: vars.add(variable().min(1.0).max(horizon)),
            end: vars.add(variable().min(0.0).max(horizon)),
        })
        .collect();
    let last = vars.add(variable().min(late(clock.end())).max(horizon + real(behind)));
    // One if the first of a pair comes first.
    let fixed = |i: usize, j: usize| jobs.get(j).is_some_and(|job| job.after >> i & 1 == 1);
    let first: Vec<(usize, usize, Option<Variable>)> = pairs(jobs.len())
        .map(|(i, j)| (i, j, (!fixed(i, j)).then(|| vars.add(variable().binary()))))
        .collect();
    let ends: Expression = times.iter().map(|time| time.end).sum();
    let share = 1.0 / (horizon.max(1.0) * real(jobs.len() as u64 + 1));
    let mut model = told(vars.minimise(last + share * ends).using(solver))?;
    for (job, time) in jobs.iter().zip(&times) {
        model.add_constraint(constraint!(time.issue >= late(job.ready)));
        let free = late(*clock.free.get(job.unit).or_broken("a job is of a unit that there is"));
        let cycles = real(job.cycles);
        if job.unit == DMA {
            model.add_constraint(constraint!(time.end >= free + cycles));
            model.add_constraint(constraint!(time.end >= time.issue + cycles));
        } else {
            model.add_constraint(constraint!(time.issue >= free));
            model.add_constraint(constraint!(time.end == time.issue + cycles));
        }
        model.add_constraint(constraint!(last >= time.end + real(job.behind)));
    }
    for (i, j, which) in &first {
        let (Some(one), Some(other)) = (jobs.get(*i).zip(times.get(*i)), jobs.get(*j).zip(times.get(*j)))
        else {
            continue;
        };
        let waits = which.is_none();
        for (before, after, off) in [(one, other, 1.0), (other, one, 0.0)] {
            // A pair with a fixed order has one direction only.
            if waits && off == 0.0 {
                continue;
            }
            let slack: Expression = match which {
                Some(which) if off > 0.5 => horizon * (1.0 - *which),
                Some(which) => horizon * *which,
                None => 0.0.into(),
            };
            for row in follows(before, after, waits) {
                model.add_constraint((row + slack.clone()).geq(0.0));
            }
        }
    }
    let solution = model.solve().ok()?;
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    let issue = |at: &usize| times.get(*at).map_or(0.0, |time| solution.value(time.issue));
    order.sort_by(|a, b| issue(a).total_cmp(&issue(b)).then(a.cmp(b)));
    Some(order)
}

/// What must not be negative if one job comes before another.
fn follows(before: (&Job, &Times), after: (&Job, &Times), waits: bool) -> Vec<Expression> {
    let ((first, one), (second, other)) = (before, after);
    let mut rows = vec![other.issue - one.issue - 1.0];
    let same = first.unit == second.unit;
    if same && second.unit == DMA {
        rows.push(other.end - one.end - real(second.cycles));
    } else if same {
        rows.push(other.issue - one.end);
    }
    if waits && (!same || second.unit == DMA) {
        rows.push(other.issue - one.end);
    }
    rows
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::strategy::ValueTree as _;

    use super::*;

    /// Every order that keeps what must be kept, one after the other.
    fn orders(jobs: &[Job], so_far: &mut Vec<usize>, each: &mut impl FnMut(&[usize])) {
        if so_far.len() == jobs.len() {
            return each(so_far);
        }
        for at in 0..jobs.len() {
            let ready =
                (0..jobs.len()).all(|before| jobs[at].after >> before & 1 == 0 || so_far.contains(&before));
            if ready && !so_far.contains(&at) {
                so_far.push(at);
                orders(jobs, so_far, each);
                so_far.pop();
            }
        }
    }

    fn job() -> impl Strategy<Value = Job> {
        (0..UNITS, 1_u64..2000, 0_u64..1500, any::<u32>(), any::<u32>())
            .prop_map(|(unit, cycles, ready, a, b)| Job { unit, cycles, ready, after: a & b, behind: 0 })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

        /// No order ends earlier than that of any solver.
        #[test]
        fn no_order_is_better(
            mut jobs in prop::collection::vec(job(), 2..6),
            issue in 0_u64..1000,
            free in prop::array::uniform3(0_u64..2000),
        ) {
            for (at, job) in jobs.iter_mut().enumerate() {
                job.after &= (1 << at) - 1;
            }
            let clock = Clock { issue, free };
            let mut least = u64::MAX;
            orders(&jobs, &mut Vec::new(),
                &mut |order| least = least.min(clock.behind(&jobs, order).0.end()));
            for solver in Solver::ALL.into_iter().filter(|solver| is_there(*solver)) {
                let found = order(&jobs, clock, solver);
                prop_assert_eq!(clock.behind(&jobs, &found).0.end(), least, "{}", solver.name());
                let place = |at: usize| found.iter().position(|other| *other == at);
                for (at, job) in jobs.iter().enumerate() {
                    for before in (0..at).filter(|before| job.after >> before & 1 == 1) {
                        prop_assert!(place(before) < place(at), "{found:?}");
                    }
                }
            }
        }
    }

    /// Of whole windows, too many for every order to be tried, all say the same end.
    #[test]
    fn solvers_agree_on_whole_windows() {
        for solver in [Solver::Highs, Solver::Cbc] {
            if !is_there(solver) {
                say(&format!("skipped: {0}; `--features {0}` takes it", solver.name()));
                continue;
            }
            let mut runner = proptest::test_runner::TestRunner::deterministic();
            for _ in 0..24 {
                let jobs = prop::collection::vec(job(), MOST).new_tree(&mut runner).expect("jobs").current();
                let jobs: Vec<Job> = (0..)
                    .zip(jobs)
                    .map(|(at, job)| Job { after: job.after & ((1 << at) - 1), ..job })
                    .collect();
                let ends = [Solver::Microlp, solver].map(|solver| {
                    let found = solved(&jobs, Clock::default(), solver).expect("an order");
                    Clock::default().behind(&jobs, &found).0.end()
                });
                assert_eq!(ends[0], ends[1], "{}: {jobs:?}", solver.name());
            }
        }
    }

    /// Part of this build, and able to solve the smallest of programs.
    fn is_there(solver: Solver) -> bool {
        let jobs = [Job { cycles: 1, ..Job::default() }, Job { cycles: 2, ..Job::default() }];
        solver.is_built() && solved(&jobs, Clock::default(), solver).is_some()
    }

    #[expect(clippy::print_stderr, reason = "what was skipped is said")]
    fn say(words: &str) {
        eprintln!("{words}");
    }

    #[test]
    fn a_transfer_is_asked_for_before_a_command_that_waits() {
        // The command waits for something for long; the transfer behind it could be under way.
        let command = Job { unit: 0, cycles: 100, ready: 1000, ..Job::default() };
        let transfer = Job { unit: DMA, cycles: 900, ..Job::default() };
        assert_eq!(order(&[command.clone(), transfer.clone()], Clock::default(), Solver::default()), [1, 0]);
        // Unless it writes what the command reads.
        let transfer = Job { after: 1, ..transfer };
        assert_eq!(order(&[command, transfer], Clock::default(), Solver::default()), [0, 1]);
    }
}
