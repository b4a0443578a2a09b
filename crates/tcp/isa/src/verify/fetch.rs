//! Fetch unit: packets, contiguous innermost loops, interleaved and indirect fetches, limits (paper section
//! IV-A; vISA book, fetch engine).

use tilewright_num::Dtype;

use super::context::VerifyContext;
use super::sequencer;
use crate::capped::Capped;
use crate::footprint::MemoryKind;
use crate::footprint::exec::{in_units, units};
use crate::footprint::walk::TouchedOffsets;
use crate::memory::payload_bits;
use crate::program::exec::Fetch;
use crate::sequencer::innermost_run;

/// Types that data memory holds.
const IN_MEMORY: [Dtype; 9] = [
    Dtype::F4E2M1,
    Dtype::I4,
    Dtype::I8,
    Dtype::I16,
    Dtype::I32,
    Dtype::F8E4M3Fn,
    Dtype::F8E5M2,
    Dtype::Bf16,
    Dtype::F32,
];

pub(super) fn check(cx: &mut VerifyContext<'_>, fetch: &Fetch, written: &Fetch) {
    if !IN_MEMORY.contains(&fetch.dtype) {
        let names: Vec<&str> = IN_MEMORY.iter().map(|dtype| dtype.name()).collect();
        cx.refuse(
            "tcp/fetch-type",
            format!("fetches {}", fetch.dtype),
            names.join(", "),
            "the type that data memory holds; a zero point makes i5 and i9".into(),
        );
    }
    let kept = fetch.interleave.map(|pair| pair.at_loop).or(fetch.indirect.map(|table| table.at_loop));
    sequencer::check(cx, "the fetch unit", &written.loops, kept);
    check_packet(cx, fetch);
    check_innermost(cx, fetch);
    check_interleave(cx, fetch);
    check_indirect(cx, fetch);
    check_limits(cx, fetch);
    check_bounds(cx, fetch);
}

/// Elements that the loops make.
pub(super) fn elements(fetch: &Fetch) -> u64 {
    fetch.loops.iter().fold(1, |all, row| all.capped_mul(row.size.fixed()))
}

fn check_packet(cx: &mut VerifyContext<'_>, fetch: &Fetch) {
    let (elements, packet) = (elements(fetch), fetch.packet);
    if packet == 0 || !elements.is_multiple_of(packet) {
        return cx.refuse(
            "tcp/fetch-packet",
            format!("packets of {packet} elements do not divide the {elements} that are fetched"),
            "packets that the loops make whole".into(),
            "a packet that is the product of the innermost loops".into(),
        );
    }
    let granule_bits = cx.machine.fetch.packet_granule_bytes * 8;
    let bits = packet.capped_mul(payload_bits(fetch.leaves()));
    if !bits.is_multiple_of(granule_bits) {
        let unit = granule_bits / gcd(granule_bits, payload_bits(fetch.leaves()));
        cx.refuse(
            "tcp/fetch-granule",
            format!("a packet of {packet} {} is {bits} bits", fetch.leaves()),
            format!("multiples of {} B on the way to the network", granule_bits / 8),
            format!("packets of a multiple of {unit} elements"),
        );
    }
}

/// The main unit gathers packets from accesses as narrow as they must be; the sub unit has one width, so what
/// it reads lies side by side.
fn check_innermost(cx: &mut VerifyContext<'_>, fetch: &Fetch) {
    let width = cx.machine.fetch.sub_width_bytes;
    let run = innermost_run(&fetch.loops);
    let whole = |elements: u64| elements.capped_mul(payload_bits(fetch.dtype)).is_multiple_of(width * 8);
    let packet = fetch.packet.max(1);
    let divides = run.is_multiple_of(packet) || packet.is_multiple_of(run);
    if cx.is_sub() && !(whole(run) && divides) {
        cx.refuse(
            "tcp/fetch-contiguous",
            format!("the sub context reads runs of {run} {}", fetch.dtype),
            format!("runs of whole {width} B, its only width"),
            "the main context, or loops ordered so that neighbours in memory come last".into(),
        );
    }
}

fn check_interleave(cx: &mut VerifyContext<'_>, fetch: &Fetch) {
    let Some(pair) = fetch.interleave else { return };
    let size = fetch.loops.get(pair.at_loop).map(|row| row.size.fixed());
    let tensors = cx.machine.fetch.interleaved_tensors;
    if size != Some(tensors) || cx.is_sub() {
        let loop_size = size.map_or("no loop".into(), |size| format!("a loop of size {size}"));
        cx.refuse(
            "tcp/fetch-interleave",
            format!("an interleaved fetch alternates by {loop_size} in the {} context", context_name(cx)),
            format!("a loop of size {tensors}, in the main context"),
            "a copy that lays the two tensors side by side".into(),
        );
    }
}

fn context_name(cx: &VerifyContext<'_>) -> &'static str {
    if cx.is_sub() { "sub" } else { "main" }
}

fn check_indirect(cx: &mut VerifyContext<'_>, fetch: &Fetch) {
    let Some(table) = fetch.indirect else { return };
    let size = fetch.loops.get(table.at_loop).map(|row| row.size.fixed());
    let twice = fetch.interleave.is_some_and(|pair| pair.at_loop == table.at_loop);
    let end = size.and_then(|size| size.checked_mul(4)).and_then(|bytes| table.table.checked_add(bytes));
    let capacity = MemoryKind::Dm.capacity_bytes(cx.machine);
    if twice || !table.table.is_multiple_of(4) || end.is_none_or(|end| end > capacity) {
        cx.refuse(
            "tcp/fetch-indirect",
            format!("loop {} takes its addresses from a table at {}", table.at_loop, table.table),
            format!("a loop of the fetch, and a table of i32 aligned to 4 B inside {capacity} B"),
            "the index of a loop that is not interleaved".into(),
        );
    }
}

fn check_limits(cx: &mut VerifyContext<'_>, fetch: &Fetch) {
    let most = cx.machine.fetch.mask_chunks;
    let unequal = fetch.limits.iter().find(|limit| limit.weights.len() != fetch.loops.len());
    let idle = |limit: &crate::program::exec::Limit| {
        limit.slices.iter().any(|digit| digit.stride == 0 || digit.size == 0)
    };
    if fetch.limits.len() as u64 > most || unequal.is_some() || fetch.limits.iter().any(idle) {
        let weights = unequal.map_or(fetch.loops.len(), |limit| limit.weights.len());
        return cx.refuse(
            "tcp/fetch-limits",
            format!(
                "{} limits, one with {weights} weights for {} loops",
                fetch.limits.len(),
                fetch.loops.len()
            ),
            format!("{most} limits, a weight for each loop, slice digits with stride and size"),
            "one weight a loop, 0 where it does not count".into(),
        );
    }
    let Some(cut) = cut_within_packet(fetch) else { return };
    let bits = payload_bits(fetch.dtype);
    let (padding, most, what) = match bits {
        32 => (cut, cx.machine.fetch.pad_words_max, "words"),
        bits => (cut.capped_mul(bits) / 4, cx.machine.fetch.pad_cells_max, "cells of 4 bits"),
    };
    if padding > most {
        cx.refuse(
            "tcp/fetch-pad",
            format!("a limit may cut {padding} {what} off a packet"),
            format!("{most} {what}"),
            "shorter packets".into(),
        );
    }
}

/// The most elements that a limit can cut off a packet and leave some of it.
fn cut_within_packet(fetch: &Fetch) -> Option<u64> {
    let mut inside = 1_u64;
    let mut counted = false;
    for (at, row) in fetch.loops.iter().enumerate().rev() {
        if inside >= fetch.packet {
            break;
        }
        inside = inside.capped_mul(row.size.fixed());
        counted |= fetch.limits.iter().any(|limit| limit.weights.get(at).is_some_and(|weight| *weight > 0));
    }
    counted.then(|| fetch.packet.saturating_sub(1))
}

fn check_bounds(cx: &mut VerifyContext<'_>, fetch: &Fetch) {
    if fetch.indirect.is_some() {
        return;
    }
    let (element, per_byte) = units(fetch.dtype);
    let capacity = MemoryKind::Dm.capacity_bytes(cx.machine);
    let mut loops = in_units(&fetch.loops, element);
    let second = fetch.interleave.map(|pair| pair.base);
    if let Some(row) = fetch.interleave.and_then(|pair| loops.get_mut(pair.at_loop)) {
        row.size = row.size.min(1);
    }
    let walked = TouchedOffsets::of_loops(&loops, element);
    for base in [Some(fetch.base), second].into_iter().flatten() {
        let placed = walked.placed(i128::from(base) * i128::from(per_byte), per_byte, capacity);
        // A limit may cut off what lies outside; the run finds what it leaves.
        if let Some((start, end)) = placed.outside.filter(|_| fetch.limits.is_empty()) {
            cx.refuse(
                "tcp/fetch-bounds",
                format!("fetches bytes {start}..{end}"),
                format!("0..{capacity} of each slice's data memory"),
                "a base, sizes and strides that stay inside".into(),
            );
        }
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a.max(1) } else { gcd(b, a % b) }
}
