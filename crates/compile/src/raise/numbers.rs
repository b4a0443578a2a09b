//! Integers times one and plus zero, as counting from a start in steps leaves them.

use tilewright_graph::{Binary, Node, Op};

use super::Found;
use super::view::{View, either, pair, result};

pub(super) fn neutral(view: &View<'_>, node: &Node) -> Found {
    let neutral = match node.op {
        Op::Binary(Binary::Mul) => 1,
        Op::Binary(Binary::Add) => 0,
        _ => return Found::No,
    };
    let (Some(operands), Some(out)) = (pair(node), result(node)) else { return Found::No };
    for (x, number) in either(operands) {
        if view.integer(number) == Some(neutral) && view.dims(x) == view.dims(out) {
            return Found::Is(x);
        }
    }
    Found::No
}
