//! Commands that only move bytes from data memory to another place of the same slice: loads of register files, copies. Runs of both
//! sides are matched once for all slices.

use std::ops::Range;

use smallvec::SmallVec;

use super::commit::Writer;
use super::fetch::Fetcher;
use super::index;
use super::parallel::for_each;
use super::state::{Sizes, SliceMemory};
use tilewright_tcp_isa::program::exec::{Memory, Stream};
use tilewright_tcp_isa::switch::Topology;

/// Most runs of a command; with more it goes packet by packet.
const MAX_RUNS: usize = 1 << 16;

/// A command as runs of bytes.
pub(super) struct Copy {
    memory: Memory,
    runs: Runs,
    bytes: u64,
}

/// Runs in their order.
enum Runs {
    Even(Even),
    Listed(Vec<Run>),
}

/// Runs that are alike, in two loops of even steps: what register file loads are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Even {
    pub(super) first: Run,
    /// Iterations, and bytes between them on both sides; the inner loop first.
    pub(super) loops: [(usize, i64, i64); 2],
}

/// Where one side of a command has its runs of bytes.
#[derive(Clone, Debug)]
pub(super) struct Side {
    pub(super) first: i64,
    /// Iterations and bytes between them, outermost first.
    pub(super) loops: SmallVec<[(u64, i64); 8]>,
    /// Bytes of a run.
    pub(super) bytes: u64,
}

impl Side {
    /// Loops over runs of fewer bytes, innermost last; `None` if they are no whole parts.
    fn cut(&self, bytes: u64) -> Option<SmallVec<[(u64, i64); 8]>> {
        let parts = self.bytes.checked_div(bytes).filter(|_| self.bytes.is_multiple_of(bytes))?;
        let mut loops = self.loops.clone();
        loops.push((parts, i64::try_from(bytes).ok()?));
        loops.retain(|row| row.0 != 1);
        Some(loops)
    }
}

impl Even {
    /// The part of data memory from the first byte that is read to the last; what lies before its start does not count.
    pub(super) fn reads(&self) -> Range<usize> {
        let ends = self.loops.iter().map(|(size, from, _)| from.saturating_mul(*size as i64 - 1));
        let (low, high) = ends.fold((self.first.from, self.first.from), |(low, high), end| {
            (low.saturating_add(end.min(0)), high.saturating_add(end.max(0)))
        });
        let byte = |at: i64| usize::try_from(at).unwrap_or(0);
        byte(low)..byte(high).saturating_add(self.first.bytes)
    }

    /// What is read from one side and written to the other; `None` if it takes more than two loops, or the sides differ in size.
    pub(super) fn of(from: &Side, to: &Side) -> Option<Even> {
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
        let first = Run { from: from.first, to: u64::try_from(to.first).ok()?, bytes: index(bytes) };
        Some(Even { first, loops: [row(0)?, row(1)?] }).filter(|_| whole)
    }

    /// How many runs.
    fn count(&self) -> usize {
        self.loops.iter().map(|row| row.0).fold(1, usize::saturating_mul)
    }

    /// All runs in their order.
    fn runs(&self) -> impl Iterator<Item = Run> {
        let Even { first, loops: [inner, outer] } = *self;
        let run = move |(low, high): (i64, i64)| Run {
            from: first.from.saturating_add(low * inner.1).saturating_add(high * outer.1),
            to: first.to.saturating_add_signed((low * inner.2).saturating_add(high * outer.2)),
            bytes: first.bytes,
        };
        let places =
            (0..outer.0 as i64).flat_map(move |high| (0..inner.0 as i64).map(move |low| (low, high)));
        places.map(run)
    }

    /// `None` if they are not alike.
    pub(super) fn new(runs: &[Run]) -> Option<Even> {
        let first = *runs.first()?;
        let step = |run: &Run| {
            let to = i64::try_from(run.to).ok()?.checked_sub(i64::try_from(first.to).ok()?)?;
            Some((run.from.checked_sub(first.from)?, to))
        };
        let inner = runs.get(1).map_or(Some((0, 0)), step)?;
        let at = |count: usize, (from, to): (i64, i64)| {
            let count = i64::try_from(count).ok()?;
            Some((from.checked_mul(count)?, to.checked_mul(count)?))
        };
        let inside = |(count, run): &(usize, &Run)| step(run) == at(*count, inner);
        let size = runs.iter().enumerate().take_while(inside).count().max(1);
        let outer = runs.get(size).map_or(Some((0, 0)), step)?;
        let even = runs.len().is_multiple_of(size)
            && runs.iter().enumerate().all(|(count, run)| {
                let (low, high) = (at(count % size, inner), at(count / size, outer));
                let place = low.zip(high).map(|(low, high)| (low.0 + high.0, low.1 + high.1));
                run.bytes == first.bytes && place.is_some() && step(run) == place
            });
        let loops = [(size, inner.0, inner.1), (runs.len() / size, outer.0, outer.1)];
        even.then_some(Even { first, loops })
    }
}

/// Whether iterations with these steps go on where a loop ends.
fn continues(&(size, from, to): &(u64, i64, i64), next_from: i64, next_to: i64) -> bool {
    let size = size.cast_signed();
    from.checked_mul(size) == Some(next_from) && to.checked_mul(size) == Some(next_to)
}

/// Bytes that are neighbours on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) from: i64,
    pub(super) to: u64,
    pub(super) bytes: usize,
}

impl Copy {
    /// `None` if something happens to the bytes on their way, or if the command reads what it writes.
    pub(super) fn new(
        image: &Stream,
        fetcher: &Fetcher<'_>,
        writer: &Writer<'_>,
        flit_bytes: usize,
    ) -> Option<Copy> {
        let moves = image.switch.topology == Topology::Forwarding
            && image.contract.is_none()
            && image.vector.is_none()
            && image.cast.is_none()
            && image.transpose.is_none()
            && !image.commit.to_bf16
            && (image.commit.bytes == flit_bytes as u64 && fetcher.packet_bytes.is_multiple_of(flit_bytes as u64)
                // A packet is padded to a flit, and the padding is not written.
                || fetcher.packet_bytes < flit_bytes as u64 && image.commit.bytes == fetcher.packet_bytes);
        let fetched = fetcher.packets.checked_mul(fetcher.packet_bytes)?;
        if !moves || fetched != writer.steps().checked_mul(image.commit.bytes)? || fetched == 0 {
            return None;
        }
        let rows = fetcher.rows.as_ref().filter(|rows| rows.is_plain(&image.fetch))?;
        let from = rows.side(&image.fetch)?;
        let runs = match Even::of(&from, &writer.side()) {
            Some(even) if even.count() <= MAX_RUNS => Runs::Even(even),
            Some(_) => return None,
            None => {
                let listed = listed(rows.runs(&image.fetch)?, writer.runs())?;
                Even::new(&listed).map_or(Runs::Listed(listed), Runs::Even)
            }
        };
        let copy = Copy { memory: image.commit.memory, runs, bytes: fetched };
        (image.commit.memory != Memory::Dm || copy.is_apart()).then_some(copy)
    }

    /// Nothing that is read is written.
    fn is_apart(&self) -> bool {
        let mut all: Option<(i64, i64, u64, u64)> = None;
        self.for_each(|run| {
            let (from, to) =
                (run.from.saturating_add(run.bytes as i64), run.to.saturating_add(run.bytes as u64));
            let (low, high, first, last) = all.unwrap_or((run.from, from, run.to, to));
            all = Some((low.min(run.from), high.max(from), first.min(run.to), last.max(to)));
        });
        let Some((from, from_end, to, to_end)) = all else { return false };
        i64::try_from(to).is_ok_and(|to| from_end <= to) || i64::try_from(to_end).is_ok_and(|end| end <= from)
    }

    fn for_each(&self, each: impl FnMut(Run)) {
        match &self.runs {
            Runs::Even(even) => even.runs().for_each(each),
            Runs::Listed(runs) => runs.iter().copied().for_each(each),
        }
    }

    /// Moves the bytes on every slice that writes.
    pub(super) fn run(&self, sizes: &Sizes, writer: &Writer<'_>, memories: Vec<&mut SliceMemory>) {
        let work = self.bytes.saturating_mul(memories.len() as u64) / 8;
        for_each(memories, work, |slice, memory| {
            if writer.writes(slice as u64) {
                let even = match &self.runs {
                    Runs::Even(even) => Some(even),
                    Runs::Listed(_) => None,
                };
                if even.is_some_and(|even| memory.keep_load(sizes, self.memory, even)) {
                    return;
                }
                memory.make_way(sizes, self.memory, even);
                if even.is_some_and(|even| memory.copy_even(sizes, self.memory, even)) {
                    return;
                }
                self.for_each(|run| memory.copy_from_dm(sizes, self.memory, run.from, run.to, run.bytes));
            }
        });
    }
}

/// Runs of both sides matched one by one: first bytes of each, and their length.
fn listed(
    (starts, length): (impl Iterator<Item = i64>, usize),
    (mut targets, room): (impl Iterator<Item = u64>, usize),
) -> Option<Vec<Run>> {
    let mut runs: Vec<Run> = Vec::new();
    let (mut to, mut left) = (0_u64, 0_usize);
    for start in starts {
        let (mut from, mut bytes) = (start, length);
        while bytes > 0 {
            if left == 0 {
                (to, left) = (targets.next()?, room);
            }
            let part = bytes.min(left);
            runs.push(Run { from, to, bytes: part });
            from = from.checked_add(i64::try_from(part).ok()?)?;
            (to, left, bytes) = (to + part as u64, left - part, bytes - part);
            if runs.len() > MAX_RUNS {
                return None;
            }
        }
    }
    Some(runs)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use smallvec::SmallVec;

    use super::{Even, Run, Side, listed};
    use crate::walk::Walk;

    type Loops = SmallVec<[(u64, i64); 8]>;

    /// First bytes of all runs of a side.
    fn starts(side: &Side) -> Vec<i64> {
        let walk = Walk::new(side.loops.clone()).expect("few steps");
        walk.map(|offset| side.first + offset).collect()
    }

    /// What [`Even::of`] must give: runs cut to the shorter ones of both sides.
    fn literally(from: &Side, to: &Side) -> Option<Vec<Run>> {
        let targets = starts(to).into_iter().map(i64::unsigned_abs);
        let length = |side: &Side| usize::try_from(side.bytes).expect("few bytes");
        listed((starts(from).into_iter(), length(from)), (targets, length(to)))
    }

    fn side() -> impl Strategy<Value = Side> {
        let row = (1..5_u64, prop_oneof![Just(8_i64), Just(16), Just(32), Just(64), 0..256_i64]);
        (0..64_i64, prop::collection::vec(row, 0..4), prop_oneof![Just(8_u64), Just(16), Just(32), Just(24)])
            .prop_map(|(first, loops, bytes)| Side { first, loops: Loops::from_vec(loops), bytes })
    }

    /// Pairs of sides, half of which have the same number of bytes because one is the other in one run.
    fn sides() -> impl Strategy<Value = (Side, Side)> {
        (side(), side(), any::<bool>()).prop_map(|(from, to, joined)| {
            let whole = |side: &Side| side.bytes * side.loops.iter().map(|row| row.0).product::<u64>();
            let bytes = whole(&to);
            let from = if joined { Side { loops: Loops::new(), bytes, ..from } } else { from };
            (from, to)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn loops_of_both_sides_are_their_runs((from, to) in sides()) {
            let total = |side: &Side| side.bytes * starts(side).len() as u64;
            match Even::of(&from, &to) {
                Some(even) => {
                    prop_assert_eq!(total(&from), total(&to));
                    let runs: Vec<Run> = even.runs().collect();
                    prop_assert_eq!(Some(runs), literally(&from, &to));
                }
                // One run on one side, and what fits it on the other, never takes more than the other's loops.
                None => {
                    let other = total(&from) != total(&to);
                    prop_assert!(other || !from.loops.is_empty() || to.loops.len() > 2);
                }
            }
        }
    }
}
