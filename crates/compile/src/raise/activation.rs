//! `x * sigmoid(x)`.

use tilewright_graph::rich::{Attrs, RichOp};
use tilewright_graph::{Binary, Node, Op, Unary};

use super::view::{View, either, pair};
use super::{Found, Rewrite};

pub(super) fn silu(view: &View<'_>, node: &Node) -> Found {
    let (Op::Binary(Binary::Mul), Some(operands)) = (&node.op, pair(node)) else { return Found::No };
    for (x, gate) in either(operands) {
        if view.unary(gate, Unary::Sigmoid) == Some(x) {
            return Found::Becomes(Box::new(Rewrite::new(Op::Rich(RichOp::Silu, Attrs::default()), &[x])));
        }
    }
    Found::No
}
