//! A product with a constant matrix, or the einsum that stage 1 makes of one: rows of it are outputs, as
//! projections have them.

use tilewright_graph::rich::RichOp;
use tilewright_graph::{Node, Op, Type};

use super::near_miss::NearMiss;
use super::view::{GraphView, operand, pair};
use super::{PatternMatch, Rewrite};

/// How clustering knows a projection.
const PROJECTION: &str = "bse,fe->bsf";

pub(super) fn linear(view: &GraphView<'_>, node: &Node) -> PatternMatch {
    let (true, Some((x, weight))) = (multiplies(&node.op), pair(node)) else { return PatternMatch::No };
    if !view.is_constant(weight) {
        return PatternMatch::No;
    }
    let (rank, dims) = (view.dims(x).len(), view.dims(weight));
    let [columns, rows] = dims else {
        return PatternMatch::Near(NearMiss::WeightAxes { axes: dims.len() });
    };
    if rank != 3 {
        return PatternMatch::Near(NearMiss::ProjectedAxes { axes: rank });
    }
    let op = Op::Einsum(PROJECTION.to_string());
    // A matrix that was transposed is taken as it was.
    if let Some(Node { op: Op::Transpose(order), inputs, .. }) = view.maker(weight)
        && order == &[1, 0]
        && let Some(plain) = inputs.first().copied().flatten()
    {
        return PatternMatch::Becomes(Box::new(Rewrite::new(op, &[x, plain])));
    }
    let dtype = view.graph.value(weight).map(|value| value.ty.dtype);
    let (Some(dtype), Some(x)) = (dtype, operand(node, 0)) else { return PatternMatch::No };
    let ty = Type::new(dtype, [rows.clone(), columns.clone()]);
    let name = format!("{}.T", view.name(weight));
    let before = Some((Op::Transpose(vec![1, 0]), weight, ty, name));
    PatternMatch::Becomes(Box::new(Rewrite { before, ..Rewrite::new(op, &[x]) }))
}

/// A product of matrices, or the einsum that stage 1 writes for one.
fn multiplies(op: &Op) -> bool {
    match op {
        Op::Rich(RichOp::Matmul, _) => true,
        Op::Einsum(spec) => is_plain(spec),
        _ => false,
    }
}

/// Whether batch, tokens and width meet a matrix by its rows: `bse,ef->bsf`, whatever the labels are.
fn is_plain(spec: &str) -> bool {
    let Some((inputs, output)) = spec.split_once("->") else { return false };
    let Some((left, right)) = inputs.split_once(',') else { return false };
    let labels = |text: &str| text.chars().collect::<Vec<char>>();
    let ([batch, token, width], [row, column]) = (&labels(left)[..], &labels(right)[..]) else {
        return false;
    };
    let all = [batch, token, width, column];
    let differ = (1..all.len()).all(|at| !all[..at].contains(&all[at]));
    differ && width == row && labels(output) == [*batch, *token, *column]
}
