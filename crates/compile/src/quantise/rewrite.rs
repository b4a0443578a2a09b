//! The graph with contractions of narrow operands: everything else is copied as it is.

use std::collections::BTreeMap;

use tilewright_base::Diagnostic;
use tilewright_graph::infer::BuildResult;
use tilewright_graph::{Binary, Builder, Dim, Dtype, Fold, Graph, Node, Op, Unary, ValueId};
use tilewright_reference::float8;

use super::find::{Contraction, Operand, is_number};
use super::{Format, Ranges};

/// The largest integer that is used.
const MOST: f64 = 127.0;
/// The largest integer of four bits that is used: both signs have as many.
const MOST_OF_FOUR_BITS: f64 = 7.0;
/// What stands for the range of a channel that is zero everywhere.
const LEAST_RANGE: f64 = 1e-30;

/// A float as integers of eight bits: multiplied by steps, rounded, clamped from below and at 127.
///
/// # Errors
/// Another type than f32.
pub fn narrowed(b: &mut Builder, x: ValueId, steps: ValueId, least: f64) -> BuildResult<ValueId> {
    let inside = clamped(b, x, steps, [least, MOST])?;
    b.convert(inside, Dtype::I8)
}

/// A float as an integer between bounds.
fn clamped(b: &mut Builder, x: ValueId, steps: ValueId, [least, most]: [f64; 2]) -> BuildResult<ValueId> {
    let scaled = b.mul(x, steps)?;
    let near = b.unary(Unary::RoundAway, scaled)?;
    let whole = b.convert(near, Dtype::I32)?;
    let low = b.with(Binary::Max, whole, least)?;
    b.with(Binary::Min, low, most)
}

/// A float as integers of four bits.
fn four_bits(b: &mut Builder, x: ValueId, steps: ValueId) -> BuildResult<ValueId> {
    let inside = clamped(b, x, steps, [-MOST_OF_FOUR_BITS, MOST_OF_FOUR_BITS])?;
    b.convert(inside, Dtype::I4)
}

struct Rewriter<'g> {
    graph: &'g Graph,
    ranges: &'g Ranges,
    b: Builder,
    /// New values by old ones.
    new: Vec<Option<ValueId>>,
    /// Narrow values by the old value that they are of.
    bytes: BTreeMap<(ValueId, Format), ValueId>,
}

fn missing() -> Box<Diagnostic> {
    Box::new(Diagnostic::error("graph/order", "a value is used before it is defined"))
}

/// The graph with these contractions in their types, and how many of each there are.
pub(super) fn rewritten(
    graph: &Graph,
    chosen: &BTreeMap<usize, Contraction>,
    ranges: &Ranges,
) -> BuildResult<(Graph, BTreeMap<Format, usize>)> {
    let mut b = Builder::new(graph.name.clone());
    graph.values.iter().for_each(|value| b.reserve(&value.name));
    for axis in &graph.axes {
        b.axis(&axis.name, axis.least, axis.most);
    }
    let new = vec![None; graph.values.len()];
    let mut rewriter = Rewriter { graph, ranges, b, new, bytes: BTreeMap::new() };
    rewriter.given()?;
    let mut counts = BTreeMap::new();
    for (number, node) in graph.nodes.iter().enumerate() {
        let narrow = match chosen.get(&number) {
            Some(contraction) => {
                let made = rewriter.contraction(node, contraction)?;
                made.iter().for_each(|_| *counts.entry(contraction.format).or_insert(0) += 1);
                made
            }
            None => None,
        };
        rewriter.node(node, narrow)?;
    }
    for output in &graph.outputs {
        let value = rewriter.value(output.value)?;
        rewriter.b.output(&output.name, value);
    }
    for state in &graph.states {
        let input = rewriter.value(state.input)?;
        rewriter.b.state(input, state.output);
    }
    Ok((rewriter.b.finish(), counts))
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

    /// A contraction of narrow operands, as floats again; `None` if the range of an operand is not known.
    fn contraction(&mut self, node: &Node, one: &Contraction) -> BuildResult<Option<ValueId>> {
        let (Op::Einsum(spec), [Some(a), Some(b)]) = (&node.op, &node.inputs[..]) else { return Ok(None) };
        let ids = [*a, *b];
        let mut scale = 1.0;
        for operand in &one.operands {
            let Operand::Computed { source, .. } = operand else { continue };
            let Some(range) = self.ranges.get(source) else { return Ok(None) };
            scale *= step(*range, one.format.of_computed());
        }
        let (mut operands, mut by_channel) = (Vec::new(), None);
        for (at, operand) in one.operands.iter().enumerate() {
            operands.push(match operand {
                Operand::Constant => {
                    let (bytes, scales) = self.constant(ids[at], one, at)?;
                    by_channel = Some(scales);
                    bytes
                }
                Operand::Computed { source, nodes } => {
                    self.computed(*source, nodes, one.format.of_computed())?
                }
            });
        }
        let (_, summed) = one.format.of_computed().dtypes();
        let wide = operands.into_iter().map(|bytes| self.b.convert(bytes, summed));
        let wide = wide.collect::<BuildResult<Vec<ValueId>>>()?;
        let sums = self.b.einsum(spec, &wide)?;
        let name = node.outputs.first().and_then(|out| self.graph.value(*out));
        self.b.rename(sums, &format!("{}.sums", name.map_or("", |value| &value.name)));
        let floats = if summed == Dtype::F32 { sums } else { self.b.convert(sums, Dtype::F32)? };
        let scaled = match by_channel {
            Some(scales) => {
                let scales = self.b.with(Binary::Mul, scales, scale)?;
                self.b.mul(floats, scales)?
            }
            None => self.b.with(Binary::Mul, floats, scale)?,
        };
        Ok(Some(scaled))
    }

    /// A constant in its narrow type, and its scales as the result has them: one for each position of axes
    /// that the result keeps.
    fn constant(&mut self, id: ValueId, one: &Contraction, at: usize) -> BuildResult<(ValueId, ValueId)> {
        let (own, out) = (&one.letters.inputs[at], &one.letters.output);
        let x = self.value(id)?;
        let summed: Vec<usize> = (0..own.len()).filter(|axis| !out.contains(&own[*axis])).collect();
        let size = self.b.unary(Unary::Abs, x)?;
        let range = self.b.reduce(Fold::Max, size, &summed, true)?;
        let range = self.b.with(Binary::Max, range, LEAST_RANGE)?;
        let scales = self.b.with(Binary::Div, range, one.format.most())?;
        let steps = self.b.unary(Unary::Recip, scales)?;
        let bytes = match one.format {
            Format::Int8 => narrowed(&mut self.b, x, steps, -MOST)?,
            Format::Float8 => float8(&mut self.b, x, steps)?,
            Format::Weights4 => four_bits(&mut self.b, x, steps)?,
        };
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

    /// A computed value in its narrow type where it is made, placed as the contraction reads it.
    fn computed(&mut self, source: ValueId, nodes: &[usize], format: Format) -> BuildResult<ValueId> {
        let mut bytes = self.bytes(source, format)?;
        for number in nodes.iter().rev() {
            let node = &self.graph.nodes[*number];
            let out = node.outputs.first().copied().ok_or_else(missing)?;
            bytes = match self.bytes.get(&(out, format)) {
                Some(known) => *known,
                None => {
                    let mut inputs = vec![bytes];
                    if matches!(node.op, Op::Pad { .. }) {
                        inputs.push(self.b.scalar(format.dtypes().0, 0.0)?);
                    }
                    let placed = self.b.emit(node.op.clone(), &inputs)?;
                    self.bytes.insert((out, format), placed);
                    placed
                }
            };
        }
        Ok(bytes)
    }

    /// A value in its narrow type; integers that are never below zero are clamped there instead of before.
    fn bytes(&mut self, source: ValueId, format: Format) -> BuildResult<ValueId> {
        if let Some(known) = self.bytes.get(&(source, format)) {
            return Ok(*known);
        }
        let steps = 1.0 / step(self.ranges.get(&source).copied().unwrap_or(0.0), format);
        let (from, least) = match self.above_zero(source).filter(|_| format == Format::Int8) {
            Some(before) => (before, 0.0),
            None => (source, -MOST),
        };
        let from = self.value(from)?;
        let steps = self.b.scalar(Dtype::F32, steps)?;
        let bytes = match format {
            Format::Int8 | Format::Weights4 => narrowed(&mut self.b, from, steps, least)?,
            Format::Float8 => float8(&mut self.b, from, steps)?,
        };
        self.bytes.insert((source, format), bytes);
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

impl Format {
    /// The largest magnitude of constants that is used.
    fn most(self) -> f64 {
        match self {
            Format::Int8 => MOST,
            Format::Weights4 => MOST_OF_FOUR_BITS,
            Format::Float8 => f64::from(float8::MOST),
        }
    }

    /// Types of computed operands, and of what is multiplied and summed.
    fn dtypes(self) -> (Dtype, Dtype) {
        match self {
            Format::Int8 | Format::Weights4 => (Dtype::I8, Dtype::I32),
            Format::Float8 => (Dtype::F8E4M3, Dtype::F32),
        }
    }
}

/// A float as f8e4m3: multiplied by steps; the conversion rounds and saturates.
fn float8(b: &mut Builder, x: ValueId, steps: ValueId) -> BuildResult<ValueId> {
    let scaled = b.mul(x, steps)?;
    b.convert(scaled, Dtype::F8E4M3)
}

/// The number that one stands for in the narrow type of a range.
fn step(range: f32, format: Format) -> f64 {
    if range > 0.0 { f64::from(range) / format.most() } else { 1.0 }
}
