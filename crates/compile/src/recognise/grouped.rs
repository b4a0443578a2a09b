//! Attention as stage 1 writes it: queries times a factor, by groups of heads that share keys, scores that a
//! mask hides, and a softmax that gives zeros where it hides a whole row.

use tilewright_graph::rich::{Attrs, RichOp};
use tilewright_graph::{Binary, Fold, Node, Op, Type, Unary, ValueId};

use super::near_miss::NearMiss;
use super::view::{GraphView, operand, pair};
use super::{PatternMatch, Rewrite};

const SCORES: &str = "bhgqd,bhkd->bhgqk";
const SUMS: &str = "bhgqk,bhkd->bhgqd";

pub(super) fn attention(view: &GraphView<'_>, node: &Node) -> PatternMatch {
    let product = operand(node, 0).filter(|_| matches!(node.op, Op::Reshape(_)));
    let Some((grouped, values)) = product.and_then(|value| einsum(view, value, SUMS)) else {
        return PatternMatch::No;
    };
    let Some(probs) = view.reshaped(grouped) else { return PatternMatch::No };
    let Some(scores) = softmax(view, probs) else {
        return PatternMatch::Near(NearMiss::NoSoftmax);
    };
    let (scores, mask) = masked(view, scores);
    let Some((queries, keys, scale)) = product_of_keys(view, scores) else {
        return PatternMatch::Near(NearMiss::NoScores);
    };
    let mut inputs = vec![queries, keys, values];
    inputs.extend(mask);
    let attrs = Attrs::default().float("scale", scale);
    let mut rewrite = Rewrite::new(Op::Rich(RichOp::Attention, attrs), &inputs);
    let Some(dtype) = view.graph.value(scores).map(|value| value.ty.dtype) else { return PatternMatch::No };
    rewrite.extra = vec![Type::new(dtype, view.dims(scores).to_vec())];
    PatternMatch::Becomes(Box::new(rewrite))
}

fn einsum(view: &GraphView<'_>, value: ValueId, wanted: &str) -> Option<(ValueId, ValueId)> {
    let node = view.maker(value)?;
    matches!(&node.op, Op::Einsum(spec) if spec == wanted).then(|| pair(node)).flatten()
}

/// Queries, keys and the factor of `[b, h g, q, k]` scores.
fn product_of_keys(view: &GraphView<'_>, scores: ValueId) -> Option<(ValueId, ValueId, f32)> {
    let (grouped, keys) = einsum(view, view.reshaped(scores)?, SCORES)?;
    let (queries, factor) = view.binary(view.reshaped(grouped)?, Binary::Mul)?;
    Some((queries, keys, view.number(factor)?))
}

/// Scores before a mask, if there is one: bools that choose, or floats that are added.
fn masked(view: &GraphView<'_>, value: ValueId) -> (ValueId, Option<ValueId>) {
    if let Some((mask, scores, hidden)) = select(view, value)
        && view.number(hidden) == Some(f32::NEG_INFINITY)
    {
        return (scores, Some(mask));
    }
    match view.binary(value, Binary::Add) {
        Some((scores, mask)) => (scores, Some(mask)),
        None => (value, None),
    }
}

fn select(view: &GraphView<'_>, value: ValueId) -> Option<(ValueId, ValueId, ValueId)> {
    let node = view.maker(value).filter(|node| node.op == Op::Select)?;
    Some((operand(node, 0)?, operand(node, 1)?, operand(node, 2)?))
}

/// What a softmax over the last axis is of, if rows without a score become zeros.
fn softmax(view: &GraphView<'_>, probs: ValueId) -> Option<ValueId> {
    let (exponentials, divisor) = view.binary(probs, Binary::Div)?;
    let (scores, largest) = view.binary(view.unary(exponentials, Unary::Exp)?, Binary::Sub)?;
    let (hidden, one, sum) = select(view, divisor)?;
    let (same, zero, row_max) = select(view, largest)?;
    let (row, nothing) = view.binary(hidden, Binary::Eq)?;
    let numbers = [one, zero, nothing].map(|value| view.number(value));
    let fits = numbers == [Some(1.0), Some(0.0), Some(f32::NEG_INFINITY)]
        && hidden == same
        && row == row_max
        && view.folded(sum, Fold::Sum) == Some(exponentials)
        && view.folded(row_max, Fold::Max) == Some(scores);
    fits.then_some(scores)
}
