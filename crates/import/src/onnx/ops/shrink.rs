//! Reductions, the best elements, pooling.

use tilewright_graph::rich::{Attrs, RichOp};
use tilewright_graph::{Dim, Fold, Unary, ValueId};

use crate::error::ImportResult;
use crate::onnx::node::Call;
use crate::onnx::ops::Outputs;
use crate::onnx::ops::contract::windows;

/// Axes of a reduction: an attribute, or operand 1; `None` if it does nothing.
fn axes(call: &Call<'_, '_>, x: ValueId) -> ImportResult<Option<Vec<usize>>> {
    let given = match call.ints("axes") {
        Some(axes) => Some(axes.to_vec()),
        None => call.numbers(1, "axes")?,
    };
    let given = given.unwrap_or_default();
    if given.is_empty() {
        let nothing = call.int("noop_with_empty_axes", 0) != 0;
        return Ok((!nothing).then(|| (0..call.reader.b.rank(x)).collect()));
    }
    given.iter().map(|axis| call.axis_of(x, *axis)).collect::<ImportResult<Vec<usize>>>().map(Some)
}

pub(super) fn reduce(call: &mut Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let keep = call.int("keepdims", 1) != 0;
    let axes = axes(call, x)?;
    let op = call.node.op.clone();
    Ok(vec![call.build(|b| {
        let before = match op.as_str() {
            "ReduceL1" => b.unary(Unary::Abs, x)?,
            "ReduceL2" | "ReduceSumSquare" => b.mul(x, x)?,
            _ => x,
        };
        // Without axes every element is reduced alone: what is done before and behind stays.
        let sum = match (&axes, op.as_str()) {
            (None, _) => before,
            (Some(axes), "ReduceMean") => b.mean(before, axes, keep)?,
            (Some(axes), "ReduceMax") => b.reduce(Fold::Max, before, axes, keep)?,
            (Some(axes), "ReduceMin") => b.reduce(Fold::Min, before, axes, keep)?,
            (Some(axes), "ReduceProd") => b.reduce(Fold::Prod, before, axes, keep)?,
            (Some(axes), "ReduceLogSumExp") => {
                let largest = b.reduce(Fold::Max, before, axes, true)?;
                let shifted = b.sub(before, largest)?;
                let exponentials = b.unary(Unary::Exp, shifted)?;
                let sum = b.reduce(Fold::Sum, exponentials, axes, keep)?;
                let logarithm = b.unary(Unary::Ln, sum)?;
                let largest = b.reduce(Fold::Max, before, axes, keep)?;
                b.add(logarithm, largest)?
            }
            (Some(axes), _) => b.reduce(Fold::Sum, before, axes, keep)?,
        };
        match op.as_str() {
            "ReduceL2" => b.unary(Unary::Sqrt, sum),
            "ReduceLogSum" => b.unary(Unary::Ln, sum),
            _ => Ok(sum),
        }
    })?])
}

pub(super) fn arg(call: &mut Call<'_, '_>) -> Outputs {
    let attrs = Attrs::default()
        .int("axis", call.int("axis", 0))
        .int("keep", call.int("keepdims", 1))
        .int("last", call.int("select_last_index", 0))
        .int("least", i64::from(call.node.op == "ArgMin"));
    call.rich(RichOp::ArgBest, attrs)
}

pub(super) fn topk(call: &mut Call<'_, '_>) -> Outputs {
    let k = match call.numbers(1, "k")? {
        Some(k) => k.first().copied(),
        // Before opset 10.
        None => call.attribute("k").map(|attribute| attribute.i),
    };
    let k = k.ok_or_else(|| call.refuse("k is missing"))?;
    let attrs = Attrs::default()
        .int("axis", call.int("axis", -1))
        .int("k", k)
        .int("least", i64::from(call.int("largest", 1) == 0));
    let x = call.maybe(0);
    call.rich_on(RichOp::TopK, &[x], attrs)
}

pub(super) fn pool(call: &mut Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let sizes = call.ints("kernel_shape").map(<[i64]>::to_vec).unwrap_or_default();
    let attrs = windows(call, x, &sizes)?.ints("kernel", &sizes).int("ceil", call.int("ceil_mode", 0));
    if call.node.op == "MaxPool" {
        return call.rich(RichOp::MaxPool, attrs.int("columns", call.int("storage_order", 0)));
    }
    call.rich(RichOp::AvgPool, attrs.int("count_pads", call.int("count_include_pad", 0)))
}

/// Of the whole image if the operator says so.
pub(super) fn lp_pool(call: &mut Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let attrs = if call.node.op == "GlobalLpPool" {
        let sizes: Option<Vec<i64>> = call.reader.b.dims(x).iter().skip(2).map(Dim::as_fixed).collect();
        let sizes = sizes.ok_or_else(|| call.refuse("an image of an open size").allowed("fixed sizes"))?;
        Attrs::default().ints("kernel", &sizes)
    } else {
        let sizes = call.ints("kernel_shape").map(<[i64]>::to_vec).unwrap_or_default();
        windows(call, x, &sizes)?.ints("kernel", &sizes).int("ceil", call.int("ceil_mode", 0))
    };
    call.rich(RichOp::LpPool, attrs.int("p", call.int("p", 2)))
}

pub(super) fn global_pool(call: &mut Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let axes: Vec<usize> = (2..call.reader.b.rank(x)).collect();
    let largest = call.node.op == "GlobalMaxPool";
    Ok(vec![
        call.build(|b| if largest { b.reduce(Fold::Max, x, &axes, true) } else { b.mean(x, &axes, true) })?,
    ])
}
