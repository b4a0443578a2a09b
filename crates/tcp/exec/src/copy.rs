//! Commands that only move bytes from data memory to another place of the same slice: loads of register
//! files, copies. Runs of both sides are matched once for all slices.

use tilewright_base::invariant::Exact;
use tilewright_tcp_isa::capped::Capped;
use tilewright_tcp_isa::program::exec::{Memory, Stream};
use tilewright_tcp_isa::switch::Topology;

use super::commit::CommitWriter;
use super::fetch::Fetcher;
use super::parallel::for_each;
use super::state::SliceMemory;
use crate::byte_runs::{ByteRun, EvenRuns};
use crate::state::sizes::MemorySizes;

/// Most runs of a command; with more it goes packet by packet.
const MAX_RUNS: usize = 1 << 16;

/// A command as runs of bytes.
pub(super) struct SliceCopy {
    memory: Memory,
    runs: CopyRuns,
    bytes: u64,
}

/// Runs in their order.
enum CopyRuns {
    Even(EvenRuns),
    Listed(Vec<ByteRun>),
}

impl SliceCopy {
    /// `None` if something happens to the bytes on their way, or if the command reads what it writes.
    pub(super) fn new(
        image: &Stream,
        fetcher: &Fetcher<'_>,
        writer: &CommitWriter<'_>,
        flit_bytes: usize,
    ) -> Option<SliceCopy> {
        let (flit_bytes, packet_bytes, kept_bytes) =
            (flit_bytes as u64, fetcher.packet_bytes, image.commit.bytes);
        let whole = kept_bytes == flit_bytes && packet_bytes.is_multiple_of(flit_bytes);
        // A packet is padded to a flit, and the padding is not written.
        let padded = packet_bytes < flit_bytes && kept_bytes == packet_bytes;
        let moves = image.switch.topology == Topology::Forwarding
            && image.contract.is_none()
            && image.vector.is_none()
            && image.cast.is_none()
            && image.transpose.is_none()
            && !image.commit.to_bf16
            && (whole || padded);
        let fetched = fetcher.packets.checked_mul(fetcher.packet_bytes)?;
        if !moves || fetched != writer.steps().checked_mul(image.commit.bytes)? || fetched == 0 {
            return None;
        }
        let rows = fetcher.rows.as_ref().filter(|rows| rows.is_plain(&image.fetch))?;
        let from = rows.side(&image.fetch)?;
        let runs = match EvenRuns::of(&from, &writer.side()) {
            Some(even) if even.count() <= MAX_RUNS => CopyRuns::Even(even),
            Some(_) => return None,
            None => {
                let listed = listed(rows.runs(&image.fetch)?, writer.runs())?;
                EvenRuns::new(&listed).map_or(CopyRuns::Listed(listed), CopyRuns::Even)
            }
        };
        let copy = SliceCopy { memory: image.commit.memory, runs, bytes: fetched };
        (image.commit.memory != Memory::Dm || copy.is_apart()).then_some(copy)
    }

    /// Nothing that is read is written.
    fn is_apart(&self) -> bool {
        let mut all: Option<(i64, i64, u64, u64)> = None;
        self.for_each(|run| {
            let (from, to) = (run.from.exact_add(run.bytes as i64), run.to.exact_add(run.bytes as u64));
            let (low, high, first, last) = all.unwrap_or((run.from, from, run.to, to));
            all = Some((low.min(run.from), high.max(from), first.min(run.to), last.max(to)));
        });
        let Some((from, from_end, to, to_end)) = all else { return false };
        i64::try_from(to).is_ok_and(|to| from_end <= to) || i64::try_from(to_end).is_ok_and(|end| end <= from)
    }

    fn for_each(&self, each: impl FnMut(ByteRun)) {
        match &self.runs {
            CopyRuns::Even(even) => even.runs().for_each(each),
            CopyRuns::Listed(runs) => runs.iter().copied().for_each(each),
        }
    }

    /// Moves the bytes on every slice that writes.
    pub(super) fn run(
        &self,
        sizes: &MemorySizes,
        writer: &CommitWriter<'_>,
        memories: Vec<&mut SliceMemory>,
    ) {
        let work = self.bytes.capped_mul(memories.len() as u64) / 8;
        for_each(memories, work, |slice, memory| {
            if writer.writes(slice as u64) {
                let even = match &self.runs {
                    CopyRuns::Even(even) => Some(even),
                    CopyRuns::Listed(_) => None,
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
) -> Option<Vec<ByteRun>> {
    let mut runs: Vec<ByteRun> = Vec::new();
    let (mut to, mut left) = (0_u64, 0_usize);
    for start in starts {
        let (mut from, mut bytes) = (start, length);
        while bytes > 0 {
            if left == 0 {
                (to, left) = (targets.next()?, room);
            }
            let part = bytes.min(left);
            runs.push(ByteRun { from, to, bytes: part });
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

    use super::{ByteRun, EvenRuns, listed};
    use crate::byte_runs::RunSide;
    use crate::walk::OffsetWalk;

    type Loops = SmallVec<[(u64, i64); 8]>;

    /// First bytes of all runs of a side.
    fn starts(side: &RunSide) -> Vec<i64> {
        let walk = OffsetWalk::new(side.loops.clone()).expect("few steps");
        walk.map(|offset| side.first + offset).collect()
    }

    /// What [`EvenRuns::of`] must give: runs cut to the shorter ones of both sides.
    fn literally(from: &RunSide, to: &RunSide) -> Option<Vec<ByteRun>> {
        let targets = starts(to).into_iter().map(i64::unsigned_abs);
        let length = |side: &RunSide| usize::try_from(side.bytes).expect("few bytes");
        listed((starts(from).into_iter(), length(from)), (targets, length(to)))
    }

    fn side() -> impl Strategy<Value = RunSide> {
        let row = (1..5_u64, prop_oneof![Just(8_i64), Just(16), Just(32), Just(64), 0..256_i64]);
        (0..64_i64, prop::collection::vec(row, 0..4), prop_oneof![Just(8_u64), Just(16), Just(32), Just(24)])
            .prop_map(|(first, loops, bytes)| RunSide { first, loops: Loops::from_vec(loops), bytes })
    }

    /// Pairs of sides, half of which have the same number of bytes because one is the other in one run.
    fn sides() -> impl Strategy<Value = (RunSide, RunSide)> {
        (side(), side(), any::<bool>()).prop_map(|(from, to, joined)| {
            let whole = |side: &RunSide| side.bytes * side.loops.iter().map(|row| row.0).product::<u64>();
            let bytes = whole(&to);
            let from = if joined { RunSide { loops: Loops::new(), bytes, ..from } } else { from };
            (from, to)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn loops_of_both_sides_are_their_runs((from, to) in sides()) {
            let total = |side: &RunSide| side.bytes * starts(side).len() as u64;
            match EvenRuns::of(&from, &to) {
                Some(even) => {
                    prop_assert_eq!(total(&from), total(&to));
                    let runs: Vec<ByteRun> = even.runs().collect();
                    prop_assert_eq!(Some(runs), literally(&from, &to));
                }
                // One run on one side, and what fits it on the other, never takes more than the other's
                // loops.
                None => {
                    let other = total(&from) != total(&to);
                    prop_assert!(other || !from.loops.is_empty() || to.loops.len() > 2);
                }
            }
        }
    }
}
