//! Columns of contractions padded to whole units, so that rows of their results begin where memory takes them
//! whole.
//!
//! An axis that a contraction gives last is made longer: its operand gets zeros, and all that is computed
//! from the result stays so long, until something folds the axis or needs it as it was. What folds it meets
//! the neutral element behind the elements: a softmax gets minus infinity before its maximum, and everything
//! behind that has zeros by itself ([`content`]). Sizes are numbers; for those that a run gives see
//! [`crate::bounded`].

mod content;
mod nodes;

use std::collections::BTreeMap;

use tilewright_base::Diagnostic;

use crate::build::Builder;
use crate::dim::Dim;
use crate::dtype::Dtype;
use crate::graph::{Data, Graph, Node, Type, ValueId};
use crate::infer::BuildResult;
use crate::op::Op;
use crate::prune::prune;
use content::{Content, PaddedValue};

/// Units from which on an axis is a multiple of two: elements of half the size are whole units then too.
const LONG_UNITS: i64 = 8;
/// Sums are padded if they get longer by one part of so many.
const MOST_MORE: i64 = 8;

/// Which axes are padded, and to what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AxisUnits {
    /// Elements of which padded axes have a multiple.
    pub unit: i64,
    /// Elements of a contraction's result below which its columns stay as they are.
    pub least_elements: i64,
}

/// The same graph with columns of contractions in whole units; `None` if all are.
///
/// # Errors
/// A graph that is no graph of primitives.
pub fn padded_axes(graph: &Graph, units: AxisUnits) -> BuildResult<Option<Graph>> {
    let mut b = Builder::new(graph.name.clone());
    graph.values.iter().for_each(|value| b.reserve(&value.name));
    for axis in &graph.axes {
        b.axis(&axis.name, axis.least, axis.most);
    }
    let values = vec![None; graph.values.len()];
    let masks = BTreeMap::new();
    let mut pass = PaddingPass {
        graph,
        b,
        units,
        values,
        masks,
        looked_through: Vec::new(),
        free: Vec::new(),
        seeds: 0,
    };
    pass.looked_through = vec![false; graph.values.len()];
    for id in &graph.inputs {
        let value = graph.value(*id).ok_or_else(undefined)?;
        let new = pass.b.input(&value.name, value.ty.clone())?;
        pass.define(*id, PaddedValue::exact(new, value.ty.dims.len()));
    }
    pass.free = free(graph);
    for constant in &graph.constants {
        let value = graph.value(constant.value).ok_or_else(undefined)?;
        let new = pass.b.called(value.name.clone()).constant(value.ty.clone(), constant.data.clone())?;
        pass.define(constant.value, PaddedValue::exact(new, value.ty.dims.len()));
    }
    graph.nodes.iter().try_for_each(|node| pass.node(node))?;
    for output in &graph.outputs {
        let value = pass.exact(output.value)?;
        pass.b.output(&output.name, value);
    }
    for state in &graph.states {
        let input = pass.exact(state.input)?;
        pass.b.state(input, state.output);
    }
    Ok((pass.seeds > 0).then(|| prune(pass.b.finish())))
}

/// Constants, and inputs that one node reads.
fn free(graph: &Graph) -> Vec<bool> {
    let mut uses = vec![0_usize; graph.values.len()];
    let read = graph.nodes.iter().flat_map(|node| node.inputs.iter().flatten());
    for id in read.chain(graph.outputs.iter().map(|output| &output.value)) {
        if let Some(count) = uses.get_mut(id.index()) {
            *count += 1;
        }
    }
    let mut free = vec![false; graph.values.len()];
    let inputs = graph.inputs.iter().filter(|id| uses.get(id.index()) == Some(&1));
    for id in inputs.chain(graph.constants.iter().map(|constant| &constant.value)) {
        if let Some(flag) = free.get_mut(id.index()) {
            *flag = true;
        }
    }
    free
}

struct PaddingPass<'g> {
    graph: &'g Graph,
    b: Builder,
    units: AxisUnits,
    values: Vec<Option<PaddedValue>>,
    /// Constants along an axis: one thing where there are elements, another behind them.
    masks: BTreeMap<(bool, i64, i64, usize), ValueId>,
    /// Values that are windows of others, which padding would write out.
    looked_through: Vec<bool>,
    /// Values that cost nothing to pad: constants, and inputs that are read once.
    free: Vec<bool>,
    /// Contractions whose columns were made longer.
    seeds: usize,
}

impl PaddingPass<'_> {
    fn define(&mut self, old: ValueId, new: PaddedValue) {
        if let Some(slot) = self.values.get_mut(old.index()) {
            *slot = Some(new);
        }
    }

    fn value(&self, old: ValueId) -> BuildResult<PaddedValue> {
        self.values.get(old.index()).cloned().flatten().ok_or_else(undefined)
    }

    /// Sizes as the graph has them.
    fn dims(&self, old: ValueId) -> BuildResult<&[Dim]> {
        self.graph.value(old).map(|value| value.ty.dims.as_slice()).ok_or_else(undefined)
    }

    /// The value as the graph has it.
    fn exact(&mut self, old: ValueId) -> BuildResult<ValueId> {
        let PaddedValue { mut id, axes } = self.value(old)?;
        for (axis, _) in axes.iter().enumerate().filter(|(_, content)| content.is_some()) {
            let size = self.dims(old)?.get(axis).cloned().ok_or_else(undefined)?;
            id = self.b.slice(id, axis, Dim::fixed(0), size, 1)?;
        }
        Ok(id)
    }

    /// The length that an axis of so many elements gets.
    fn padded_size(&self, size: i64) -> i64 {
        let AxisUnits { unit, .. } = self.units;
        let unit = if size >= LONG_UNITS * unit { 2 * unit } else { unit };
        (size + unit - 1) / unit * unit
    }

    /// The value with an axis in whole units, zeros where it was not yet.
    fn widened(&mut self, old: ValueId, value: PaddedValue, axis: usize) -> BuildResult<PaddedValue> {
        let PaddedValue { id, mut axes } = value;
        if axes.get(axis).is_none_or(Option::is_some) {
            return Ok(PaddedValue { id, axes });
        }
        let size = self.dims(old)?.get(axis).and_then(Dim::as_fixed).ok_or_else(undefined)?;
        let more = Dim::fixed(self.padded_size(size) - size);
        let zero = self.b.scalar(self.b.dtype(id), 0.0)?;
        let id = self.b.pad(id, axis, Dim::fixed(0), more, zero)?;
        axes[axis] = Some(Content::Zero);
        Ok(PaddedValue { id, axes })
    }

    /// The value with something behind the elements of an axis, which whoever reads it later gets too.
    fn filled(&mut self, old: ValueId, axis: usize, wanted: Content) -> BuildResult<PaddedValue> {
        let PaddedValue { id, mut axes } = self.value(old)?;
        let has = axes.get(axis).copied().flatten();
        if has.is_none_or(|content| content == wanted) {
            return Ok(PaddedValue { id, axes });
        }
        let size = self.dims(old)?.get(axis).and_then(Dim::as_fixed).ok_or_else(undefined)?;
        let behind = axes.len() - axis - 1;
        let id = if has == Some(Content::Zero) && wanted == Content::Least {
            let least = self.mask(true, size, behind)?;
            let least = self.b.convert(least, self.b.dtype(id))?;
            self.b.add(id, least)?
        } else {
            let element = if wanted == Content::Least { f64::NEG_INFINITY } else { 0.0 };
            let element = self.b.scalar(self.b.dtype(id), element)?;
            let mask = self.mask(false, size, behind)?;
            self.b.select(mask, id, element)?
        };
        axes[axis] = Some(wanted);
        let filled = PaddedValue { id, axes };
        self.define(old, filled.clone());
        Ok(filled)
    }

    /// What says which positions of an axis hold elements: minus zero there and minus infinity behind, or
    /// true and false.
    fn mask(&mut self, sums: bool, size: i64, behind: usize) -> BuildResult<ValueId> {
        let length = self.padded_size(size);
        let key = (sums, size, length, behind);
        if let Some(known) = self.masks.get(&key) {
            return Ok(*known);
        }
        let mut dims = vec![Dim::fixed(length)];
        dims.resize(behind + 1, Dim::fixed(1));
        let each = |at: i64| at < size;
        let made = if sums {
            // What minus zero is added to stays as it is, whatever its sign.
            let bits = |is_element: bool| if is_element { -0.0_f32 } else { f32::NEG_INFINITY };
            let bits = (0..length).map(|at| bits(each(at)).to_bits()).collect();
            self.b.constant(Type::new(Dtype::F32, dims), Data::Floats(bits))?
        } else {
            let bits = (0..length).map(|at| i64::from(each(at))).collect();
            self.b.constant(Type::new(Dtype::Bool, dims), Data::Ints(bits))?
        };
        self.masks.insert(key, made);
        Ok(made)
    }

    fn node(&mut self, node: &Node) -> BuildResult<()> {
        let output = node.outputs.first().copied().ok_or_else(undefined)?;
        let inputs: Vec<ValueId> = node.inputs.iter().flatten().copied().collect();
        self.note_windows(&node.op, &inputs, output);
        let before = self.b.graph().values.len();
        let made = self.padded_node(&node.op, &inputs, output)?;
        if made.id.index() >= before {
            let name = self.graph.value(output).map_or("", |value| &value.name);
            self.b.rename(made.id, name);
        }
        self.define(output, made);
        Ok(())
    }

    /// Notes whether a value is windows of another, moved or not.
    fn note_windows(&mut self, op: &Op, inputs: &[ValueId], output: ValueId) {
        let of_windows = |id: &ValueId| self.looked_through.get(id.index()).copied() == Some(true);
        let moves = matches!(op, Op::Reshape(_) | Op::Transpose(_) | Op::Slice { .. } | Op::Convert(_));
        let is_window = matches!(op, Op::Window { .. }) || moves && inputs.iter().any(of_windows);
        if let Some(flag) = self.looked_through.get_mut(output.index()) {
            *flag = is_window;
        }
    }
}

fn undefined() -> Box<Diagnostic> {
    Box::new(Diagnostic::error("graph/order", "a value is used before it is defined"))
}
