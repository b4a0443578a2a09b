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
pub fn listed(
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
