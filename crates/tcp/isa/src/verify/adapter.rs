//! Adapter of the fetch unit: lookup, cast, zero point, and who may take what they make (vISA book, fetch
//! engine).

use tilewright_num::Dtype;

use super::context::VerifyContext;
use crate::memory::payload_bits;
use crate::program::exec::{Fetch, Memory, Stream};

/// Types of a table lookup.
const LOOKUPS: [(Dtype, Dtype); 4] = [
    (Dtype::F4E2M1, Dtype::F8E4M3Fn),
    (Dtype::F4E2M1, Dtype::F8E5M2),
    (Dtype::F8E4M3Fn, Dtype::Bf16),
    (Dtype::F8E5M2, Dtype::Bf16),
];

/// Types of a cast while fetching.
const CASTS: [(Dtype, Dtype); 7] = [
    (Dtype::I4, Dtype::I32),
    (Dtype::I8, Dtype::I32),
    (Dtype::I16, Dtype::I32),
    (Dtype::F8E4M3Fn, Dtype::F32),
    (Dtype::F8E5M2, Dtype::F32),
    (Dtype::Bf16, Dtype::F32),
    (Dtype::F32, Dtype::Bf16),
];

pub(super) fn check(cx: &mut VerifyContext<'_>, stream: &Stream) {
    let fetch = &stream.fetch;
    check_lookup(cx, fetch);
    check_cast(cx, fetch);
    check_zero_point(cx, fetch);
    let stages =
        [fetch.lookup.is_some(), fetch.cast.is_some(), fetch.zero_point.is_some(), !fetch.limits.is_empty()];
    let stages = stages.into_iter().filter(|used| *used).count();
    if cx.is_sub() && stages > 1 {
        cx.refuse(
            "tcp/adapter-stages",
            format!("{stages} stages of the adapter in the sub context"),
            "one of limits, lookup, cast and zero point".into(),
            "the main context, or two commands".into(),
        );
    }
    let leaves = fetch.leaves();
    let loads = matches!(stream.commit.memory, Memory::Trf { .. })
        && stream.vector.is_none()
        && stream.cast.is_none()
        && stream.transpose.is_none();
    if matches!(leaves, Dtype::I5 | Dtype::I9) && stream.contract.is_none() && !loads {
        cx.refuse(
            "tcp/adapter-target",
            format!("{leaves} does not go to the contraction engine"),
            "the contraction engine, or a load of its register file".into(),
            "a cast to i32 and a subtraction in the vector engine".into(),
        );
    }
}

/// Type after the lookup.
fn looked_up(fetch: &Fetch) -> Dtype {
    fetch.lookup.as_ref().map_or(fetch.dtype, |lookup| lookup.dtype)
}

fn check_lookup(cx: &mut VerifyContext<'_>, fetch: &Fetch) {
    let Some(lookup) = &fetch.lookup else { return };
    let pair = LOOKUPS.contains(&(fetch.dtype, lookup.dtype));
    let entries = if fetch.dtype == Dtype::F4E2M1 { 16 } else { cx.machine.fetch.lookup_entries };
    let count = lookup.patterns.len() as u64;
    let wide = lookup.patterns.iter().any(|pattern| u64::from(*pattern) >> lookup.dtype.bits() != 0);
    if !pair || count != entries || wide {
        cx.refuse(
            "tcp/adapter-lookup",
            format!("a lookup of {count} patterns from {} to {}", fetch.dtype, lookup.dtype),
            "f4e2m1 to an 8-bit float by 16 patterns, an 8-bit float to bf16 by 256, each pattern as wide as \
             its type".into(),
            "a cast, or the vector engine".into(),
        );
    }
}

fn check_cast(cx: &mut VerifyContext<'_>, fetch: &Fetch) {
    let Some(to) = fetch.cast else { return };
    let from = looked_up(fetch);
    if !CASTS.contains(&(from, to)) {
        return cx.refuse(
            "tcp/adapter-cast",
            format!("a cast while fetching from {from} to {to}"),
            "i4, i8, i16 to i32; 8-bit floats and bf16 to f32; f32 to bf16".into(),
            "the cast engine behind the vector engine".into(),
        );
    }
    // The main unit reads as little as it must; the sub unit has one width.
    let read_bits = cx.machine.fetch.sub_width_bytes * 8;
    let elements = read_bits / payload_bits(fetch.dtype);
    let bytes = elements * payload_bits(to) / 8;
    if cx.is_sub() && bytes > cx.machine.network.flit_bytes {
        cx.refuse(
            "tcp/adapter-width",
            format!("an access of {elements} {from} becomes {bytes} B of {to}"),
            format!("{} B, one flit", cx.machine.network.flit_bytes),
            "the main context, which reads less at a time".into(),
        );
    }
}

fn check_zero_point(cx: &mut VerifyContext<'_>, fetch: &Fetch) {
    let Some(zero) = fetch.zero_point else { return };
    let from = fetch.cast.unwrap_or(looked_up(fetch));
    let range = match from {
        Dtype::I4 | Dtype::I8 => from.int_range(),
        _ => None,
    };
    if range.is_none_or(|(least, most)| zero < least || zero > most) {
        cx.refuse(
            "tcp/adapter-zero-point",
            format!("zero point {zero} of {from}"),
            "-8..=7 for i4, -128..=127 for i8".into(),
            "a subtraction in the vector engine".into(),
        );
    }
}
