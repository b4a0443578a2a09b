//! Activation functions.

use tilewright_base::invariant::OrBroken;
use tilewright_graph::rich::{Attrs, RichOp};
use tilewright_graph::{Binary, BuildResult, Builder, Dim, Dtype, Unary, ValueId};

use crate::onnx::node::Call;
use crate::onnx::ops::Outputs;

pub(super) fn rich(call: &mut Call<'_, '_>) -> Outputs {
    let (rich, alpha) = match call.node.op.as_str() {
        "Relu" => (RichOp::Relu, None),
        "LeakyRelu" => (RichOp::LeakyRelu, Some(0.01)),
        "PRelu" => (RichOp::Prelu, None),
        "Elu" => (RichOp::Elu, Some(1.0)),
        "Selu" => (RichOp::Selu, Some(1.673_263_2)),
        "HardSigmoid" => (RichOp::HardSigmoid, Some(0.2)),
        "HardSwish" => (RichOp::HardSwish, None),
        "Softplus" => (RichOp::Softplus, None),
        "Mish" => (RichOp::Mish, None),
        "Swish" => (RichOp::Silu, Some(1.0)),
        _ => (RichOp::Gelu, None),
    };
    let mut attrs = Attrs::default();
    if let Some(alpha) = alpha {
        attrs = attrs.float("alpha", call.float("alpha", alpha));
    }
    if rich == RichOp::Gelu {
        attrs = attrs.word("approximate", &call.word("approximate", "none"));
    }
    if rich == RichOp::Selu {
        attrs = attrs.float("gamma", call.float("gamma", 1.050_701));
    }
    if rich == RichOp::HardSigmoid {
        attrs = attrs.float("beta", call.float("beta", 0.5));
    }
    call.rich(rich, attrs)
}

/// Those that are a few primitives.
pub(super) fn simple(call: &mut Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let dtype = call.reader.b.dtype(x);
    if !dtype.is_float() {
        let op = &call.node.op;
        return Err(call
            .refuse(format!("{op} of {dtype}"))
            .allowed("a float type")
            .instead("`Cast` to float in front of it"));
    }
    let alpha = f64::from(call.float("alpha", 1.0));
    let (bias, threshold) = (f64::from(call.float("bias", 0.0)), f64::from(call.float("lambd", 0.5)));
    let op = call.node.op.clone();
    Ok(vec![call.build(|b| match op.as_str() {
        "Celu" => celu(b, x, alpha),
        "Softsign" => softsign(b, x),
        "ThresholdedRelu" => thresholded(b, x, alpha),
        _ => shrunk(b, x, bias, threshold),
    })?])
}

/// max(x, 0) + min(0, alpha (exp(x / alpha) - 1)).
fn celu(b: &mut Builder, x: ValueId, alpha: f64) -> BuildResult<ValueId> {
    let low = b.with(Binary::Div, x, alpha)?;
    let low = b.unary(Unary::Exp, low)?;
    let low = b.with(Binary::Sub, low, 1.0)?;
    let low = b.with(Binary::Mul, low, alpha)?;
    let low = b.with(Binary::Min, low, 0.0)?;
    let high = b.with(Binary::Max, x, 0.0)?;
    b.add(high, low)
}

/// x / (1 + |x|).
pub(super) fn softsign(b: &mut Builder, x: ValueId) -> BuildResult<ValueId> {
    let size = b.unary(Unary::Abs, x)?;
    let size = b.with(Binary::Add, size, 1.0)?;
    b.div(x, size)
}

/// What is above a threshold; zero elsewhere.
pub(super) fn thresholded(b: &mut Builder, x: ValueId, threshold: f64) -> BuildResult<ValueId> {
    let above = b.with(Binary::Gt, x, threshold)?;
    let zero = b.scalar(b.dtype(x), 0.0)?;
    b.select(above, x, zero)
}

/// What is farther from zero than a threshold, moved towards zero; zero elsewhere.
fn shrunk(b: &mut Builder, x: ValueId, bias: f64, threshold: f64) -> BuildResult<ValueId> {
    let (below, above) = (b.with(Binary::Lt, x, -threshold)?, b.with(Binary::Gt, x, threshold)?);
    let (up, down) = (b.with(Binary::Add, x, bias)?, b.with(Binary::Sub, x, bias)?);
    let zero = b.scalar(b.dtype(x), 0.0)?;
    let high = b.select(above, down, zero)?;
    b.select(below, up, high)
}

/// One at the first of the largest elements along an axis, zero elsewhere. Before opset 13 over all axes from
/// `axis` on.
pub(super) fn hardmax(call: &mut Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let rank = call.reader.b.rank(x);
    let is_old = call.reader.opset < 13;
    let axis = call.axis_of(x, call.int("axis", if is_old { 1 } else { -1 }))?;
    let dims = call.reader.b.dims(x).to_vec();
    let rows = if is_old { axis..rank } else { axis..axis + 1 };
    let size = Dim::product(&dims[rows.clone()])
        .ok_or_else(|| call.refuse("sizes whose product has too many terms"))?;
    let mut flat = dims.clone();
    flat.splice(rows, [size.clone()]);
    let x = call.build(|b| b.reshape(x, &flat))?;
    let at = i64::try_from(axis).or_broken("ranks fit 64 bits");
    let best = call.rich_on(RichOp::ArgBest, &[Some(x)], Attrs::default().int("axis", at).int("keep", 1))?;
    let best = best.first().copied().or_broken("an operator has a result");
    Ok(vec![call.build(|b| {
        let mut column = vec![Dim::fixed(1); flat.len()];
        column[axis] = size;
        let places = b.iota(Dtype::I64, &column, axis)?;
        let here = b.binary(Binary::Eq, places, best)?;
        let y = b.convert(here, b.dtype(x))?;
        b.reshape(y, &dims)
    })?])
}
