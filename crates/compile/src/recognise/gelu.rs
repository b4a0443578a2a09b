//! `x * (erf(x / sqrt 2) + 1) / 2`, the three factors in any order.

use tilewright_graph::rich::{Attrs, RichOp};
use tilewright_graph::{Binary, Node, Op, Unary, ValueId};

use super::near_miss::NearMiss;
use super::view::{GraphView, either, pair};
use super::{PatternMatch, Rewrite};

/// How far a written constant may be from the number that it stands for.
const NEAR: f32 = 1e-6;

pub(super) fn gelu(view: &GraphView<'_>, node: &Node) -> PatternMatch {
    let (Op::Binary(Binary::Mul), Some((a, b))) = (&node.op, pair(node)) else { return PatternMatch::No };
    // One of the operands is the product of the two other factors.
    let mut grouped = either((a, b)).into_iter().filter_map(|(one, product)| {
        let (c, d) = view.binary(product, Binary::Mul)?;
        let factors = [one, c, d];
        let inner = factors.iter().find_map(|factor| one_more_than_erf(view, *factor))?;
        Some((factors, inner))
    });
    let Some((factors, inner)) = grouped.next() else { return PatternMatch::No };
    let half = factors.iter().any(|factor| view.number(*factor) == Some(0.5));
    let Some(x) = over_root_two(view, inner) else {
        return PatternMatch::Near(NearMiss::ErfOperand);
    };
    if !half || !factors.contains(&x) {
        return PatternMatch::Near(NearMiss::GeluFactors);
    }
    let attrs = Attrs::default().word("approximate", "none");
    PatternMatch::Becomes(Box::new(Rewrite::new(Op::Rich(RichOp::Gelu, attrs), &[x])))
}

/// What `erf` of `erf(..) + 1` is of.
fn one_more_than_erf(view: &GraphView<'_>, value: ValueId) -> Option<ValueId> {
    let operands = view.binary(value, Binary::Add)?;
    let (erf, _) = either(operands).into_iter().find(|(_, one)| view.number(*one) == Some(1.0))?;
    view.unary(erf, Unary::Erf)
}

/// `x` of `x / sqrt 2`.
fn over_root_two(view: &GraphView<'_>, value: ValueId) -> Option<ValueId> {
    let is = |number: ValueId, wanted: f32| view.number(number).is_some_and(|n| (n - wanted).abs() < NEAR);
    if let Some((x, root)) = view.binary(value, Binary::Div) {
        return is(root, std::f32::consts::SQRT_2).then_some(x);
    }
    let operands = view.binary(value, Binary::Mul)?;
    let found = either(operands).into_iter().find(|(_, half)| is(*half, std::f32::consts::FRAC_1_SQRT_2));
    found.map(|(x, _)| x)
}
