//! Normalisation: softmax and the norms of rows.

use crate::build::Builder;
use crate::dim::Dim;
use crate::dtype::Dtype;
use crate::graph::ValueId;
use crate::infer::{BuildResult, shape_error};
use crate::op::{Binary, Fold, Op, Unary};
use crate::rich::RichCall;

/// Rows minus their largest element: exponentials then cannot overflow.
fn shifted(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<(ValueId, usize)> {
    let x = call.input(0)?;
    let axis = call.axis(b, x, "axis", -1)?;
    let largest = b.reduce(Fold::Max, x, &[axis], true)?;
    Ok((b.sub(x, largest)?, axis))
}

pub(super) fn softmax(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let (x, axis) = shifted(b, call)?;
    let exponentials = b.unary(Unary::Exp, x)?;
    let sum = b.reduce(Fold::Sum, exponentials, &[axis], true)?;
    Ok(vec![b.div(exponentials, sum)?])
}

pub(super) fn log_softmax(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let (x, axis) = shifted(b, call)?;
    let exponentials = b.unary(Unary::Exp, x)?;
    let sum = b.reduce(Fold::Sum, exponentials, &[axis], true)?;
    let logarithm = b.unary(Unary::Ln, sum)?;
    Ok(vec![b.sub(x, logarithm)?])
}

/// Axes from `axis` to the last.
fn last_axes(b: &Builder, call: &RichCall<'_>, x: ValueId) -> BuildResult<Vec<usize>> {
    Ok((call.axis(b, x, "axis", -1)?..b.rank(x)).collect())
}

pub(super) fn rms_norm(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let (x, scale) = (call.input(0)?, call.input(1)?);
    let dtype = b.dtype(x);
    let wide = b.convert(x, Dtype::F32)?;
    let axes = last_axes(b, call, x)?;
    let squares = b.mul(wide, wide)?;
    let mean = b.mean(squares, &axes, true)?;
    let mean = b.with(Binary::Add, mean, call.float("eps", 1e-5)?)?;
    let factor = b.unary(Unary::Rsqrt, mean)?;
    let scaled = b.mul(wide, factor)?;
    let narrow = b.convert(scaled, dtype)?;
    Ok(vec![b.mul(narrow, scale)?])
}

pub(super) fn layer_norm(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let (x, scale) = (call.input(0)?, call.input(1)?);
    let dtype = b.dtype(x);
    let wide = b.convert(x, Dtype::F32)?;
    let axes = last_axes(b, call, x)?;
    let (normal, mean, factor) = centred(b, wide, &axes, call.float("eps", 1e-5)?)?;
    let narrow = b.convert(normal, dtype)?;
    let mut y = b.mul(narrow, scale)?;
    if let Some(bias) = call.maybe(2) {
        y = b.add(y, bias)?;
    }
    Ok(vec![y, mean, factor])
}

/// Mean 0 and variance 1 over axes; also the mean and one over the deviation.
pub(super) fn centred(
    b: &mut Builder,
    x: ValueId,
    axes: &[usize],
    eps: f64,
) -> BuildResult<(ValueId, ValueId, ValueId)> {
    let mean = b.mean(x, axes, true)?;
    let centred = b.sub(x, mean)?;
    let squares = b.mul(centred, centred)?;
    let variance = b.mean(squares, axes, true)?;
    let variance = b.with(Binary::Add, variance, eps)?;
    let factor = b.unary(Unary::Rsqrt, variance)?;
    Ok((b.mul(centred, factor)?, mean, factor))
}

/// `[channels]` as `[channels, 1, ..]` beside a tensor with channels in axis 1.
fn channels(b: &mut Builder, x: ValueId, vector: ValueId) -> BuildResult<ValueId> {
    let mut dims = b.dims(vector).to_vec();
    dims.resize(b.rank(x).saturating_sub(1).max(1), Dim::fixed(1));
    b.reshape(vector, &dims)
}

/// `batch_norm(x, scale, bias, mean, variance)` with channels in axis 1.
pub(super) fn batch_norm(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let x = call.input(0)?;
    let mut parts = Vec::new();
    for at in 1..5 {
        parts.push(channels(b, x, call.input(at)?)?);
    }
    let centred = b.sub(x, parts[2])?;
    let variance = b.with(Binary::Add, parts[3], call.float("eps", 1e-5)?)?;
    let factor = b.unary(Unary::Rsqrt, variance)?;
    let factor = b.mul(factor, parts[0])?;
    let y = b.mul(centred, factor)?;
    Ok(vec![b.add(y, parts[1])?])
}

/// `group_norm(x, scale, bias)`: channels of axis 1 in `groups`; as many groups as channels is instance
/// normalisation.
pub(super) fn group_norm(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let (x, scale, bias) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let dims = b.dims(x).to_vec();
    let count = b.dim(x, 1)?;
    let groups = match call.int("groups", 0)? {
        0 => count.clone(),
        groups => Dim::fixed(groups),
    };
    let uneven = || shape_error("`group_norm` with uneven groups", "a divisor of the channels");
    let each = count.divided(&groups).ok_or_else(uneven)?;
    let mut grouped = dims.clone();
    grouped.splice(1..2, [groups, each]);
    let split = b.reshape(x, &grouped)?;
    let axes: Vec<usize> = (2..grouped.len()).collect();
    let (normal, _, _) = centred(b, split, &axes, call.float("eps", 1e-5)?)?;
    let normal = b.reshape(normal, &dims)?;
    let (scale, bias) = (channels(b, x, scale)?, channels(b, x, bias)?);
    let y = b.mul(normal, scale)?;
    Ok(vec![b.add(y, bias)?])
}

/// `lp_norm(x)`: rows along `axis` divided by their norm of order `p`; a row of zeros stays.
pub(super) fn lp_norm(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let x = call.input(0)?;
    let axis = call.axis(b, x, "axis", -1)?;
    let sizes = b.unary(Unary::Abs, x)?;
    let norm = match call.int("p", 2)? {
        1 => b.reduce(Fold::Sum, sizes, &[axis], true)?,
        2 => {
            let squares = b.mul(x, x)?;
            let sum = b.reduce(Fold::Sum, squares, &[axis], true)?;
            b.unary(Unary::Sqrt, sum)?
        }
        _ => return call.refuse("of another order", "p=1, p=2"),
    };
    let nothing = b.with(Binary::Eq, norm, 0.0)?;
    let one = b.scalar(b.dtype(norm), 1.0)?;
    let norm = b.select(nothing, one, norm)?;
    Ok(vec![b.div(x, norm)?])
}

/// `lrn(x)`: divided by a power of the squares of neighbouring channels.
pub(super) fn lrn(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let x = call.input(0)?;
    let size = call.int("size", 1)?;
    if !(1..1 << 20).contains(&size) {
        return call.refuse("of no channel, or of too many", "size=1 to 2^20");
    }
    let zero = b.scalar(b.dtype(x), 0.0)?;
    let squares = b.mul(x, x)?;
    let (low, high) = ((size - 1) / 2, size / 2);
    let padded = b.pad(squares, 1, low.into(), high.into(), zero)?;
    let op = Op::Window { axis: 1, size: size.unsigned_abs(), stride: 1, dilation: 1 };
    let windows = b.emit(op, &[padded])?;
    let sum = b.reduce(Fold::Sum, windows, &[2], false)?;
    #[expect(clippy::cast_precision_loss, reason = "windows are small")]
    let factor = call.float("alpha", 1e-4)? / size as f64;
    let sum = b.with(Binary::Mul, sum, factor)?;
    let sum = b.with(Binary::Add, sum, call.float("bias", 1.0)?)?;
    let divisor = b.with(Binary::Pow, sum, call.float("beta", 0.75)?)?;
    Ok(vec![b.div(x, divisor)?])
}
