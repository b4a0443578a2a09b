//! Matrix products, convolutions, attention.

use tilewright_graph::infer::shape_error;
use tilewright_graph::rich::{Attrs, RichOp};
use tilewright_graph::{Binary, BuildResult, Builder, Dim, Dtype, ValueId};

use crate::error::ImportResult;
use crate::onnx::node::Call;
use crate::onnx::ops::Outputs;

pub(super) fn matmul(call: &mut Call<'_, '_>) -> Outputs {
    call.rich(RichOp::Matmul, Attrs::default())
}

pub(super) fn gemm(call: &mut Call<'_, '_>) -> Outputs {
    let attrs = Attrs::default()
        .int("trans_a", call.int("transA", 0))
        .int("trans_b", call.int("transB", 0))
        .float("alpha", call.float("alpha", 1.0))
        .float("beta", call.float("beta", 1.0));
    call.rich(RichOp::Gemm, attrs)
}

/// Sizes, strides and pads of windows are smaller.
const MOST_STEP: u64 = 1 << 20;

fn given_pads(call: &Call<'_, '_>, rank: usize) -> Vec<i64> {
    call.ints("pads").map_or_else(|| vec![0; 2 * rank], <[i64]>::to_vec)
}

/// How pads are found; a node that also gives them contradicts itself.
fn auto_pad(call: &Call<'_, '_>) -> ImportResult<String> {
    let auto = call.word("auto_pad", "NOTSET");
    if !["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"].contains(&auto.as_str()) {
        let what = format!("`auto_pad` is `{auto}`");
        return Err(call.refuse(what).allowed("NOTSET, SAME_UPPER, SAME_LOWER, VALID"));
    }
    let pads = call.ints("pads").unwrap_or_default();
    if auto != "NOTSET" && pads.iter().any(|pad| *pad != 0) {
        return Err(call
            .refuse(format!("`auto_pad` is {auto}, and `pads` is {pads:?}"))
            .allowed("one of the two")
            .instead("`auto_pad` NOTSET for these pads, or no `pads`"));
    }
    Ok(auto)
}

/// Attributes of windows with `auto_pad` worked out.
pub(super) fn windows(call: &Call<'_, '_>, x: ValueId, sizes: &[i64]) -> ImportResult<Attrs> {
    let (strides, dilations, pads) = window_axes(call, x, sizes)?;
    Ok(Attrs::default().ints("strides", &strides).ints("dilations", &dilations).ints("pads", &pads))
}

/// Strides, dilations, and pads before and then behind all axes.
type WindowAxes = (Vec<i64>, Vec<i64>, Vec<i64>);

pub(super) fn window_axes(call: &Call<'_, '_>, x: ValueId, sizes: &[i64]) -> ImportResult<WindowAxes> {
    let rank = sizes.len();
    let list = |name: &str| call.ints(name).map_or_else(|| vec![1; rank], <[i64]>::to_vec);
    let (strides, dilations) = (list("strides"), list("dilations"));
    let (mut pads, auto) = (given_pads(call, rank), auto_pad(call)?);
    let small =
        [&strides[..], &dilations, &pads, sizes].concat().iter().all(|n| n.unsigned_abs() < MOST_STEP);
    if strides.len() != rank || dilations.len() != rank || pads.len() != 2 * rank || !small {
        return Err(call
            .refuse("windows that do not fit the axes")
            .allowed("a number below 2^20 for each axis"));
    }
    if auto.starts_with("SAME") {
        for axis in 0..rank {
            let size = call.reader.b.dims(x).get(axis + 2).and_then(Dim::as_fixed);
            let size =
                size.ok_or_else(|| call.refuse("`auto_pad` on a size that is open").allowed("a fixed size"))?;
            let stride = strides[axis].max(1);
            let out = (size + stride - 1) / stride;
            let total = ((out - 1) * stride + (sizes[axis] - 1) * dilations[axis] + 1 - size).max(0);
            let small = total / 2;
            (pads[axis], pads[rank + axis]) =
                if auto == "SAME_UPPER" { (small, total - small) } else { (total - small, small) };
        }
    }
    Ok((strides, dilations, pads))
}

pub(super) fn kernel(call: &Call<'_, '_>, w: ValueId) -> ImportResult<Vec<i64>> {
    let sizes: Option<Vec<i64>> = call.reader.b.dims(w).iter().skip(2).map(Dim::as_fixed).collect();
    let sizes = sizes.ok_or_else(|| call.refuse("weights of an open size").allowed("fixed sizes"))?;
    match call.ints("kernel_shape") {
        Some(said) if said != sizes => Err(call
            .refuse(format!("`kernel_shape` is {said:?}, and its weights have windows of {sizes:?}"))
            .allowed("the sizes of the weights")
            .instead(format!("`kernel_shape` {sizes:?}, or none"))),
        _ => Ok(sizes),
    }
}

pub(super) fn conv(call: &mut Call<'_, '_>) -> Outputs {
    let (x, w) = (call.input(0)?, call.input(1)?);
    let sizes = kernel(call, w)?;
    let groups = call.int("group", 1);
    if call.node.op == "Conv" {
        let attrs = windows(call, x, &sizes)?.int("groups", groups);
        return call.rich(RichOp::Conv, attrs);
    }
    let rank = sizes.len();
    let list =
        |name: &str, default: i64| call.ints(name).map_or_else(|| vec![default; rank], <[i64]>::to_vec);
    let (strides, dilations) = (list("strides", 1), list("dilations", 1));
    let extra = list("output_padding", 0);
    let (mut pads, auto) = (given_pads(call, rank), auto_pad(call)?);
    let shape = call.ints("output_shape").map(<[i64]>::to_vec);
    let given = shape.clone().unwrap_or_default();
    let all = [&strides[..], &dilations, &extra, &pads, &sizes, &given].concat();
    let small = all.iter().all(|number| number.unsigned_abs() < MOST_STEP);
    let fits = strides.len() == rank
        && dilations.len() == rank
        && extra.len() == rank
        && pads.len() == 2 * rank
        && small;
    if !fits {
        return Err(call.refuse("windows that do not fit the axes").allowed("a number for each axis"));
    }
    if auto.starts_with("SAME") || shape.is_some() {
        for axis in 0..rank {
            let size = call.reader.b.dims(x).get(axis + 2).and_then(Dim::as_fixed);
            let size = size.ok_or_else(|| call.refuse("a size that is open").allowed("a fixed size"))?;
            let wanted = shape.as_ref().and_then(|shape| shape.iter().rev().nth(rank - 1 - axis).copied());
            let wanted = wanted.unwrap_or(size * strides[axis]);
            let reach = (sizes[axis] - 1) * dilations[axis] + 1;
            let total = strides[axis] * (size - 1) + extra[axis] + reach - wanted;
            let small = total.div_euclid(2);
            (pads[axis], pads[rank + axis]) =
                if auto == "SAME_UPPER" { (small, total - small) } else { (total - small, small) };
        }
    }
    let attrs = Attrs::default().ints("strides", &strides).ints("dilations", &dilations).ints("pads", &pads);
    call.rich(RichOp::ConvTranspose, attrs.ints("output_padding", &extra).int("groups", groups))
}

/// `[batch, seq, heads * d]` as `[batch, heads, seq, d]`.
fn to_heads(b: &mut Builder, x: ValueId, heads: i64) -> BuildResult<ValueId> {
    let dims = b.dims(x).to_vec();
    let uneven = || shape_error("a width that heads do not divide", "a multiple of the heads");
    let width = b.dim(x, 2)?.divided(&Dim::fixed(heads)).ok_or_else(uneven)?;
    let split = b.reshape(x, &[dims[0].clone(), dims[1].clone(), Dim::fixed(heads), width])?;
    b.transpose(split, &[0, 2, 1, 3])
}

/// Sizes whose sum or product has more terms than a size may.
fn too_many() -> Box<tilewright_base::Diagnostic> {
    shape_error("sizes whose sum or product has too many terms", "sizes of few terms")
}

/// The way back.
fn from_heads(b: &mut Builder, x: ValueId) -> BuildResult<ValueId> {
    let transposed = b.transpose(x, &[0, 2, 1, 3])?;
    let dims = b.dims(transposed).to_vec();
    let width = Dim::product(&dims[2..]).ok_or_else(too_many)?;
    b.reshape(transposed, &[dims[0].clone(), dims[1].clone(), width])
}

pub(super) fn rotary(call: &mut Call<'_, '_>) -> Outputs {
    let (x, cos, sin, positions) = (call.input(0)?, call.input(1)?, call.input(2)?, call.maybe(3));
    let flat = call.reader.b.rank(x) == 3;
    let heads = call.int("num_heads", 0);
    let attrs = Attrs::default()
        .int("interleaved", call.int("interleaved", 0))
        .int("dims", call.int("rotary_embedding_dim", 0));
    Ok(vec![call.build(|b| {
        let split = if flat { to_heads(b, x, heads.max(1))? } else { x };
        let angles = |b: &mut Builder, table: ValueId| -> BuildResult<ValueId> {
            let rows = match positions {
                Some(positions) => b.gather(table, 0, positions)?,
                None => table,
            };
            b.unsqueeze(rows, 1)
        };
        let (cos, sin) = (angles(b, cos)?, angles(b, sin)?);
        let rotated = b.rich_one(RichOp::Rope, &[split, cos, sin], attrs)?;
        if flat { from_heads(b, rotated) } else { Ok(rotated) }
    })?])
}

pub(super) fn attention(call: &mut Call<'_, '_>) -> Outputs {
    let (q, k, v) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let (past_k, past_v, nonpad) = (call.maybe(4), call.maybe(5), call.maybe(6));
    let flat = call.reader.b.rank(q) == 3;
    let (heads, kv_heads) = (call.int("q_num_heads", 0).max(1), call.int("kv_num_heads", 0).max(1));
    let causal = call.int("is_causal", 0) != 0;
    // ONNX counts: 0 the product, 1 behind the cap, 2 behind the mask, 3 the probabilities; before opset 24,
    // 1 and 2 exchanged.
    let mut attrs = Attrs::default().int(
        "scores",
        match call.int("qk_matmul_output_mode", 0) {
            1 => 2,
            2 => 1,
            other => other,
        },
    );
    if let Some(scale) = call.attribute("scale").map(|attribute| attribute.f) {
        attrs = attrs.float("scale", scale);
    }
    attrs = attrs.float("softcap", call.float("softcap", 0.0)).int("wide", 1);
    let mask = call.maybe(3);
    let (q, k, v, mask) = call.build(|b| {
        let (q, mut k, mut v) = if flat {
            (to_heads(b, q, heads)?, to_heads(b, k, kv_heads)?, to_heads(b, v, kv_heads)?)
        } else {
            (q, k, v)
        };
        let past = match past_k {
            Some(past) => b.dim(past, 2)?,
            None => Dim::fixed(0),
        };
        if let Some(past) = past_k {
            k = b.concat(2, &[past, k])?;
        }
        if let Some(past) = past_v {
            v = b.concat(2, &[past, v])?;
        }
        let mask = whole_mask(b, &AttentionMask { q, k, mask, causal, past, nonpad })?;
        Ok((q, k, v, mask))
    })?;
    let outputs = call.rich_on(RichOp::Attention, &[Some(q), Some(k), Some(v), mask], attrs)?;
    let [y, scores] = outputs[..] else { return Err(call.refuse("attention has two results")) };
    let y = if flat { call.build(|b| from_heads(b, y))? } else { y };
    Ok(vec![y, k, v, scores])
}

struct AttentionMask {
    q: ValueId,
    k: ValueId,
    mask: Option<ValueId>,
    causal: bool,
    past: Dim,
    nonpad: Option<ValueId>,
}

/// The given mask filled up to all keys, the causal triangle and the keys that count, as one mask.
fn whole_mask(b: &mut Builder, parts: &AttentionMask) -> BuildResult<Option<ValueId>> {
    let (queries, keys) = (b.dim(parts.q, 2)?, b.dim(parts.k, 2)?);
    let mut sum = None;
    if let Some(mask) = parts.mask {
        let last = b.rank(mask).saturating_sub(1);
        let missing = keys.minus(&b.dim(mask, last)?).ok_or_else(too_many)?;
        let hidden = if b.dtype(mask) == Dtype::Bool { 0.0 } else { f64::NEG_INFINITY };
        let hidden = b.scalar(b.dtype(mask), hidden)?;
        let short = missing.range(b.axes()).0 >= 0 && !b.dim(mask, last)?.is(1);
        sum = Some(if short { b.pad(mask, last, 0.into(), missing, hidden)? } else { mask });
    }
    if parts.causal {
        let square = [queries, keys.clone()];
        let (row, column) = (b.iota(Dtype::I64, &square, 0)?, b.iota(Dtype::I64, &square, 1)?);
        let past = b.number(parts.past.clone(), Dtype::I64)?;
        let edge = b.add(row, past)?;
        let seen = b.binary(Binary::Le, column, edge)?;
        sum = Some(both(b, sum, seen, parts.q)?);
    }
    if let Some(count) = parts.nonpad {
        let places = b.iota(Dtype::I64, &[keys], 0)?;
        let count = b.convert(count, Dtype::I64)?;
        let batch = b.dim(count, 0)?;
        let count = b.reshape(count, &[batch, 1.into(), 1.into(), 1.into()])?;
        let seen = b.binary(Binary::Lt, places, count)?;
        sum = Some(both(b, sum, seen, parts.q)?);
    }
    Ok(sum)
}

/// A mask that hides what either hides.
fn both(b: &mut Builder, mask: Option<ValueId>, seen: ValueId, q: ValueId) -> BuildResult<ValueId> {
    let Some(mask) = mask else { return Ok(seen) };
    if b.dtype(mask) == Dtype::Bool {
        return b.binary(Binary::And, mask, seen);
    }
    let hidden = b.scalar(b.dtype(q), f64::NEG_INFINITY)?;
    b.select(seen, mask, hidden)
}
