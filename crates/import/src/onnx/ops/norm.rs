//! Softmax, norms and dropout.

use tilewright_graph::rich::{Attrs, RichOp};
use tilewright_graph::{Binary, Data, Dim, Dtype, Type, Unary, ValueId};

use crate::error::ImportResult;
use crate::onnx::node::Call;
use crate::onnx::ops::Outputs;

/// From opset 13 along one axis; before, over all axes from `axis` on.
pub(super) fn softmax(call: &mut Call<'_, '_>) -> Outputs {
    let rich = if call.node.op == "Softmax" { RichOp::Softmax } else { RichOp::LogSoftmax };
    if call.reader.opset >= 13 {
        return call.rich(rich, Attrs::default().int("axis", call.int("axis", -1)));
    }
    let x = call.input(0)?;
    let rank = call.reader.b.rank(x);
    let axis = call.axis_of(x, call.int("axis", 1))?;
    if axis + 1 == rank {
        return call.rich(rich, Attrs::default());
    }
    let dims = call.reader.b.dims(x).to_vec();
    let rows =
        Dim::product(&dims[axis..]).ok_or_else(|| call.refuse("sizes whose product has too many terms"))?;
    let mut flat = dims[..axis].to_vec();
    flat.push(rows);
    let x = call.build(|b| b.reshape(x, &flat))?;
    let y = call.rich_on(rich, &[Some(x)], Attrs::default())?;
    let y = y.first().copied().unwrap_or(x);
    Ok(vec![call.build(|b| b.reshape(y, &dims))?])
}

pub(super) fn rows(call: &mut Call<'_, '_>) -> Outputs {
    let attrs = Attrs::default().int("axis", call.int("axis", -1));
    let eps = call.float("epsilon", 1e-5);
    match call.node.op.as_str() {
        "LayerNormalization" => call.rich(RichOp::LayerNorm, attrs.float("eps", eps)),
        "RMSNormalization" => call.rich(RichOp::RmsNorm, attrs.float("eps", eps)),
        _ => call.rich(RichOp::LpNorm, attrs.int("p", call.int("p", 2))),
    }
}

/// The opset from which on scale and bias of `GroupNormalization` have an element for each channel; before,
/// they have one for each group.
const FIRST_CHANNEL_SCALES: i64 = 21;

/// An element for each channel of what has one for each group: scale (operand 1) or bias (operand 2).
fn of_groups(call: &mut Call<'_, '_>, at: usize, groups: i64) -> ImportResult<ValueId> {
    let (x, vector) = (call.input(0)?, call.input(at)?);
    let channels = call.built(call.reader.b.dim(x, 1))?;
    let dims = call.reader.b.dims(vector).to_vec();
    if dims == [channels.clone()] {
        return Ok(vector);
    }
    let each = channels.divided(&Dim::fixed(groups)).filter(|_| dims == [Dim::fixed(groups)]);
    let Some(each) = each else {
        let axes = call.reader.b.axes();
        let found: Vec<String> = dims.iter().map(|dim| dim.text(axes)).collect();
        let what = format!(
            "operand {at} has sizes [{}], for {groups} groups of {} channels",
            found.join(", "),
            channels.text(axes)
        );
        return Err(call.refuse(what).allowed(format!("[{groups}], and groups of as many channels each")));
    };
    call.build(|b| {
        let column = b.unsqueeze(vector, 1)?;
        let repeated = b.broadcast(column, &[Dim::fixed(groups), each])?;
        b.reshape(repeated, &[channels])
    })
}

pub(super) fn channels(call: &mut Call<'_, '_>) -> Outputs {
    let eps = call.float("epsilon", 1e-5);
    match call.node.op.as_str() {
        "InstanceNormalization" => {
            call.rich(RichOp::GroupNorm, Attrs::default().int("groups", 0).float("eps", eps))
        }
        "GroupNormalization" => {
            let groups = call.int("num_groups", 0);
            if groups < 1 {
                return Err(call
                    .refuse(format!("`num_groups` is {groups}"))
                    .allowed("a divisor of the channels, from 1"));
            }
            let inputs = if call.reader.opset < FIRST_CHANNEL_SCALES {
                let (scale, bias) = (of_groups(call, 1, groups)?, of_groups(call, 2, groups)?);
                vec![call.maybe(0), Some(scale), Some(bias)]
            } else {
                call.inputs.clone()
            };
            call.rich_on(RichOp::GroupNorm, &inputs, Attrs::default().int("groups", groups).float("eps", eps))
        }
        _ => {
            let attrs = Attrs::default()
                .int("size", call.int("size", 1))
                .float("alpha", call.float("alpha", 1e-4))
                .float("beta", call.float("beta", 0.75))
                .float("bias", call.float("bias", 1.0));
            call.rich(RichOp::Lrn, attrs)
        }
    }
}

/// Mean 0 and variance 1 over axes: the batch and an image's where nothing else is said.
pub(super) fn mean_variance(call: &mut Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let given = call.ints("axes").map_or_else(|| vec![0, 2, 3], <[i64]>::to_vec);
    let axes: Vec<usize> = given.iter().map(|axis| call.axis_of(x, *axis)).collect::<ImportResult<_>>()?;
    Ok(vec![call.build(|b| {
        let mean = b.mean(x, &axes, true)?;
        let centred = b.sub(x, mean)?;
        let squares = b.mul(centred, centred)?;
        let variance = b.mean(squares, &axes, true)?;
        let deviation = b.unary(Unary::Sqrt, variance)?;
        let deviation = b.with(Binary::Add, deviation, 1e-9)?;
        b.div(centred, deviation)
    })?])
}

pub(super) fn batch(call: &mut Call<'_, '_>) -> Outputs {
    let attrs = Attrs::default().float("eps", call.float("epsilon", 1e-5));
    if call.int("training_mode", 0) == 0 {
        return call.rich(RichOp::BatchNorm, attrs);
    }
    let momentum = f64::from(call.float("momentum", 0.9));
    let (x, mean, variance) = (call.input(0)?, call.input(3)?, call.input(4)?);
    let axes: Vec<usize> = (0..call.reader.b.rank(x)).filter(|axis| *axis != 1).collect();
    let (now_mean, now_variance) = call.build(|b| {
        let now = b.mean(x, &axes, false)?;
        let kept = b.mean(x, &axes, true)?;
        let centred = b.sub(x, kept)?;
        let squares = b.mul(centred, centred)?;
        Ok((now, b.mean(squares, &axes, false)?))
    })?;
    let inputs = [call.maybe(0), call.maybe(1), call.maybe(2), Some(now_mean), Some(now_variance)];
    let mut outputs = call.rich_on(RichOp::BatchNorm, &inputs, attrs)?;
    for (old, now) in [(mean, now_mean), (variance, now_variance)] {
        outputs.push(call.build(|b| {
            let old = b.with(Binary::Mul, old, momentum)?;
            let now = b.with(Binary::Mul, now, 1.0 - momentum)?;
            b.add(old, now)
        })?);
    }
    Ok(outputs)
}

/// Nothing is dropped when a model is used; with a ratio of zero nothing is dropped in training either.
pub(super) fn dropout(call: &mut Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let training = call.maybe(2).map(|id| call.reader.b.numbers(id));
    let nothing = matches!(call.known_floats(1, "ratios"), Ok(Some(ratio)) if ratio == [0.0]);
    let off = match training {
        None => true,
        Some(flag) => flag.is_some_and(|flag| flag == [0]),
    };
    if !off && !nothing {
        return Err(call
            .refuse("dropout in training is random")
            .allowed("training_mode false, or a ratio of 0"));
    }
    let dims = call.reader.b.dims(x).to_vec();
    let mask: ValueId = call.build(|b| {
        let kept = b.constant(Type::new(Dtype::Bool, []), Data::Ints(vec![1]))?;
        b.broadcast(kept, &dims)
    })?;
    Ok(vec![x, mask])
}
