//! What is sought, and what is kept: the best few and the front of those that no other beats in both time and
//! energy.

use crate::cost_math::INFINITE;
use crate::target::{CostBound, TargetChoice};

/// What is to be least.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// Ticks.
    Time,
    /// Energy.
    Energy,
    /// Their product.
    EnergyDelay,
    /// Ticks, where the average power stays below a limit in mW.
    TimeBelow(u64),
}

impl Goal {
    /// The value of a candidate; less is better.
    pub fn value(self, ticks: u64, energy_fj: u64) -> u128 {
        match self {
            Goal::Time | Goal::TimeBelow(_) => u128::from(ticks),
            Goal::Energy => u128::from(energy_fj),
            Goal::EnergyDelay => u128::from(ticks) * u128::from(energy_fj),
        }
    }
}

/// Average power in mW of so much energy in so many ticks.
pub fn milliwatts(ticks_per_s: u64, ticks: u64, energy_fj: u64) -> u64 {
    let per_s = u128::from(energy_fj) * u128::from(ticks_per_s) / u128::from(ticks.max(1));
    u64::try_from(per_s / 1_000_000_000_000).unwrap_or(INFINITE)
}

/// A legal candidate with its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate<C> {
    /// Ticks of all that it does.
    pub ticks: u64,
    /// Energy of all that it does.
    pub energy_fj: u64,
    /// Its frame, by number.
    pub frame: u32,
    /// What it chose.
    pub choice: C,
}

impl<C: TargetChoice> Candidate<C> {
    /// Which of two that take the same comes first.
    fn order(&self) -> (u64, u32, u64) {
        (self.choice.rank(), self.frame, self.choice.code())
    }

    fn key(&self, goal: Goal) -> (u128, u64, u64, (u64, u32, u64)) {
        (goal.value(self.ticks, self.energy_fj), self.ticks, self.energy_fj, self.order())
    }
}

/// The best few and the front.
#[derive(Clone, Debug)]
pub struct BestCandidates<C> {
    goal: Goal,
    most: usize,
    best: Vec<Candidate<C>>,
    front: Vec<Candidate<C>>,
    /// Ticks and energy that candidates were last found to be beyond.
    beaten_by: (u64, u64),
}

impl<C: TargetChoice> BestCandidates<C> {
    /// Keeps so many.
    pub fn new(goal: Goal, most: usize) -> BestCandidates<C> {
        BestCandidates {
            goal,
            most: most.max(1),
            best: Vec::new(),
            front: Vec::new(),
            beaten_by: (u64::MAX, u64::MAX),
        }
    }

    /// The best, best first.
    pub fn best(&self) -> &[Candidate<C>] {
        &self.best
    }

    /// The front, fastest first.
    pub fn front(&self) -> &[Candidate<C>] {
        &self.front
    }

    /// Takes a candidate in, if it belongs. What is kept does not depend on the order in which candidates
    /// come.
    pub fn add(&mut self, candidate: Candidate<C>) {
        self.add_best(candidate);
        self.add_front(candidate);
    }

    /// False for most candidates that do not belong, told from their cost alone: worse than all of the best,
    /// and beaten by one of the front.
    #[inline]
    pub fn may_take(&mut self, ticks: u64, energy_fj: u64) -> bool {
        let value = self.goal.value(ticks, energy_fj);
        let full = self.best.len() == self.most;
        let worse = |last: &Candidate<C>| self.goal.value(last.ticks, last.energy_fj) < value;
        if !full || !self.best.last().is_some_and(worse) {
            return true;
        }
        // Whatever took less once is still on the front, or beaten itself.
        if self.beaten_by.0 <= ticks && self.beaten_by.1 < energy_fj {
            return false;
        }
        let after = self.front.partition_point(|kept| kept.ticks <= ticks);
        match after.checked_sub(1).and_then(|last| self.front.get(last)) {
            Some(kept) if kept.energy_fj < energy_fj => {
                self.beaten_by = (kept.ticks, kept.energy_fj);
                false
            }
            _ => true,
        }
    }

    fn add_best(&mut self, candidate: Candidate<C>) {
        let key = candidate.key(self.goal);
        if self.best.len() == self.most && self.best.last().is_some_and(|last| last.key(self.goal) <= key) {
            return;
        }
        let at = self.best.partition_point(|kept| kept.key(self.goal) < key);
        if self.best.get(at).is_none_or(|kept| kept.key(self.goal) != key) {
            self.best.insert(at, candidate);
            self.best.truncate(self.most);
        }
    }

    fn add_front(&mut self, candidate: Candidate<C>) {
        // Sorted by cycles, the front falls in energy: the last that is as fast decides.
        let after = self.front.partition_point(|kept| kept.ticks <= candidate.ticks);
        if let Some(kept) = after.checked_sub(1).and_then(|last| self.front.get(last)) {
            let equal = (kept.ticks, kept.energy_fj) == (candidate.ticks, candidate.energy_fj);
            let first = kept.order() <= candidate.order();
            if kept.energy_fj < candidate.energy_fj
                || kept.energy_fj == candidate.energy_fj && (!equal || first)
            {
                return;
            }
        }
        let beaten =
            |kept: &Candidate<C>| kept.ticks >= candidate.ticks && kept.energy_fj >= candidate.energy_fj;
        self.front.retain(|kept| !beaten(kept));
        let at = self.front.partition_point(|kept| kept.ticks < candidate.ticks);
        self.front.insert(at, candidate);
    }

    /// Whether nothing that takes at least so much can belong to the best, nor to the front.
    pub fn excludes(&self, least: CostBound) -> bool {
        let value = self.goal.value(least.ticks, least.energy_fj);
        let full = self.best.len() == self.most;
        let worst = self.best.last().map(|last| self.goal.value(last.ticks, last.energy_fj));
        if !full || worst.is_none_or(|worst| value <= worst) {
            return false;
        }
        // The front is sorted: the slowest that is fast enough takes the least energy of them.
        let faster = self.front.partition_point(|kept| kept.ticks < least.ticks);
        faster > 0 && self.front[faster - 1].energy_fj < least.energy_fj
    }
}
