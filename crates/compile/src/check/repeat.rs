//! Blocks of commands that repeat, as the layers of a model do: one of them is followed through the memories
//! of PEs, the others are compared with it.
//!
//! What a block does to the memories of PEs, and what is found there, depends on three things alone: what is
//! known of them when it begins, which bytes its commands touch, and what is ordered before each of them. If
//! a block leaves behind what it found, up to numbers of commands that grow by as many as it has, and the
//! next has the same commands in the same order, then the next does the same, finds the same, and leaves the
//! same behind. So a block in which nothing was found wrong vouches for those behind it that are like it.
//! Waits and messages are followed in all blocks, from which the order of their commands comes; so is HBM,
//! where each block has weights and caches of its own; so are reads of data memory that nothing writes once
//! the first kernel is done, constants, of which each block has its own too; and each reader of each block is
//! asked whether it may read what it reads.
//!
//! A block that differs in anything is followed as if nothing had been left out before it.

use std::collections::{BTreeMap, BTreeSet};

use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_tcp_isa::footprint::{ByteSet, MemoryAccess, MemoryKind};

use super::flow::{BEFORE, PeWriters, Writer};
use super::hazards::{CheckScope, HazardChecker, MetCommand, WriterCommand};
use super::intent::Intent;
use super::order::{Clock, queue_of};
use super::touch::{AccessCache, MemoryRegion, PeAccessId, digested};
use super::trace::{Trace, TraceOp};

/// Fewest blocks that are worth a look.
const FEWEST_BLOCKS: usize = 4;

/// Blocks that are looked at, one after the other, for one that leaves behind what it found.
const MOST_LOOKS: usize = 12;

/// Goes through blocks that repeat, from the first command to behind the last block, if there are such.
pub(super) fn run(checker: &mut HazardChecker<'_, '_>, traces: &[Trace], at: &mut [usize]) {
    let Some(starts) = kernel_starts(traces, checker.intent) else { return };
    let fixed = FixedBytes::behind(starts.get(1).map_or(&[], Vec::as_slice), traces, checker.touches);
    let Some(starts) = block_starts(traces, &starts, checker.touches, &fixed) else { return };
    checker.fixed = Some(fixed);
    let mut ends = starts.iter();
    if !ends.next().is_some_and(|first| checker.advance(traces, at, first, None)) {
        return;
    }
    let mut blocks = RepeatedBlocks { first: checker.counts(), model: None, passed: 0, looks: 0 };
    for end in ends {
        let start = BlockStart::of(checker);
        let mut met = Vec::new();
        let whole = checker.advance(traces, at, end, Some(&mut met));
        checker.settled = Some(start.settled.clone());
        blocks.block(checker, start, &met, whole);
        checker.settled = None;
        if !whole {
            break;
        }
    }
    blocks.catch_up(checker);
}

/// Data memory that nothing writes from some op of each queue on.
pub(super) struct FixedBytes {
    /// What is written, in any slice.
    written: ByteSet,
    /// By what commands touch of the memories of PEs: the same without reads of fixed bytes.
    others: Vec<PeAccessId>,
}

impl FixedBytes {
    fn behind(start: &[usize], traces: &[Trace], touches: &mut AccessCache<'_>) -> FixedBytes {
        let mut runs = Vec::new();
        let ops = traces.iter().zip(start).flat_map(|(trace, at)| trace.ops.get(*at..).unwrap_or_default());
        let of_pes: BTreeSet<PeAccessId> = ops.filter_map(|(op, _)| pe_access(touches, op)).collect();
        for id in of_pes {
            let accesses = touches.in_pes(id).iter();
            let writes = accesses.filter(|access| access.write && access.memory == MemoryKind::Dm);
            writes.for_each(|access| runs.extend(access.bytes.runs()));
        }
        let mut fixed = FixedBytes { written: ByteSet::from_runs(runs), others: Vec::new() };
        for id in 0..touches.count_in_pes() {
            let others = touches.in_pes(id).iter().filter(|access| !fixed.is_read_by(access));
            let others = others.cloned().collect();
            fixed.others.push(touches.of_pes(others));
        }
        fixed
    }

    /// Whether an access only reads such bytes.
    pub(super) fn is_read_by(&self, access: &MemoryAccess) -> bool {
        access.memory == MemoryKind::Dm && !access.write && access.bytes.overlap(&self.written).is_none()
    }

    fn without(&self, of_pes: PeAccessId) -> PeAccessId {
        self.others.get(of_pes as usize).copied().unwrap_or(of_pes)
    }
}

/// What the command of an op touches of the memories of PEs.
fn pe_access(touches: &AccessCache<'_>, op: &TraceOp) -> Option<PeAccessId> {
    let (TraceOp::Issue { touch, .. } | TraceOp::Read(touch)) = op else { return None };
    Some(touches.get(*touch)?.of_pes)
}

/// How many commands each unit had when a block began, and up to which all queues know them to be done.
struct BlockStart {
    counts: Vec<u32>,
    settled: Vec<u32>,
}

impl BlockStart {
    fn of(checker: &HazardChecker<'_, '_>) -> BlockStart {
        let counts = checker.counts();
        let settled = (0..counts.len()).map(|unit| checker.order.settled(unit)).collect();
        BlockStart { counts, settled }
    }

    /// What a clock knows, from here on: no command that all know to be done can be in anyone's way. Numbers
    /// below the start of the block wrap around.
    fn knows(&self, clock: &Clock) -> Vec<u32> {
        let (counts, rest) = (clock.counts(), self.rest(clock));
        let joined = counts.iter().zip(&self.settled).map(|(count, settled)| *count.max(settled));
        let known = joined.chain(rest.iter().copied());
        known.zip(&self.counts).map(|(known, start)| known.wrapping_sub(*start)).collect()
    }

    /// Whether a clock knows as much.
    ///
    /// Clocks have a number for each unit of each PE, and there is one for each command: plain loops over
    /// slices, without a branch for each number.
    fn knows_as_much(&self, clock: &Clock, known: &[u32]) -> bool {
        let (counts, rest) = (clock.counts(), self.rest(clock));
        if known.len() != self.counts.len() || counts.len() > known.len() {
            return false;
        }
        let (known, behind) = known.split_at(counts.len());
        let (start, start_behind) = self.counts.split_at(counts.len());
        let mut differ = 0;
        for (((count, settled), start), known) in counts.iter().zip(&self.settled).zip(start).zip(known) {
            differ |= (*count).max(*settled).wrapping_sub(*start) ^ known;
        }
        for ((settled, start), known) in rest.iter().zip(start_behind).zip(behind) {
            differ |= settled.wrapping_sub(*start) ^ known;
        }
        differ == 0
    }

    /// What all queues know of units behind the last that a clock knows of.
    fn rest(&self, clock: &Clock) -> &[u32] {
        self.settled.get(clock.counts().len()..).unwrap_or_default()
    }
}

/// What is known of the memories of PEs at some time.
struct PeState {
    counts: Vec<u32>,
    lanes: BTreeMap<(MemoryRegion, bool), Vec<Vec<u32>>>,
    writers: PeWriters,
    /// Whether what they wrote was read, by number.
    were_read: BTreeMap<Writer, bool>,
}

impl PeState {
    /// Now, or when a block began whose commands were met and not yet checked.
    fn of(checker: &mut HazardChecker<'_, '_>, BlockStart { counts, settled }: &BlockStart) -> PeState {
        let mut lanes = BTreeMap::new();
        for (key, units) in &mut checker.lanes {
            if matches!(key.0, MemoryRegion::Hbm(_)) {
                continue;
            }
            units.iter_mut().zip(settled).for_each(|(lane, settled)| lane.forget(*settled));
            lanes.insert(*key, units.iter().map(|lane| lane.live.clone()).collect());
        }
        let writers = checker.flow.of_pes();
        let flag = |writer: &Writer| checker.wrote.get(*writer as usize).map(|wrote| wrote.was_read);
        let were_read =
            writers.writers().iter().filter_map(|writer| Some((*writer, flag(writer)?))).collect();
        PeState { counts: counts.clone(), lanes, writers, were_read }
    }

    /// Whether a later state is this one, with commands that came as many later; those from before the first
    /// block are the same.
    fn is_like(&self, checker: &HazardChecker<'_, '_>, first: &[u32], later: &PeState) -> bool {
        let shift =
            |unit: usize| -> Option<u32> { later.counts.get(unit)?.checked_sub(*self.counts.get(unit)?) };
        let same_lanes = self.lanes.len() == later.lanes.len()
            && self.lanes.iter().zip(&later.lanes).all(|((key, units), (its, others))| {
                key == its
                    && units.iter().zip(others).enumerate().all(|(unit, (lane, other))| {
                        let by = shift(unit).unwrap_or(0);
                        lane.len() == other.len()
                            && lane.iter().zip(other).all(|(count, its)| {
                                count.checked_add(by) == Some(*its)
                                    && first.get(unit).is_some_and(|first| count > first)
                                    && checker.pe_access(unit, *count) == checker.pe_access(unit, *its)
                            })
                    })
            });
        let same = |one: Writer, other: Writer| {
            let [wrote, its] = [one, other].map(|writer| checker.wrote.get(writer as usize));
            let (Some(wrote), Some(its)) = (wrote, its) else { return false };
            let read = |state: &PeState, writer| state.were_read.get(&writer).copied();
            if read(self, one) != read(later, other) || wrote.unit != its.unit {
                return false;
            }
            if is_older(wrote, first) || is_older(its, first) {
                return one == other;
            }
            wrote.count.checked_add(shift(wrote.unit).unwrap_or(0)) == Some(its.count)
        };
        same_lanes && self.writers.is_like(&later.writers, &same)
    }
}

/// Whether a command came before the first block, or is no command.
fn is_older(wrote: &WriterCommand, first: &[u32]) -> bool {
    first.get(wrote.unit).is_none_or(|count| wrote.count <= *count)
}

/// A block that others are compared with.
struct ModelBlock {
    start: BlockStart,
    /// Commands of each unit behind it.
    counts_behind: Vec<u32>,
    commands: Vec<ModelCommand>,
    /// Who read what whom wrote: which of the commands, and unit and number of the writer.
    edges: Vec<(usize, usize, u32)>,
    /// Units and places in a block of commands that wrote what nobody read.
    unread: BTreeSet<(usize, u32)>,
}

struct ModelCommand {
    unit: usize,
    of_pes: PeAccessId,
    writes_hbm: bool,
    /// What its clock knows from the start of the block on.
    knows: Vec<u32>,
}

/// The blocks so far.
struct RepeatedBlocks {
    /// Commands of each unit before the first.
    first: Vec<u32>,
    model: Option<ModelBlock>,
    /// Blocks behind the model whose commands were not followed through the memories of PEs.
    passed: usize,
    /// Blocks that were looked at for a model.
    looks: usize,
}

impl RepeatedBlocks {
    fn block(
        &mut self,
        checker: &mut HazardChecker<'_, '_>,
        start: BlockStart,
        met: &[MetCommand],
        whole: bool,
    ) {
        let model = self.model.as_ref().filter(|_| whole);
        if model.is_some_and(|model| model.has_twin(checker, &self.first, &start, met)) {
            self.passed += 1;
            met.iter().for_each(|met| checker.command(0, met, CheckScope::OwnOfBlock));
            return;
        }
        self.catch_up(checker);
        self.looks += 1;
        let looks = whole && self.looks <= MOST_LOOKS && !checker.intent.follows_each_block;
        let before = looks.then(|| PeState::of(checker, &start));
        let faults = checker.found.len();
        checker.edges = looks.then(Vec::new);
        met.iter().enumerate().for_each(|(index, met)| checker.command(index, met, CheckScope::All));
        let edges = checker.edges.take().unwrap_or_default();
        let Some(before) = before.filter(|_| checker.found.len() == faults) else { return };
        let behind = PeState::of(checker, &BlockStart::of(checker));
        if before.is_like(checker, &self.first, &behind) {
            let mut model = ModelBlock::new(checker, start, behind.counts.clone(), met, &edges);
            model.iter_mut().for_each(|model| model.unread = model.lost(checker, &before, &behind));
            self.model = model;
        }
    }

    /// Brings what is known of the memories of PEs to behind the blocks that were passed.
    fn catch_up(&mut self, checker: &mut HazardChecker<'_, '_>) {
        let (Some(model), passed) = (self.model.take(), std::mem::take(&mut self.passed)) else { return };
        if passed == 0 {
            return;
        }
        let (from, to) = (&model.counts_behind, checker.passed_counts(passed, &model));
        let by = |unit: usize| {
            let (to, from) = to.get(unit).zip(from.get(unit)).or_broken("each unit has counts");
            to.exact_sub(*from)
        };
        for ((region, _), units) in &mut checker.lanes {
            if matches!(region, MemoryRegion::Hbm(_)) {
                continue;
            }
            units.iter_mut().enumerate().for_each(|(unit, lane)| {
                lane.live.iter_mut().for_each(|count| *count = count.exact_add(by(unit)));
            });
        }
        let replaced = self.renumber(checker, &by);
        let left = checker.flow.of_pes().writers();
        let left: BTreeSet<(usize, u32)> = left
            .iter()
            .filter_map(|writer| checker.wrote.get(*writer as usize))
            .map(|wrote| (wrote.unit, wrote.count))
            .collect();
        // What is no longer there was read or not as it was in the block that they are like.
        let units = model.start.counts.iter().zip(&to).enumerate();
        let passed = units.flat_map(|(unit, (from, to))| (*from + 1..=*to).map(move |count| (unit, count)));
        for (unit, count) in passed.chain(replaced).filter(|command| !left.contains(command)) {
            if model.unread.contains(&(unit, model.place_in_block(unit, count))) {
                checker.wrote.push(WriterCommand { unit, count, was_read: false });
            } else if let Some(issued) = checker.issued(unit, count).copied() {
                checker.checked.read.insert((queue_of(unit), issued.step));
            }
        }
    }

    /// Writers of the memories of PEs are those that came as many commands later; which they were before.
    fn renumber(&self, checker: &mut HazardChecker<'_, '_>, by: &dyn Fn(usize) -> u32) -> Vec<(usize, u32)> {
        let (mut numbers, mut replaced) = (BTreeMap::new(), Vec::new());
        for writer in checker.flow.of_pes().writers() {
            let Some(wrote) = checker.wrote.get_mut(writer as usize) else { continue };
            if writer == BEFORE || is_older(wrote, &self.first) {
                continue;
            }
            let later = WriterCommand { count: wrote.count.exact_add(by(wrote.unit)), ..*wrote };
            // What it wrote is gone, or is known by its new number.
            replaced.push((wrote.unit, std::mem::take(&mut wrote.count)));
            let number = Writer::try_from(checker.wrote.len()).or_broken("writers of a case fit 32 bits");
            checker.wrote.push(later);
            numbers.insert(writer, number);
        }
        checker.flow.renumber_in_pes(&|writer| numbers.get(&writer).copied().unwrap_or(writer));
        replaced
    }
}

impl ModelBlock {
    fn new(
        checker: &HazardChecker<'_, '_>,
        start: BlockStart,
        counts_behind: Vec<u32>,
        met: &[MetCommand],
        edges: &[(usize, Writer)],
    ) -> Option<ModelBlock> {
        let command = |met: &MetCommand| {
            let touch = checker.touches.get(met.touch)?;
            let writes_hbm = touch.hbm.iter().any(|access| access.write);
            let (unit, knows) = (met.stamp.unit, start.knows(&met.stamp.clock));
            Some(ModelCommand { unit, of_pes: checker.without_fixed(touch.of_pes), writes_hbm, knows })
        };
        let commands = met.iter().map(command).collect::<Option<Vec<ModelCommand>>>()?;
        let edge = |(index, writer): &(usize, Writer)| {
            let wrote = checker.wrote.get(*writer as usize)?;
            Some((*index, wrote.unit, wrote.count))
        };
        let mut edges = edges.iter().map(edge).collect::<Option<Vec<(usize, usize, u32)>>>()?;
        edges.sort_unstable();
        edges.dedup();
        Some(ModelBlock { start, counts_behind, commands, edges, unread: BTreeSet::new() })
    }

    /// The place of a command among those of its unit in its block, from 1 on.
    fn place_in_block(&self, unit: usize, count: u32) -> u32 {
        let bounds = self.start.counts.get(unit).zip(self.counts_behind.get(unit));
        let (start, behind) = bounds.map_or((0, 0), |(start, behind)| (*start, *behind));
        let of_block = i64::from(behind - start).max(1);
        let place = (i64::from(count) - i64::from(start) - 1).rem_euclid(of_block) + 1;
        u32::try_from(place).or_broken("a place in a block fits 32 bits")
    }

    /// Places in a block of commands whose results were overwritten in this one, and that nobody had read.
    fn lost(
        &self,
        checker: &HazardChecker<'_, '_>,
        before: &PeState,
        behind: &PeState,
    ) -> BTreeSet<(usize, u32)> {
        let wrote = (BEFORE..).zip(&checker.wrote).filter(|(_, wrote)| !wrote.was_read);
        let gone = wrote.filter(|(writer, wrote)| {
            let of_block = self.start.counts.get(wrote.unit).is_some_and(|start| wrote.count > *start);
            (of_block || before.were_read.contains_key(writer)) && !behind.were_read.contains_key(writer)
        });
        gone.map(|(_, wrote)| (wrote.unit, self.place_in_block(wrote.unit, wrote.count))).collect()
    }

    /// Whether the commands of a later block are those of this one, in the same order, and may read what
    /// these read.
    fn has_twin(
        &self,
        checker: &HazardChecker<'_, '_>,
        first: &[u32],
        start: &BlockStart,
        met: &[MetCommand],
    ) -> bool {
        let same = |(own, met): (&ModelCommand, &MetCommand)| {
            let Some(touch) = checker.touches.get(met.touch) else { return false };
            own.unit == met.stamp.unit
                && own.of_pes == checker.without_fixed(touch.of_pes)
                && own.writes_hbm == touch.hbm.iter().any(|access| access.write)
                && touch.outside.is_empty()
                && start.knows_as_much(&met.stamp.clock, &own.knows)
        };
        let may_read = |(index, unit, count): &(usize, usize, u32)| {
            let older = first.get(*unit).is_none_or(|before| count <= before);
            let by = start.counts.get(*unit).zip(self.start.counts.get(*unit));
            let by = by.filter(|_| !older).map_or(0, |(to, from)| to.exact_sub(*from));
            let reader = met.get(*index).and_then(|met| met.kernel);
            checker.intent.may_read(MemoryKind::Dm, reader, checker.kernel_of(*unit, count.exact_add(by)))
        };
        self.commands.len() == met.len()
            && self.commands.iter().zip(met).all(same)
            && self.edges.iter().all(may_read)
    }
}

impl HazardChecker<'_, '_> {
    /// Commands of each unit so far.
    fn counts(&self) -> Vec<u32> {
        let count = |issued: &Vec<_>| u32::try_from(issued.len()).or_broken("commands of a case fit 32 bits");
        self.issued.iter().map(count).collect()
    }

    /// Commands of each unit behind as many blocks as passed behind a model.
    fn passed_counts(&self, passed: usize, model: &ModelBlock) -> Vec<u32> {
        let passed = u32::try_from(passed).or_broken("blocks of a case fit 32 bits");
        let units = model.start.counts.iter().zip(&model.counts_behind);
        units.map(|(start, behind)| behind.exact_add(behind.exact_sub(*start).exact_mul(passed))).collect()
    }

    /// What the command of a unit by its number touches of the memories of PEs.
    fn pe_access(&self, unit: usize, count: u32) -> Option<PeAccessId> {
        Some(self.without_fixed(self.touches.get(self.issued(unit, count)?.touch)?.of_pes))
    }

    fn without_fixed(&self, of_pes: PeAccessId) -> PeAccessId {
        self.fixed.as_ref().map_or(of_pes, |fixed| fixed.without(of_pes))
    }

    /// The kernel of the command of a unit by its number.
    fn kernel_of(&self, unit: usize, count: u32) -> Option<usize> {
        self.issued(unit, count)?.kernel
    }
}

/// For each kernel, and behind the last, the first op of every queue.
fn kernel_starts(traces: &[Trace], intent: &Intent) -> Option<Vec<Vec<usize>>> {
    let kernels = intent.begins.iter().map(Vec::len).min().filter(|_| intent.begins.len() == traces.len())?;
    let start = |kernel: usize| -> Vec<usize> {
        let queues = traces.iter().zip(&intent.begins);
        let first = queues.map(|(trace, begins)| {
            let end = trace.ops.len();
            begins.get(kernel).map_or(end, |begin| trace.ops.partition_point(|(_, step)| step < begin))
        });
        first.collect()
    };
    Some((0..=kernels).map(start).collect())
}

/// For each of several blocks that look alike, and behind the last, the first op of every queue.
fn block_starts(
    traces: &[Trace],
    starts: &[Vec<usize>],
    touches: &AccessCache<'_>,
    fixed: &FixedBytes,
) -> Option<Vec<Vec<usize>>> {
    let digest = |pair: &[Vec<usize>]| match pair {
        [from, to] => block_digest(traces, touches, fixed, from, to),
        _ => 0,
    };
    let digests: Vec<u64> = starts.windows(2).map(digest).collect();
    let (first, period, blocks) = longest_repeat(&digests)?;
    Some((0..=blocks).filter_map(|block| starts.get(first + block * period).cloned()).collect())
}

/// A digest of what the commands between ops of all queues touch of the memories of PEs.
fn block_digest(
    traces: &[Trace],
    touches: &AccessCache<'_>,
    fixed: &FixedBytes,
    from: &[usize],
    to: &[usize],
) -> u64 {
    let mut digest = 0;
    for (trace, (from, to)) in traces.iter().zip(from.iter().zip(to)) {
        digest = digested(digest, 1);
        for (op, _) in trace.ops.get(*from..*to).unwrap_or_default() {
            let Some(of_pes) = pe_access(touches, op) else { continue };
            digest = digested(digest, u64::from(fixed.without(of_pes)) + 2);
        }
    }
    digest
}

/// The first of the digests that repeat most, after how many they do so, and how often they are there.
fn longest_repeat(digests: &[u64]) -> Option<(usize, usize, usize)> {
    let mut best: Option<(usize, usize, usize)> = None;
    for period in 1..=digests.len() / FEWEST_BLOCKS {
        let mut first = 0;
        for at in 0..=digests.len() - period {
            if digests.get(at + period).is_some_and(|later| digests.get(at) == Some(later)) {
                continue;
            }
            let blocks = (at - first) / period + 1;
            let longer = best.is_none_or(|(_, of, most)| blocks * period > of * most);
            if blocks >= FEWEST_BLOCKS && longer {
                best = Some((first, period, blocks));
            }
            first = at + 1;
        }
    }
    best
}
