//! Integers times one and plus zero, as counting from a start in steps leaves them.

use tilewright_graph::{Binary, Node, Op};

use super::PatternMatch;
use super::view::{GraphView, either, pair, result};

pub(super) fn neutral(view: &GraphView<'_>, node: &Node) -> PatternMatch {
    let neutral = match node.op {
        Op::Binary(Binary::Mul) => 1,
        Op::Binary(Binary::Add) => 0,
        _ => return PatternMatch::No,
    };
    let (Some(operands), Some(out)) = (pair(node), result(node)) else { return PatternMatch::No };
    for (x, number) in either(operands) {
        if view.integer(number) == Some(neutral) && view.dims(x) == view.dims(out) {
            return PatternMatch::Is(x);
        }
    }
    PatternMatch::No
}
