//! Quantisation: integers with a scale and a zero point, for a tensor or for each slice of an axis.

use crate::build::Builder;
use crate::dim::Dim;
use crate::dtype::Dtype;
use crate::graph::ValueId;
use crate::infer::{BuildResult, dtype_error};
use crate::op::{Binary, Fold, Unary};
use crate::rich::RichCall;

/// A vector along `axis` beside a tensor; a scalar stays.
fn along(b: &mut Builder, call: &RichCall<'_>, x: ValueId, vector: ValueId) -> BuildResult<ValueId> {
    if b.rank(vector) != 1 {
        return Ok(vector);
    }
    let axis = call.axis(b, x, "axis", 1).or_else(|_| call.axis(b, x, "axis", -1))?;
    let mut dims = b.dims(vector).to_vec();
    dims.resize(b.rank(x) - axis, Dim::fixed(1));
    b.reshape(vector, &dims)
}

fn range(dtype: Dtype) -> BuildResult<(f64, f64)> {
    match dtype.integer_range() {
        #[expect(clippy::cast_precision_loss, reason = "types of at most 32 bits")]
        Some((least, most)) if dtype.bits() <= 32 && dtype != Dtype::Bool => Ok((least as f64, most as f64)),
        _ => Err(dtype_error(format!("quantisation to {dtype}"), "i4, u4, i8, u8, i32, f8e4m3")),
    }
}

/// x / scale, rounded to even, plus the zero point, clamped to the type. Of f8e4m3 the conversion rounds and
/// clamps.
fn quantized(
    b: &mut Builder,
    x: ValueId,
    scale: ValueId,
    zero: Option<ValueId>,
    dtype: Dtype,
) -> BuildResult<ValueId> {
    let is_float = dtype == Dtype::F8E4M3;
    let mut steps = b.div(x, scale)?;
    if !is_float {
        steps = b.unary(Unary::Round, steps)?;
    }
    if let Some(zero) = zero {
        let zero = b.convert(zero, b.dtype(x))?;
        steps = b.add(steps, zero)?;
    }
    if is_float {
        return b.convert(steps, dtype);
    }
    let (least, most) = range(dtype)?;
    let steps = b.with(Binary::Max, steps, least)?;
    let steps = b.with(Binary::Min, steps, most)?;
    b.convert(steps, dtype)
}

/// `quantize(x, scale, zero)` to the type of the zero point, or `dtype`.
pub(super) fn quantize(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let x = call.input(0)?;
    let scale = along(b, call, x, call.input(1)?)?;
    let zero = match call.maybe(2) {
        Some(zero) => Some(along(b, call, x, zero)?),
        None => None,
    };
    let named = Dtype::by_name(call.word("dtype", "u8")?);
    let dtype = zero.map(|zero| b.dtype(zero)).or(named).unwrap_or(Dtype::U8);
    Ok(vec![quantized(b, x, scale, zero, dtype)?])
}

/// `dequantize(x, scale, zero)`: (x - zero) scale.
pub(super) fn dequantize(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let x = call.input(0)?;
    let scale = along(b, call, x, call.input(1)?)?;
    let mut wide = b.convert(x, b.dtype(scale))?;
    if let Some(zero) = call.maybe(2) {
        let zero = along(b, call, x, zero)?;
        let zero = b.convert(zero, b.dtype(scale))?;
        wide = b.sub(wide, zero)?;
    }
    Ok(vec![b.mul(wide, scale)?])
}

/// `dynamic_quantize(x)`: to u8 by the range that `x` has; also scale and zero point.
pub(super) fn dynamic_quantize(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let x = call.input(0)?;
    let axes: Vec<usize> = (0..b.rank(x)).collect();
    let largest = b.reduce(Fold::Max, x, &axes, false)?;
    let largest = b.with(Binary::Max, largest, 0.0)?;
    let smallest = b.reduce(Fold::Min, x, &axes, false)?;
    let smallest = b.with(Binary::Min, smallest, 0.0)?;
    let width = b.sub(largest, smallest)?;
    let scale = b.with(Binary::Div, width, 255.0)?;
    let zero = b.div(smallest, scale)?;
    let zero = b.unary(Unary::Neg, zero)?;
    let zero = b.unary(Unary::Round, zero)?;
    let zero = b.convert(zero, Dtype::U8)?;
    let y = quantized(b, x, scale, Some(zero), Dtype::U8)?;
    Ok(vec![y, scale, zero])
}
