//! The BERT family: embeddings of tokens and places, then attention and a feed-forward part, each added to
//! what it was made from and normalised; then the mean over all tokens, scaled to length 1.

use tilewright_base::invariant::OrBroken;
use tilewright_graph::rich::{Attr, RichOp};
use tilewright_graph::{Binary, Node, Op, ValueId as Value};

use super::attention::Mask;
use super::clusterer::{Clusterer, Projection, Residual, float, int, operand, result};
use crate::CompileError;
use crate::kernel::{Activation, AxisOrder, Kernel, Norm, ValueId, ValueLayout};

/// What the graph must look like.
pub(super) const ALLOWED: &str = "blocks of the BERT family: projections with biases, attention or gelu, a \
                                  residual sum, a norm; then the mean over tokens";

/// Names of an input that says where there are tokens.
const MASKS: [&str; 2] = ["mask", "attention_mask"];

impl Clusterer<'_> {
    /// All of it.
    pub(super) fn encoder(&mut self) -> Result<(), CompileError> {
        let embedded = self.placed()?;
        let mut residual = self.normal(embedded)?;
        loop {
            let found = self.projections_by_matrix(residual.0)?;
            let sum = match found.len() {
                0 => return self.pool(residual),
                1 => self.feed_forward(&found, residual)?,
                3 => self.attention(residual.1, &found, residual, Mask::Tokens)?,
                _ => return self.refuse(residual.0, "it has neither one projection nor three"),
            };
            residual = self.normal(sum)?;
        }
    }

    /// Rows of the table by token, plus constants by position.
    fn placed(&mut self) -> Result<Residual, CompileError> {
        let (table, mut rows) = self.gathered()?;
        let width = self.last_dim(rows)?;
        let mut places = Vec::new();
        loop {
            let sum = self.users(rows).find(|node| node.op == Op::Binary(Binary::Add));
            let Some(sum) = sum else { break };
            let other = sum.inputs.iter().flatten().copied().find(|input| *input != rows);
            let (Some(other), Some(next)) = (other, result(sum)) else { break };
            places.push(self.by_position(other)?);
            rows = next;
        }
        let out = self.out.add(self.name(rows), width, ValueLayout::Features);
        self.out.kernels.push(Kernel::Embed { table: self.name(table), places, out });
        Ok((rows, out))
    }

    /// The constant behind what is added by position: the first rows of a table, or one row of it.
    fn by_position(&mut self, value: Value) -> Result<String, CompileError> {
        let Some(node) = self.maker(value) else { return Ok(self.name(value)) };
        let table = operand(node, 0).filter(|table| self.is_constant(*table));
        match (&node.op, table) {
            (Op::Slice { axis: 0, start, size, step: 1 }, Some(table)) if start.is(0) => {
                if size.is(1) {
                    return Ok(self.name(value));
                }
                let positions = self.dims(table).first().copied().flatten().unwrap_or(0);
                self.out.positions = positions;
                Ok(self.name(table))
            }
            _ => self.refuse(value, "what is added to the embedding is no first rows of a constant table"),
        }
    }

    /// The norm behind a sum.
    fn normal(&mut self, (sum, input): Residual) -> Result<Residual, CompileError> {
        let Some(node) = self.users(sum).find(|node| matches!(node.op, Op::Rich(RichOp::LayerNorm, _)))
        else {
            return self.refuse(sum, "no norm follows it");
        };
        let (Op::Rich(_, attrs), Some(gain), Some(normal)) = (&node.op, operand(node, 1), result(node))
        else {
            return self.refuse(sum, "its norm has no gain");
        };
        let last = i64::try_from(self.dims(sum).len()).or_broken("a rank fits 63 bits") - 1;
        if int(attrs, "axis").is_some_and(|axis| axis != -1 && axis != last) {
            return self.refuse(normal, "it is a norm of more than the last axis");
        }
        let out = self.out.add(self.name(normal), self.last_dim(sum)?, ValueLayout::Features);
        let bias = operand(node, 2).map(|bias| self.name(bias));
        let (gain, epsilon) = (self.name(gain), float(attrs, "eps").unwrap_or(1e-5));
        self.out.kernels.push(Kernel::Norm { norm: Norm::Layer, input, gain, bias, epsilon, out });
        Ok((normal, out))
    }

    /// Products with weights; the sum over tokens is none.
    fn projections_by_matrix(&self, value: Value) -> Result<Vec<Projection>, CompileError> {
        let by_matrix = |node: &&Node| matches!(node.op, Op::Einsum(_)) && self.weighs(node);
        self.users(value).filter(by_matrix).map(|node| self.linear(node)).collect()
    }

    fn weighs(&self, node: &Node) -> bool {
        operand(node, 1).is_some_and(|weight| self.is_constant(weight))
    }

    /// A projection, `gelu`, and the combination.
    fn feed_forward(&mut self, found: &[Projection], x: Residual) -> Result<Residual, CompileError> {
        let Some((weight, wide)) = found.first().cloned() else {
            return self.refuse(x.0, "it has no projection");
        };
        let node = self.users(wide).find(|node| matches!(node.op, Op::Rich(RichOp::Gelu, _)));
        let Some((Op::Rich(_, attrs), Some(active))) = node.map(|node| (&node.op, result(node))) else {
            return self.refuse(wide, "no `gelu` follows it");
        };
        if matches!(attrs.0.get("approximate"), Some(Attr::Word(word)) if word != "none") {
            return self.refuse(active, "it is approximated; the chip has the error function");
        }
        let width = weight.rows.size;
        let rows = self.out.add(format!("{}.rows", self.name(wide)), width, ValueLayout::Rows);
        self.out.kernels.push(Kernel::Project { input: x.1, parts: vec![weight], out: rows });
        let out = self.out.add(self.name(active), width, ValueLayout::Rows);
        self.out.kernels.push(Kernel::Activate { input: rows, activation: Activation::Gelu, out });
        self.combine(active, out, AxisOrder::Plain, x)
    }

    /// The sum over tokens, divided by their number and then by its length.
    fn pool(&mut self, (x, input): (Value, ValueId)) -> Result<(), CompileError> {
        let sums = |node: &Node| {
            let mask = operand(node, 1).and_then(|mask| self.maker(mask)).and_then(|node| operand(node, 0));
            matches!(&node.op, Op::Einsum(spec) if spec == "bse,bs->be") && self.is_input(mask, &MASKS)
        };
        let divided =
            self.next(x, sums).and_then(|sum| self.next(sum, |node| node.op == Op::Binary(Binary::Div)));
        let unit = divided.and_then(|mean| {
            self.next(mean, |node| {
                matches!(&node.op,
                    Op::Rich(RichOp::LpNorm, attrs) if int(attrs, "p").unwrap_or(2) == 2)
            })
        });
        match unit {
            Some(unit) if self.graph.outputs.iter().any(|output| output.value == unit) => {
                self.out.kernels.push(Kernel::Pool { input });
                Ok(())
            }
            _ => self.refuse(x, "it leads neither to projections nor to the mean over tokens of length 1"),
        }
    }
}
