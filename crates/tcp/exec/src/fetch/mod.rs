//! Fetch unit: the sequencer's elements, masked, looked up, cast and shifted by a zero point, packet by
//! packet (vISA book, fetch engine; order of the adapter's stages as there).
//!
//! A masked element leaves the adapter as zero, whatever table or zero point follows the mask (an assumption:
//! padding must not influence results). Elements outside data memory read as 0.
//!
//! - here: element by element, which is the definition;
//! - `rows`: row by row.

mod rows;

use std::ops::Range;

use smallvec::SmallVec;
use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_num::{Dtype, RuleSet, convert, int_pattern, int_value, subtract_zero_point};

use super::fault::{ExecProblem, divide, product};
use super::packets::{Packets, bytes_from, flight_bytes, load_bits, store_element};
use super::walk::{OffsetWalk, check_span, pairs};
use crate::limits::{ExecMode, MAX_SLICE, base, checked_base, index, reach};
use rows::FetchRows;
use tilewright_tcp_isa::capped::Capped;
use tilewright_tcp_isa::memory::payload_bits;
use tilewright_tcp_isa::program::exec::{Fetch, Indirect, Limit};

/// What a fetch needs to know besides a slice's memory.
pub(super) struct Fetcher<'a> {
    rules: &'a RuleSet,
    image: &'a Fetch,
    bits: u64,
    walk: OffsetWalk,
    /// The sequence as rows, if it may be taken so.
    pub(super) rows: Option<FetchRows>,
    /// Packets of each slice.
    pub(super) packets: u64,
    /// Bytes of a packet in flight.
    pub(super) packet_bytes: u64,
}

impl<'a> Fetcher<'a> {
    /// Checks an image.
    pub(super) fn new(rules: &'a RuleSet, image: &'a Fetch, mode: ExecMode) -> Result<Self, ExecProblem> {
        if matches!(image.dtype, Dtype::I5 | Dtype::I9) {
            return Err(ExecProblem::Dtype(image.dtype));
        }
        let mut loops = pairs(&image.loops);
        base("the base of a fetch", image.base)?;
        if let Some(interleave) = image.interleave {
            base("the second base of a fetch", interleave.base)?;
            match loops.get_mut(interleave.at_loop) {
                Some((2, stride)) => *stride = 0,
                _ => return Err(ExecProblem::Setting("an interleaved fetch alternates in a loop of size 2")),
            }
        }
        if let Some(indirect) = image.indirect {
            base("the base of a fetch's table", indirect.table)?;
            // Entries may be any of 32 bits, of both signs.
            let mut entries = loops.clone();
            match (loops.get_mut(indirect.at_loop), entries.get_mut(indirect.at_loop)) {
                (Some((_, stride)), Some((size, _))) => (*size, *stride) = (ENTRIES, 0),
                _ => return Err(ExecProblem::Setting("indirect addressing needs one of the fetch loops")),
            }
            check_span(&entries)?;
        }
        check_limits(image)?;
        if image.zero_point.is_some() && !matches!(image.leaves(), Dtype::I5 | Dtype::I9) {
            return Err(ExecProblem::Setting("a zero point is subtracted from i4 or i8 only"));
        }
        let walk = OffsetWalk::new(loops)?;
        let packets = divide("fetched elements", walk.left(), image.packet)?;
        let packet_bytes = flight_bytes(image.leaves(), image.packet);
        product("bytes of a packet", [packet_bytes], MAX_SLICE)?;
        product("bytes in flight on a slice", [packets, packet_bytes], MAX_SLICE)?;
        let bits = payload_bits(image.dtype);
        let mut fetcher = Fetcher { rules, image, bits, walk, rows: None, packets, packet_bytes };
        if mode == ExecMode::Bulk {
            fetcher.rows = FetchRows::new(&fetcher);
        }
        Ok(fetcher)
    }

    /// Parts of data memory, each from the first byte that may be read to the last; the second is that of an
    /// interleaved fetch.
    pub(super) fn reads(&self) -> [Range<usize>; 2] {
        if self.image.indirect.is_some() {
            return [0..usize::MAX, 0..0];
        }
        let (low, high) = reach(self.walk.loops());
        // Rounded to whole bytes on both sides; what lies before data memory reads as zeros.
        let last_bytes = (self.bits / 8).max(1).cast_signed();
        let (low, high) = (byte_of(self.bits, low), byte_of(self.bits, high).exact_add(last_bytes));
        let from = |base: u64| {
            let byte = |offset: i64| index(checked_base(base).exact_add(offset).max(0).unsigned_abs());
            byte(low)..byte(high)
        };
        [from(self.image.base), self.image.interleave.map_or(0..0, |second| from(second.base))]
    }

    /// Type that leaves.
    pub(super) fn leaves(&self) -> Dtype {
        self.image.leaves()
    }

    /// All packets of a slice of the group.
    pub(super) fn fetch(&self, dm: &[u8], slice: u64) -> Result<Packets, ExecProblem> {
        match &self.rows {
            Some(rows) => rows.fetch(self, dm, slice),
            None => self.step(dm, slice),
        }
    }

    /// Element by element.
    fn step(&self, dm: &[u8], slice: u64) -> Result<Packets, ExecProblem> {
        let packet_bytes = index(self.packet_bytes);
        let room = index(self.packets.exact_mul(self.packet_bytes));
        let mut packets = Packets { bytes: vec![0; room], extra: None, packet_bytes };
        let leaves = self.image.leaves();
        // Elements from one packet's start to the next: with 4 bits, an odd packet leaves half a byte unused.
        let pitch = packet_bytes * 8 / index(payload_bits(leaves));
        let origins: SmallVec<[u64; 2]> =
            self.image.limits.iter().map(|limit| origin(limit, slice)).collect();
        let mut walk = self.walk.clone();
        for packet in 0..index(self.packets) {
            for element in 0..index(self.image.packet) {
                let at = walk.index();
                if self.live(at, &origins) {
                    let read = walk.offset().map_or(0, |offset| self.read(dm, at, offset));
                    store_element(leaves, &mut packets, packet * pitch + element, self.adapt(read)?);
                }
                walk.advance();
            }
        }
        Ok(packets)
    }

    fn live(&self, at: &[u64], origins: &[u64]) -> bool {
        self.image.limits.iter().zip(origins).all(|(limit, origin)| {
            let weighted = at.iter().zip(&limit.weights).map(|(index, weight)| index.capped_mul(*weight));
            weighted.fold(*origin, u64::capped_add) < limit.extent.fixed()
        })
    }

    fn read(&self, dm: &[u8], at: &[u64], offset: i64) -> u32 {
        let second = self.image.interleave.filter(|interleave| at.get(interleave.at_loop) == Some(&1));
        let base = second.map_or(self.image.base, |interleave| interleave.base);
        let row = self.image.indirect.map_or(0, |indirect| {
            let at = at.get(indirect.at_loop).or_broken("the loop of a table was checked with the image");
            table_offset(self.image, indirect, dm, *at)
        });
        read_element(dm, self.bits, base, offset.exact_add(row))
    }

    fn adapt(&self, read: u32) -> Result<u32, ExecProblem> {
        let (mut pattern, mut dtype) = (read, self.image.dtype);
        if let Some(lookup) = &self.image.lookup {
            let found = lookup.patterns.get(read as usize).copied();
            pattern = found.ok_or(ExecProblem::Setting("the lookup table has no entry for a value read"))?;
            dtype = lookup.dtype;
        }
        if let Some(cast) = self.image.cast {
            pattern = convert(self.rules, dtype, cast, pattern)?;
            dtype = cast;
        }
        if let Some(zero_point) = self.image.zero_point {
            let leaves = self.image.leaves();
            let zero_point = i32::try_from(zero_point)
                .map_err(|_| ExecProblem::Setting("the zero point is no 32-bit number"))?;
            let value = i32::try_from(int_value(dtype, pattern)).or_broken("an integer of at most 32 bits");
            let difference = subtract_zero_point(dtype, leaves, value, zero_point)?;
            pattern = int_pattern(leaves, i64::from(difference));
        }
        Ok(pattern)
    }
}

/// Offsets that an entry of a table of indices may count: 32 bits of either sign.
const ENTRIES: u64 = (1 << 31) + 1;

/// Where an entry of a table of indices leads, in elements from the base.
fn table_offset(image: &Fetch, indirect: Indirect, dm: &[u8], at: u64) -> i64 {
    let row = image.loops.get(indirect.at_loop).or_broken("the loop of a table was checked with the image");
    let entry = bytes_from(dm, index(indirect.table.exact_add(at.exact_mul(4))));
    int_value(Dtype::I32, load_bits(entry, 32, 0)).exact_mul(row.stride)
}

/// Every limit weighs every loop, and its digits of the slice number have values.
fn check_limits(image: &Fetch) -> Result<(), ExecProblem> {
    let idle = |limit: &Limit| limit.slices.iter().any(|digit| digit.stride == 0 || digit.size == 0);
    if image.limits.iter().any(|limit| limit.weights.len() != image.loops.len() || idle(limit)) {
        return Err(ExecProblem::Setting(
            "a limit has a weight for each fetch loop, and slice digits with stride and size",
        ));
    }
    Ok(())
}

/// What a slice's number counts to a limit.
fn origin(limit: &Limit, slice: u64) -> u64 {
    limit.slices.iter().fold(0, |all: u64, digit| all.capped_add(digit.position(slice)))
}

/// The byte in which the element so many elements from a whole byte on begins.
fn byte_of(bits: u64, elements: i64) -> i64 {
    if bits == 4 { elements.div_euclid(2) } else { elements.exact_mul((bits / 8).cast_signed()) }
}

/// The element so many elements from a byte on; 0 for bytes outside.
fn read_element(dm: &[u8], bits: u64, base: u64, offset: i64) -> u32 {
    let within = if bits == 4 { usize::from(offset.rem_euclid(2) == 1) } else { 0 };
    let first = checked_base(base).exact_add(byte_of(bits, offset));
    let found = usize::try_from(first).ok().and_then(|first| dm.get(first..));
    found.map_or(0, |bytes| load_bits(bytes, bits, within))
}

/// What bytes outside data memory read as.
const OUTSIDE: u8 = 0;

/// Appends bytes from a place that may lie partly outside.
fn push_run(bytes: &mut Vec<u8>, dm: &[u8], first: i64, length: usize) {
    let inside = usize::try_from(first).ok().and_then(|first| dm.get(first..first.checked_add(length)?));
    match inside {
        // Short runs of a size that is known are two moves and no call.
        Some(run) => match <&[u8; 32]>::try_from(run) {
            Ok(run) => bytes.extend_from_slice(run),
            Err(_) => bytes.extend_from_slice(run),
        },
        None => bytes.extend((0..length as u64).map(|at| {
            let at = usize::try_from(first.exact_add(at.cast_signed())).ok();
            at.and_then(|at| dm.get(at)).map_or(OUTSIDE, |byte| *byte)
        })),
    }
}
