//! Which command wrote what a command reads: the last writer of every byte, slice by slice.
//!
//! Commands come in an order that keeps to what is ordered. Where nothing races, the last writer in that
//! order is the one whose bytes are read. Slices that no write tells apart are followed as one.

use std::collections::{BTreeMap, BTreeSet};

use tilewright_tcp_isa::footprint::{MemoryAccess, MemoryKind};

/// Index of a command that wrote; 0 is what was there before the run.
pub(super) type Writer = u32;

/// What was there before the run.
pub(super) const BEFORE: Writer = 0;

/// A run of bytes: first, one past the last, and whoever wrote them.
type ByteRun = (u64, u64, Writer);

/// Runs of bytes with their last writer, in rising order.
#[derive(Clone, Debug, Default)]
struct ByteRuns(Vec<ByteRun>);

impl ByteRuns {
    /// Runs in rising order have a new writer.
    fn write(&mut self, new: &[(u64, u64)], writer: Writer) {
        let (Some(first), Some(last)) = (new.first(), new.last()) else { return };
        let from = self.0.partition_point(|run| run.1 <= first.0);
        let to = self.0.partition_point(|run| run.0 < last.1);
        let old = &self.0[from..to];
        let mut merged: Vec<ByteRun> = Vec::with_capacity(old.len() + new.len() + 1);
        let mut put = |run: ByteRun| match merged.last_mut() {
            Some(last) if last.1 == run.0 && last.2 == run.2 => last.1 = run.1,
            _ if run.0 < run.1 => merged.push(run),
            _ => {}
        };
        let mut old = old.iter().copied().peekable();
        for &(start, end) in new {
            while let Some(run) = old.peek_mut() {
                if run.0 < start {
                    put((run.0, run.1.min(start), run.2));
                }
                if run.1 > end {
                    run.0 = run.0.max(end);
                    break;
                }
                old.next();
            }
            put((start, end, writer));
        }
        old.for_each(put);
        self.0.splice(from..to, merged);
    }

    /// Writers of runs in rising order with where their bytes begin; `None` where nobody wrote.
    fn read(&self, runs: &[(u64, u64)], visit: &mut dyn FnMut(Option<Writer>, u64)) {
        let mut from = 0;
        for &(start, end) in runs {
            // Most runs begin in what the one before them ended in.
            let rest = self.0.get(from..).unwrap_or_default();
            if rest.first().is_some_and(|run| run.1 <= start) {
                from += rest.partition_point(|run| run.1 <= start);
            }
            let mut at = start;
            for run in self.0.get(from..).unwrap_or_default().iter().take_while(|run| run.0 < end) {
                if run.0 > at {
                    visit(None, at);
                }
                visit(Some(run.2), run.0.max(at));
                at = run.1;
            }
            if at < end {
                visit(None, at);
            }
        }
    }
}

/// A part of what a command reads: memory, whose bytes, the slice and byte of the first, and the access.
type ReadSource<'t> = (MemoryKind, Option<Writer>, (u64, u64), &'t MemoryAccess);

/// The last writers of the memories of PEs at some time.
#[derive(Clone, Debug)]
pub(super) struct PeWriters(BTreeMap<(MemoryKind, u64, u64), ByteRuns>);

impl PeWriters {
    /// Whether others wrote the same bytes, where `same` tells commands of here from those of there.
    pub(super) fn is_like(&self, other: &PeWriters, same: &dyn Fn(Writer, Writer) -> bool) -> bool {
        let like =
            |(one, other): (&ByteRun, &ByteRun)| (one.0, one.1) == (other.0, other.1) && same(one.2, other.2);
        self.0.len() == other.0.len()
            && self.0.iter().zip(&other.0).all(|((place, one), (its, other))| {
                place == its && one.0.len() == other.0.len() && one.0.iter().zip(&other.0).all(like)
            })
    }

    /// Everyone who wrote something that is still there.
    pub(super) fn writers(&self) -> BTreeSet<Writer> {
        self.0.values().flat_map(|runs| &runs.0).map(|run| run.2).collect()
    }
}

/// The last writers of all memories.
#[derive(Clone, Debug)]
pub(super) struct LastWriters {
    /// First slices of groups that no write tells apart, by memory and chip.
    groups: BTreeMap<(MemoryKind, u64), Vec<u64>>,
    runs: BTreeMap<(MemoryKind, u64, u64), ByteRuns>,
}

impl LastWriters {
    /// For commands that write this much.
    pub(super) fn new<'t>(accesses: impl Iterator<Item = &'t MemoryAccess>) -> LastWriters {
        let mut groups: BTreeMap<(MemoryKind, u64), BTreeSet<u64>> = BTreeMap::new();
        for access in accesses {
            // Whoever reads before the first slice that is written reads nothing.
            groups.entry((access.memory, access.chip)).or_default().insert(0);
            groups
                .entry((access.memory, access.chip))
                .or_default()
                .extend([access.slices.0, access.slices.1]);
        }
        let groups =
            groups.into_iter().map(|(memory, firsts)| (memory, firsts.into_iter().collect())).collect();
        LastWriters { groups, runs: BTreeMap::new() }
    }

    fn groups(&self, access: &MemoryAccess) -> impl Iterator<Item = u64> + use<> {
        let firsts = self.groups.get(&(access.memory, access.chip));
        // Whoever reads a memory that nobody writes reads nothing too.
        let firsts = firsts.map_or(&[0][..], Vec::as_slice);
        let from = firsts.partition_point(|first| *first <= access.slices.0).saturating_sub(1);
        let to = firsts.partition_point(|first| *first < access.slices.1);
        let within: Vec<u64> = firsts[from..to].to_vec();
        within.into_iter()
    }

    /// An access writes.
    pub(super) fn write(&mut self, access: &MemoryAccess, writer: Writer) {
        for group in self.groups(access) {
            let runs = self.runs.entry((access.memory, access.chip, group)).or_default();
            runs.write(access.bytes.runs(), writer);
        }
    }

    /// Last writers of the bytes that an access reads, each with its first slice and byte; `None` for bytes
    /// that nobody wrote.
    pub(super) fn read(&self, access: &MemoryAccess) -> BTreeMap<Option<Writer>, (u64, u64)> {
        let mut found = BTreeMap::new();
        let nothing = ByteRuns::default();
        for group in self.groups(access) {
            let runs = self.runs.get(&(access.memory, access.chip, group)).unwrap_or(&nothing);
            let mut last = None;
            runs.read(access.bytes.runs(), &mut |writer, at| {
                if last != Some(writer) {
                    found.entry(writer).or_insert((group, at));
                    last = Some(writer);
                }
            });
        }
        found
    }

    /// What is known of the memories of PEs.
    pub(super) fn of_pes(&self) -> PeWriters {
        let of_pes = self.runs.iter().filter(|((memory, ..), _)| *memory != MemoryKind::Hbm);
        PeWriters(of_pes.map(|(place, runs)| (*place, runs.clone())).collect())
    }

    /// Commands of the memories of PEs go by other numbers from now on.
    pub(super) fn renumber_in_pes(&mut self, number: &dyn Fn(Writer) -> Writer) {
        let of_pes = self.runs.iter_mut().filter(|((memory, ..), _)| *memory != MemoryKind::Hbm);
        of_pes.flat_map(|(_, runs)| &mut runs.0).for_each(|run| run.2 = number(run.2));
    }

    /// All that a command reads: memory, and whose bytes where.
    pub(super) fn sources<'t>(
        &self,
        accesses: impl Iterator<Item = &'t MemoryAccess>,
    ) -> Vec<ReadSource<'t>> {
        let mut all = Vec::new();
        for access in accesses.filter(|access| !access.write && access.bytes.is_exact()) {
            all.extend(self.read(access).into_iter().map(|(writer, at)| (access.memory, writer, at, access)));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_that_nobody_writes_has_nobodys_bytes() {
        let bytes = std::sync::Arc::new(tilewright_tcp_isa::footprint::ByteSet::range(8, 16));
        let read =
            MemoryAccess { memory: MemoryKind::Vrf, chip: 0, slices: (2, 4), write: false, lanes: 0, bytes };
        let found = LastWriters::new(std::iter::empty()).read(&read);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [(None, (0, 8))]);
    }

    /// A byte at a time.
    #[test]
    fn runs_are_what_single_bytes_are() {
        let mut state = 7_u64;
        let mut next = |most: u64| tilewright_base::random::below(&mut state, most);
        for _ in 0..200 {
            let (mut runs, mut bytes) = (ByteRuns::default(), vec![None; 64]);
            for writer in 1..12 {
                let mut new: Vec<(u64, u64)> = Vec::new();
                let mut at = next(20);
                while at < 60 {
                    let end = (at + 1 + next(8)).min(64);
                    new.push((at, end));
                    at = end + 1 + next(20);
                }
                runs.write(&new, writer);
                for (start, end) in new {
                    (start..end).for_each(|at| bytes[usize::try_from(at).unwrap()] = Some(writer));
                }
                let (start, end) = (next(30), 30 + next(34));
                let mut seen = BTreeSet::new();
                let halves = [(start, start / 2 + end / 2), (start / 2 + end / 2, end)];
                runs.read(&halves, &mut |writer, _| {
                    seen.insert(writer);
                });
                let wanted: BTreeSet<Option<Writer>> =
                    (start..end).map(|at| bytes[usize::try_from(at).unwrap()]).collect();
                assert_eq!(seen, wanted);
                assert!(runs.0.windows(2).all(|pair| pair[0].1 <= pair[1].0));
            }
        }
    }
}
