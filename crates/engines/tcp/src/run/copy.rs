//! Commands that only move bytes from data memory to another place of the same slice: loads of register files, copies. Runs of both
//! sides are matched once for all slices.

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
    bytes: u64,
}

/// Bytes that are neighbours on both sides.
#[derive(Clone, Copy)]
struct Run {
    from: i64,
    to: u64,
    bytes: usize,
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
            && image.commit.bytes == flit_bytes as u64
            && fetcher.packet_bytes.is_multiple_of(flit_bytes as u64);
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
        let copy = Copy { memory: image.commit.memory, runs, bytes: fetched };
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
                for run in &self.runs {
                    memory.copy_from_dm(sizes, self.memory, run.from, run.to, run.bytes);
                }
            }
        });
    }
}
