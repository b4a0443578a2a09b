//! The search: frames in the order of their bounds, choices within a frame with bounds of their own.
//!
//! Frames go in batches of fixed sizes. Within a batch each frame is searched by itself against what was kept
//! before it, so that what is found and what is counted do not depend on the number of threads. Without a
//! budget the search is exact. With one, frames are first looked at in part, those with the least bounds
//! first, and then in larger parts, until the budget is used up or nothing is left.

use crate::batch::{StopFlag, side_by_side};
use crate::cloud::Cloud;
use crate::cost_math::{CostMath, INFINITE};
use crate::goal::{BestCandidates, Candidate, Goal, milliwatts};
use crate::refusal::{CandidateRefusal, RefusalCounts, RefusalReason};
use crate::target::{CostBound, SearchTarget, TargetChoice};

/// Frames that are searched side by side: few at first, so that the others meet what these found, then more.
const BATCHES: std::ops::RangeInclusive<usize> = 2..=64;
/// Parts of the budget that one frame gets in the first round, and by how much a frame's part grows from
/// round to round.
const FIRST_SHARES: u64 = 256;
const GROWTH: u64 = 4;

/// How to search.
#[derive(Clone, Copy, Debug)]
pub struct SearchOptions {
    /// What is sought.
    pub goal: Goal,
    /// How many of the best are kept.
    pub keep: usize,
    /// Leave out what bounds exclude; without it every candidate is looked at.
    pub prune: bool,
    /// Mark where candidates lie, for a picture.
    pub cloud: bool,
    /// Candidates to look at, for spaces that are too large for an exact answer.
    pub budget: Option<u64>,
    /// Not one candidate more than the budget is looked at. Without it, frames that are searched side by side
    /// each end their part of it.
    pub is_budget_held: bool,
}

impl SearchOptions {
    /// An exact search that keeps so many.
    pub fn exact(goal: Goal, keep: usize) -> SearchOptions {
        SearchOptions { goal, keep, prune: true, cloud: false, budget: None, is_budget_held: false }
    }

    /// A search that looks at everything and keeps so many.
    pub fn everything(goal: Goal, keep: usize) -> SearchOptions {
        SearchOptions { prune: false, ..SearchOptions::exact(goal, keep) }
    }
}

/// How far a search is.
#[derive(Clone, Copy, Debug)]
pub struct SearchProgress {
    /// Frames that are done.
    pub frames: usize,
    /// Frames that there are.
    pub of_frames: usize,
    /// Candidates whose cost was computed.
    pub evaluated: u64,
}

/// What a search found.
#[derive(Clone, Debug)]
pub struct SearchResult<F, C> {
    /// All frames, which candidates name by number.
    pub frames: Vec<F>,
    /// The best and the front.
    pub kept: BestCandidates<C>,
    /// Candidates whose cost was computed.
    pub evaluated: u64,
    /// Of them, those that are legal.
    pub legal: u64,
    /// Refusals; an early one stands for all candidates that it rules out.
    pub refused: RefusalCounts,
    /// Frames that their bound excluded as a whole.
    pub excluded_frames: u64,
    /// Sets of choices that a bound excluded.
    pub excluded_sets: u64,
    /// Where candidates lie, if that was asked for.
    pub cloud: Cloud,
    /// Nothing takes less than this.
    pub bound: Option<CostBound>,
    /// Nothing of what was not looked at takes less than this; none if the whole space was looked at or
    /// excluded.
    pub open: Option<CostBound>,
    /// The whole space was looked at or excluded.
    pub complete: bool,
}

impl<F, C: TargetChoice> SearchResult<F, C> {
    /// The frame of a candidate.
    pub fn frame(&self, candidate: &Candidate<C>) -> Option<&F> {
        self.frames.get(usize::try_from(candidate.frame).ok()?)
    }

    /// By which part at most the best is above the optimum; 0 for the optimum, none if nothing was found.
    pub fn gap(&self, goal: Goal) -> Option<f64> {
        let best = self.kept.best().first()?;
        let Some(open) = self.open else { return Some(0.0) };
        let (best, least) = (goal.value(best.ticks, best.energy_fj), goal.value(open.ticks, open.energy_fj));
        #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
        Some((best as f64 / least.max(1) as f64 - 1.0).max(0.0))
    }

    fn take(&mut self, tally: &FrameTally<C>) {
        self.evaluated += tally.evaluated;
        self.legal += tally.legal;
        self.refused.merge(&tally.refused);
        self.excluded_frames += tally.excluded_frames;
        self.excluded_sets += tally.excluded_sets;
        self.cloud.merge(&tally.cloud);
        if let Some(kept) = &tally.kept {
            kept.best().iter().chain(kept.front()).for_each(|candidate| self.kept.add(*candidate));
        }
    }
}

/// What a target's search finds.
pub type SearchResultOf<T> = SearchResult<<T as SearchTarget>::Frame, <T as SearchTarget>::Choice>;

/// Searches a target's space, until `stop` says so.
pub fn search<T: SearchTarget>(
    target: &T,
    options: &SearchOptions,
    stop: &mut dyn FnMut(&SearchProgress, &BestCandidates<T::Choice>) -> bool,
) -> SearchResultOf<T> {
    let mut refused = RefusalCounts::default();
    let frames = target.frames(&mut refused);
    let mut order: Vec<(CostBound, u32)> =
        (0_u32..).zip(&frames).map(|(number, frame)| (target.bound(frame), number)).collect();
    let value = |bound: &CostBound| options.goal.value(bound.ticks, bound.energy_fj);
    order.sort_by_key(|(bound, number)| (value(bound), *number));
    let mut found = SearchResult {
        bound: order.iter().map(|(bound, _)| *bound).reduce(CostBound::least),
        frames,
        kept: BestCandidates::new(options.goal, options.keep),
        evaluated: 0,
        legal: 0,
        refused,
        excluded_frames: 0,
        excluded_sets: 0,
        cloud: Cloud::default(),
        open: None,
        complete: true,
    };
    let mut share = options.budget.map(|budget| (budget / FIRST_SHARES).max(1));
    loop {
        let left = round(target, options, &mut found, &order, share, stop);
        order = left.cut;
        if order.is_empty() || left.stopped {
            break;
        }
        share = share.map(|share| share.times_cost(GROWTH));
    }
    found.open = order.into_iter().map(|(bound, _)| bound).reduce(CostBound::least);
    found.complete = found.open.is_none();
    found
}

/// Frames that were not looked at to their end.
struct RemainingFrames {
    cut: Vec<(CostBound, u32)>,
    stopped: bool,
}

/// Goes through frames, each for at most `share` candidates.
fn round<T: SearchTarget>(
    target: &T,
    options: &SearchOptions,
    found: &mut SearchResultOf<T>,
    order: &[(CostBound, u32)],
    share: Option<u64>,
    stop: &mut dyn FnMut(&SearchProgress, &BestCandidates<T::Choice>) -> bool,
) -> RemainingFrames {
    let mut left = RemainingFrames { cut: Vec::new(), stopped: false };
    let halt = StopFlag::default();
    let (mut done, mut size) = (0, *BATCHES.start());
    while done < order.len() {
        let finished = found.frames.len() - (order.len() - done) - left.cut.len();
        let progress =
            SearchProgress { frames: finished, of_frames: found.frames.len(), evaluated: found.evaluated };
        let rest = options.budget.map_or(INFINITE, |budget| budget.saturating_sub(found.evaluated));
        if halt.asked() || stop(&progress, &found.kept) || rest == 0 {
            left.cut.extend(&order[done..]);
            left.stopped = true;
            return left;
        }
        let (frames, share) = parts(options, size.min(order.len() - done), share, rest);
        let numbers = &order[done..done + frames];
        done += numbers.len();
        size = (size * 2).min(*BATCHES.end());
        let search = |frame: &(CostBound, u32)| one_frame(target, options, found, &halt, *frame, share);
        let tallies = side_by_side(numbers, search, &halt, &mut || stop(&progress, &found.kept));
        for (tally, frame) in tallies.iter().zip(numbers) {
            found.take(tally);
            left.cut.extend(tally.cut.then_some(*frame));
        }
    }
    left
}

/// How many frames go side by side, and how many candidates each may look at: where the budget is held, no
/// more than all of them have left.
fn parts(options: &SearchOptions, frames: usize, share: Option<u64>, rest: u64) -> (usize, Option<u64>) {
    if !options.is_budget_held {
        return (frames, share);
    }
    let frames = frames.min(usize::try_from(rest).unwrap_or(usize::MAX));
    (frames, share.map(|share| share.min(rest / (frames as u64).max(1))))
}

/// What a frame gave.
struct FrameTally<C> {
    kept: Option<BestCandidates<C>>,
    evaluated: u64,
    legal: u64,
    refused: RefusalCounts,
    excluded_frames: u64,
    excluded_sets: u64,
    cloud: Cloud,
    cut: bool,
}

impl<C> Default for FrameTally<C> {
    fn default() -> FrameTally<C> {
        FrameTally {
            kept: None,
            evaluated: 0,
            legal: 0,
            refused: RefusalCounts::default(),
            excluded_frames: 0,
            excluded_sets: 0,
            cloud: Cloud::default(),
            cut: false,
        }
    }
}

fn one_frame<T: SearchTarget>(
    target: &T,
    options: &SearchOptions,
    found: &SearchResultOf<T>,
    halt: &StopFlag,
    (bound, number): (CostBound, u32),
    share: Option<u64>,
) -> FrameTally<T::Choice> {
    let before = &found.kept;
    if options.prune && before.excludes(bound) {
        return FrameTally { excluded_frames: 1, ..FrameTally::default() };
    }
    let Some(frame) = usize::try_from(number).ok().and_then(|index| found.frames.get(index)) else {
        return FrameTally::default();
    };
    let mut seen = FrameVisitor {
        options,
        number,
        before,
        halt,
        ticks_per_s: target.ticks_per_s(),
        share: share.unwrap_or(INFINITE),
        tally: FrameTally {
            kept: Some(BestCandidates::new(options.goal, options.keep)),
            ..FrameTally::default()
        },
    };
    target.walk(frame, &mut seen);
    seen.tally
}

/// What a walk through the choices of one frame is told and asked.
pub struct FrameVisitor<'a, C> {
    options: &'a SearchOptions,
    number: u32,
    before: &'a BestCandidates<C>,
    halt: &'a StopFlag,
    ticks_per_s: u64,
    share: u64,
    tally: FrameTally<C>,
}

impl<C: TargetChoice> FrameVisitor<'_, C> {
    /// Whether bounds are asked for.
    pub fn prunes(&self) -> bool {
        self.options.prune
    }

    /// What is sought.
    pub fn goal(&self) -> Goal {
        self.options.goal
    }

    /// Whether a set of choices that takes at least so much can be left out; it is counted as excluded.
    pub fn excludes(&mut self, bound: CostBound) -> bool {
        if !self.options.prune {
            return false;
        }
        let excluded =
            self.before.excludes(bound) || self.tally.kept.as_ref().is_some_and(|kept| kept.excludes(bound));
        self.tally.excluded_sets += u64::from(excluded);
        excluded
    }

    /// Whether the walk should end here: the frame had its part of the budget, or nobody waits any more. The
    /// rest of the frame stays open.
    pub fn enough(&mut self) -> bool {
        self.tally.cut |= self.tally.evaluated >= self.share || self.halt.asked();
        self.tally.cut
    }

    /// Counts so many refusals for the same reason.
    pub fn refuse(&mut self, refusal: CandidateRefusal, times: usize) {
        self.tally.refused.add_times(refusal, times as u64);
    }

    /// Takes in a candidate with its cost.
    pub fn add(&mut self, ticks: u64, energy_fj: u64, choice: C) {
        self.add_alike(ticks, energy_fj, &[choice], |choice| *choice);
    }

    /// Those of some candidates that the budget still allows.
    fn within_budget<'k, K>(&mut self, all: &'k [K]) -> &'k [K] {
        let room = self.share.saturating_sub(self.tally.evaluated);
        match usize::try_from(room).ok().and_then(|room| all.get(..room)) {
            Some(allowed) if self.options.is_budget_held => {
                self.tally.cut |= allowed.len() < all.len();
                allowed
            }
            _ => all,
        }
    }

    /// Takes in candidates that all cost the same. `choice` is asked for those that may be kept.
    pub fn add_alike<K>(&mut self, ticks: u64, energy_fj: u64, all: &[K], choice: impl Fn(&K) -> C) {
        let all = self.within_budget(all);
        let count = all.len() as u64;
        self.tally.evaluated += count;
        if ticks == INFINITE || energy_fj == INFINITE {
            let refusal =
                CandidateRefusal { reason: RefusalReason::Uncountable, need: INFINITE, have: INFINITE - 1 };
            return self.tally.refused.add_times(refusal, count);
        }
        if let Goal::TimeBelow(have) = self.options.goal {
            let need = milliwatts(self.ticks_per_s, ticks, energy_fj);
            if need > have {
                return self
                    .tally
                    .refused
                    .add_times(CandidateRefusal { reason: RefusalReason::Power, need, have }, count);
            }
        }
        self.tally.legal += count;
        if self.options.cloud {
            self.tally.cloud.add(ticks, energy_fj);
        }
        let Some(kept) = &mut self.tally.kept else { return };
        if kept.may_take(ticks, energy_fj) {
            for key in all {
                kept.add(Candidate { ticks, energy_fj, frame: self.number, choice: choice(key) });
            }
        }
    }
}
