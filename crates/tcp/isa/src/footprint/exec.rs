//! What a tensor unit command touches: data memory by fetch and commit, the register files by contraction and
//! vector engine.

use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;

use super::live_slices::LiveSlices;
use super::walk::{TouchedBytes, TouchedOffsets, WalkLimit, WalkLoop};
use super::{AccessSite, Footprint, MemoryAccess, MemoryKind, reachable};
use crate::capped::Capped;
use crate::memory::payload_bits;
use crate::program::event::PeId;
use crate::program::exec::{Commit, Contract, Exec, ExecBody, Fetch, Limit, Loop, Memory, ShortLoad};
use crate::program::vector::{OperandSource, Vector};

/// Bytes of an entry of a table of addresses.
const TABLE_ENTRY_BYTES: u64 = 4;
/// Bytes of a word of the vector engine.
const WORD_BYTES: u64 = 4;

/// What a resolved command of the group that starts at `pe` touches. `objects` are named data, for walks
/// through tables.
pub fn of_exec(machine: &Tcp, exec: &Exec, pe: PeId, objects: &[MemoryAccess]) -> Footprint {
    let first = pe.pe.exact_mul(machine.pe.slices);
    let group = SliceGroup {
        machine,
        objects,
        chip: pe.chip,
        origin: first,
        first,
        slices: exec.pes.min(machine.pes()) * machine.pe.slices,
    };
    let mut footprint = Footprint::default();
    match &exec.body {
        ExecBody::Stream(stream) => {
            let live = LiveSlices::of(stream, group.slices);
            for part in group.parts(&live.fetch) {
                part.fetch(&stream.fetch, &mut footprint);
            }
            for part in group.parts(&live.engines) {
                stream.contract.iter().for_each(|contract| part.contract(contract, &mut footprint));
                stream.vector.iter().for_each(|vector| part.vector(vector, &mut footprint));
            }
            group.commit(&stream.commit, &mut footprint);
        }
        ExecBody::Fill(fill) => group.commit(&fill.commit, &mut footprint),
        ExecBody::Short(short) => group.short(short, &mut footprint),
    }
    footprint
}

/// The units of a walk over elements: units of an element, and units of a byte. Nibbles where elements need
/// them.
pub(crate) fn units(dtype: Dtype) -> (u64, u64) {
    match payload_bits(dtype) {
        4 => (1, 2),
        bits => (bits.div_ceil(8), 1),
    }
}

/// Loops of elements as loops of units.
pub(crate) fn in_units(loops: &[Loop], element: u64) -> Vec<WalkLoop> {
    let scale = i64::try_from(element).or_broken("units of an element fit a stride");
    loops
        .iter()
        .map(|row| WalkLoop { size: row.size.fixed(), stride: row.stride.capped_mul(scale) })
        .collect()
}

/// The memory behind the commit unit.
pub(crate) fn store_of(memory: Memory) -> (MemoryKind, u64) {
    match memory {
        Memory::Dm => (MemoryKind::Dm, 0),
        Memory::Trf { lanes } => (MemoryKind::Trf, lanes),
        Memory::Vrf => (MemoryKind::Vrf, 0),
    }
}

/// The slices that run a command.
#[derive(Clone, Copy)]
struct SliceGroup<'a> {
    machine: &'a Tcp,
    objects: &'a [MemoryAccess],
    chip: u64,
    /// First slice of the group, from which limits count.
    origin: u64,
    first: u64,
    slices: u64,
}

impl SliceGroup<'_> {
    fn site(&self, memory: MemoryKind, write: bool, lanes: u64) -> AccessSite {
        let slices = (self.first, self.first.exact_add(self.slices));
        AccessSite { memory, chip: self.chip, slices, write, lanes }
    }

    /// Some slices of the group.
    fn parts(&self, ranges: &[(u64, u64)]) -> Vec<SliceGroup<'_>> {
        let part = |&(first, end): &(u64, u64)| SliceGroup {
            first: self.first.exact_add(first),
            slices: end.exact_sub(first),
            ..*self
        };
        ranges.iter().map(part).collect()
    }

    fn fetch(&self, fetch: &Fetch, footprint: &mut Footprint) {
        let site = self.site(MemoryKind::Dm, false, 0);
        let (element, per_byte) = units(fetch.dtype);
        let mut loops = in_units(&fetch.loops, element);
        let base = i128::from(fetch.base) * i128::from(per_byte);
        if let Some(pair) = fetch.interleave
            && let Some(row) = loops.get_mut(pair.at_loop)
        {
            let apart = (i128::from(pair.base) - i128::from(fetch.base)) * i128::from(per_byte);
            // Bases so far apart lie outside every memory, on the side that they are.
            let apart = apart.clamp(i64::MIN.into(), i64::MAX.into());
            row.stride = i64::try_from(apart).or_broken("clamped to 64 bits");
        }
        if let Some(indirect) = fetch.indirect {
            let entries = fetch.loops.get(indirect.at_loop).map_or(0, |row| row.size.fixed());
            let table = [WalkLoop { size: entries, stride: TABLE_ENTRY_BYTES.cast_signed() }];
            self.add(
                footprint,
                site,
                &TouchedOffsets::of_loops(&table, TABLE_ENTRY_BYTES),
                indirect.table.into(),
                1,
            );
            let bytes = reachable(self.machine, self.objects, site, fetch.base);
            return footprint.add(self.machine, site, TouchedBytes { bytes, outside: None });
        }
        for (slices, limits) in self.limits(&fetch.limits) {
            let walked = TouchedOffsets::of_limited(&loops, element, &limits);
            self.add(footprint, AccessSite { slices, ..site }, &walked, base, per_byte);
        }
    }

    /// Limits with the slice's share taken off, for ranges of slices that have the same.
    fn limits(&self, limits: &[Limit]) -> Vec<((u64, u64), Vec<WalkLimit>)> {
        let of_slice = |slice: u64| {
            let limit = |limit: &Limit| {
                let share = limit.slices.iter().fold(0_u64, |all, digit| {
                    let value = slice / digit.stride.max(1) % digit.size.max(1);
                    all.capped_add(value.capped_mul(digit.weight))
                });
                WalkLimit {
                    extent: limit.extent.fixed().saturating_sub(share),
                    weights: limit.weights.clone(),
                }
            };
            limits.iter().map(limit).collect::<Vec<_>>()
        };
        let mut ranges: Vec<((u64, u64), Vec<WalkLimit>)> = Vec::new();
        if limits.iter().all(|limit| limit.slices.is_empty()) {
            return vec![((self.first, self.first.exact_add(self.slices)), of_slice(0))];
        }
        for slice in 0..self.slices {
            let at = self.first.exact_add(slice);
            let mine = of_slice(at.exact_sub(self.origin));
            match ranges.last_mut() {
                Some((range, same)) if *same == mine => range.1 = at + 1,
                _ => ranges.push(((at, at + 1), mine)),
            }
        }
        ranges
    }

    fn contract(&self, contract: &Contract, footprint: &mut Footprint) {
        let (element, per_byte) = units(contract.dtype);
        let mut loops = in_units(&contract.loops, element);
        let lanes = contract.lanes.max(1);
        let lane_bytes = MemoryKind::Trf.capacity_bytes(self.machine) / lanes;
        let stride =
            i64::try_from(lane_bytes.exact_mul(per_byte)).or_broken("a lane is smaller than a stride");
        loops.push(WalkLoop { size: lanes, stride });
        let base = i128::from(contract.base) * i128::from(per_byte);
        let site = self.site(MemoryKind::Trf, false, lanes);
        self.add(footprint, site, &TouchedOffsets::of_loops(&loops, element), base, per_byte);
    }

    fn vector(&self, vector: &Vector, footprint: &mut Footprint) {
        let site = self.site(MemoryKind::Vrf, false, 0);
        let operands = vector.ops.iter().flat_map(|op| &op.operands);
        for guarded in operands.flat_map(|choice| &choice.sources) {
            if let OperandSource::Vrf { base, loops } = &guarded.source {
                let walked = TouchedOffsets::of_loops(&in_units(loops, WORD_BYTES), WORD_BYTES);
                self.add(footprint, site, &walked, (*base).into(), 1);
            }
        }
    }

    fn commit(&self, commit: &Commit, footprint: &mut Footprint) {
        let (store, lanes) = store_of(commit.memory);
        let walked = TouchedOffsets::of_loops(&in_units(&commit.loops, 1), commit.bytes);
        let all = [(0, self.slices)];
        let ranges = if commit.slices.is_empty() { &all[..] } else { &commit.slices };
        for &(first, end) in ranges {
            let at = |slice: u64| self.first.exact_add(slice.min(self.slices));
            let slices = (at(first), at(end));
            let site = AccessSite { slices, ..self.site(store, true, lanes) };
            self.add(footprint, site, &walked, commit.base.into(), 1);
        }
    }

    fn short(&self, short: &ShortLoad, footprint: &mut Footprint) {
        let (store, lanes) = store_of(short.memory);
        let walked = TouchedOffsets::of_loops(&[], short.bytes);
        self.add(footprint, self.site(MemoryKind::Dm, false, 0), &walked, short.from.into(), 1);
        self.add(footprint, self.site(store, true, lanes), &walked, short.base.into(), 1);
    }

    fn add(
        &self,
        footprint: &mut Footprint,
        site: AccessSite,
        walked: &TouchedOffsets,
        base: i128,
        per_byte: u64,
    ) {
        let capacity = site.memory.capacity_bytes(self.machine);
        footprint.add(self.machine, site, walked.placed(base, per_byte, capacity));
    }
}
