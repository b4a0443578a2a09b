//! Commands that only move bytes from data memory to another place of the same slice: loads of register files, copies. Runs of both
//! sides are matched once for all slices.

use tilewright_tcp_isa::program::exec::{Memory, Stream};
use tilewright_tcp_isa::switch::Topology;

use super::commit::Writer;
use super::fetch::Fetcher;
use super::parallel::for_each;
use super::state::SliceMemory;
use crate::runs::{Even, Run};
use crate::state::sizes::Sizes;

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

    use super::{Even, Run, listed};
    use crate::runs::Side;
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
