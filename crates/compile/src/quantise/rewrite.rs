//! The graph with contractions of integers: everything else is copied as it is.

use std::collections::BTreeMap;

use tilewright_base::Diagnostic;
use tilewright_graph::infer::BuildResult;
use tilewright_graph::{Binary, Builder, Dim, Dtype, Fold, Graph, Node, Op, Unary, ValueId};

use super::Ranges;
use super::find::{Contraction, Operand, is_number};

/// The largest integer that is used.
const MOST: f64 = 127.0;
/// What stands for the range of a channel that is zero everywhere.
const LEAST_RANGE: f64 = 1e-30;

/// A float as integers of eight bits: multiplied by steps, rounded, clamped from below and at 127.
///
/// # Errors
/// Another type than f32.
pub fn narrowed(b: &mut Builder, x: ValueId, steps: ValueId, least: f64) -> BuildResult<ValueId> {
    let scaled = b.mul(x, steps)?;
    let near = b.unary(Unary::RoundAway, scaled)?;
    let whole = b.convert(near, Dtype::I32)?;
    let low = b.with(Binary::Max, whole, least)?;
    let inside = b.with(Binary::Min, low, MOST)?;
    b.convert(inside, Dtype::I8)
}

struct Rewriter<'g> {
    graph: &'g Graph,
    ranges: &'g Ranges,
    b: Builder,
    /// New values by old ones.
    new: Vec<Option<ValueId>>,
    /// Integers by the old value that they are of.
    bytes: BTreeMap<ValueId, ValueId>,
}

fn missing() -> Box<Diagnostic> {
    Box::new(Diagnostic::error("graph/order", "a value is used before it is defined"))
}

/// The graph with these contractions in integers, and how many of them.
pub(super) fn rewritten(
    graph: &Graph,
    chosen: &BTreeMap<usize, Contraction>,
    ranges: &Ranges,
) -> BuildResult<(Graph, usize)> {
    let mut b = Builder::new(graph.name.clone());
    graph.values.iter().for_each(|value| b.reserve(&value.name));
    for axis in &graph.axes {
        b.axis(&axis.name, axis.least, axis.most);
    }
    let new = vec![None; graph.values.len()];
    let mut rewriter = Rewriter { graph, ranges, b, new, bytes: BTreeMap::new() };
    rewriter.given()?;
    let mut count = 0;
    for (number, node) in graph.nodes.iter().enumerate() {
        let integers = match chosen.get(&number) {
            Some(contraction) => rewriter.contraction(node, contraction)?,
            None => None,
        };
        count += usize::from(integers.is_some());
        rewriter.node(node, integers)?;
    }
    for output in &graph.outputs {
        let value = rewriter.value(output.value)?;
        rewriter.b.output(&output.name, value);
    }
    for state in &graph.states {
        let input = rewriter.value(state.input)?;
        rewriter.b.state(input, state.output);
    }
    Ok((rewriter.b.finish(), count))
}

impl Rewriter<'_> {
    fn value(&self, old: ValueId) -> BuildResult<ValueId> {
        self.new.get(old.index()).copied().flatten().ok_or_else(missing)
    }

    /// Inputs and constants.
    fn given(&mut self) -> BuildResult<()> {
        let graph = self.graph;
        for id in &graph.inputs {
            let value = graph.value(*id).ok_or_else(missing)?;
            self.new[id.index()] = Some(self.b.input(&value.name, value.ty.clone())?);
        }
        for constant in &graph.constants {
            let value = graph.value(constant.value).ok_or_else(missing)?;
            let named = self.b.called(value.name.clone());
            self.new[constant.value.index()] = Some(named.constant(value.ty.clone(), constant.data.clone())?);
        }
        Ok(())
    }

    /// A node as it is, or what stands for it.
    fn node(&mut self, node: &Node, instead: Option<ValueId>) -> BuildResult<()> {
        let Some(out) = node.outputs.first().copied() else { return Ok(()) };
        let before = self.b.graph().values.len();
        let made = match instead {
            Some(made) => made,
            None => {
                let inputs = node.inputs.iter().flatten().map(|id| self.value(*id));
                let inputs = inputs.collect::<BuildResult<Vec<ValueId>>>()?;
                self.b.emit(node.op.clone(), &inputs)?
            }
        };
        let name = self.graph.value(out).map_or("", |value| value.name.as_str());
        if instead.is_some() || made.index() >= before {
            self.b.rename(made, name);
        }
        self.new[out.index()] = Some(made);
        Ok(())
    }

    /// A contraction of integers, as floats again; `None` if the range of an operand is not known.
    fn contraction(&mut self, node: &Node, one: &Contraction) -> BuildResult<Option<ValueId>> {
        let (Op::Einsum(spec), [Some(a), Some(b)]) = (&node.op, &node.inputs[..]) else { return Ok(None) };
        let ids = [*a, *b];
        let mut scale = 1.0;
        for operand in &one.operands {
            let Operand::Computed { source, .. } = operand else { continue };
            let Some(range) = self.ranges.get(source) else { return Ok(None) };
            scale *= step(*range);
        }
        let (mut operands, mut by_channel) = (Vec::new(), None);
        for (at, operand) in one.operands.iter().enumerate() {
            operands.push(match operand {
                Operand::Constant => {
                    let (bytes, scales) =
                        self.constant(ids[at], &one.letters.inputs[at], &one.letters.output)?;
                    by_channel = Some(scales);
                    bytes
                }
                Operand::Computed { source, nodes } => self.computed(*source, nodes)?,
            });
        }
        let wide = operands.into_iter().map(|bytes| self.b.convert(bytes, Dtype::I32));
        let wide = wide.collect::<BuildResult<Vec<ValueId>>>()?;
        let sums = self.b.einsum(spec, &wide)?;
        let floats = self.b.convert(sums, Dtype::F32)?;
        let scaled = match by_channel {
            Some(scales) => {
                let scales = self.b.with(Binary::Mul, scales, scale)?;
                self.b.mul(floats, scales)?
            }
            None => self.b.with(Binary::Mul, floats, scale)?,
        };
        Ok(Some(scaled))
    }

    /// A constant as integers, and its scales as the result has them: one for each position of axes that the
    /// result keeps.
    fn constant(&mut self, id: ValueId, own: &[u8], out: &[u8]) -> BuildResult<(ValueId, ValueId)> {
        let x = self.value(id)?;
        let summed: Vec<usize> = (0..own.len()).filter(|axis| !out.contains(&own[*axis])).collect();
        let size = self.b.unary(Unary::Abs, x)?;
        let range = self.b.reduce(Fold::Max, size, &summed, true)?;
        let range = self.b.with(Binary::Max, range, LEAST_RANGE)?;
        let scales = self.b.with(Binary::Div, range, MOST)?;
        let steps = self.b.unary(Unary::Recip, scales)?;
        let bytes = narrowed(&mut self.b, x, steps, -MOST)?;
        // Axes in the order of the result, and those that it has besides.
        let kept: Vec<usize> =
            out.iter().filter_map(|letter| own.iter().position(|known| known == letter)).collect();
        let order: Vec<usize> = kept.iter().chain(&summed).copied().collect();
        let turned = self.b.transpose(scales, &order)?;
        let dims: Vec<Dim> = out
            .iter()
            .map(|letter| own.iter().position(|known| known == letter))
            .map(|at| at.map_or(Dim::fixed(1), |at| self.b.dims(x)[at].clone()))
            .collect();
        Ok((bytes, self.b.reshape(turned, &dims)?))
    }

    /// A computed value as integers where it is made, placed as the contraction reads it.
    fn computed(&mut self, source: ValueId, nodes: &[usize]) -> BuildResult<ValueId> {
        let mut bytes = self.bytes(source)?;
        for number in nodes.iter().rev() {
            let node = &self.graph.nodes[*number];
            let out = node.outputs.first().copied().ok_or_else(missing)?;
            bytes = match self.bytes.get(&out) {
                Some(known) => *known,
                None => {
                    let mut inputs = vec![bytes];
                    if matches!(node.op, Op::Pad { .. }) {
                        inputs.push(self.b.scalar(Dtype::I8, 0.0)?);
                    }
                    let placed = self.b.emit(node.op.clone(), &inputs)?;
                    self.bytes.insert(out, placed);
                    placed
                }
            };
        }
        Ok(bytes)
    }

    /// A value as integers; one that is never below zero is clamped there instead of before.
    fn bytes(&mut self, source: ValueId) -> BuildResult<ValueId> {
        if let Some(known) = self.bytes.get(&source) {
            return Ok(*known);
        }
        let steps = 1.0 / step(self.ranges.get(&source).copied().unwrap_or(0.0));
        let (from, least) = match self.above_zero(source) {
            Some(before) => (before, 0.0),
            None => (source, -MOST),
        };
        let from = self.value(from)?;
        let steps = self.b.scalar(Dtype::F32, steps)?;
        let bytes = narrowed(&mut self.b, from, steps, least)?;
        self.bytes.insert(source, bytes);
        Ok(bytes)
    }

    /// What a value is the larger of, beside zero.
    fn above_zero(&self, id: ValueId) -> Option<ValueId> {
        let node = self.graph.nodes.iter().find(|node| node.outputs.contains(&id))?;
        let (Op::Binary(Binary::Max), [Some(a), Some(b)]) = (&node.op, &node.inputs[..]) else { return None };
        match (is_number(self.graph, *a, 0.0), is_number(self.graph, *b, 0.0)) {
            (false, true) => Some(*a),
            (true, false) => Some(*b),
            _ => None,
        }
    }
}

/// What one step of the integers of a range stands for.
fn step(range: f32) -> f64 {
    if range > 0.0 { f64::from(range) / MOST } else { 1.0 }
}
