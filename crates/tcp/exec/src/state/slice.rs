//! The memories of one slice: data memory and both register files (paper section IV).
//!
//! Bytes may be elsewhere: parts of data memory where DMA found them (`overlay`), parts of the register file
//! where data memory has them from (`loads`). Who reads or writes comes through here, where they are brought
//! first.

use std::borrow::Cow;
use std::ops::Range;

use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_tcp_isa::program::exec::Memory;

use super::deferred_loads::{DeferredLoad, DeferredLoads, LaneReads, LoadTarget, SliceLoads};
use super::overlay::{ByteSource, Overlay};
use super::shared_bytes::SharedBytes;
use crate::byte_runs::EvenRuns;
use crate::limits::index;
use crate::state::sizes::MemorySizes;

/// Memories that take room once they are written to.
#[derive(Clone, Debug, Default)]
pub(crate) struct SliceMemory {
    dm: Vec<u8>,
    overlay: Overlay,
    trf: Vec<u8>,
    loads: DeferredLoads,
    /// Extra bits of the register file's elements, one byte for each payload byte.
    extra: Vec<u8>,
    vrf: Vec<u8>,
}

/// A memory that is written to.
pub(crate) struct WritableMemory<'m> {
    bytes: &'m mut [u8],
    /// What keeps track of zeros, and must hear which are none any more.
    zeros: Option<&'m mut Overlay>,
}

impl WritableMemory<'_> {
    /// Bytes that are known to be inside the part, to be written.
    pub(crate) fn span(&mut self, offset: u64, bytes: usize) -> &mut [u8] {
        if let Some(overlay) = &mut self.zeros {
            overlay.write(&(index(offset)..index(offset).exact_add(bytes)));
        }
        span(self.bytes, offset, bytes)
    }
}

impl SliceMemory {
    /// Data memory, of which the part that is read was settled; empty if nothing was ever written.
    pub(crate) fn dm(&self) -> &[u8] {
        &self.dm
    }

    /// Data memory in whole, all of it settled, to be given back.
    pub(crate) fn take_dm(&mut self, sizes: &MemorySizes) -> Vec<u8> {
        let all = 0..index(sizes.dm);
        self.settle_dm(&all);
        self.settle_loads_from(sizes, &all);
        self.overlay = Overlay::default();
        std::mem::take(&mut self.dm)
    }

    /// Gives data memory back.
    pub(crate) fn give_dm(&mut self, dm: Vec<u8>) {
        self.dm = dm;
    }

    /// Brings the bytes of a part of data memory that are elsewhere.
    pub(crate) fn settle_dm(&mut self, part: &Range<usize>) {
        if self.overlay.holds(part) {
            self.overlay.settle(part, &mut self.dm);
        }
    }

    /// Data memory, of which bytes of a part are about to be written.
    pub(crate) fn change_dm(&mut self, sizes: &MemorySizes, part: &Range<usize>) -> &mut [u8] {
        self.settle_loads_from(sizes, part);
        let Self { dm, overlay, .. } = self;
        let dm = room_of_dm(dm, overlay, sizes);
        overlay.change(part, dm);
        dm
    }

    /// Writes zeros to a part of data memory.
    pub(crate) fn clear_dm(&mut self, sizes: &MemorySizes, part: Range<usize>) {
        let place = self.change_dm(sizes, &part).get_mut(part.clone());
        place.or_broken("zeros are written inside data memory").fill(0);
        self.overlay.clear(part);
    }

    /// Writes bytes of data memory that somebody holds: they are read there until they change here.
    pub(crate) fn lend_dm(&mut self, sizes: &MemorySizes, start: usize, shared: SharedBytes) {
        self.settle_loads_from(sizes, &(start..start.exact_add(shared.len())));
        let Self { dm, overlay, .. } = self;
        let dm = room_of_dm(dm, overlay, sizes);
        overlay.lend(start, shared, dm);
    }

    /// Before a part of data memory changes: carries out loads from there.
    fn settle_loads_from(&mut self, sizes: &MemorySizes, part: &Range<usize>) {
        if self.loads.are_from(part) {
            self.loads.settle_from(part, room(&mut self.trf, sizes.trf), &self.dm);
        }
    }

    /// Reads data memory, wherever its bytes are.
    pub(crate) fn read_dm(&self, offset: u64, bytes: &mut [u8]) {
        read(&self.dm, offset, bytes);
        self.overlay.read(index(offset), bytes);
    }

    /// Payload of the contraction engine's register file.
    pub(crate) fn trf(&self, sizes: &MemorySizes) -> Cow<'_, [u8]> {
        match self.loads.is_empty() {
            true => Cow::Borrowed(self.trf.as_slice()),
            false => Cow::Owned(self.loads.settled(&self.trf, index(sizes.trf), &self.dm)),
        }
    }

    /// [`Self::trf`], of which the part that is read was settled.
    pub(crate) fn settled_trf(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.trf)
    }

    /// Extra bits of the register file, if there ever were any.
    pub(crate) fn extra(&self) -> Option<&[u8]> {
        (!self.extra.is_empty()).then_some(&self.extra)
    }

    /// Loads of the register file that were not carried out; none where elements have extra bits.
    pub(crate) fn loads(&self) -> Option<SliceLoads<'_>> {
        (!self.loads.is_empty()).then_some(SliceLoads { loads: &self.loads, dm: &self.dm })
    }

    /// Carries out loads that write to what is looked at.
    pub(crate) fn settle_trf_part(&mut self, sizes: &MemorySizes, reads: &LaneReads) {
        if !self.loads.is_empty() {
            self.loads.settle_part(reads, room(&mut self.trf, sizes.trf), &self.dm);
        }
    }

    /// Carries out all loads.
    fn settle_trf(&mut self, sizes: &MemorySizes) {
        if !self.loads.is_empty() {
            self.loads.settle(room(&mut self.trf, sizes.trf), &self.dm);
        }
    }

    /// The vector engine's register file; empty if nothing was ever written.
    pub(crate) fn vrf(&self) -> &[u8] {
        &self.vrf
    }

    /// Reads a memory, wherever its bytes are.
    pub(super) fn read(&self, sizes: &MemorySizes, memory: Memory, offset: u64, bytes: &mut [u8]) {
        match memory {
            Memory::Dm => self.read_dm(offset, bytes),
            Memory::Trf { .. } => read(&self.trf(sizes), offset, bytes),
            Memory::Vrf => read(&self.vrf, offset, bytes),
        }
    }

    /// Keeps a load of the register file instead of carrying it out; false, and nothing is done, where its
    /// bytes may change in data memory, or where it has not the form of weights.
    pub(crate) fn keep_load(&mut self, sizes: &MemorySizes, memory: Memory, even: &EvenRuns) -> bool {
        let Memory::Trf { lanes } = memory else { return false };
        let Some((target, steps, part)) = DeferredLoad::reads(even, lanes, sizes.trf) else { return false };
        let source = match self.dm.is_empty() {
            true => (part.end <= index(sizes.dm)).then_some(ByteSource::Zeros),
            false => self.overlay.source(&part).filter(|_| part.end <= self.dm.len()),
        };
        let Some(source) = source.filter(|_| self.extra.is_empty()) else { return false };
        let trf = room(&mut self.trf, sizes.trf);
        self.loads.make_way(&target, trf, &self.dm);
        self.loads.keep(target, source, steps, (trf, &self.dm));
        true
    }

    /// Before a load is carried out: of earlier ones that were not, none writes to the same place any more.
    pub(crate) fn make_way(&mut self, sizes: &MemorySizes, memory: Memory, even: Option<&EvenRuns>) {
        let Memory::Trf { lanes } = memory else { return };
        if self.loads.is_empty() {
            return;
        }
        match even.and_then(|even| LoadTarget::of(even, lanes, sizes.trf)) {
            Some((target, _)) => self.make_way_for(sizes, &target),
            None => self.settle_trf(sizes),
        }
    }

    /// Before all bytes of a target are written: of loads that were not carried out, none writes there any
    /// more.
    pub(crate) fn make_way_for(&mut self, sizes: &MemorySizes, target: &LoadTarget) {
        if !self.loads.is_empty() {
            self.loads.make_way(target, room(&mut self.trf, sizes.trf), &self.dm);
        }
    }

    /// Copies bytes of data memory, zeros where it has none, to a place that is known to be inside.
    pub(crate) fn copy_from_dm(
        &mut self,
        sizes: &MemorySizes,
        memory: Memory,
        from: i64,
        to: u64,
        bytes: usize,
    ) {
        let range = usize::try_from(from).ok().and_then(|start| Some(start..start.checked_add(bytes)?));
        self.settle_dm(range.as_ref().unwrap_or(&(0..index(sizes.dm))));
        let source = range.filter(|range| range.end <= self.dm.len());
        let Some(source) = source else {
            let byte = |at: u64| usize::try_from(from.exact_add(at.cast_signed())).ok();
            let read = |at: u64| byte(at).and_then(|at| self.dm.get(at)).map_or(0, |byte| *byte);
            let read: Vec<u8> = (0..bytes as u64).map(read).collect();
            return self.write(sizes, memory, to, &read);
        };
        let target = match memory {
            Memory::Dm => {
                let part = index(to)..index(to).exact_add(bytes);
                return self.change_dm(sizes, &part).copy_within(source, index(to));
            }
            Memory::Trf { .. } => {
                self.change_trf(sizes, to, bytes);
                &mut self.trf
            }
            Memory::Vrf => room(&mut self.vrf, sizes.vrf),
        };
        span(target, to, bytes).copy_from_slice(&self.dm[source]);
    }

    /// [`Self::copy_from_dm`] to a register file for runs that are alike; false, and nothing is done, where
    /// there is no short way.
    pub(crate) fn copy_even(&mut self, sizes: &MemorySizes, memory: Memory, even: &EvenRuns) -> bool {
        self.settle_dm(&even.reads());
        let target = match memory {
            Memory::Vrf => room(&mut self.vrf, sizes.vrf),
            Memory::Trf { .. } if self.extra.is_empty() => room(&mut self.trf, sizes.trf),
            _ => return false,
        };
        let ends = |first: i64, steps: [i64; 2]| {
            let reach = steps.into_iter().zip(even.loops).map(|(step, row)| step * (row.0 as i64 - 1));
            reach.fold((first, first), |(low, high), end| (low + end.min(0), high + end.max(0)))
        };
        let [inner, outer] = even.loops;
        let Ok(to) = i64::try_from(even.first.to) else { return false };
        let inside = |(low, high): (i64, i64), bytes: usize| {
            low >= 0 && u64::try_from(high).is_ok_and(|high| high + even.first.bytes as u64 <= bytes as u64)
        };
        if !inside(ends(even.first.from, [inner.1, outer.1]), self.dm.len())
            || !inside(ends(to, [inner.2, outer.2]), target.len())
        {
            return false;
        }
        match even.first.bytes {
            8 => copy_loops::<8>(&self.dm, target, even),
            16 => copy_loops::<16>(&self.dm, target, even),
            32 => copy_loops::<32>(&self.dm, target, even),
            64 => copy_loops::<64>(&self.dm, target, even),
            _ => return false,
        }
        true
    }

    /// Bytes that are known to be inside, to be written; their extra bits are gone.
    pub(crate) fn span(
        &mut self,
        sizes: &MemorySizes,
        memory: Memory,
        offset: u64,
        bytes: usize,
    ) -> &mut [u8] {
        let content = match memory {
            Memory::Dm => self.change_dm(sizes, &(index(offset)..index(offset).exact_add(bytes))),
            Memory::Vrf => room(&mut self.vrf, sizes.vrf),
            Memory::Trf { .. } => {
                self.change_trf(sizes, offset, bytes);
                &mut self.trf
            }
        };
        span(content, offset, bytes)
    }

    /// A memory in whole, bytes of a part of which are about to be written; `None` where something has to be
    /// done before each.
    pub(crate) fn open(
        &mut self,
        sizes: &MemorySizes,
        memory: Memory,
        part: &Range<usize>,
    ) -> Option<WritableMemory<'_>> {
        match memory {
            Memory::Dm if self.overlay.holds(part) || self.loads.are_from(part) => None,
            Memory::Dm => {
                let Self { dm, overlay, .. } = self;
                let bytes = room_of_dm(dm, overlay, sizes);
                Some(WritableMemory { bytes, zeros: overlay.has_zeros(part).then_some(overlay) })
            }
            Memory::Vrf => Some(WritableMemory { bytes: room(&mut self.vrf, sizes.vrf), zeros: None }),
            Memory::Trf { .. } if self.extra.is_empty() && self.loads.is_empty() => {
                Some(WritableMemory { bytes: room(&mut self.trf, sizes.trf), zeros: None })
            }
            Memory::Trf { .. } => None,
        }
    }

    /// Writes bytes that are known to be inside.
    pub(crate) fn write(&mut self, sizes: &MemorySizes, memory: Memory, offset: u64, bytes: &[u8]) {
        self.span(sizes, memory, offset, bytes.len()).copy_from_slice(bytes);
    }

    /// Before bytes of the register file are written: their extra bits are gone, and no load is to be carried
    /// out there later.
    fn change_trf(&mut self, sizes: &MemorySizes, offset: u64, bytes: usize) {
        if !self.extra.is_empty() {
            span(&mut self.extra, offset, bytes).fill(0);
        }
        if self.loads.meet(index(offset), bytes) {
            self.settle_trf(sizes);
        }
        room(&mut self.trf, sizes.trf);
    }

    /// Writes bytes of the register file with their extra bits.
    pub(crate) fn write_extra(&mut self, sizes: &MemorySizes, offset: u64, bytes: &[u8], extra: &[u8]) {
        self.settle_trf(sizes);
        write(&mut self.trf, sizes.trf, offset, bytes);
        write(&mut self.extra, sizes.trf, offset, extra);
    }
}

/// Copies runs of so many bytes, all of them inside.
fn copy_loops<const BYTES: usize>(source: &[u8], target: &mut [u8], even: &EvenRuns) {
    let [inner, outer] = even.loops.map(|(size, from, to)| (size, wide(from), wide(to)));
    let (mut from, mut to) = (wide(even.first.from).cast_unsigned(), index(even.first.to));
    for _ in 0..outer.0 {
        let (mut inner_from, mut inner_to) = (from, to);
        for _ in 0..inner.0 {
            let run = source.get(inner_from..).and_then(<[u8]>::first_chunk::<BYTES>);
            let place = target.get_mut(inner_to..).and_then(<[u8]>::first_chunk_mut::<BYTES>);
            *place.or_broken("runs are written inside") = *run.or_broken("runs are read inside");
            inner_from = inner_from.wrapping_add_signed(inner.1);
            inner_to = inner_to.wrapping_add_signed(inner.2);
        }
        from = from.wrapping_add_signed(outer.1);
        to = to.wrapping_add_signed(outer.2);
    }
}

fn wide(step: i64) -> isize {
    isize::try_from(step).or_broken("a step inside a memory")
}

/// Reads; zeros where the memory was never written. Bounds are the caller's to check.
pub(super) fn read(memory: &[u8], offset: u64, bytes: &mut [u8]) {
    match memory.get(index(offset)..index(offset).exact_add(bytes.len())) {
        Some(source) => bytes.copy_from_slice(source),
        None => bytes.fill(0),
    }
}

/// Writes, taking room for the whole memory first. Bounds are the caller's to check.
pub(super) fn write(memory: &mut Vec<u8>, capacity: u64, offset: u64, bytes: &[u8]) {
    span(room(memory, capacity), offset, bytes.len()).copy_from_slice(bytes);
}

/// All of data memory, which takes room now if it has none yet.
fn room_of_dm<'d>(dm: &'d mut Vec<u8>, overlay: &mut Overlay, sizes: &MemorySizes) -> &'d mut [u8] {
    if dm.is_empty() {
        *overlay = Overlay::zeros(index(sizes.dm));
    }
    room(dm, sizes.dm)
}

/// The whole memory, which takes room now if it has none yet.
fn room(memory: &mut Vec<u8>, capacity: u64) -> &mut [u8] {
    if memory.is_empty() {
        *memory = vec![0; index(capacity)];
    }
    memory
}

/// Bytes of a memory to be written, which the caller has checked to be inside.
fn span(memory: &mut [u8], offset: u64, bytes: usize) -> &mut [u8] {
    let place = memory.get_mut(index(offset)..index(offset).exact_add(bytes));
    place.or_broken("bytes to be written were checked to lie inside the memory")
}
