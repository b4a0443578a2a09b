//! Exact sets of bytes: sorted runs that neither touch nor overlap.
//!
//! A set that would take more than [`MAX_RUNS`] runs becomes the range around it and says that it is not
//! exact.

use tilewright_base::invariant::{Exact, to_index};

use crate::capped::Capped;

/// Most runs of one set.
pub const MAX_RUNS: usize = 1 << 20;

/// A set of byte offsets in one memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByteSet {
    runs: Vec<(u64, u64)>,
    exact: bool,
}

impl Default for ByteSet {
    fn default() -> ByteSet {
        ByteSet { runs: Vec::new(), exact: true }
    }
}

impl ByteSet {
    /// The bytes from `start` to before `end`.
    pub fn range(start: u64, end: u64) -> ByteSet {
        let runs = if start < end { vec![(start, end)] } else { Vec::new() };
        ByteSet { runs, exact: true }
    }

    /// The union of runs `start..end` in any order.
    pub fn from_runs(mut runs: Vec<(u64, u64)>) -> ByteSet {
        runs.retain(|(start, end)| start < end);
        if !runs.is_sorted() {
            runs.sort_unstable();
        }
        let mut set = ByteSet { runs: Vec::with_capacity(runs.len().min(MAX_RUNS)), exact: true };
        runs.into_iter().for_each(|run| set.push(run));
        set.bounded()
    }

    /// Runs `start..end` in rising order.
    pub fn runs(&self) -> &[(u64, u64)] {
        &self.runs
    }

    /// Every byte is in it; otherwise it may hold more.
    pub fn is_exact(&self) -> bool {
        self.exact
    }

    /// No byte.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// How many bytes.
    pub fn len(&self) -> u64 {
        self.runs.iter().fold(0, |all: u64, (start, end)| all.exact_add(end - start))
    }

    /// First byte and one past the last.
    pub fn bounds(&self) -> Option<(u64, u64)> {
        Some((self.runs.first()?.0, self.runs.last()?.1))
    }

    /// These bytes, marked as only a superset of what is touched.
    #[must_use]
    pub fn inexact(mut self) -> ByteSet {
        self.exact = false;
        self
    }

    /// Bytes of either.
    #[must_use]
    pub fn union(&self, other: &ByteSet) -> ByteSet {
        let mut set = ByteSet { runs: Vec::with_capacity(self.runs.len() + other.runs.len()), exact: true };
        let (mut left, mut right) = (self.runs.iter().peekable(), other.runs.iter().peekable());
        while let Some(run) = match (left.peek(), right.peek()) {
            (Some(a), Some(b)) if a <= b => left.next(),
            (_, Some(_)) => right.next(),
            (_, None) => left.next(),
        } {
            set.push(*run);
        }
        set.exact = self.exact && other.exact;
        set.bounded()
    }

    /// The first run of bytes that both have.
    pub fn overlap(&self, other: &ByteSet) -> Option<(u64, u64)> {
        let (few, many) = if self.runs.len() <= other.runs.len() { (self, other) } else { (other, self) };
        few.runs.iter().find_map(|&(start, end)| {
            let at = many.runs.partition_point(|run| run.1 <= start);
            let &(other_start, other_end) = many.runs.get(at)?;
            (other_start < end).then(|| (start.max(other_start), end.min(other_end)))
        })
    }

    /// Whether `other` has every byte of this set.
    pub fn is_within(&self, other: &ByteSet) -> bool {
        self.runs.iter().all(|&(start, end)| {
            let at = other.runs.partition_point(|run| run.1 <= start);
            other.runs.get(at).is_some_and(|run| run.0 <= start && end <= run.1)
        })
    }

    /// Adds a run that starts no earlier than all others.
    fn push(&mut self, run: (u64, u64)) {
        match self.runs.last_mut() {
            Some(last) if run.0 <= last.1 => last.1 = last.1.max(run.1),
            _ => self.runs.push(run),
        }
    }

    /// Keeps the number of runs below its bound.
    fn bounded(self) -> ByteSet {
        match self.bounds() {
            Some((start, end)) if self.runs.len() > MAX_RUNS => ByteSet::range(start, end).inexact(),
            _ => self,
        }
    }

    /// The set `by` further on.
    fn shifted(&self, by: u64) -> ByteSet {
        let runs = self.runs.iter().map(|(start, end)| (start + by, end + by)).collect();
        ByteSet { runs, exact: self.exact }
    }

    /// The union of `count` copies, each `step` after the one before. Offsets must not wrap.
    pub(super) fn repeated(&self, count: u64, step: u64) -> ByteSet {
        let Some((start, end)) = self.bounds() else { return self.clone() };
        if count == 0 {
            return ByteSet::default();
        }
        let last = step.exact_mul(count - 1);
        if let [(start, end)] = self.runs[..]
            && step <= end - start
        {
            return ByteSet { runs: vec![(start, end.exact_add(last))], exact: self.exact };
        }
        let apart = end - start <= step;
        let copies = to_index(count);
        if apart && self.runs.len().capped_mul(copies) > 2 * MAX_RUNS {
            return ByteSet::range(start, end.exact_add(last)).inexact();
        }
        if apart {
            let mut set = ByteSet { runs: Vec::with_capacity(self.runs.len() * copies), exact: self.exact };
            for index in 0..count {
                self.runs.iter().for_each(|run| set.push((run.0 + index * step, run.1 + index * step)));
            }
            return set.bounded();
        }
        self.doubled(count, step)
    }

    /// Copies that interleave: as many unions as `count` has binary digits.
    fn doubled(&self, count: u64, step: u64) -> ByteSet {
        let mut set = self.clone();
        let mut copies = 1;
        for bit in (0..count.ilog2()).rev() {
            set = set.union(&set.shifted(copies * step));
            copies *= 2;
            if (count >> bit) & 1 == 1 {
                set = set.union(&self.shifted(copies * step));
                copies += 1;
            }
        }
        set
    }
}
