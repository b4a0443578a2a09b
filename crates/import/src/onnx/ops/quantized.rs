//! Integers with scales and zero points: quantisation, and products of bytes whose sums are exact in i32.

use tilewright_graph::rich::{Attrs, RichOp};
use tilewright_graph::{Binary, BuildResult, Builder, Data, Dim, Dtype, Fold, Unary, ValueId};

use crate::error::ImportResult;
use crate::onnx::node::Call;
use crate::onnx::ops::Outputs;
use crate::onnx::ops::contract::{kernel, window_axes};
use crate::onnx::tensor;

/// Where an operand stands in a product, and so along which axis a vector of its scales lies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    /// The left matrix: one for each row.
    Rows,
    /// The right matrix: one for each column.
    Columns,
    /// The input of a convolution: one for all.
    Image,
    /// Weights of a convolution: one for each output channel.
    Channels,
}

/// Sizes for a complaint.
fn written(call: &Call<'_, '_>, dims: &[Dim]) -> String {
    let texts: Vec<String> = dims.iter().map(|dim| dim.text(call.reader.b.axes())).collect();
    format!("[{}]", texts.join(", "))
}

/// An operand that must be of bytes.
fn bytes(call: &Call<'_, '_>, at: usize) -> ImportResult<ValueId> {
    let x = call.input(at)?;
    match call.reader.b.dtype(x) {
        Dtype::I8 | Dtype::U8 => Ok(x),
        dtype => Err(call
            .refuse(format!("operand {at} is of {dtype}"))
            .allowed("u8, i8")
            .instead("`QuantizeLinear` in front of it")),
    }
}

/// Refuses a zero point (operand `at`) of another type than operand `x`.
fn typed_zero(call: &Call<'_, '_>, at: usize, x: ValueId) -> ImportResult<()> {
    let wanted = call.reader.b.dtype(x);
    match call.maybe(at).map(|zero| call.reader.b.dtype(zero)) {
        Some(dtype) if dtype != wanted => {
            Err(call.refuse(format!("the zero point (operand {at}) is of {dtype}")).allowed(wanted.name()))
        }
        _ => Ok(()),
    }
}

/// A scale or zero point (operand `at`) as it stands beside operand `x`, whose axes it has.
fn beside(call: &mut Call<'_, '_>, at: usize, x: ValueId, side: Side) -> ImportResult<Option<ValueId>> {
    let Some(given) = call.maybe(at) else { return Ok(None) };
    let (dims, rank) = (call.reader.b.dims(given).to_vec(), call.reader.b.rank(x));
    if dims.iter().all(|dim| dim.is(1)) {
        return call.build(|b| b.reshape(given, &[])).map(Some);
    }
    let summed = match side {
        Side::Rows => rank.checked_sub(1),
        Side::Columns => rank.checked_sub(2),
        Side::Image | Side::Channels => None,
    };
    let is_whole = dims.len() == rank && summed.is_some_and(|axis| dims[axis].is(1));
    let column = match (side, dims.len()) {
        (Side::Rows, 1) if rank > 1 => vec![dims[0].clone(), Dim::fixed(1)],
        (Side::Columns, 1) if rank > 1 => dims,
        (Side::Channels, 1) => {
            let mut column = dims;
            column.resize(rank, Dim::fixed(1));
            column
        }
        _ if is_whole => dims,
        _ => {
            let what = format!("operand {at} has sizes {}", written(call, &dims));
            return Err(call.refuse(what).allowed(match side {
                Side::Rows => "one element, or one for each row of the left matrix",
                Side::Columns => "one element, or one for each column of the right matrix",
                Side::Image => "one element",
                Side::Channels => "one element, or one for each output channel",
            }));
        }
    };
    call.build(|b| b.reshape(given, &column)).map(Some)
}

/// Zero points that are constants.
fn known_zeros(call: &Call<'_, '_>, at: usize) -> Option<Vec<i64>> {
    let id = call.maybe(at)?;
    match call.reader.b.constant_data(id)? {
        Data::Stored(name) => {
            let stored = call.reader.store.tensors.get(name)?;
            let is_signed = stored.dtype == Dtype::I8;
            let number = |byte: &u8| if is_signed { i64::from(byte.cast_signed()) } else { i64::from(*byte) };
            Some(stored.bytes().iter().map(number).collect())
        }
        _ => call.reader.b.numbers(id),
    }
}

/// An operand of bytes minus its zero point, as i32. Where what is left is of i8 it is written so: engines
/// multiply such bytes as they are.
fn shifted(call: &mut Call<'_, '_>, at: usize, zero: usize, side: Side) -> ImportResult<ValueId> {
    let x = bytes(call, at)?;
    typed_zero(call, zero, x)?;
    let dtype = call.reader.b.dtype(x);
    let middle = if dtype == Dtype::U8 { 128 } else { 0 };
    let is_middle = known_zeros(call, zero).is_some_and(|zeros| zeros.iter().all(|number| *number == middle));
    let zero = beside(call, zero, x, side)?;
    call.build(|b| {
        let wide = b.convert(x, Dtype::I32)?;
        let Some(zero) = zero.filter(|_| !is_middle || middle > 0) else { return Ok(wide) };
        let zero = b.convert(zero, Dtype::I32)?;
        let left = b.sub(wide, zero)?;
        if !is_middle {
            return Ok(left);
        }
        let narrow = b.convert(left, Dtype::I8)?;
        b.convert(narrow, Dtype::I32)
    })
}

/// Bytes as i8, and what each of them lacks to the operand minus its zero point.
struct OffsetBytes {
    value: ValueId,
    /// One number, of i32.
    missing: ValueId,
}

/// Operand `at` in bytes that lack a number, if operand `weights` is a constant of bytes that lack none:
/// `(x + missing) w` is `x w` and, for each column of `w`, its sum `missing` times.
fn offset_bytes(
    call: &mut Call<'_, '_>,
    (at, zero): (usize, usize),
    (weights, weights_zero): (usize, usize),
) -> ImportResult<Option<OffsetBytes>> {
    let (x, w) = (bytes(call, at)?, bytes(call, weights)?);
    typed_zero(call, zero, x)?;
    typed_zero(call, weights_zero, w)?;
    let middle = |id: ValueId| if call.reader.b.dtype(id) == Dtype::U8 { 128 } else { 0 };
    let zeros = |at: usize| match call.maybe(at) {
        None => Some(vec![0]),
        Some(_) => known_zeros(call, at),
    };
    let is_constant = call.reader.b.constant_data(w).is_some();
    let lacks_none = zeros(weights_zero).is_some_and(|zeros| zeros.iter().all(|zero| *zero == middle(w)));
    let lacks_none_too = zeros(zero).is_some_and(|zeros| zeros.iter().all(|zero| *zero == middle(x)));
    let zero = call.maybe(zero);
    let is_one = zero.is_none_or(|zero| call.reader.b.dims(zero).iter().all(|dim| dim.is(1)));
    if !is_constant || !lacks_none || lacks_none_too || !is_one {
        return Ok(None);
    }
    let middle = middle(x);
    call.build(|b| {
        let missing = b.number(Dim::fixed(middle), Dtype::I32)?;
        let missing = match zero {
            None => missing,
            Some(zero) => {
                let zero = b.reshape(zero, &[])?;
                let zero = b.convert(zero, Dtype::I32)?;
                b.sub(missing, zero)?
            }
        };
        if middle == 0 {
            return Ok(Some(OffsetBytes { value: x, missing }));
        }
        let wide = b.convert(x, Dtype::I32)?;
        let left = b.with(Binary::Sub, wide, 128.0)?;
        Ok(Some(OffsetBytes { value: b.convert(left, Dtype::I8)?, missing }))
    })
}

impl OffsetBytes {
    /// Sums with what was missing in each of them: over `axes` of the weights, which leave these sizes.
    fn completed(
        &self,
        b: &mut Builder,
        (sums, w): (ValueId, ValueId),
        axes: &[usize],
        column: &[Dim],
    ) -> BuildResult<ValueId> {
        let of_weights = b.reduce(Fold::Sum, w, axes, false)?;
        let missing = b.mul(of_weights, self.missing)?;
        let missing = b.reshape(missing, column)?;
        b.add(sums, missing)
    }
}

/// The product of two matrices, each an operand with its zero point.
fn multiplied(call: &mut Call<'_, '_>, left: (usize, usize), right: (usize, usize)) -> ImportResult<ValueId> {
    let (x, y) = (call.input(left.0)?, call.input(right.0)?);
    let is_plain = call.reader.b.rank(x) >= 2 && call.reader.b.rank(y) == 2;
    let offset = if is_plain { offset_bytes(call, left, right)? } else { None };
    let y = shifted(call, right.0, right.1, Side::Columns)?;
    let x = match &offset {
        Some(offset) => call.build(|b| b.convert(offset.value, Dtype::I32))?,
        None => shifted(call, left.0, left.1, Side::Rows)?,
    };
    let sums = call.rich_on(RichOp::Matmul, &[Some(x), Some(y)], Attrs::default())?;
    let sums = sums.first().copied().unwrap_or(x);
    let Some(offset) = offset else { return Ok(sums) };
    call.build(|b| {
        let columns = [b.dim(y, 1)?];
        offset.completed(b, (sums, y), &[0], &columns)
    })
}

/// The convolution of an image with weights, each an operand with its zero point.
fn convolved(
    call: &mut Call<'_, '_>,
    image: (usize, usize),
    weights: (usize, usize),
    bias: Option<ValueId>,
) -> ImportResult<ValueId> {
    let (x, w) = (call.input(image.0)?, call.input(weights.0)?);
    let sizes = kernel(call, w)?;
    let (strides, dilations, pads) = window_axes(call, x, &sizes)?;
    let is_plain = pads.iter().all(|pad| *pad >= 0) && call.reader.b.rank(x) == sizes.len() + 2;
    let offset = if is_plain { offset_bytes(call, image, weights)? } else { None };
    let w = shifted(call, weights.0, weights.1, Side::Channels)?;
    let attrs = Attrs::default().ints("strides", &strides).ints("dilations", &dilations);
    let attrs = attrs.int("groups", call.int("group", 1));
    let Some(offset) = offset else {
        let x = shifted(call, image.0, image.1, Side::Image)?;
        let y = call.rich_on(RichOp::Conv, &[Some(x), Some(w), bias], attrs.ints("pads", &pads))?;
        return Ok(y.first().copied().unwrap_or(x));
    };
    // Padding is the zero point, which lacks as much as all others.
    let padded = call.build(|b| {
        let nothing = b.unary(Unary::Neg, offset.missing)?;
        let nothing = b.convert(nothing, Dtype::I8)?;
        let mut x = offset.value;
        for axis in 0..sizes.len() {
            let (low, high) = (pads[axis], pads[sizes.len() + axis]);
            x = b.pad(x, axis + 2, low.into(), high.into(), nothing)?;
        }
        b.convert(x, Dtype::I32)
    })?;
    let y = call.rich_on(RichOp::Conv, &[Some(padded), Some(w)], attrs)?;
    let y = y.first().copied().unwrap_or(padded);
    call.build(|b| {
        let mut column = vec![Dim::fixed(1); sizes.len() + 1];
        column[0] = b.dim(w, 0)?;
        let axes: Vec<usize> = (1..b.rank(w)).collect();
        let y = offset.completed(b, (y, w), &axes, &column)?;
        let Some(bias) = bias else { return Ok(y) };
        let bias = b.reshape(bias, &column)?;
        b.add(y, bias)
    })
}

/// Integers minus their zero points, as i32, then the float operator's rule.
pub(super) fn integer(call: &mut Call<'_, '_>) -> Outputs {
    if call.node.op == "MatMulInteger" {
        return Ok(vec![multiplied(call, (0, 2), (1, 3))?]);
    }
    Ok(vec![convolved(call, (0, 2), (1, 3), None)?])
}

/// A scale as f32 beside a result.
fn scale(call: &mut Call<'_, '_>, at: usize, x: ValueId, side: Side) -> ImportResult<ValueId> {
    call.input(at)?;
    let scale = beside(call, at, x, side)?.map_or_else(|| call.input(at), Ok)?;
    call.build(|b| b.convert(scale, Dtype::F32))
}

/// Sums of i32 times what a step of the operands is worth in steps of the result, rounded to even, plus the
/// zero point of the result (operand 7), clamped to its type.
fn requantized(call: &mut Call<'_, '_>, sums: ValueId, scales: [ValueId; 2]) -> Outputs {
    let y_scale = scale(call, 6, sums, Side::Image)?;
    bytes(call, 7)?;
    let zero = beside(call, 7, sums, Side::Image)?.map_or_else(|| call.input(7), Ok)?;
    Ok(vec![call.build(|b| {
        let dtype = b.dtype(zero);
        let factor = b.mul(scales[0], scales[1])?;
        let factor = b.div(factor, y_scale)?;
        let wide = b.convert(sums, Dtype::F32)?;
        let steps = b.mul(wide, factor)?;
        let steps = b.unary(Unary::Round, steps)?;
        let zero = b.convert(zero, Dtype::F32)?;
        let steps = b.add(steps, zero)?;
        clamped(b, steps, dtype)
    })?])
}

fn clamped(b: &mut Builder, x: ValueId, dtype: Dtype) -> BuildResult<ValueId> {
    #[expect(clippy::cast_precision_loss, reason = "bounds of bytes")]
    let (least, most) = dtype.integer_range().map_or((0.0, 255.0), |(low, high)| (low as f64, high as f64));
    let x = b.with(Binary::Max, x, least)?;
    let x = b.with(Binary::Min, x, most)?;
    b.convert(x, dtype)
}

pub(super) fn qlinear_matmul(call: &mut Call<'_, '_>) -> Outputs {
    let (a, b) = (call.input(0)?, call.input(3)?);
    let scales = [scale(call, 1, a, Side::Rows)?, scale(call, 4, b, Side::Columns)?];
    let sums = multiplied(call, (0, 2), (3, 5))?;
    requantized(call, sums, scales)
}

/// The bias (operand 8) is of i32, in steps of both scales.
pub(super) fn qlinear_conv(call: &mut Call<'_, '_>) -> Outputs {
    let (x, w) = (call.input(0)?, call.input(3)?);
    let x_scale = scale(call, 1, x, Side::Image)?;
    let w_scale = scale(call, 4, w, Side::Channels)?;
    // Channels of the weights are axis 0, those of the result axis 1.
    let w_scale = call.build(|b| match b.rank(w_scale) {
        0 => Ok(w_scale),
        rank => {
            let column = b.dims(w_scale)[..rank - 1].to_vec();
            b.reshape(w_scale, &column)
        }
    })?;
    let sums = convolved(call, (0, 2), (3, 5), call.maybe(8))?;
    requantized(call, sums, [x_scale, w_scale])
}

/// Operand `at`, which has an element for each block along an axis of `x`, with an element for each of `x`.
fn spread(
    call: &mut Call<'_, '_>,
    x: ValueId,
    at: usize,
    (axis, block): (usize, i64),
) -> ImportResult<Option<ValueId>> {
    let Some(given) = call.maybe(at) else { return Ok(None) };
    let own = call.reader.b.dims(x).to_vec();
    let open = || call.refuse("blocks along an axis whose size is open").allowed("a fixed size");
    let size = own[axis].as_fixed().ok_or_else(open)?;
    let block = block.min(size.max(1));
    let parts = size.div_euclid(block) + i64::from(size.rem_euclid(block) > 0);
    let mut wanted = own.clone();
    wanted[axis] = Dim::fixed(parts);
    let dims = call.reader.b.dims(given).to_vec();
    if dims != wanted {
        let (found, own) = (written(call, &dims), written(call, &own));
        let what =
            format!("operand {at} has sizes {found}, for blocks of {block} along axis {axis} of {own}");
        return Err(call.refuse(what).allowed(written(call, &wanted)));
    }
    call.build(|b| {
        let apart = b.unsqueeze(given, axis + 1)?;
        let mut stretched = b.dims(apart).to_vec();
        stretched[axis + 1] = Dim::fixed(block);
        let apart = b.broadcast(apart, &stretched)?;
        let mut joined = own.clone();
        joined[axis] = Dim::fixed(parts * block);
        let joined = b.reshape(apart, &joined)?;
        b.slice(joined, axis, 0.into(), size.into(), 1)
    })
    .map(Some)
}

/// A float type that an attribute asks for by number; 0 asks for none.
fn asked_type(call: &Call<'_, '_>, name: &str) -> ImportResult<Option<Dtype>> {
    let number = call.int(name, 0);
    if number == 0 {
        return Ok(None);
    }
    let unknown = |what| call.refuse(format!("`{name}`: {what}")).allowed(tensor::types_text());
    tensor::known_type(number).map(Some).map_err(unknown)
}

/// Scales and zero points for a tensor, an axis or blocks of one. The quotient is of the type of the scale,
/// or of `precision`.
pub(super) fn quantize(call: &mut Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    if call.node.op == "DynamicQuantizeLinear" {
        return call.rich(RichOp::DynamicQuantize, Attrs::default());
    }
    let block = call.int("block_size", 0);
    if block < 0 {
        return Err(call
            .refuse(format!("`block_size` is {block}"))
            .allowed("0, which asks for none, or more"));
    }
    let mut inputs = [Some(x), call.maybe(1), call.maybe(2)];
    if block > 0 {
        let axis = call.axis_of(x, call.int("axis", 1))?;
        inputs = [Some(x), spread(call, x, 1, (axis, block))?, spread(call, x, 2, (axis, block))?];
    }
    let attrs = Attrs::default().int("axis", call.int("axis", 1));
    let output = asked_type(call, "output_dtype")?;
    if call.node.op == "DequantizeLinear" {
        let y = call.rich_on(RichOp::Dequantize, &inputs, attrs)?;
        let y = y.first().copied().unwrap_or(x);
        return Ok(vec![call.build(|b| b.convert(y, output.unwrap_or(b.dtype(y))))?]);
    }
    let scale = inputs[1].map_or_else(|| call.input(1), Ok)?;
    let precision = asked_type(call, "precision")?.unwrap_or(call.reader.b.dtype(scale));
    if !precision.is_float() {
        return Err(call.refuse(format!("a quotient of {precision}")).allowed("a float type"));
    }
    inputs[0] = Some(call.build(|b| b.convert(x, precision))?);
    inputs[1] = Some(call.build(|b| b.convert(scale, precision))?);
    let name = output.unwrap_or(Dtype::U8).name();
    if call.int("saturate", 1) == 0
        && inputs[2].map_or(output, |zero| Some(call.reader.b.dtype(zero))) == Some(Dtype::F8E4M3)
    {
        return Err(call.refuse("f8e4m3 with `saturate` 0").allowed("1, which takes the largest number"));
    }
    call.rich_on(RichOp::Quantize, &inputs, attrs.word("dtype", name))
}
