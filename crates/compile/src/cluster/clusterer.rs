//! A graph as clustering sees it: who makes a value and who uses it, projections with their biases, heads of
//! an attention.

use tilewright_graph::rich::{Attr, Attrs, RichOp};
use tilewright_graph::{Binary, Graph, Node, Op, ValueId as Value};

use crate::CompileError;
use crate::kernel::{AxisOrder, Heads, Kernel, Kernels, ValueId, ValueLayout, WeightAxis, WeightMatrix};
use crate::lookup::Lookup;

/// A residual: its value in the graph, and as a kernel's result.
pub(super) type Residual = (Value, ValueId);

/// A projection: its weight, and its result.
pub(super) type Projection = (WeightMatrix, Value);

/// A graph on its way to kernels.
pub(super) struct Clusterer<'g> {
    pub(super) graph: &'g Graph,
    pub(super) out: Kernels,
    /// Attentions so far.
    pub(super) layer: usize,
    /// What the graph must look like.
    allowed: &'static str,
    lookup: Lookup<'g>,
}

impl<'g> Clusterer<'g> {
    pub(super) fn new(graph: &'g Graph, allowed: &'static str) -> Clusterer<'g> {
        let out = Kernels { name: graph.name.clone(), ..Kernels::default() };
        Clusterer { graph, out, layer: 0, allowed, lookup: Lookup::new(graph) }
    }

    /// A complaint about a value, with the operator that makes it.
    pub(super) fn refuse<T>(&self, value: Value, why: &str) -> Result<T, CompileError> {
        let node = self.name(value);
        let made = self.maker(value).map_or(String::new(), |node| format!(" (it is a `{}`)", node.op.name()));
        Err(CompileError::Node { node, why: format!("{why}{made}"), allowed: self.allowed })
    }

    pub(super) fn name(&self, value: Value) -> String {
        self.graph.value(value).map_or(String::new(), |value| value.name.clone())
    }

    /// Sizes; `None` where an axis is in them.
    pub(super) fn dims(&self, value: Value) -> Vec<Option<u64>> {
        let dims = self.graph.value(value).map(|value| value.ty.dims.clone()).unwrap_or_default();
        dims.iter().map(|dim| dim.as_fixed().and_then(|size| u64::try_from(size).ok())).collect()
    }

    pub(super) fn last_dim(&self, value: Value) -> Result<u64, CompileError> {
        match self.dims(value).last() {
            Some(Some(size)) if *size > 0 => Ok(*size),
            _ => self.refuse(value, "its width is not a number"),
        }
    }

    pub(super) fn users(&self, value: Value) -> impl Iterator<Item = &'g Node> {
        self.lookup.users(value).map(|(_, node)| node)
    }

    pub(super) fn maker(&self, value: Value) -> Option<&'g Node> {
        self.lookup.maker(value)
    }

    pub(super) fn is_constant(&self, value: Value) -> bool {
        self.lookup.is_constant(value)
    }

    /// Users of a value with their indices.
    pub(super) fn uses(&self, value: Value) -> impl Iterator<Item = (usize, &'g Node)> {
        self.lookup.users(value)
    }

    /// Whether it is an input of one of these names.
    pub(super) fn is_input(&self, value: Option<Value>, names: &[&str]) -> bool {
        let inputs = &self.graph.inputs;
        value.is_some_and(|value| inputs.contains(&value) && names.contains(&self.name(value).as_str()))
    }

    /// The first result of a user that fits.
    pub(super) fn next(&self, value: Value, fits: impl Fn(&Node) -> bool) -> Option<Value> {
        self.users(value).find(|node| fits(node)).and_then(result)
    }

    /// Rows of a table by token: the table and the rows.
    pub(super) fn gathered(&mut self) -> Result<(Value, Value), CompileError> {
        let found = self.graph.nodes.iter().find(|node| {
            let by = node.inputs.get(1).copied().flatten();
            matches!(node.op, Op::Gather { axis: 0 }) && self.is_input(by, &["tokens", "input_ids"])
        });
        let Some((table, value)) = found.and_then(|node| Some((operand(node, 0)?, result(node)?))) else {
            return Err(CompileError::Node {
                node: self.graph.name.clone(),
                why: "no table is gathered by an input `tokens` or `input_ids`".to_string(),
                allowed: self.allowed,
            });
        };
        let dims = self.dims(table);
        let (Some(Some(vocabulary)), Some(Some(_))) = (dims.first(), dims.get(1)) else {
            return self.refuse(table, "its sizes are not numbers");
        };
        self.out.vocabulary = *vocabulary;
        Ok((table, value))
    }

    /// A product with a matrix, and the bias that is added to it.
    pub(super) fn linear(&self, node: &Node) -> Result<Projection, CompileError> {
        let out = result(node).unwrap_or(Value(0));
        let (Op::Einsum(spec), Some(weight)) = (&node.op, operand(node, 1)) else {
            return self.refuse(out, "it is no projection");
        };
        let dims = self.dims(weight);
        let (true, [Some(rows), Some(columns)]) = (spec == "bse,fe->bsf", dims.as_slice()) else {
            return self.refuse(out, "it is no projection by a matrix");
        };
        let plain = |size: u64| WeightAxis { size, order: AxisOrder::Plain, parts: 1, copies: 1 };
        let (rows, columns) = (plain(*rows), plain(*columns));
        let mut weight = WeightMatrix { name: self.name(weight), rows, columns, bias: None };
        let sums: Vec<&Node> = self.users(out).collect();
        if let [sum] = sums[..]
            && sum.op == Op::Binary(Binary::Add)
            && let Some(bias) = sum.inputs.iter().flatten().find(|input| **input != out)
            && self.dims(*bias) == [Some(rows.size)]
            && self.is_constant(*bias)
        {
            weight.bias = Some(self.name(*bias));
            return Ok((weight, result(sum).unwrap_or(out)));
        }
        Ok((weight, out))
    }

    /// All projections of a value.
    pub(super) fn projections(&self, value: Value) -> Result<Vec<Projection>, CompileError> {
        let products = self.users(value).filter(|node| matches!(node.op, Op::Einsum(_)));
        products.map(|node| self.linear(node)).collect()
    }

    pub(super) fn heads(&self, node: &Node) -> Result<Heads, CompileError> {
        let operand = |at: usize| operand(node, at).unwrap_or(Value(0));
        let (q, k) = (self.dims(operand(0)), self.dims(operand(1)));
        let (Some(Some(heads)), Some(Some(kv)), Some(Some(depth))) = (q.get(1), k.get(1), q.get(3)) else {
            return self.refuse(operand(0), "heads and their width are not numbers");
        };
        if *kv == 0 || !heads.is_multiple_of(*kv) || !depth.is_multiple_of(8) {
            return self
                .refuse(operand(0), "heads do not share keys evenly, or their width is no multiple of 8");
        }
        let group = heads / kv;
        Ok(Heads { kv: *kv, group, slots: group.next_power_of_two(), depth: *depth })
    }

    /// What scores of an attention are multiplied by.
    pub(super) fn scale(&self, node: &Node, depth: u64) -> Result<f32, CompileError> {
        let value = result(node).unwrap_or(Value(0));
        let Op::Rich(RichOp::Attention, attrs) = &node.op else {
            return self.refuse(value, "it is no attention");
        };
        if float(attrs, "softcap").is_some_and(|cap| cap != 0.0) {
            return self.refuse(value, "its scores are capped");
        }
        #[expect(clippy::cast_precision_loss, reason = "a small whole number")]
        let usual = 1.0 / (depth as f32).sqrt();
        Ok(float(attrs, "scale").unwrap_or(usual))
    }

    /// Heads side by side again.
    pub(super) fn joined(&self, attended: Value) -> Result<Value, CompileError> {
        let mut value = attended;
        for _ in 0..2 {
            match self.next(value, |node| matches!(node.op, Op::Transpose(_) | Op::Reshape(_))) {
                Some(next) => value = next,
                None => return self.refuse(value, "heads are not joined"),
            }
        }
        Ok(value)
    }

    /// The projection of rows that is added to the residual.
    pub(super) fn combine(
        &mut self,
        rows: Value,
        input: ValueId,
        order: AxisOrder,
        (x, id): Residual,
    ) -> Result<Residual, CompileError> {
        let Some(node) = self.users(rows).next() else { return self.refuse(rows, "nothing uses it") };
        let (mut weight, value) = self.linear(node)?;
        weight.columns.order = order;
        let adds = |node: &Node| node.op == Op::Binary(Binary::Add) && node.inputs.contains(&Some(x));
        let Some(sum) = self.next(value, adds) else {
            return self.refuse(value, "it is not added to the residual");
        };
        let out = self.out.add(self.name(sum), weight.rows.size, ValueLayout::Features);
        self.out.kernels.push(Kernel::Combine { input, weight, residual: id, out });
        Ok((sum, out))
    }
}

/// An operand of a node.
pub(super) fn operand(node: &Node, at: usize) -> Option<Value> {
    node.inputs.get(at).copied().flatten()
}

/// The first result of a node.
pub(super) fn result(node: &Node) -> Option<Value> {
    node.outputs.first().copied()
}

pub(super) fn float(attrs: &Attrs, name: &str) -> Option<f32> {
    match attrs.0.get(name) {
        Some(Attr::Float(pattern)) => Some(f32::from_bits(*pattern)),
        _ => None,
    }
}

pub(super) fn int(attrs: &Attrs, name: &str) -> Option<i64> {
    match attrs.0.get(name) {
        Some(Attr::Int(value)) => Some(*value),
        _ => None,
    }
}
