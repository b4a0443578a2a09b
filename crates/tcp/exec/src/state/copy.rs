//! Bytes from one memory to another without a stop between, where both are on one chip: what DMA does most.

use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_tcp_isa::capped::Capped;
use tilewright_tcp_isa::program::transfer::Address;

use super::pages::HbmPages;
use super::{
    ChipMemories, ExecFault, ExecProblem, ExecStage, MemoryInstance, MemoryLocation, MemoryState, PeMemories,
    SliceMemory, slice,
};
use crate::limits::index;
use crate::parallel::for_each;
use crate::state::sizes::MemorySizes;

/// A loop: size, strides of both sides.
type PairedLoop = (u64, i64, i64);

impl MemoryState {
    /// Copies bytes of any memory that DMA reaches; all are read before any is written.
    ///
    /// # Errors
    /// As [`Self::read`], then as [`Self::write`].
    pub(crate) fn copy(&mut self, from: Address, to: Address, buffer: &mut [u8]) -> Result<(), ExecFault> {
        let source = from.locate().ok_or_else(|| ExecProblem::Unmapped(from).at(ExecStage::Memory))?;
        self.check(&source, buffer.len())?;
        let target = to.locate().ok_or_else(|| ExecProblem::Unmapped(to).at(ExecStage::Memory))?;
        self.check(&target, buffer.len())?;
        if self.copy_packets(source, target, (1, 0, 0), buffer.len()) {
            return Ok(());
        }
        self.read_at(source, buffer)?;
        self.write_at(target, buffer)
    }

    /// Copies packet after packet of one loop, given as size and strides of both sides; false, and nothing is
    /// done, unless each side stays within a memory of its own.
    pub(crate) fn copy_all(
        &mut self,
        from: Address,
        to: Address,
        (size, from_step, to_step): (u64, i64, i64),
        bytes: usize,
    ) -> bool {
        if size == 0 {
            return true;
        }
        let within = |state: &MemoryState, first: Address, step: i64| {
            let reach = step.checked_mul(i64::try_from(size - 1).ok()?)?;
            let (first, last) = (first.locate()?, first.step(reach)?.locate()?);
            let same = (first.chip, first.medium) == (last.chip, last.medium);
            let inside = state.check(&first, bytes).is_ok() && state.check(&last, bytes).is_ok();
            (same && inside).then_some(first)
        };
        let Some(source) = within(self, from, from_step) else { return false };
        let Some(target) = within(self, to, to_step) else { return false };
        self.copy_packets(source, target, (size, from_step, to_step), bytes)
    }

    /// Copies what nested loops ask for from HBM to data memories, a slice for each iteration of the
    /// outermost, by several threads; false, and nothing is done, unless every iteration has a slice of its
    /// own and all bytes are inside.
    pub(crate) fn copy_to_slices(
        &mut self,
        from: Address,
        to: Address,
        rows: &[PairedLoop],
        bytes: usize,
    ) -> bool {
        let Some(((count, from_step, to_step), inner)) = rows.split_first() else { return false };
        if *count < 2 || rows.iter().any(|row| row.0 == 0) {
            return false;
        }
        let within = |first: Address, step: fn(&PairedLoop) -> i64| -> Option<MemoryLocation> {
            let (low, high) = reach(inner, step)?;
            let (low, high) = (first.step(low)?.locate()?, first.step(high)?.locate()?);
            let same = (low.chip, low.medium) == (high.chip, high.medium);
            let inside = self.check(&low, bytes).is_ok() && self.check(&high, bytes).is_ok();
            (same && inside).then_some(first.locate()?)
        };
        let part = |at: u64| {
            let at = i64::try_from(at).ok()?;
            let source = within(from.step(from_step.checked_mul(at)?)?, |row| row.1)?;
            let target = within(to.step(to_step.checked_mul(at)?)?, |row| row.2)?;
            match (source.medium, target.medium) {
                (MemoryInstance::Hbm, MemoryInstance::Dm { slice }) if source.chip == target.chip => {
                    Some((target.chip, slice, source.offset, target.offset))
                }
                _ => None,
            }
        };
        let most = self.sizes.slices.exact_mul(self.sizes.pes);
        let parts: Option<Vec<_>> = if *count > most { None } else { (0..*count).map(part).collect() };
        let Some(parts) = parts else { return false };
        let apart = parts.windows(2).all(|pair| pair[0].0 == pair[1].0 && pair[0].1 < pair[1].1);
        let Some((chip, ..)) = parts.first().filter(|_| apart) else { return false };
        let sizes = self.sizes;
        let ChipMemories { hbm, pes } = self.chip_mut(*chip);
        let hbm: &HbmPages = hbm;
        let mut left = parts.iter().peekable();
        let mut jobs = Vec::with_capacity(parts.len());
        for (pe, first) in pes.iter_mut().zip((0_u64..).step_by(index(sizes.slices))) {
            let mut physical: Vec<Option<&mut SliceMemory>> = pe.slices.iter_mut().map(Some).collect();
            while let Some((_, slice, source, target)) = left.next_if(|part| part.1 < first + sizes.slices) {
                let entry = pe.table.get(index(slice % sizes.slices));
                let memory = entry.and_then(|entry| physical.get_mut(*entry)?.take());
                jobs.extend(memory.map(|memory| (memory, *source, *target)));
            }
        }
        let moved = rows.iter().map(|row| row.0).fold(bytes as u64, u64::capped_mul);
        let (low, high) = reach(inner, |row| row.2).or_broken("loops were checked to stay inside");
        for_each(jobs, moved / 8, |_, (memory, source, target)| {
            if let Some(shared) = hbm.held(source, bytes).filter(|_| inner.is_empty()) {
                return memory.lend_dm(&sizes, index(target), shared);
            }
            let [first, last] = [low, high].map(|end| index(step_inside(target, end)));
            let dm = memory.change_dm(&sizes, &(first..last.exact_add(bytes)));
            nested(inner, source, target, &mut |from, to| {
                hbm.read(from, &mut dm[index(to)..index(to) + bytes]);
            });
        });
        true
    }

    /// Copies packets that are known to be inside; false, and nothing is done, unless a shorter way than
    /// through a buffer is known.
    fn copy_packets(
        &mut self,
        source: MemoryLocation,
        target: MemoryLocation,
        (size, from_step, to_step): (u64, i64, i64),
        bytes: usize,
    ) -> bool {
        if source.chip != target.chip {
            return false;
        }
        let (sizes, mut from, mut to) = (self.sizes, source.offset, target.offset);
        let last = to_step.exact_mul(size.exact_sub(1).cast_signed());
        let ends = [to, step_inside(to, last)].map(index);
        let ChipMemories { hbm, pes } = self.chip_mut(target.chip);
        let mut each = |copy: &mut dyn FnMut(u64, u64)| {
            for _ in 0..size {
                copy(from, to);
                (from, to) = (from.wrapping_add_signed(from_step), to.wrapping_add_signed(to_step));
            }
        };
        match (source.medium, target.medium) {
            (MemoryInstance::Hbm, MemoryInstance::Dm { slice }) => {
                let Some(memory) = slice_of(pes, &sizes, slice) else { return false };
                let part = ends[0].min(ends[1])..ends[0].max(ends[1]).exact_add(bytes);
                let dm = memory.change_dm(&sizes, &part);
                each(&mut |from, to| {
                    hbm.read(from, &mut dm[index(to)..index(to) + bytes]);
                });
            }
            (MemoryInstance::Dm { slice }, MemoryInstance::Hbm) => {
                let Some(dm) = slice_of(pes, &sizes, slice).map(|memory| {
                    memory.settle_dm(&(0..index(sizes.dm)));
                    memory.dm()
                }) else {
                    return false;
                };
                if dm.is_empty() {
                    return false;
                }
                each(&mut |from, to| {
                    hbm.write(to, &dm[index(from)..index(from) + bytes]);
                });
            }
            (MemoryInstance::Dm { slice: own }, MemoryInstance::Dm { slice }) if own != slice => {
                let Some(mut content) = slice_of(pes, &sizes, slice).map(|memory| memory.take_dm(&sizes))
                else {
                    return false;
                };
                let read = slice_of(pes, &sizes, own).map(|own| {
                    own.settle_dm(&(0..index(sizes.dm)));
                    own.dm()
                });
                let read = read.or_broken("packets come from a slice of the chip");
                let written = !read.is_empty();
                if written {
                    each(&mut |from, to| {
                        slice::write(&mut content, sizes.dm, to, &read[index(from)..index(from) + bytes]);
                    });
                }
                if let Some(memory) = slice_of(pes, &sizes, slice) {
                    memory.give_dm(content);
                }
                return written;
            }
            _ => return false,
        }
        true
    }
}

/// A byte so many from another, which was checked to lie inside.
fn step_inside(offset: u64, bytes: i64) -> u64 {
    offset.checked_add_signed(bytes).or_broken("packets were checked to lie inside the memory")
}

/// How far loops reach from their first byte, back and on.
fn reach(rows: &[PairedLoop], step: fn(&PairedLoop) -> i64) -> Option<(i64, i64)> {
    rows.iter().try_fold((0_i64, 0_i64), |(low, high), row| {
        let end = step(row).checked_mul(i64::try_from(row.0).ok()?.checked_sub(1)?)?;
        Some((low.checked_add(end.min(0))?, high.checked_add(end.max(0))?))
    })
}

/// All packets of nested loops, outermost first.
fn nested(rows: &[PairedLoop], from: u64, to: u64, copy: &mut dyn FnMut(u64, u64)) {
    let Some(((size, from_step, to_step), inner)) = rows.split_first() else { return copy(from, to) };
    let (mut from, mut to) = (from, to);
    for _ in 0..*size {
        nested(inner, from, to, copy);
        (from, to) = (from.wrapping_add_signed(*from_step), to.wrapping_add_signed(*to_step));
    }
}

/// A slice of a chip, by the number that it answers to.
fn slice_of<'p>(pes: &'p mut [PeMemories], sizes: &MemorySizes, slice: u64) -> Option<&'p mut SliceMemory> {
    let pe = pes.get_mut(index(slice / sizes.slices))?;
    let entry = *pe.table.get(index(slice % sizes.slices))?;
    pe.slices.get_mut(entry)
}
