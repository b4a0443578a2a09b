//! Commands that only move bytes from data memory to another place of the same slice: loads of register files, copies. Runs of both
//! sides are matched once for all slices.

use std::ops::Range;

use super::commit::Writer;
use super::fetch::Fetcher;
use super::parallel::for_each;
use super::state::{Sizes, SliceMemory};
use crate::cost::switch::Topology;
use crate::program::exec::{Memory, Stream};

/// Most runs of a command; with more it goes packet by packet.
const MAX_RUNS: usize = 1 << 16;

/// A command as runs of bytes.
pub(super) struct Copy {
    memory: Memory,
    runs: Vec<Run>,
    even: Option<Even>,
    bytes: u64,
}

/// Runs that are alike, in two loops of even steps: what register file loads are.
#[derive(Clone, Copy)]
pub(super) struct Even {
    pub(super) first: Run,
    /// Iterations, and bytes between them on both sides; the inner loop first.
    pub(super) loops: [(usize, i64, i64); 2],
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

/// Bytes that are neighbours on both sides.
#[derive(Clone, Copy)]
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
        let (starts, length) = rows.runs(&image.fetch)?;
        let mut runs: Vec<Run> = Vec::new();
        let (mut targets, room) = writer.runs();
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
        let even = Even::new(&runs);
        let copy = Copy { memory: image.commit.memory, runs, even, bytes: fetched };
        (image.commit.memory != Memory::Dm || copy.is_apart()).then_some(copy)
    }

    /// Nothing that is read is written.
    fn is_apart(&self) -> bool {
        let from = self
            .runs
            .iter()
            .map(|run| run.from)
            .min()
            .zip(self.runs.iter().map(|run| run.from.saturating_add(run.bytes as i64)).max());
        let to = self
            .runs
            .iter()
            .map(|run| run.to)
            .min()
            .zip(self.runs.iter().map(|run| run.to.saturating_add(run.bytes as u64)).max());
        let (Some((from, from_end)), Some((to, to_end))) = (from, to) else { return false };
        i64::try_from(to).is_ok_and(|to| from_end <= to) || i64::try_from(to_end).is_ok_and(|end| end <= from)
    }

    /// Moves the bytes on every slice that writes.
    pub(super) fn run(&self, sizes: &Sizes, writer: &Writer<'_>, memories: Vec<&mut SliceMemory>) {
        let work = self.bytes.saturating_mul(memories.len() as u64) / 8;
        for_each(memories, work, |slice, memory| {
            if writer.writes(slice as u64) {
                if self.even.is_some_and(|even| memory.keep_load(sizes, self.memory, &even)) {
                    return;
                }
                memory.make_way(sizes, self.memory, self.even.as_ref());
                if self.even.is_some_and(|even| memory.copy_even(sizes, self.memory, &even)) {
                    return;
                }
                for run in &self.runs {
                    memory.copy_from_dm(sizes, self.memory, run.from, run.to, run.bytes);
                }
            }
        });
    }
}
