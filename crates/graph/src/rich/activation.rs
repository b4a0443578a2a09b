//! Activation functions, elementwise.

use crate::build::Builder;
use crate::graph::ValueId;
use crate::infer::BuildResult;
use crate::op::{Binary, Unary};
use crate::rich::RichCall;

pub(super) fn relu(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let x = call.input(0)?;
    Ok(vec![b.with(Binary::Max, x, 0.0)?])
}

pub(super) fn silu(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let x = call.input(0)?;
    let alpha = call.float("alpha", 1.0)?;
    let scaled = if alpha == 1.0 { x } else { b.with(Binary::Mul, x, alpha)? };
    let gate = b.unary(Unary::Sigmoid, scaled)?;
    Ok(vec![b.mul(x, gate)?])
}

pub(super) fn gelu(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let x = call.input(0)?;
    let inner = match call.word("approximate", "none")? {
        "tanh" => {
            let cube = b.with(Binary::Pow, x, 3.0)?;
            let cube = b.with(Binary::Mul, cube, 0.044_715)?;
            let sum = b.add(x, cube)?;
            let scaled = b.with(Binary::Mul, sum, (2.0 / std::f64::consts::PI).sqrt())?;
            b.unary(Unary::Tanh, scaled)?
        }
        "none" => {
            let scaled = b.with(Binary::Mul, x, std::f64::consts::FRAC_1_SQRT_2)?;
            b.unary(Unary::Erf, scaled)?
        }
        _ => return call.refuse("with another `approximate`", "none, tanh"),
    };
    let inner = b.with(Binary::Add, inner, 1.0)?;
    let half = b.with(Binary::Mul, x, 0.5)?;
    Ok(vec![b.mul(half, inner)?])
}

pub(super) fn leaky_relu(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let x = call.input(0)?;
    let small = b.with(Binary::Mul, x, call.float("alpha", 0.01)?)?;
    Ok(vec![where_negative(b, x, small, x)?])
}

pub(super) fn prelu(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let (x, slope) = (call.input(0)?, call.input(1)?);
    let small = b.mul(x, slope)?;
    Ok(vec![where_negative(b, x, small, x)?])
}

fn where_negative(b: &mut Builder, x: ValueId, yes: ValueId, no: ValueId) -> BuildResult<ValueId> {
    let negative = b.with(Binary::Lt, x, 0.0)?;
    b.select(negative, yes, no)
}

/// exp(x) - 1 of what is not positive.
fn below_zero(b: &mut Builder, x: ValueId) -> BuildResult<ValueId> {
    let low = b.with(Binary::Min, x, 0.0)?;
    let exponential = b.unary(Unary::Exp, low)?;
    b.with(Binary::Sub, exponential, 1.0)
}

pub(super) fn elu(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let x = call.input(0)?;
    let low = below_zero(b, x)?;
    let low = b.with(Binary::Mul, low, call.float("alpha", 1.0)?)?;
    Ok(vec![where_negative(b, x, low, x)?])
}

pub(super) fn selu(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let x = call.input(0)?;
    let low = below_zero(b, x)?;
    let low = b.with(Binary::Mul, low, call.float("alpha", 1.673_263_2)?)?;
    let y = where_negative(b, x, low, x)?;
    Ok(vec![b.with(Binary::Mul, y, call.float("gamma", 1.050_701)?)?])
}

pub(super) fn hard_sigmoid(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let x = call.input(0)?;
    let y = b.with(Binary::Mul, x, call.float("alpha", 0.2)?)?;
    let y = b.with(Binary::Add, y, call.float("beta", 0.5)?)?;
    let y = b.with(Binary::Max, y, 0.0)?;
    Ok(vec![b.with(Binary::Min, y, 1.0)?])
}

pub(super) fn hard_swish(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let x = call.input(0)?;
    let y = b.with(Binary::Mul, x, 1.0 / 6.0)?;
    let y = b.with(Binary::Add, y, 0.5)?;
    let y = b.with(Binary::Max, y, 0.0)?;
    let y = b.with(Binary::Min, y, 1.0)?;
    Ok(vec![b.mul(x, y)?])
}

/// max(x, 0) + ln(1 + exp(-|x|)): large numbers do not overflow.
fn soft(b: &mut Builder, x: ValueId) -> BuildResult<ValueId> {
    let size = b.unary(Unary::Abs, x)?;
    let size = b.unary(Unary::Neg, size)?;
    let exponential = b.unary(Unary::Exp, size)?;
    let sum = b.with(Binary::Add, exponential, 1.0)?;
    let logarithm = b.unary(Unary::Ln, sum)?;
    let high = b.with(Binary::Max, x, 0.0)?;
    b.add(high, logarithm)
}

pub(super) fn softplus(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let x = call.input(0)?;
    Ok(vec![soft(b, x)?])
}

pub(super) fn mish(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let x = call.input(0)?;
    let y = soft(b, x)?;
    let y = b.unary(Unary::Tanh, y)?;
    Ok(vec![b.mul(x, y)?])
}

/// `clip(x, low, high)`; either may be left out.
pub(super) fn clip(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let mut x = call.input(0)?;
    if let Some(low) = call.maybe(1) {
        x = b.binary(Binary::Max, x, low)?;
    }
    if let Some(high) = call.maybe(2) {
        x = b.binary(Binary::Min, x, high)?;
    }
    Ok(vec![x])
}
