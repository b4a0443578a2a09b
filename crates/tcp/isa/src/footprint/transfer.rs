//! What a DMA command touches: its loops in the address space of the program, cut into memories (vISA book,
//! DMA engine).

use std::sync::Arc;
use tilewright_base::invariant::Exact;

use tilewright_machine::tcp::Tcp;

use super::walk::{TouchedBytes, TouchedOffsets, WalkLoop};
use super::{AccessSite, ByteSet, Footprint, MemoryAccess, MemoryKind, OutOfBounds, reachable};
use crate::capped::Capped;
use crate::program::transfer::{
    Address, KIND_BYTES, MemoryInstance, MemoryLocation, SLICE_STRIDE, Transfer, TransferLoop,
};

/// Memories that one run of bytes is followed through; a run that goes further is reported as outside.
const MOST_MEMORIES: u64 = 1 << 14;
/// Bytes of an entry of a table of rows.
const TABLE_ENTRY_BYTES: u64 = 4;

/// What a resolved transfer touches. `objects` are named data, for walks through tables.
pub fn of_transfer(machine: &Tcp, transfer: &Transfer, objects: &[MemoryAccess]) -> Footprint {
    let mut footprint = Footprint::default();
    let index = transfer.index;
    for write in [false, true] {
        let base = if write { transfer.target } else { transfer.source };
        let stride = |row: &TransferLoop| if write { row.target } else { row.source };
        let loops: Vec<WalkLoop> = transfer
            .loops
            .iter()
            .map(|row| WalkLoop { size: row.size.fixed(), stride: stride(row) })
            .collect();
        let side = TransferSide { machine, write };
        if index.is_some_and(|index| index.scatter == write) {
            side.through_table(&mut footprint, objects, base);
        } else {
            side.walk(&mut footprint, base, &loops, transfer.packet);
        }
    }
    if let Some(index) = index {
        let size = transfer.loops.first().map_or(0, |row| row.size.fixed());
        let bytes = size.capped_mul(TABLE_ENTRY_BYTES);
        TransferSide { machine, write: false }.walk(&mut footprint, index.table, &[], bytes);
    }
    footprint
}

/// What a control core's read of so many bytes touches.
pub fn of_read(machine: &Tcp, address: Address, bytes: u64) -> Footprint {
    let mut footprint = Footprint::default();
    TransferSide { machine, write: false }.walk(&mut footprint, address, &[], bytes);
    footprint
}

/// The memory of an address, with the place it has there.
pub(crate) fn site_of(located: MemoryLocation, write: bool) -> AccessSite {
    let (memory, first) = match located.medium {
        MemoryInstance::Hbm => (MemoryKind::Hbm, 0),
        MemoryInstance::Dm { slice } => (MemoryKind::Dm, slice),
        MemoryInstance::Spm { pe } => (MemoryKind::Spm, pe),
    };
    AccessSite { memory, chip: located.chip, slices: (first, first.exact_add(1)), write, lanes: 0 }
}

/// Reading or writing.
struct TransferSide<'a> {
    machine: &'a Tcp,
    write: bool,
}

impl TransferSide<'_> {
    fn through_table(&self, footprint: &mut Footprint, objects: &[MemoryAccess], base: Address) {
        let Some(located) = base.locate().filter(|located| self.exists(located)) else {
            return self.unmapped(footprint, (base.0.into(), i128::from(base.0) + 1));
        };
        let site = site_of(located, self.write);
        let bytes = reachable(self.machine, objects, site, located.offset);
        footprint.add(self.machine, site, TouchedBytes { bytes, outside: None });
    }

    fn walk(&self, footprint: &mut Footprint, base: Address, loops: &[WalkLoop], packet: u64) {
        let whole = |row: &&WalkLoop| row.stride % SLICE_STRIDE == 0;
        let located = base.locate();
        let sliced = located.is_some_and(|located| located.medium != MemoryInstance::Hbm);
        let (across, within): (Vec<WalkLoop>, Vec<WalkLoop>) =
            loops.iter().partition(|row| sliced && whole(row));
        let within = TouchedOffsets::of_loops(&within, packet);
        let slices = TouchedOffsets::of_loops(&in_slices(&across), 1);
        let stride = SLICE_STRIDE.cast_unsigned();
        let stays = located.is_some_and(|located| {
            let start = i128::from(located.offset) + within.least;
            let end = within.offsets.bounds().map_or(0, |(_, end)| start + i128::from(end));
            start >= 0 && end <= i128::from(stride)
        });
        match located {
            Some(located) if sliced && stays => self.same_in_slices(footprint, located, &within, &slices),
            _ => self.split(footprint, base, &TouchedOffsets::of_loops(loops, packet)),
        }
    }

    /// The same bytes of several slices.
    fn same_in_slices(
        &self,
        footprint: &mut Footprint,
        at: MemoryLocation,
        within: &TouchedOffsets,
        slices: &TouchedOffsets,
    ) {
        let site = site_of(at, self.write);
        let placed = within.placed(at.offset.into(), 1, site.memory.capacity_bytes(self.machine));
        let named = slices.placed(site.slices.0.into(), 1, self.slices_of(site.memory));
        if let Some(bytes) = placed.outside.or(named.outside.map(|(first, end)| {
            let at = |slice: i128| slice * i128::from(SLICE_STRIDE);
            (at(first), at(end))
        })) {
            let capacity = site.memory.capacity_bytes(self.machine);
            footprint.outside.push(OutOfBounds {
                memory: Some(site.memory),
                bytes,
                capacity,
                write: self.write,
            });
        }
        let bytes = Arc::new(placed.bytes);
        named
            .bytes
            .runs()
            .iter()
            .for_each(|run| footprint.add_shared(AccessSite { slices: *run, ..site }, &bytes));
    }

    /// Any walk: its runs in the address space, cut where memories end.
    fn split(&self, footprint: &mut Footprint, base: Address, walked: &TouchedOffsets) {
        let placed = walked.placed(base.0.into(), 1, u64::MAX);
        if let Some(bytes) = placed.outside {
            self.unmapped(footprint, bytes);
        }
        let exact = placed.bytes.is_exact();
        let mut parts: Vec<(AccessSite, Vec<(u64, u64)>)> = Vec::new();
        for &(start, end) in placed.bytes.runs() {
            let (mut at, mut memories) = (start, 0);
            while at < end {
                memories += 1;
                let located = Address(at).locate().filter(|located| self.exists(located));
                let Some(located) = located.filter(|_| memories < MOST_MEMORIES) else {
                    self.unmapped(footprint, (at.into(), end.into()));
                    if memories >= MOST_MEMORIES {
                        break;
                    }
                    at = next_kind(at);
                    continue;
                };
                let site = site_of(located, self.write);
                let capacity = site.memory.capacity_bytes(self.machine);
                let room = capacity.saturating_sub(located.offset);
                let taken = room.min(end - at);
                if room < end - at {
                    let offset = i128::from(located.offset);
                    let bytes = (offset, offset + i128::from(end - at));
                    let outside =
                        OutOfBounds { memory: Some(site.memory), bytes, capacity, write: self.write };
                    if footprint.outside.last() != Some(&outside) && footprint.outside.len() < 16 {
                        footprint.outside.push(outside);
                    }
                }
                let run = (located.offset, located.offset + taken);
                match parts.last_mut() {
                    Some((last, runs))
                        if (last.memory, last.chip, last.slices) == (site.memory, site.chip, site.slices) =>
                    {
                        runs.push(run);
                    }
                    _ => parts.push((site, vec![run])),
                }
                // What follows the end of a memory belongs to none until the next slice starts.
                let step =
                    if site.memory == MemoryKind::Hbm { next_kind(at) - at } else { next_slice(at) - at };
                at = at.capped_add(step.max(1));
            }
        }
        for (site, runs) in parts {
            let bytes = ByteSet::from_runs(runs);
            footprint.add_shared(site, &Arc::new(if exact { bytes } else { bytes.inexact() }));
        }
    }

    fn unmapped(&self, footprint: &mut Footprint, bytes: (i128, i128)) {
        if footprint.outside.len() < 16 {
            footprint.outside.push(OutOfBounds { memory: None, bytes, capacity: 0, write: self.write });
        }
    }

    fn slices_of(&self, memory: MemoryKind) -> u64 {
        match memory {
            MemoryKind::Hbm => 1,
            MemoryKind::Spm => self.machine.pes(),
            MemoryKind::Dm | MemoryKind::Trf | MemoryKind::Vrf => self.machine.slices(),
        }
    }

    /// The machine has such a slice or PE. Chips are counted by the program.
    fn exists(&self, located: &MemoryLocation) -> bool {
        let site = site_of(*located, self.write);
        site.slices.0 < self.slices_of(site.memory)
    }
}

fn in_slices(loops: &[WalkLoop]) -> Vec<WalkLoop> {
    loops.iter().map(|row| WalkLoop { size: row.size, stride: row.stride / SLICE_STRIDE }).collect()
}

/// Where the memories of the next kind, or of the next chip, start.
fn next_kind(address: u64) -> u64 {
    (address / KIND_BYTES + 1).capped_mul(KIND_BYTES)
}

fn next_slice(address: u64) -> u64 {
    let stride = SLICE_STRIDE.cast_unsigned();
    (address / stride + 1).capped_mul(stride)
}
