//! The Llama family: a norm, projections of it, attention or a gate, and a combination that is added to the
//! residual; then logits.

use tilewright_graph::rich::RichOp;
use tilewright_graph::{Binary, Op, ValueId as Value};

use super::attention::Mask;
use super::clusterer::{Clusterer, Projection, Residual, float};
use crate::CompileError;
use crate::kernel::{Activation, AxisOrder, Kernel, Norm, ValueId, ValueLayout};

/// What the graph must look like.
pub(super) const ALLOWED: &str =
    "blocks of the Llama family: a norm, projections, attention or a gate, a residual sum";

impl Clusterer<'_> {
    /// All of it.
    pub(super) fn decoder(&mut self) -> Result<(), CompileError> {
        let (table, rows) = self.gathered()?;
        let width = self.last_dim(rows)?;
        let out = self.out.add(self.name(rows), width, ValueLayout::Features);
        self.out.kernels.push(Kernel::Embed { table: self.name(table), places: Vec::new(), out });
        let mut residual = (rows, out);
        while let Some(next) = self.block(residual)? {
            residual = next;
        }
        Ok(())
    }

    /// What follows a residual; `None` behind the logits.
    fn block(&mut self, (x, id): Residual) -> Result<Option<Residual>, CompileError> {
        let norm = self.users(x).find(|node| matches!(node.op, Op::Rich(RichOp::RmsNorm, _))).cloned();
        let Some(norm) = norm else { return self.refuse(x, "no norm follows this residual") };
        let Op::Rich(_, attrs) = &norm.op else { return Ok(None) };
        let (Some(gain), Some(&normal)) = (norm.inputs.get(1).copied().flatten(), norm.outputs.first())
        else {
            return self.refuse(x, "its norm has no gain");
        };
        let width = self.last_dim(x)?;
        let out = self.out.add(self.name(normal), width, ValueLayout::Features);
        let epsilon = float(attrs, "eps").unwrap_or(1e-5);
        let gain = self.name(gain);
        self.out.kernels.push(Kernel::Norm { norm: Norm::Rms, input: id, gain, bias: None, epsilon, out });
        let projections = self.projections(normal)?;
        match projections.len() {
            1 => self.head(out, &projections),
            2 => self.gate(out, &projections, (x, id)).map(Some),
            3 => self.attention(out, &projections, (x, id), Mask::Causal).map(Some),
            _ => self.refuse(normal, "it has neither one projection, two nor three"),
        }
    }

    fn head(&mut self, input: ValueId, found: &[Projection]) -> Result<Option<Residual>, CompileError> {
        let Some((weight, logits)) = found.first() else { return Ok(None) };
        if !self.graph.outputs.iter().any(|output| output.value == *logits) {
            return self.refuse(*logits, "one projection alone must be the logits");
        }
        self.out.kernels.push(Kernel::Head { input, weight: weight.clone() });
        Ok(None)
    }

    /// `silu(gate) * up`, combined.
    fn gate(&mut self, input: ValueId, found: &[Projection], x: Residual) -> Result<Residual, CompileError> {
        let silu = |value: Value| {
            let node = self.users(value).find(|node| matches!(node.op, Op::Rich(RichOp::Silu, _)))?;
            node.outputs.first().copied()
        };
        let gate = found.iter().position(|(_, value)| silu(*value).is_some());
        let Some(gate) = gate else { return self.refuse(found[0].1, "no `silu` follows either projection") };
        let (gate, up) = (&found[gate], &found[1 - gate]);
        let active = silu(gate.1).unwrap_or(gate.1);
        let product = self
            .users(active)
            .find(|node| node.op == Op::Binary(Binary::Mul) && node.inputs.contains(&Some(up.1)));
        let Some(product) = product.and_then(|node| node.outputs.first().copied()) else {
            return self.refuse(active, "it is not multiplied by the other projection");
        };
        let width = gate.0.rows.size;
        let rows = self.out.add(format!("{}.rows", self.name(gate.1)), 2 * width, ValueLayout::Rows);
        self.out.kernels.push(Kernel::Project {
            input,
            parts: vec![gate.0.clone(), up.0.clone()],
            out: rows,
        });
        let out = self.out.add(self.name(product), width, ValueLayout::Rows);
        self.out.kernels.push(Kernel::Activate { input: rows, activation: Activation::GatedSilu, out });
        self.combine(product, out, AxisOrder::Plain, x)
    }
}
