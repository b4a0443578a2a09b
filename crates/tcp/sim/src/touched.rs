//! Which parts of a slice's memories a command touches, in 128 parts of each memory, so that occupancy over
//! time is cheap.
//!
//! Nests with few wide steps are marked step by step; others as the whole range between their ends.

use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::memory::payload_bits;
use tilewright_tcp_isa::program::exec::{Commit, Exec, ExecBody, Memory, Stream};
use tilewright_tcp_isa::program::transfer::{SLICE_STRIDE, Transfer};

/// Steps that are marked one by one.
const MARKED: u32 = 1024;

/// Parts of a memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TouchedParts {
    mask: u128,
    /// Some byte lies past the memory's end.
    pub(crate) beyond: bool,
}

impl TouchedParts {
    pub(crate) fn join(&mut self, other: TouchedParts) -> bool {
        let before = self.mask;
        self.mask |= other.mask;
        self.beyond |= other.beyond;
        self.mask != before
    }

    /// Bytes of the parts, of a memory of so many.
    pub(crate) fn bytes(self, capacity_bytes: u64) -> u64 {
        u64::from(self.mask.count_ones()).saturating_mul(capacity_bytes / 128)
    }

    fn mark(&mut self, capacity_bytes: u64, first: i64, last: i64) {
        let part = (capacity_bytes / 128).max(1);
        let at = |byte: i64| u64::try_from(byte).ok().map(|byte| byte / part);
        let (Some(from), Some(to)) = (at(first), at(last)) else {
            self.beyond = true;
            return;
        };
        self.beyond |= last.unsigned_abs() >= capacity_bytes;
        if from < 128 {
            let count = to.min(127) - from + 1;
            let ones = if count >= 128 { u128::MAX } else { (1 << count) - 1 };
            self.mask |= ones << from;
        }
    }
}

/// What an image touches on each of its slices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TouchedMemory {
    pub(crate) dm: TouchedParts,
    pub(crate) trf: TouchedParts,
    pub(crate) vrf: TouchedParts,
    pub(crate) spm: TouchedParts,
}

impl TouchedMemory {
    /// Adds what another touched; whether it was new.
    pub(crate) fn join(&mut self, other: &TouchedMemory) -> bool {
        let pairs = [
            (&mut self.dm, other.dm),
            (&mut self.trf, other.trf),
            (&mut self.vrf, other.vrf),
            (&mut self.spm, other.spm),
        ];
        pairs.into_iter().fold(false, |grew, (mine, other)| mine.join(other) || grew)
    }

    /// Each memory's parts and capacity.
    pub(crate) fn memories(&self, machine: &Tcp) -> [(TouchedParts, u64); 4] {
        [
            (self.dm, machine.dm.capacity_bytes),
            (self.trf, trf_bytes(machine)),
            (self.vrf, machine.vrf.capacity_bytes),
            (self.spm, machine.cpu.spm_bytes),
        ]
    }
}

/// Loops in bits, outermost first.
type BitLoops = Vec<(u64, i64)>;

pub(crate) fn exec(machine: &Tcp, exec: &Exec) -> TouchedMemory {
    let mut touched = TouchedMemory::default();
    match &exec.body {
        ExecBody::Stream(stream) => {
            fetch(machine, stream, &mut touched);
            commit(machine, &stream.commit, &mut touched);
        }
        ExecBody::Fill(fill) => commit(machine, &fill.commit, &mut touched),
        ExecBody::Short(short) => {
            let last = short.bytes.saturating_sub(1);
            let end = |first: u64| (clamp(first), clamp(first.saturating_add(last)));
            let (first, end_byte) = end(short.from);
            touched.dm.mark(machine.dm.capacity_bytes, first, end_byte);
            let (first, end_byte) = end(short.base);
            if short.memory == Memory::Vrf {
                touched.vrf.mark(machine.vrf.capacity_bytes, first, end_byte);
            } else {
                touched.trf.mark(trf_bytes(machine), first, end_byte);
            }
        }
    }
    touched
}

/// What a transfer touches in each slice, or in the scratchpad, of one of its ends.
pub(crate) fn transfer(capacity_bytes: u64, transfer: &Transfer, offset: u64, reads: bool) -> TouchedParts {
    let strides =
        transfer.loops.iter().map(|row| (row.size.fixed(), if reads { row.source } else { row.target }));
    let within = strides.filter(|(_, stride)| stride.unsigned_abs() < SLICE_STRIDE.unsigned_abs());
    let nest: BitLoops = within.map(|(size, stride)| (size, stride.saturating_mul(8))).collect();
    let mut parts = TouchedParts::default();
    let mut marker = Marker { capacity_bytes, parts: &mut parts, left: MARKED };
    marker.nest(clamp(offset).saturating_mul(8), &nest, clamp(transfer.packet).saturating_mul(8));
    parts
}

fn fetch(machine: &Tcp, stream: &Stream, touched: &mut TouchedMemory) {
    let fetch = &stream.fetch;
    let bits = clamp(payload_bits(fetch.dtype));
    let jump = fetch.interleave.map(|interleave| interleave.at_loop);
    let rows = fetch.loops.iter().enumerate().filter(|(at, _)| Some(*at) != jump);
    let nest: BitLoops = rows.map(|(_, row)| (row.size.fixed(), row.stride.saturating_mul(bits))).collect();
    let bases = [Some(fetch.base), fetch.interleave.map(|interleave| interleave.base)];
    for base in bases.into_iter().flatten() {
        let parts = &mut touched.dm;
        let mut marker = Marker { capacity_bytes: machine.dm.capacity_bytes, parts, left: MARKED };
        marker.nest(clamp(base).saturating_mul(8), &nest, bits);
    }
}

fn commit(machine: &Tcp, commit: &Commit, touched: &mut TouchedMemory) {
    let (capacity_bytes, parts) = match commit.memory {
        Memory::Dm => (machine.dm.capacity_bytes, &mut touched.dm),
        Memory::Trf { .. } => (trf_bytes(machine), &mut touched.trf),
        Memory::Vrf => (machine.vrf.capacity_bytes, &mut touched.vrf),
    };
    let rows = commit.loops.iter();
    let nest: BitLoops = rows.map(|row| (row.size.fixed(), row.stride.saturating_mul(8))).collect();
    let mut marker = Marker { capacity_bytes, parts, left: MARKED };
    marker.nest(clamp(commit.base).saturating_mul(8), &nest, clamp(commit.bytes).saturating_mul(8));
}

/// Bytes that the register files of a slice hold.
pub(crate) fn trf_bytes(machine: &Tcp) -> u64 {
    machine.trf_lane_payload_bytes().saturating_mul(machine.ce.lanes)
}

fn clamp(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

struct Marker<'a> {
    capacity_bytes: u64,
    parts: &'a mut TouchedParts,
    left: u32,
}

impl Marker<'_> {
    fn nest(&mut self, base_bits: i64, nest: &[(u64, i64)], run_bits: i64) {
        if nest.iter().any(|(size, _)| *size == 0) || run_bits == 0 {
            return;
        }
        let Some(((size, stride), inner)) = nest.split_first() else {
            return self.range(base_bits, base_bits.saturating_add(run_bits));
        };
        let (low, high) = ends(inner, run_bits);
        let apart = stride.unsigned_abs() > high.saturating_sub(low).unsigned_abs();
        if apart && *size <= u64::from(self.left) {
            for index in 0..*size {
                self.left = self.left.saturating_sub(1);
                let at = base_bits.saturating_add(stride.saturating_mul(clamp(index)));
                self.nest(at, inner, run_bits);
            }
            return;
        }
        let (low, high) = ends(nest, run_bits);
        self.range(base_bits.saturating_add(low), base_bits.saturating_add(high));
    }

    fn range(&mut self, from_bits: i64, to_bits: i64) {
        let last = to_bits.saturating_sub(1) >> 3;
        self.parts.mark(self.capacity_bytes, from_bits >> 3, last);
    }
}

/// The lowest bit and the one after the highest, from the first.
fn ends(nest: &[(u64, i64)], run_bits: i64) -> (i64, i64) {
    nest.iter().fold((0, run_bits), |(low, high): (i64, i64), (size, stride)| {
        let away = stride.saturating_mul(clamp(size.saturating_sub(1)));
        if away < 0 { (low.saturating_add(away), high) } else { (low, high.saturating_add(away)) }
    })
}
