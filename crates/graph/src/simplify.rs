//! The same graph of primitives with less to do: what is computed twice is computed once, rows that are
//! gathered by numbers at equal distances are a slice, and nothing is put behind the others that has no
//! elements.

use std::collections::BTreeMap;

use tilewright_base::Diagnostic;

use crate::build::Builder;
use crate::dim::Dim;
use crate::dtype::Dtype;
use crate::graph::{Constant, Data, Graph, Node, Type, ValueId};
use crate::infer::BuildResult;
use crate::op::Op;
use crate::prune::prune;

/// Constants that are compared with each other have at most so many elements.
const MOST_COMPARED: usize = 64;

/// The simpler graph. Inputs, outputs and state stay, and every value that is left keeps its name.
///
/// # Errors
/// A graph that is no graph of primitives.
pub fn simplified(graph: &Graph) -> BuildResult<Graph> {
    let mut b = Builder::new(graph.name.clone());
    graph.values.iter().for_each(|value| b.reserve(&value.name));
    for axis in &graph.axes {
        b.axis(&axis.name, axis.least, axis.most);
    }
    let new = vec![None; graph.values.len()];
    let mut pass = SimplifyPass { graph, b, new, nodes: BTreeMap::new(), constants: BTreeMap::new() };
    for id in &graph.inputs {
        let value = graph.value(*id).ok_or_else(undefined)?;
        let new = pass.b.input(&value.name, value.ty.clone())?;
        pass.set(*id, new);
    }
    graph.constants.iter().try_for_each(|constant| pass.constant(constant))?;
    graph.nodes.iter().try_for_each(|node| pass.node(node))?;
    for output in &graph.outputs {
        let value = pass.get(output.value)?;
        pass.b.output(&output.name, value);
    }
    for state in &graph.states {
        let input = pass.get(state.input)?;
        pass.b.state(input, state.output);
    }
    Ok(prune(pass.b.finish()))
}

struct SimplifyPass<'g> {
    graph: &'g Graph,
    b: Builder,
    new: Vec<Option<ValueId>>,
    /// What was computed, by operator and operands.
    nodes: BTreeMap<(String, Vec<ValueId>), ValueId>,
    /// Short constants, by type and elements.
    constants: BTreeMap<String, ValueId>,
}

impl SimplifyPass<'_> {
    fn set(&mut self, old: ValueId, new: ValueId) {
        if let Some(slot) = self.new.get_mut(old.index()) {
            *slot = Some(new);
        }
    }

    fn get(&self, old: ValueId) -> BuildResult<ValueId> {
        self.new.get(old.index()).copied().flatten().ok_or_else(undefined)
    }

    fn constant(&mut self, constant: &Constant) -> BuildResult<()> {
        let value = self.graph.value(constant.value).ok_or_else(undefined)?;
        let short = match &constant.data {
            Data::Floats(items) => items.len() <= MOST_COMPARED,
            Data::Ints(items) => items.len() <= MOST_COMPARED,
            Data::Stored(_) => true,
        };
        let key = format!("{:?} {:?}", value.ty, if short { Some(&constant.data) } else { None });
        if let Some(known) = self.constants.get(&key).copied().filter(|_| short) {
            self.set(constant.value, known);
            return Ok(());
        }
        let new = self.b.called(value.name.clone()).constant(value.ty.clone(), constant.data.clone())?;
        if short {
            self.constants.insert(key, new);
        }
        self.set(constant.value, new);
        Ok(())
    }

    fn node(&mut self, node: &Node) -> BuildResult<()> {
        let output = node.outputs.first().copied().ok_or_else(undefined)?;
        let name = self.graph.value(output).map_or("", |value| &value.name);
        let inputs = node.inputs.iter().flatten().map(|id| self.get(*id)).collect::<BuildResult<Vec<_>>>()?;
        let inputs = self.with_elements(&node.op, inputs);
        if let (Op::Concat { .. }, [only]) = (&node.op, &inputs[..]) {
            self.set(output, *only);
            return Ok(());
        }
        let key = (format!("{:?}", node.op), inputs.clone());
        if let Some(known) = self.nodes.get(&key).copied() {
            self.set(output, known);
            return Ok(());
        }
        let before = self.b.graph().values.len();
        let made = match self.as_slice(&node.op, &inputs)? {
            Some(slice) => slice,
            None => match self.as_select(&node.op, &inputs)? {
                Some(select) => select,
                None => self.b.emit(node.op.clone(), &inputs)?,
            },
        };
        if made.index() >= before {
            self.b.rename(made, name);
        }
        self.nodes.insert(key, made);
        self.set(output, made);
        Ok(())
    }

    /// Operands without those that have nothing to put behind the others, if some have.
    fn with_elements(&self, op: &Op, inputs: Vec<ValueId>) -> Vec<ValueId> {
        let Op::Concat { axis } = op else { return inputs };
        let is_empty = |id: &ValueId| self.b.dim(*id, *axis).is_ok_and(|dim| dim.is(0));
        if inputs.iter().all(is_empty) {
            return inputs;
        }
        inputs.into_iter().filter(|id| !is_empty(id)).collect()
    }

    /// Two operands element by element, as rotary embeddings interleave them: a choice by the parity of a
    /// place, where each would be moved in pieces of an element.
    fn as_select(&mut self, op: &Op, inputs: &[ValueId]) -> BuildResult<Option<ValueId>> {
        let (Op::Concat { axis }, [x, y]) = (op, inputs) else { return Ok(None) };
        let behind = self.b.dims(*x).get(axis + 1..).unwrap_or_default();
        let is_run = behind.iter().all(|dim| dim.is(1));
        if !is_run || !self.b.dim(*x, *axis)?.is(1) || !self.b.dim(*y, *axis)?.is(1) {
            return Ok(None);
        }
        let mut dims = vec![Dim::fixed(2)];
        dims.resize(behind.len() + 1, Dim::fixed(1));
        let first = Data::Ints(vec![1, 0]);
        let first = self.b.constant(Type::new(Dtype::Bool, dims), first)?;
        self.b.select(first, *x, *y).map(Some)
    }

    /// Rows by numbers that are known and equally far apart, as a slice.
    fn as_slice(&mut self, op: &Op, inputs: &[ValueId]) -> BuildResult<Option<ValueId>> {
        let (Op::Gather { axis }, [x, indices]) = (op, inputs) else { return Ok(None) };
        let (Some(numbers), Some(own)) = (self.b.numbers(*indices), self.b.dim(*x, *axis)?.as_fixed()) else {
            return Ok(None);
        };
        let rows: Option<Vec<i64>> = numbers
            .iter()
            .map(|row| if *row < 0 { row.checked_add(own) } else { Some(*row) })
            .map(|row| row.filter(|row| (0..own).contains(row)))
            .collect();
        let Some((first, step)) = rows.as_deref().and_then(progression) else { return Ok(None) };
        let count = i64::try_from(numbers.len()).map(Dim::fixed).map_err(|_| undefined())?;
        let taken = self.b.slice(*x, *axis, Dim::fixed(first), count, step)?;
        let mut dims = self.b.dims(*x).to_vec();
        let places = self.b.dims(*indices).to_vec();
        dims.splice(*axis..=*axis, places);
        self.b.reshape(taken, &dims).map(Some)
    }
}

/// The first of some numbers and their distance, if all are equally far apart and not the same.
fn progression(rows: &[i64]) -> Option<(i64, i64)> {
    let (first, rest) = rows.split_first()?;
    let step = rest.first().map_or(Some(1), |second| second.checked_sub(*first))?;
    let even = rows.windows(2).all(|pair| matches!(pair, [a, b] if b.checked_sub(*a) == Some(step)));
    (even && step != 0).then_some((*first, step))
}

fn undefined() -> Box<Diagnostic> {
    Box::new(Diagnostic::error("graph/order", "a value is used before it is defined"))
}
