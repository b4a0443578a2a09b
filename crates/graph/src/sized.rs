//! A graph with axes at sizes of one's choice: fixed, within other bounds, or the sum of other axes. Empty
//! operands of `concat` go, as those of a cache that holds nothing yet.

use std::collections::BTreeMap;

use tilewright_base::Diagnostic;

use crate::build::Builder;
use crate::dim::Dim;
use crate::graph::{Graph, Type, ValueId};
use crate::infer::{BuildResult, size_error};
use crate::op::Op;
use crate::prune::prune;

/// What becomes of an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AxisChoice {
    /// Always this size.
    Fixed(u64),
    /// Any size from the first to the second.
    Within(u64, u64),
    /// As long as these axes together.
    SumOf(Vec<String>),
}

/// A graph of primitives with its axes as they are chosen by name; those that are not named stay as they are.
///
/// # Errors
/// A size that the axis does not have, a sum of axes that there are not, an operator that cannot have the
/// size.
pub fn sized(graph: &Graph, choices: &BTreeMap<String, AxisChoice>) -> BuildResult<Graph> {
    let mut b = Builder::new(graph.name.clone());
    graph.values.iter().for_each(|value| b.reserve(&value.name));
    let to = chosen_dims(graph, choices, &mut b)?;
    let mut pass = SizedPass { graph, b, to, new: vec![None; graph.values.len()] };
    for id in &graph.inputs {
        let value = graph.value(*id).ok_or_else(undefined)?;
        let ty = pass.ty(&value.ty)?;
        let new = pass.b.input(&value.name, ty)?;
        pass.set(*id, new);
    }
    for constant in &graph.constants {
        let value = graph.value(constant.value).ok_or_else(undefined)?;
        let ty = pass.ty(&value.ty)?;
        let new = pass.b.called(value.name.clone()).constant(ty, constant.data.clone())?;
        pass.set(constant.value, new);
    }
    for at in 0..graph.nodes.len() {
        pass.node(at)?;
    }
    pass.finish()
}

/// The size of each axis of a graph in the new one.
fn chosen_dims(
    graph: &Graph,
    choices: &BTreeMap<String, AxisChoice>,
    b: &mut Builder,
) -> BuildResult<Vec<Dim>> {
    let mut dims: Vec<Dim> = Vec::with_capacity(graph.axes.len());
    for axis in &graph.axes {
        let (least, most) = match choices.get(&axis.name) {
            Some(AxisChoice::SumOf(_)) => {
                dims.push(Dim::fixed(0));
                continue;
            }
            Some(AxisChoice::Fixed(size)) => (*size, *size),
            Some(AxisChoice::Within(least, most)) => (*least, *most),
            None => (axis.least, axis.most),
        };
        if least > most || least < axis.least || most > axis.most {
            let (name, from, to) = (&axis.name, axis.least, axis.most);
            let what = format!("the size of `{name}` cannot be {least} to {most}");
            return Err(size_error(what, format!("sizes within {from} to {to}")));
        }
        dims.push(match i64::try_from(least) {
            Ok(size) if least == most => Dim::fixed(size),
            _ => b.axis(&axis.name, least, most),
        });
    }
    let sums: Vec<(usize, Dim)> = (0..)
        .zip(&graph.axes)
        .filter_map(|(at, axis)| match choices.get(&axis.name) {
            Some(AxisChoice::SumOf(parts)) => Some((at, parts)),
            _ => None,
        })
        .map(|(at, parts)| Ok((at, sum_of(graph, &dims, parts)?)))
        .collect::<BuildResult<_>>()?;
    for (at, sum) in sums {
        if let Some(slot) = dims.get_mut(at) {
            *slot = sum;
        }
    }
    Ok(dims)
}

fn sum_of(graph: &Graph, dims: &[Dim], parts: &[String]) -> BuildResult<Dim> {
    parts.iter().try_fold(Dim::fixed(0), |sum, part| {
        let at = graph.axes.iter().position(|axis| axis.name == *part);
        let dim = at.and_then(|at| dims.get(at)).and_then(|dim| sum.plus(dim));
        dim.ok_or_else(|| size_error(format!("a sum with `{part}`"), "axes of the graph"))
    })
}

struct SizedPass<'g> {
    graph: &'g Graph,
    b: Builder,
    /// Each axis of the graph in sizes of the new one.
    to: Vec<Dim>,
    new: Vec<Option<ValueId>>,
}

impl SizedPass<'_> {
    fn set(&mut self, old: ValueId, new: ValueId) {
        if let Some(slot) = self.new.get_mut(old.index()) {
            *slot = Some(new);
        }
    }

    fn get(&self, old: ValueId) -> BuildResult<ValueId> {
        self.new.get(old.index()).copied().flatten().ok_or_else(undefined)
    }

    fn dim(&self, dim: &Dim) -> BuildResult<Dim> {
        dim.substituted(&self.to).ok_or_else(|| size_error("a size becomes too large", "64 bits"))
    }

    fn dims(&self, dims: &[Dim]) -> BuildResult<Vec<Dim>> {
        dims.iter().map(|dim| self.dim(dim)).collect()
    }

    fn ty(&self, ty: &Type) -> BuildResult<Type> {
        Ok(Type::new(ty.dtype, self.dims(&ty.dims)?))
    }

    fn node(&mut self, at: usize) -> BuildResult<()> {
        let node = self.graph.nodes.get(at).ok_or_else(undefined)?;
        let name = node.outputs.first().and_then(|id| self.graph.value(*id)).map_or("", |value| &value.name);
        let inputs = node.inputs.iter().flatten().map(|id| self.get(*id)).collect::<BuildResult<Vec<_>>>()?;
        let before = self.b.graph().values.len();
        let op = self.op(&node.op)?;
        let made = match self.without_empty(&op, &inputs)?.as_slice() {
            [single] if matches!(op, Op::Concat { .. }) => Ok(*single),
            inputs => self.b.emit(op, inputs),
        };
        let made = made.map_err(|complaint| Box::new(complaint.with_note(format!("in `{name}`"))))?;
        if made.index() >= before {
            self.b.rename(made, name);
        }
        node.outputs.first().into_iter().for_each(|output| self.set(*output, made));
        Ok(())
    }

    /// Operands of `concat` that have elements, if some have; of others all.
    fn without_empty(&self, op: &Op, inputs: &[ValueId]) -> BuildResult<Vec<ValueId>> {
        let Op::Concat { axis } = op else { return Ok(inputs.to_vec()) };
        let mut full = Vec::new();
        for input in inputs {
            if !self.b.dim(*input, *axis)?.is(0) {
                full.push(*input);
            }
        }
        Ok(if full.is_empty() { inputs.to_vec() } else { full })
    }

    fn op(&self, op: &Op) -> BuildResult<Op> {
        Ok(match op {
            Op::Reshape(dims) => Op::Reshape(self.dims(dims)?),
            Op::Broadcast(dims) => Op::Broadcast(self.dims(dims)?),
            Op::Slice { axis, start, size, step } => {
                Op::Slice { axis: *axis, start: self.dim(start)?, size: self.dim(size)?, step: *step }
            }
            Op::Pad { axis, low, high } => {
                Op::Pad { axis: *axis, low: self.dim(low)?, high: self.dim(high)? }
            }
            Op::Iota { dtype, dims, axis } => Op::Iota { dtype: *dtype, dims: self.dims(dims)?, axis: *axis },
            Op::Size(dim) => Op::Size(self.dim(dim)?),
            other => other.clone(),
        })
    }

    fn finish(mut self) -> BuildResult<Graph> {
        for output in &self.graph.outputs {
            let value = self.get(output.value)?;
            self.b.output(&output.name, value);
        }
        for state in &self.graph.states {
            let input = self.get(state.input)?;
            self.b.state(input, state.output);
        }
        Ok(prune(self.b.finish()))
    }
}

fn undefined() -> Box<Diagnostic> {
    Box::new(Diagnostic::error("graph/order", "a value is used before it is defined"))
}
