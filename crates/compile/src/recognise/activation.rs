//! `x * sigmoid(x)`.

use tilewright_graph::rich::{Attrs, RichOp};
use tilewright_graph::{Binary, Node, Op, Unary};

use super::view::{GraphView, either, pair};
use super::{PatternMatch, Rewrite};

pub(super) fn silu(view: &GraphView<'_>, node: &Node) -> PatternMatch {
    let (Op::Binary(Binary::Mul), Some(operands)) = (&node.op, pair(node)) else { return PatternMatch::No };
    for (x, gate) in either(operands) {
        if view.unary(gate, Unary::Sigmoid) == Some(x) {
            return PatternMatch::Becomes(Box::new(Rewrite::new(
                Op::Rich(RichOp::Silu, Attrs::default()),
                &[x],
            )));
        }
    }
    PatternMatch::No
}
