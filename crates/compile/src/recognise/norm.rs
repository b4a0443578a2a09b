//! `x / sqrt(mean(x * x) + eps) * gain`, with the root as a divisor or as a factor.

use tilewright_graph::rich::{Attrs, RichOp};
use tilewright_graph::{Binary, Fold, Node, Op, Unary, ValueId};

use super::near_miss::{MeanMiss, NearMiss};
use super::view::{GraphView, either, operand, pair};
use super::{PatternMatch, Rewrite};

pub(super) fn rms_norm(view: &GraphView<'_>, node: &Node) -> PatternMatch {
    let (Op::Binary(Binary::Mul), Some(operands)) = (&node.op, pair(node)) else { return PatternMatch::No };
    for (gain, normal) in either(operands) {
        if !view.is_constant(gain) || view.dims(gain).len() != 1 {
            continue;
        }
        let Some((x, sum)) = over_root(view, normal) else { continue };
        return match epsilon(view, x, sum) {
            Ok(eps) => {
                let attrs = Attrs::default().int("axis", -1).float("eps", eps);
                PatternMatch::Becomes(Box::new(Rewrite::new(Op::Rich(RichOp::RmsNorm, attrs), &[x, gain])))
            }
            Err(why) => PatternMatch::Near(why),
        };
    }
    PatternMatch::No
}

/// `x` and `a` of `x / sqrt(a)`.
pub(super) fn over_root(view: &GraphView<'_>, value: ValueId) -> Option<(ValueId, ValueId)> {
    if let Some((x, root)) = view.binary(value, Binary::Div) {
        return Some((x, view.unary(root, Unary::Sqrt)?));
    }
    let operands = view.binary(value, Binary::Mul)?;
    either(operands).into_iter().find_map(|(x, factor)| {
        if let Some(sum) = view.unary(factor, Unary::Rsqrt) {
            return Some((x, sum));
        }
        let root = view.unary(factor, Unary::Recip).or_else(|| {
            let (one, root) = view.binary(factor, Binary::Div)?;
            (view.number(one) == Some(1.0)).then_some(root)
        })?;
        Some((x, view.unary(root, Unary::Sqrt)?))
    })
}

/// What a mean over the last axis is of.
pub(super) fn mean_of(view: &GraphView<'_>, mean: ValueId) -> Result<ValueId, MeanMiss> {
    let (total, count) = view.binary(mean, Binary::Div).ok_or(MeanMiss::NoQuotient)?;
    let Some(Node { op: Op::Reduce { fold: Fold::Sum, axes, keep: true }, inputs, .. }) = view.maker(total)
    else {
        return Err(MeanMiss::NoSum);
    };
    let of = inputs.first().copied().flatten().ok_or(MeanMiss::NoOperand)?;
    let last = view.dims(of).len().saturating_sub(1);
    #[expect(clippy::cast_precision_loss, reason = "widths are far below 2^24")]
    let width = view.dims(of).last().and_then(tilewright_graph::Dim::as_fixed).map(|width| width as f32);
    if width.is_none() || view.number(count) != width {
        return Err(MeanMiss::OtherDivisor);
    }
    if axes[..] == [last] { Ok(of) } else { Err(MeanMiss::OtherAxes) }
}

/// What is added to the mean of the squares of `x`.
pub(super) fn epsilon(view: &GraphView<'_>, x: ValueId, sum: ValueId) -> Result<f32, NearMiss> {
    let operands = view.binary(sum, Binary::Add).ok_or(NearMiss::NoEpsilon)?;
    let found = either(operands).into_iter().find_map(|(mean, eps)| Some((mean, view.number(eps)?)));
    let (mean, eps) = found.ok_or(NearMiss::EpsilonComputed)?;
    let squares = mean_of(view, mean)?;
    let powers = view.binary(squares, Binary::Pow);
    let powers = powers.is_some_and(|(base, two)| base == x && view.number(two) == Some(2.0));
    if !powers && view.binary(squares, Binary::Mul) != Some((x, x)) {
        let made = view.maker(squares).and_then(|node| operand(node, 0));
        return Err(NearMiss::Squares { of: made.map(|value| view.name(value)) });
    }
    Ok(eps)
}
