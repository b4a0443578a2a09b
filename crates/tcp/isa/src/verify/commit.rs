//! Commit unit, and the commands that are little more: fills and short loads (paper section IV-D; vISA book,
//! commit engine).

use tilewright_num::Dtype;

use super::context::VerifyContext;
use super::sequencer;
use crate::footprint::MemoryKind;
use crate::footprint::exec::{in_units, store_of};
use crate::footprint::walk::TouchedOffsets;
use crate::program::exec::{Commit, Fill, Memory, ShortLoad};

/// `enters` is the type of the elements that arrive.
pub(super) fn check(cx: &mut VerifyContext<'_>, commit: &Commit, written: &Commit, enters: Dtype) {
    sequencer::check(cx, "the commit unit", &written.loops, None);
    check_width(cx, commit);
    check_strides(cx, commit);
    if commit.to_bf16 && enters != Dtype::F32 {
        cx.refuse(
            "tcp/commit-bf16",
            format!("{enters} becomes bf16 while it is committed"),
            "f32".into(),
            "the cast engine".into(),
        );
    }
    if commit.relu && !commit.to_bf16 {
        cx.refuse(
            "tcp/commit-relu",
            "ReLU without the conversion to bf16".into(),
            "ReLU with `bf16`".into(),
            "a maximum with 0 in the vector engine".into(),
        );
    }
    check_slices(cx, commit);
    check_bounds(cx, commit);
}

pub(super) fn check_fill(cx: &mut VerifyContext<'_>, fill: &Fill, written: &Fill) {
    if !cx.is_sub() {
        cx.refuse(
            "tcp/fill-context",
            "a fill in the main context".into(),
            "the sub context".into(),
            "the sub context".into(),
        );
    }
    check(cx, &fill.commit, &written.commit, Dtype::I32);
}

pub(super) fn check_short(cx: &mut VerifyContext<'_>, short: &ShortLoad) {
    let granule = cx.machine.dm.write_granule_bytes;
    let (store, _) = store_of(short.memory);
    let fits = |base: u64, store: MemoryKind| {
        base.checked_add(short.bytes).is_some_and(|end| end <= store.capacity_bytes(cx.machine))
    };
    let whole = [short.from, short.bytes, short.base].iter().all(|part| part.is_multiple_of(granule));
    if store == MemoryKind::Dm
        || short.bytes == 0
        || !whole
        || !fits(short.from, MemoryKind::Dm)
        || !fits(short.base, store)
    {
        let to = store.capacity_bytes(cx.machine);
        cx.refuse(
            "tcp/short-load",
            format!(
                "{} B from {} of data memory to {} of the {}",
                short.bytes,
                short.from,
                short.base,
                store.name()
            ),
            format!("multiples of {granule} B that fit, into a register file: {to} B"),
            "a stream in the sub context for anything else".into(),
        );
    }
    check_lanes(cx, short.memory);
}

fn check_width(cx: &mut VerifyContext<'_>, commit: &Commit) {
    let machine = cx.machine;
    let (fits, allowed) = if cx.is_sub() {
        let width = machine.commit.sub_width_bytes;
        (commit.width == width, format!("{width} B in the sub context"))
    } else {
        let widths = &machine.commit.main_widths_bytes;
        (widths.contains(&commit.width), format!("{:?} B in the main context", &**widths))
    };
    if !fits {
        cx.refuse("tcp/commit-width", format!("writes of {} B", commit.width), allowed, "8 B".into());
    }
    let granule = machine.dm.write_granule_bytes;
    let most = if commit.to_bf16 { machine.network.flit_bytes / 2 } else { machine.network.flit_bytes };
    let divides = commit.width == 0 || commit.bytes.is_multiple_of(commit.width);
    if commit.bytes == 0 || commit.bytes > most || !commit.bytes.is_multiple_of(granule) || (fits && !divides)
    {
        cx.refuse(
            "tcp/commit-bytes",
            format!("{} B of every flit are kept, by writes of {} B", commit.bytes, commit.width),
            format!("multiples of the width and of {granule} B, at most {most} B"),
            format!("the next multiple of {granule} B: what follows the valid elements is zero"),
        );
    }
}

fn check_strides(cx: &mut VerifyContext<'_>, commit: &Commit) {
    let granule = cx.machine.dm.write_granule_bytes;
    let moves = |stride: i64| stride != 0 && stride.unsigned_abs().is_multiple_of(granule);
    let bad = commit.loops.iter().find(|row| row.size.fixed() > 1 && !moves(row.stride));
    if bad.is_some() || !commit.base.is_multiple_of(granule) {
        let stride = bad.map_or(0, |row| row.stride);
        cx.refuse(
            "tcp/commit-stride",
            format!("writes from {} on, a loop at stride {stride}", commit.base),
            format!("base and strides that are multiples of {granule} B, strides not 0"),
            "rows padded to whole granules".into(),
        );
    }
}

fn check_slices(cx: &mut VerifyContext<'_>, commit: &Commit) {
    let slices = cx.slices();
    let rising = commit.slices.windows(2).all(|pair| pair[0].1 <= pair[1].0);
    let inside = commit.slices.iter().all(|(first, end)| first < end && *end <= slices);
    let named = commit.slices.is_empty() || slices <= cx.machine.commit.mask_slices;
    if !rising || !inside || !named {
        cx.refuse(
            "tcp/commit-slices",
            "the write mask names slices that the group has not".into(),
            format!("rising ranges of the {slices} slices of the group"),
            "ranges `first..end` inside the group".into(),
        );
    }
}

fn check_lanes(cx: &mut VerifyContext<'_>, memory: Memory) {
    let Memory::Trf { lanes } = memory else { return };
    if !lanes.is_power_of_two() || lanes > cx.machine.ce.lanes {
        cx.refuse(
            "tcp/commit-lanes",
            format!("a register file cut into {lanes} lanes"),
            format!("a power of two up to {}", cx.machine.ce.lanes),
            "as many as the contraction uses".into(),
        );
    }
}

fn check_bounds(cx: &mut VerifyContext<'_>, commit: &Commit) {
    check_lanes(cx, commit.memory);
    let (store, _) = store_of(commit.memory);
    let capacity = store.capacity_bytes(cx.machine);
    let walked = TouchedOffsets::of_loops(&in_units(&commit.loops, 1), commit.bytes);
    if let Some((start, end)) = walked.placed(commit.base.into(), 1, capacity).outside {
        cx.refuse(
            "tcp/commit-bounds",
            format!("writes bytes {start}..{end} of the {}", store.name()),
            format!("0..{capacity} on each slice"),
            "a base, sizes and strides that stay inside".into(),
        );
    }
}
