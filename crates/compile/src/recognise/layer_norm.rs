//! `(x - mean(x)) / sqrt(variance(x) + eps) * gain + bias`: the root mean square norm of what is left without
//! its mean.

use tilewright_graph::rich::{Attrs, RichOp};
use tilewright_graph::{Binary, Dim, Node, Op, Type};

use super::near_miss::NearMiss;
use super::norm::{epsilon, mean_of, over_root};
use super::view::{GraphView, either, pair};
use super::{PatternMatch, Rewrite};

pub(super) fn layer_norm(view: &GraphView<'_>, node: &Node) -> PatternMatch {
    let (Op::Binary(Binary::Add), Some(operands)) = (&node.op, pair(node)) else { return PatternMatch::No };
    let constant = |value| view.is_constant(value) && view.dims(value).len() == 1;
    for (bias, scaled) in either(operands) {
        let Some(factors) = view.binary(scaled, Binary::Mul).filter(|_| constant(bias)) else { continue };
        for (gain, normal) in either(factors) {
            let Some((centred, sum)) = over_root(view, normal).filter(|_| constant(gain)) else { continue };
            let Some((x, mean)) = view.binary(centred, Binary::Sub) else { continue };
            if mean_of(view, mean) != Ok(x) {
                return PatternMatch::Near(NearMiss::Centre);
            }
            let eps = match epsilon(view, centred, sum) {
                Ok(eps) => eps,
                Err(why) => return PatternMatch::Near(why),
            };
            let attrs = Attrs::default().int("axis", -1).float("eps", eps);
            let mut rewrite = Rewrite::new(Op::Rich(RichOp::LayerNorm, attrs), &[x, gain, bias]);
            let Some(value) = view.graph.value(x) else { return PatternMatch::No };
            let mut dims = value.ty.dims.to_vec();
            dims.iter_mut().next_back().into_iter().for_each(|last| *last = Dim::fixed(1));
            rewrite.extra = vec![Type::new(value.ty.dtype, dims); 2];
            return PatternMatch::Becomes(Box::new(rewrite));
        }
    }
    PatternMatch::No
}
