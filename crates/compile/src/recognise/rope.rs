//! Pairs of a head rotated by an angle: neighbours, or halves.

use tilewright_graph::rich::{Attrs, RichOp};
use tilewright_graph::{Binary, Node, Op, ValueId};

use super::near_miss::NearMiss;
use super::view::{GraphView, operand};
use super::{PatternMatch, Rewrite};

pub(super) fn rope(view: &GraphView<'_>, node: &Node) -> PatternMatch {
    let interleaved = matches!(node.op, Op::Reshape(_));
    let Some((real, imaginary)) = (if interleaved { neighbours(view, node) } else { halves(view, node) })
    else {
        return PatternMatch::No;
    };
    let (Some(minus), Some(plus)) = (view.binary(real, Binary::Sub), view.binary(imaginary, Binary::Add))
    else {
        return PatternMatch::No;
    };
    match rotated(view, minus, plus, interleaved) {
        Ok(inputs) => {
            let attrs = Attrs::default().int("interleaved", i64::from(interleaved));
            PatternMatch::Becomes(Box::new(Rewrite::new(Op::Rich(RichOp::Rope, attrs), &inputs)))
        }
        Err(why) => PatternMatch::Near(why),
    }
}

/// Parts of `[.., n, 2]` that became `[.., 2 n]`.
fn neighbours(view: &GraphView<'_>, node: &Node) -> Option<(ValueId, ValueId)> {
    let joined = operand(node, 0)?;
    let Node { op: Op::Concat { axis }, inputs, .. } = view.maker(joined)? else { return None };
    let [Some(real), Some(imaginary)] = inputs[..] else { return None };
    let one = view.dims(real).get(*axis)?.is(1) && *axis + 1 == view.dims(real).len();
    if !one || view.dims(joined).len() != view.dims(node.outputs.first().copied()?).len() + 1 {
        return None;
    }
    // Only an axis of one was put behind them.
    let bare = |part: ValueId| {
        let before = view.reshaped(part)?;
        (view.dims(before) == view.dims(part).split_last()?.1).then_some(before)
    };
    Some((bare(real)?, bare(imaginary)?))
}

/// Parts of `[.., n]` that became `[.., 2 n]`.
fn halves(view: &GraphView<'_>, node: &Node) -> Option<(ValueId, ValueId)> {
    let Op::Concat { axis } = node.op else { return None };
    let [Some(real), Some(imaginary)] = node.inputs[..] else { return None };
    (axis + 1 == view.dims(real).len()).then_some((real, imaginary))
}

/// `x`, cosines and sines of `a cos - b sin` and `a sin + b cos`.
fn rotated(
    view: &GraphView<'_>,
    (a_cos, b_sin): (ValueId, ValueId),
    plus: (ValueId, ValueId),
    interleaved: bool,
) -> Result<[ValueId; 3], NearMiss> {
    let product = |value: ValueId| {
        let (a, b) = view.binary(value, Binary::Mul)?;
        let sliced = |value| view.maker(value).is_some_and(|node| matches!(node.op, Op::Slice { .. }));
        if sliced(a) { Some((a, b)) } else { sliced(b).then_some((b, a)) }
    };
    let (Some((first, cos)), Some((second, sin))) = (product(a_cos), product(b_sin)) else {
        return Err(NearMiss::RotatedDifference);
    };
    let sums = (product(plus.0), product(plus.1));
    let wanted = (Some((first, sin)), Some((second, cos)));
    if sums != wanted && sums != (wanted.1, wanted.0) {
        return Err(NearMiss::RotatedSum);
    }
    let part = |value: ValueId| match view.maker(value) {
        Some(Node { op: Op::Slice { axis, start, step, .. }, inputs, .. }) => {
            Some((inputs.first().copied().flatten()?, *axis, start.clone(), *step))
        }
        _ => None,
    };
    let (Some((x, axis, start, step)), Some(other)) = (part(first), part(second)) else {
        return Err(NearMiss::RotatedParts);
    };
    let half = view.dims(first).last().cloned();
    let (stride, next) = if interleaved { (2, Some(1.into())) } else { (1, half) };
    let fits = start.is(0) && step == stride && axis + 1 == view.dims(x).len();
    if !fits || Some((x, axis, next.unwrap_or_default(), stride)) != Some(other) {
        return Err(NearMiss::HeadParts { interleaved });
    }
    Ok([x, cos, sin])
}
