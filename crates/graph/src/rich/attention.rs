//! Rotary positions and attention with grouped heads.

use crate::build::Builder;
use crate::dim::Dim;
use crate::dtype::Dtype;
use crate::graph::ValueId;
use crate::infer::{BuildResult, shape_error};
use crate::op::{Binary, Fold, Unary};
use crate::rich::RichCall;

/// `rope(x, cos, sin)`: pairs of the last axis of `x` are rotated; `cos` and `sin` have half its size there
/// and stretch elsewhere. `interleaved=1` pairs neighbours, otherwise halves are paired. `dims` turns only
/// the first elements.
pub(super) fn rope(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let (x, cos, sin) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let last = b.rank(x).checked_sub(1).ok_or_else(|| shape_error("`rope` of a scalar", "pairs"))?;
    let whole = b.dim(x, last)?;
    let rotated = match call.int("dims", 0)? {
        0 => whole.clone(),
        some => Dim::fixed(some),
    };
    let odd = || shape_error("`rope` of an odd number of elements", "pairs");
    let half = rotated.divided(&Dim::fixed(2)).ok_or_else(odd)?;
    let rest = whole.minus(&rotated).ok_or_else(odd)?;
    let front = b.slice(x, last, Dim::fixed(0), rotated, 1)?;
    let interleaved = call.flag("interleaved")?;
    let (first, second) = if interleaved {
        (b.slice(front, last, 0.into(), half.clone(), 2)?, b.slice(front, last, 1.into(), half, 2)?)
    } else {
        (b.slice(front, last, 0.into(), half.clone(), 1)?, b.slice(front, last, half.clone(), half, 1)?)
    };
    let product = |b: &mut Builder, x, y| b.mul(x, y);
    let (a, c) = (product(b, first, cos)?, product(b, second, sin)?);
    let real = b.sub(a, c)?;
    let (a, c) = (product(b, first, sin)?, product(b, second, cos)?);
    let imaginary = b.add(a, c)?;
    let rotated = if interleaved {
        let (real, imaginary) = (b.unsqueeze(real, last + 1)?, b.unsqueeze(imaginary, last + 1)?);
        let pairs = b.concat(last + 1, &[real, imaginary])?;
        let dims = b.dims(front).to_vec();
        b.reshape(pairs, &dims)?
    } else {
        b.concat(last, &[real, imaginary])?
    };
    if rest.is(0) {
        return Ok(vec![rotated]);
    }
    let start = b.dim(rotated, last)?;
    let back = b.slice(x, last, start, rest, 1)?;
    Ok(vec![b.concat(last, &[rotated, back])?])
}

/// `attention(q, k, v, mask)`: `q` is `[batch, heads, q, d]`, `k` and `v` are `[batch, kv heads, k, d]`;
/// heads share keys in groups. `mask` stretches to `[batch, heads, q, k]`: of bool, false hides; of floats,
/// it is added. `scale`, `softcap`. The second result is the scores: `scores=0` scaled, 1 masked, 2 capped, 3
/// the probabilities.
pub(super) fn attention(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let (q, k, v) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let dims = |b: &Builder, x: ValueId| -> BuildResult<[Dim; 4]> {
        let dims = b.dims(x).to_vec();
        <[Dim; 4]>::try_from(dims)
            .map_err(|_| shape_error("`attention` of a tensor without four axes", "four axes"))
    };
    let [batch, heads, queries, width] = dims(b, q)?;
    let [_, kv_heads, keys, _] = dims(b, k)?;
    let [_, _, _, value_width] = dims(b, v)?;
    let uneven =
        || shape_error("`attention` with heads that share keys unevenly", "a multiple of the key heads");
    let group = heads.divided(&kv_heads).ok_or_else(uneven)?;
    let scale = match call.maybe_float("scale")? {
        Some(scale) => f64::from(scale),
        #[expect(clippy::cast_precision_loss, reason = "widths of heads are small")]
        None => match width.as_fixed() {
            Some(width) if width > 0 => 1.0 / (width as f64).sqrt(),
            _ => return call.refuse("without `scale` for a width that is open", "`scale`"),
        },
    };
    let scaled = b.with(Binary::Mul, q, scale)?;
    let grouped = b.reshape(scaled, &[batch.clone(), kv_heads.clone(), group, queries.clone(), width])?;
    let scores = b.einsum("bhgqd,bhkd->bhgqk", &[grouped, k])?;
    let mut scores = b.reshape(scores, &[batch.clone(), heads.clone(), queries.clone(), keys])?;
    let wanted = call.int("scores", 0)?;
    let mut shown = scores;
    let softcap = call.float("softcap", 0.0)?;
    if softcap != 0.0 {
        let small = b.with(Binary::Div, scores, softcap)?;
        let bent = b.unary(Unary::Tanh, small)?;
        scores = b.with(Binary::Mul, bent, softcap)?;
    }
    if wanted == 2 {
        shown = scores;
    }
    if let Some(mask) = call.maybe(3) {
        scores = masked(b, scores, mask)?;
    }
    if wanted == 1 {
        shown = scores;
    }
    let dtype = b.dtype(scores);
    let wide = if call.flag("wide")? { b.convert(scores, Dtype::F32)? } else { scores };
    let probs = probabilities(b, wide)?;
    let probs = b.convert(probs, dtype)?;
    if wanted == 3 {
        shown = probs;
    }
    let kv_group = [batch.clone(), kv_heads, heads.divided(&b.dim(k, 1)?).ok_or_else(uneven)?];
    let mut dims = kv_group.to_vec();
    dims.extend([queries.clone(), b.dim(k, 2)?]);
    let grouped = b.reshape(probs, &dims)?;
    let y = b.einsum("bhgqk,bhkd->bhgqd", &[grouped, v])?;
    let y = b.reshape(y, &[batch, heads, queries, value_width])?;
    Ok(vec![y, shown])
}

fn masked(b: &mut Builder, scores: ValueId, mask: ValueId) -> BuildResult<ValueId> {
    if b.dtype(mask) != Dtype::Bool {
        return b.add(scores, mask);
    }
    let nothing = b.scalar(b.dtype(scores), f64::NEG_INFINITY)?;
    b.select(mask, scores, nothing)
}

/// Softmax along the last axis; a row that is hidden as a whole gives zeros.
fn probabilities(b: &mut Builder, scores: ValueId) -> BuildResult<ValueId> {
    let last = b.rank(scores).saturating_sub(1);
    let largest = b.reduce(Fold::Max, scores, &[last], true)?;
    let nothing = b.scalar(b.dtype(scores), f64::NEG_INFINITY)?;
    let hidden = b.binary(Binary::Eq, largest, nothing)?;
    let zero = b.scalar(b.dtype(scores), 0.0)?;
    let largest = b.select(hidden, zero, largest)?;
    let shifted = b.sub(scores, largest)?;
    let exponentials = b.unary(Unary::Exp, shifted)?;
    let sum = b.reduce(Fold::Sum, exponentials, &[last], true)?;
    let one = b.scalar(b.dtype(scores), 1.0)?;
    let sum = b.select(hidden, one, sum)?;
    b.div(exponentials, sum)
}
