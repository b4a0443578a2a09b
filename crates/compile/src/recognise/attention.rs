//! `softmax(q * k + mask) * v` over heads, as exporters write it or as stage 1 does.

use tilewright_base::invariant::OrBroken;
use tilewright_graph::rich::{Attr, Attrs, RichOp};
use tilewright_graph::{Binary, Dim, Fold, Node, Op, Type, Unary, ValueId};

use super::near_miss::NearMiss;
use super::view::{GraphView, either, pair, result};
use super::{PatternMatch, Rewrite};

/// What is added to scores that are hidden is at most this: their exponential is zero.
const HIDDEN: f32 = -1e4;

pub(super) fn attention(view: &GraphView<'_>, node: &Node) -> PatternMatch {
    let Some((probs, values)) = product(node) else { return PatternMatch::No };
    let Some(scores) = softmax(view, probs) else { return PatternMatch::No };
    match scores.and_then(|scores| whole(view, scores, values)) {
        Ok((inputs, scale)) => {
            let attrs = Attrs::default().float("scale", scale);
            let mut rewrite = Rewrite::new(Op::Rich(RichOp::Attention, attrs), &inputs);
            let dtype = result(node).and_then(|value| view.graph.value(value)).map(|value| value.ty.dtype);
            let Some(dtype) = dtype else { return PatternMatch::No };
            rewrite.extra = vec![Type::new(dtype, view.dims(probs).to_vec())];
            PatternMatch::Becomes(Box::new(rewrite))
        }
        Err(why) => PatternMatch::Near(NearMiss::Attention(why)),
    }
}

type MatchedAttention = (Vec<ValueId>, f32);

/// Two operands of a product of matrices for each head, or of the einsum that stage 1 writes for one.
fn product(node: &Node) -> Option<(ValueId, ValueId)> {
    let fits = match &node.op {
        Op::Rich(RichOp::Matmul, _) => true,
        Op::Einsum(spec) => spec == "abNK,abKM->abNM",
        _ => false,
    };
    pair(node).filter(|_| fits)
}

/// What a softmax is of, which must be over the last of four axes; none if a value is made by something else.
/// Stage 1 writes it out.
fn softmax(view: &GraphView<'_>, probs: ValueId) -> Option<Result<ValueId, &'static str>> {
    let (scores, last) = match view.rich(probs, RichOp::Softmax) {
        Some(Node { op: Op::Rich(_, attrs), inputs, .. }) => {
            let scores = inputs.first().copied().flatten()?;
            let rank = i64::try_from(view.dims(scores).len()).or_broken("a rank fits 63 bits");
            let last = match attrs.0.get("axis") {
                None => true,
                Some(Attr::Int(axis)) => *axis == -1 || *axis == rank - 1,
                _ => false,
            };
            (scores, last)
        }
        _ => (written_out(view, probs)?, true),
    };
    let fits = last && view.dims(scores).len() == 4;
    Some(if fits {
        Ok(scores)
    } else {
        Err("softmax is not over the keys of `[batch, heads, queries, keys]`")
    })
}

/// `exp(x - max(x)) / sum(exp(x - max(x)))` over the last axis.
fn written_out(view: &GraphView<'_>, probs: ValueId) -> Option<ValueId> {
    let (exponentials, sum) = view.binary(probs, Binary::Div)?;
    let (scores, most) = view.binary(view.unary(exponentials, Unary::Exp)?, Binary::Sub)?;
    let fits =
        view.folded(sum, Fold::Sum) == Some(exponentials) && view.folded(most, Fold::Max) == Some(scores);
    fits.then_some(scores)
}

/// Queries, keys, values and perhaps a mask; and what scores are multiplied by.
fn whole(view: &GraphView<'_>, scores: ValueId, values: ValueId) -> Result<MatchedAttention, &'static str> {
    let (scores, mask) = masked(view, scores)?;
    let (scores, scale) = scaled(view, scores);
    let both = view.maker(scores).and_then(product);
    let (queries, transposed) = both.ok_or("scores are no product of queries and keys")?;
    let keys = match view.maker(transposed) {
        Some(Node { op: Op::Transpose(order), inputs, .. }) if order == &[0, 1, 3, 2] => {
            inputs.first().copied().flatten()
        }
        _ => None,
    };
    let keys = keys.ok_or("keys are not transposed before the product")?;
    let (keys, values) = match (repeated(view, keys), repeated(view, values)) {
        (Some(keys), Some(values)) => (keys, values),
        _ => (keys, values),
    };
    let mut inputs = vec![queries, keys, values];
    inputs.extend(mask);
    Ok((inputs, scale))
}

/// Scores before a mask, and the mask as bools.
fn masked(view: &GraphView<'_>, value: ValueId) -> Result<(ValueId, Option<ValueId>), &'static str> {
    let Some(operands) = view.binary(value, Binary::Add) else { return Ok((value, None)) };
    for (scores, mask) in either(operands) {
        let Some(Node { op: Op::Select, inputs, .. }) = view.maker(mask) else { continue };
        let [Some(condition), Some(seen), Some(hidden)] = inputs[..] else { continue };
        let hides = view.number(hidden).is_some_and(|number| number <= HIDDEN);
        if view.number(seen) == Some(0.0) && hides {
            return Ok((scores, Some(condition)));
        }
        return Err("the mask does not add 0 to what is seen and a very negative number to what is not");
    }
    Err("what is added to the scores is no choice of two numbers")
}

/// Scores before a factor, and the factor.
fn scaled(view: &GraphView<'_>, value: ValueId) -> (ValueId, f32) {
    if let Some((scores, divisor)) = view.binary(value, Binary::Div)
        && let Some(divisor) = view.number(divisor)
    {
        return (scores, 1.0 / divisor);
    }
    if let Some(operands) = view.binary(value, Binary::Mul) {
        for (scores, factor) in either(operands) {
            if let Some(factor) = view.number(factor) {
                return (scores, factor);
            }
        }
    }
    (value, 1.0)
}

/// Heads before each was repeated for its group: `[b, h, n, d]` of `[b, h g, n, d]`.
fn repeated(view: &GraphView<'_>, value: ValueId) -> Option<ValueId> {
    let stretched = view.reshaped(value)?;
    let Node { op: Op::Broadcast(dims), inputs, .. } = view.maker(stretched)? else { return None };
    let single = inputs.first().copied().flatten()?;
    let plain = view.reshaped(single)?;
    let [batch, heads, keys, depth] = view.dims(plain) else { return None };
    let [b, h, group, n, d] = &dims[..] else { return None };
    let one = Dim::fixed(1);
    let same = [b, h, n, d] == [batch, heads, keys, depth]
        && view.dims(single).iter().eq([batch, heads, &one, keys, depth]);
    let all = Dim::product(&[heads.clone(), group.clone()])?;
    (same && view.dims(value).get(1) == Some(&all)).then_some(plain)
}
