//! Operators that work element by element.

use tilewright_graph::rich::{Attrs, RichOp};
use tilewright_graph::{Binary, Dtype, Unary, ValueId};

use crate::onnx::node::Call;
use crate::onnx::ops::Outputs;
use crate::onnx::tensor;

pub(super) fn unary(call: &mut Call<'_, '_>) -> Outputs {
    let op = match call.node.op.as_str() {
        "Neg" => Unary::Neg,
        "Abs" => Unary::Abs,
        "Exp" => Unary::Exp,
        "Log" => Unary::Ln,
        "Sqrt" => Unary::Sqrt,
        "Reciprocal" => Unary::Recip,
        "Sin" => Unary::Sin,
        "Cos" => Unary::Cos,
        "Tanh" => Unary::Tanh,
        "Sigmoid" => Unary::Sigmoid,
        "Erf" => Unary::Erf,
        "Floor" => Unary::Floor,
        "Ceil" => Unary::Ceil,
        "Round" => Unary::Round,
        "Sign" => Unary::Sign,
        "IsNaN" => Unary::IsNan,
        "IsInf" => Unary::IsInf,
        _ => Unary::Not,
    };
    if op == Unary::IsInf {
        return infinite(call);
    }
    let x = call.input(0)?;
    Ok(vec![call.build(|b| b.unary(op, x))?])
}

/// Infinities of either sign, of one, or of none.
fn infinite(call: &mut Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let (below, above) = (call.int("detect_negative", 1) != 0, call.int("detect_positive", 1) != 0);
    Ok(vec![call.build(|b| {
        let found = b.unary(Unary::IsInf, x)?;
        let side = match (below, above) {
            (true, true) => return Ok(found),
            (true, false) => b.with(Binary::Lt, x, 0.0)?,
            (false, true) => b.with(Binary::Gt, x, 0.0)?,
            (false, false) => b.unary(Unary::Not, found)?,
        };
        b.binary(Binary::And, found, side)
    })?])
}

pub(super) fn binary(call: &mut Call<'_, '_>) -> Outputs {
    let op = match call.node.op.as_str() {
        "Add" => Binary::Add,
        "Sub" => Binary::Sub,
        "Mul" => Binary::Mul,
        "Div" => Binary::Div,
        "And" => Binary::And,
        "Or" => Binary::Or,
        "Xor" => Binary::Xor,
        "Equal" => Binary::Eq,
        "Less" => Binary::Lt,
        "LessOrEqual" => Binary::Le,
        "Greater" => Binary::Gt,
        _ => Binary::Ge,
    };
    let (x, y) = (call.input(0)?, call.input(1)?);
    Ok(vec![call.build(|b| b.binary(op, x, y))?])
}

/// The exponent may have another type; integers are raised as floats if it is a float.
pub(super) fn pow(call: &mut Call<'_, '_>) -> Outputs {
    let (x, y) = (call.input(0)?, call.input(1)?);
    Ok(vec![call.build(|b| {
        let dtype = b.dtype(x);
        if !dtype.is_float() && b.dtype(y).is_float() {
            let wide = b.convert(x, b.dtype(y))?;
            let power = b.binary(Binary::Pow, wide, y)?;
            return b.convert(power, dtype);
        }
        let y = b.convert(y, dtype)?;
        b.binary(Binary::Pow, x, y)
    })?])
}

pub(super) fn modulo(call: &mut Call<'_, '_>) -> Outputs {
    let op = if call.int("fmod", 0) == 1 { Binary::Rem } else { Binary::Mod };
    let (x, y) = (call.input(0)?, call.input(1)?);
    Ok(vec![call.build(|b| b.binary(op, x, y))?])
}

pub(super) fn variadic(call: &mut Call<'_, '_>) -> Outputs {
    let op = match call.node.op.as_str() {
        "Max" => Binary::Max,
        "Min" => Binary::Min,
        _ => Binary::Add,
    };
    let mut sum = call.input(0)?;
    let count = call.inputs.len();
    for at in 1..count {
        let next = call.input(at)?;
        sum = call.build(|b| b.binary(op, sum, next))?;
    }
    if call.node.op == "Mean" {
        #[expect(clippy::cast_precision_loss, reason = "a number of operands")]
        let count = count as f64;
        sum = call.build(|b| b.with(Binary::Div, sum, count))?;
    }
    Ok(vec![sum])
}

pub(super) fn select(call: &mut Call<'_, '_>) -> Outputs {
    let (c, x, y) = (call.input(0)?, call.input(1)?, call.input(2)?);
    Ok(vec![call.build(|b| b.select(c, x, y))?])
}

pub(super) fn cast(call: &mut Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let dtype = tensor::known_type(call.int("to", 1))
        .map_err(|what| call.refuse(what).allowed(tensor::types_text()))?;
    converted(call, x, dtype)
}

pub(super) fn cast_like(call: &mut Call<'_, '_>) -> Outputs {
    let (x, like) = (call.input(0)?, call.input(1)?);
    let dtype = call.reader.b.dtype(like);
    converted(call, x, dtype)
}

/// The largest number that is rounded to one of f8e4m3.
const LAST_FLOAT8: f64 = 464.0;

/// What f8e4m3 has no number for becomes its largest, or NaN if `saturate` is 0.
fn converted(call: &mut Call<'_, '_>, x: ValueId, dtype: Dtype) -> Outputs {
    let is_cut = call.int("saturate", 1) == 0 && dtype == Dtype::F8E4M3;
    Ok(vec![call.build(|b| {
        if !is_cut {
            return b.convert(x, dtype);
        }
        let wide = b.convert(x, Dtype::F32)?;
        let size = b.unary(Unary::Abs, wide)?;
        let is_beyond = b.with(Binary::Gt, size, LAST_FLOAT8)?;
        let nothing = b.scalar(Dtype::F32, f64::NAN)?;
        let kept = b.select(is_beyond, nothing, wide)?;
        b.convert(kept, dtype)
    })?])
}

/// The same bits as another type: of integers of as many bits, and of bool as a byte.
pub(super) fn bit_cast(call: &mut Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let to = tensor::known_type(call.int("to", 0));
    let to = to.map_err(|what| call.refuse(what).allowed(tensor::types_text()))?;
    let from = call.reader.b.dtype(x);
    let keeps_bits = from == to || (!from.is_float() && to.is_integer() && from.bits() == to.bits());
    if !keeps_bits {
        return Err(call
            .refuse(format!("the bits of {from} as {to}"))
            .allowed("integers of as many bits, bool as u8 or i8")
            .instead("`Cast`, which converts numbers"));
    }
    Ok(vec![call.build(|b| b.convert(x, to))?])
}
/// Bounds are operands; before opset 11 they were attributes.
pub(super) fn clip(call: &mut Call<'_, '_>) -> Outputs {
    for (at, name) in [(1, "min"), (2, "max")] {
        if let Some(bound) = call.attribute(name).map(|attribute| f64::from(attribute.f)) {
            let x = call.input(0)?;
            let bound = call.build(|b| b.scalar(b.dtype(x), bound))?;
            call.inputs.resize(call.inputs.len().max(at + 1), None);
            call.inputs[at] = Some(bound);
        }
    }
    call.rich(RichOp::Clip, Attrs::default())
}
