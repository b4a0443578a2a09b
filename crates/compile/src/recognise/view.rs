//! A graph as rules see it: what makes a value, numbers, sizes.

use std::collections::BTreeMap;

use tilewright_graph::rich::RichOp;
use tilewright_graph::{Binary, Data, Dim, Fold, Graph, Node, Op, Unary, ValueId};

use crate::lookup::Lookup;

pub(super) struct GraphView<'g> {
    pub(super) graph: &'g Graph,
    lookup: Lookup<'g>,
    constants: BTreeMap<ValueId, &'g Data>,
}

impl<'g> GraphView<'g> {
    pub(super) fn new(graph: &'g Graph) -> GraphView<'g> {
        let constants = graph.constants.iter().map(|constant| (constant.value, &constant.data)).collect();
        GraphView { graph, lookup: Lookup::new(graph), constants }
    }

    pub(super) fn name(&self, value: ValueId) -> String {
        self.graph.value(value).map_or(String::new(), |value| value.name.clone())
    }

    pub(super) fn dims(&self, value: ValueId) -> &'g [Dim] {
        self.graph.value(value).map_or(&[], |value| &value.ty.dims)
    }

    pub(super) fn maker(&self, value: ValueId) -> Option<&'g Node> {
        self.lookup.maker(value)
    }

    pub(super) fn is_constant(&self, value: ValueId) -> bool {
        self.lookup.is_constant(value)
    }

    /// The one number of a constant.
    pub(super) fn number(&self, value: ValueId) -> Option<f32> {
        match self.constants.get(&value)? {
            Data::Floats(patterns) if patterns.len() == 1 => patterns.first().copied().map(f32::from_bits),
            _ => None,
        }
    }

    /// The one integer of a constant.
    pub(super) fn integer(&self, value: ValueId) -> Option<i64> {
        match self.constants.get(&value)? {
            Data::Ints(items) if items.len() == 1 => items.first().copied(),
            _ => None,
        }
    }

    /// Operands of a binary operator, if a value is made by it.
    pub(super) fn binary(&self, value: ValueId, kind: Binary) -> Option<(ValueId, ValueId)> {
        self.maker(value).filter(|node| node.op == Op::Binary(kind)).and_then(pair)
    }

    /// The operand of a unary operator, if a value is made by it.
    pub(super) fn unary(&self, value: ValueId, kind: Unary) -> Option<ValueId> {
        self.maker(value).filter(|node| node.op == Op::Unary(kind)).and_then(|node| operand(node, 0))
    }

    /// Operands of a rich operator of two, if a value is made by it.
    pub(super) fn rich(&self, value: ValueId, kind: RichOp) -> Option<&'g Node> {
        self.maker(value).filter(|node| matches!(&node.op, Op::Rich(rich, _) if *rich == kind))
    }

    /// What is folded over the last axis, which stays.
    pub(super) fn folded(&self, value: ValueId, wanted: Fold) -> Option<ValueId> {
        let node = self.maker(value)?;
        let Op::Reduce { fold, axes, keep: true } = &node.op else { return None };
        let of = operand(node, 0)?;
        let last = self.dims(of).len().checked_sub(1)?;
        (*fold == wanted && axes[..] == [last]).then_some(of)
    }

    /// What was reshaped.
    pub(super) fn reshaped(&self, value: ValueId) -> Option<ValueId> {
        self.maker(value).filter(|node| matches!(node.op, Op::Reshape(_))).and_then(|node| operand(node, 0))
    }
}

pub(super) fn operand(node: &Node, at: usize) -> Option<ValueId> {
    node.inputs.get(at).copied().flatten()
}

pub(super) fn result(node: &Node) -> Option<ValueId> {
    node.outputs.first().copied()
}

/// Two operands.
pub(super) fn pair(node: &Node) -> Option<(ValueId, ValueId)> {
    Some((operand(node, 0)?, operand(node, 1)?))
}

/// Both orders of two operands.
pub(super) fn either((a, b): (ValueId, ValueId)) -> [(ValueId, ValueId); 2] {
    [(a, b), (b, a)]
}
