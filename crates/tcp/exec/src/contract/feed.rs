//! Feed unit: flits to packets, with in-flit transposes and the shifting window of convolutions (vISA book,
//! contraction engine).
//!
//! In convolution mode the buffer stands at flits 0, `pop`, 2 `pop`, ... of the stream; at each place
//! `shifts` windows are looked at. As many places are used as the steps ask for; together they must take in
//! the whole stream. What a window shows before the buffer or behind it is zero.

use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_tcp_isa::capped::Capped;
use tilewright_tcp_isa::memory::payload_bits;
use tilewright_tcp_isa::program::exec::{FlitTranspose, Shift};

use super::plan::ContractionPlan;
use crate::fault::{ExecProblem, divide, equal, product};
use crate::limits::index;
use crate::packets::{Packets, load_bits, store_bits};

/// Most bytes of windows on a slice.
const MAX_WINDOW_BYTES: u64 = 1 << 30;

impl ContractionPlan<'_> {
    /// Packets of a slice's stream, as the lanes meet them.
    ///
    /// # Errors
    /// Flits that are no whole packets, or not as many as the steps take.
    pub fn feed(&self, flits: Packets) -> Result<Packets, ExecProblem> {
        let packets = feed(self, flits)?;
        let fed = (packets.count() as u64).capped_mul(self.repeats);
        equal("steps", self.steps, "steps of all packets", fed)?;
        Ok(packets)
    }
}

/// Packets as the lanes meet them, before repeats.
fn feed(plan: &ContractionPlan<'_>, flits: Packets) -> Result<Packets, ExecProblem> {
    let flits = match plan.image.transpose {
        Some(image) => transpose(plan, image, &flits)?,
        None => flits,
    };
    if let Some(shift) = plan.image.shift {
        return windows(plan, &shift, &flits);
    }
    divide("flits of packets", flits.count() as u64, plan.image.flits)?;
    Ok(Packets { packet_bytes: plan.packet_bytes, ..flits })
}

/// Each flit as rows x columns, columns first.
fn transpose(
    plan: &ContractionPlan<'_>,
    image: FlitTranspose,
    flits: &Packets,
) -> Result<Packets, ExecProblem> {
    let bits = payload_bits(plan.dtype);
    let elements = plan.flit_bytes as u64 * 8 / bits;
    let tile = image.rows.capped_mul(image.columns);
    equal("elements of an in-flit transpose", tile, "elements of a flit", elements)?;
    let (rows, columns) = (index(image.rows), index(image.columns));
    // An extra bit of i5 lies with its nibble's byte: two bits to a byte, read as such below.
    let turn = |plane: &[u8], load: &dyn Fn(&[u8], usize) -> u32, store: &dyn Fn(&mut [u8], usize, u32)| {
        let mut transposed = vec![0; plane.len()];
        let flit_pairs =
            plane.chunks_exact(plan.flit_bytes).zip(transposed.chunks_exact_mut(plan.flit_bytes));
        for (source, target) in flit_pairs {
            for row in 0..rows {
                for column in 0..columns {
                    store(target, column * rows + row, load(source, row * columns + column));
                }
            }
        }
        transposed
    };
    let per_byte = if bits == 4 { 2 } else { 1 };
    let load_flag = |plane: &[u8], at: usize| u32::from(plane[at / per_byte] >> (at % per_byte) & 1);
    let store_flag = |plane: &mut [u8], at: usize, flag: u32| {
        plane[at / per_byte] |= flag.to_le_bytes()[0] << (at % per_byte);
    };
    Ok(Packets {
        bytes: turn(&flits.bytes, &|plane, at| load_bits(plane, bits, at), &|plane, at, pattern| {
            store_bits(plane, bits, at, pattern);
        }),
        extra: flits.extra.as_deref().map(|extra| turn(extra, &load_flag, &store_flag)),
        packet_bytes: flits.packet_bytes,
    })
}

/// All windows of a convolution.
fn windows(plan: &ContractionPlan<'_>, shift: &Shift, flits: &Packets) -> Result<Packets, ExecProblem> {
    // A plan without steps may have no repeats either.
    let packets = if plan.steps == 0 { 0 } else { plan.steps / plan.repeats };
    product("bytes of windows", [packets, plan.packet_bytes as u64], MAX_WINDOW_BYTES)?;
    let places = divide("packets", packets, shift.shifts)?;
    let arrived = flits.count() as u64;
    let last = places.max(1).exact_sub(1).capped_mul(shift.pop);
    let all_used = last.capped_add(plan.buffer_flits) >= arrived && (last < arrived || places == 0);
    if !all_used || (places == 0) != (arrived == 0) {
        let needed = last.capped_add(plan.buffer_flits);
        return Err(ExecProblem::Unequal {
            what: "flits",
            count: arrived,
            other: "flits of all windows",
            of_other: needed,
        });
    }
    let step = shift.stride.capped_mul(shift.shifts).capped_add(shift.initial.unsigned_abs());
    if step > 1 << 32 {
        return Err(ExecProblem::TooLarge { what: "elements of a shift", most: 1 << 32 });
    }
    let mut shifted = Packets { bytes: Vec::new(), extra: None, packet_bytes: plan.packet_bytes };
    shifted.bytes = shift_plane(plan, shift, places, &flits.bytes, payload_bits(plan.dtype));
    if let Some(extra) = &flits.extra {
        // i5 keeps two flags in a byte; spread them to nibbles, shift as such, and join them again.
        let four = payload_bits(plan.dtype) == 4;
        let spread = |flags: &u8| if four { flags & 1 | (flags & 2) << 3 } else { *flags };
        let join = |flags: u8| if four { flags & 1 | flags >> 3 & 2 } else { flags };
        let spread: Vec<u8> = extra.iter().map(spread).collect();
        let plane = shift_plane(plan, shift, places, &spread, payload_bits(plan.dtype));
        shifted.extra = Some(plane.into_iter().map(join).collect());
    }
    Ok(shifted)
}

fn shift_plane(plan: &ContractionPlan<'_>, shift: &Shift, places: u64, plane: &[u8], bits: u64) -> Vec<u8> {
    let mut out = vec![0; index(places.exact_mul(shift.shifts)).exact_mul(plan.packet_bytes)];
    let mut packets = out.chunks_exact_mut(plan.packet_bytes);
    for place in 0..places {
        let first = index(place.exact_mul(shift.pop)).exact_mul(plan.flit_bytes);
        let end = plane.len().min(first.exact_add(index(plan.buffer_flits).exact_mul(plan.flit_bytes)));
        let buffer = plane.get(first..end).or_broken("the buffer stands at flits that arrived");
        for window in 0..shift.shifts {
            let Some(packet) = packets.next() else { return out };
            let start = shift.initial.exact_add(window.exact_mul(shift.stride).cast_signed());
            for element in 0..plan.width {
                let at = usize::try_from(start.exact_add((element as u64).cast_signed()));
                store_bits(packet, bits, element, at.map_or(0, |at| load_bits(buffer, bits, at)));
            }
        }
    }
    out
}
