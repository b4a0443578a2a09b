//! Runs of bytes that a command moves: equal runs in loops of even steps, matched between both sides.

use std::ops::Range;

use smallvec::SmallVec;

use super::limits::{index, reach};
use tilewright_base::invariant::{Exact, OrBroken};

/// Runs of equal length, in two loops of even steps: what register file loads are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvenRuns {
    pub(crate) first: ByteRun,
    /// Iterations, and bytes between them on both sides; the inner loop first.
    pub(crate) loops: [(usize, i64, i64); 2],
}

/// Where one side of a command has its runs of bytes.
#[derive(Clone, Debug)]
pub struct RunSide {
    /// The first byte of the first run.
    pub first: i64,
    /// Iterations and bytes between them, outermost first.
    pub loops: SmallVec<[(u64, i64); 8]>,
    /// Bytes of a run.
    pub bytes: u64,
}

impl RunSide {
    /// Loops over runs of fewer bytes, innermost last; `None` if they are no whole parts.
    pub(crate) fn cut(&self, bytes: u64) -> Option<SmallVec<[(u64, i64); 8]>> {
        let parts = self.bytes.checked_div(bytes).filter(|_| self.bytes.is_multiple_of(bytes))?;
        let mut loops = self.loops.clone();
        loops.push((parts, i64::try_from(bytes).ok()?));
        loops.retain(|row| row.0 != 1);
        Some(loops)
    }
}

impl EvenRuns {
    /// The part of data memory from the first byte that is read to the last; what lies before its start does
    /// not count.
    pub(crate) fn reads(&self) -> Range<usize> {
        let (low, high) = reach(self.loops.iter().map(|(size, from, _)| (*size as u64, *from)));
        let byte = |offset: i64| index(self.first.from.exact_add(offset).max(0).unsigned_abs());
        byte(low)..byte(high).exact_add(self.first.bytes)
    }

    /// What is read from one side and written to the other; `None` if it takes more than two loops, or the
    /// sides differ in size.
    pub fn of(from: &RunSide, to: &RunSide) -> Option<EvenRuns> {
        let bytes = from.bytes.min(to.bytes);
        let (mut sources, mut targets) = (from.cut(bytes)?, to.cut(bytes)?);
        let mut all: SmallVec<[(u64, i64, i64); 4]> = SmallVec::new();
        while let (Some(source), Some(target)) = (sources.last_mut(), targets.last_mut()) {
            let size = source.0.min(target.0);
            if size == 0 || !source.0.is_multiple_of(size) || !target.0.is_multiple_of(size) {
                return None;
            }
            let step = i64::try_from(size).ok()?;
            match all.last_mut().filter(|last| continues(last, source.1, target.1)) {
                Some(last) => last.0 = last.0.checked_mul(size)?,
                None => all.push((size, source.1, target.1)),
            }
            *source = (source.0 / size, source.1.checked_mul(step)?);
            *target = (target.0 / size, target.1.checked_mul(step)?);
            sources.retain(|row| row.0 != 1);
            targets.retain(|row| row.0 != 1);
        }
        let whole = sources.is_empty() && targets.is_empty() && all.len() <= 2;
        let row = |at: usize| match all.get(at) {
            Some((size, from, to)) => Some((usize::try_from(*size).ok()?, *from, *to)),
            None => Some((1, 0, 0)),
        };
        let first = ByteRun { from: from.first, to: u64::try_from(to.first).ok()?, bytes: index(bytes) };
        Some(EvenRuns { first, loops: [row(0)?, row(1)?] }).filter(|_| whole)
    }

    /// How many runs.
    pub(crate) fn count(&self) -> usize {
        self.loops.iter().map(|row| row.0).fold(1, usize::exact_mul)
    }

    /// All runs in their order.
    pub fn runs(&self) -> impl Iterator<Item = ByteRun> {
        let EvenRuns { first, loops: [inner, outer] } = *self;
        let run = move |(low, high): (i64, i64)| ByteRun {
            from: first.from.exact_add(low.exact_mul(inner.1)).exact_add(high.exact_mul(outer.1)),
            to: {
                let step = low.exact_mul(inner.2).exact_add(high.exact_mul(outer.2));
                first.to.checked_add_signed(step).or_broken("runs are written inside a memory")
            },
            bytes: first.bytes,
        };
        let places =
            (0..outer.0 as i64).flat_map(move |high| (0..inner.0 as i64).map(move |low| (low, high)));
        places.map(run)
    }

    /// `None` if runs differ in length or steps are uneven.
    pub(crate) fn new(runs: &[ByteRun]) -> Option<EvenRuns> {
        let first = *runs.first()?;
        let step = |run: &ByteRun| {
            let to = i64::try_from(run.to).ok()?.checked_sub(i64::try_from(first.to).ok()?)?;
            Some((run.from.checked_sub(first.from)?, to))
        };
        let inner = runs.get(1).map_or(Some((0, 0)), step)?;
        let at = |count: usize, (from, to): (i64, i64)| {
            let count = i64::try_from(count).ok()?;
            Some((from.checked_mul(count)?, to.checked_mul(count)?))
        };
        let inside = |(count, run): &(usize, &ByteRun)| step(run) == at(*count, inner);
        let size = runs.iter().enumerate().take_while(inside).count().max(1);
        let outer = runs.get(size).map_or(Some((0, 0)), step)?;
        let even = runs.len().is_multiple_of(size)
            && runs.iter().enumerate().all(|(count, run)| {
                let (low, high) = (at(count % size, inner), at(count / size, outer));
                let place = low.zip(high).map(|(low, high)| (low.0 + high.0, low.1 + high.1));
                run.bytes == first.bytes && place.is_some() && step(run) == place
            });
        let loops = [(size, inner.0, inner.1), (runs.len() / size, outer.0, outer.1)];
        even.then_some(EvenRuns { first, loops })
    }
}

/// Whether iterations with these steps go on where a loop ends.
fn continues(&(size, from, to): &(u64, i64, i64), next_from: i64, next_to: i64) -> bool {
    let size = size.cast_signed();
    from.checked_mul(size) == Some(next_from) && to.checked_mul(size) == Some(next_to)
}

/// Bytes that are neighbours on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRun {
    /// Its first byte at the source.
    pub from: i64,
    /// Its first byte at the target.
    pub to: u64,
    /// How long it is.
    pub bytes: usize,
}
