//! A graph with its constants, evaluated node by node. What depends on constants only is evaluated once.

use tilewright_graph::{Data, Dim, Dtype, Graph, Node, Op, TensorStore, ValueId};

use crate::budget::ElementBudget;
use crate::einsum::einsum;
use crate::elementwise::{binary, convert, select, unary};
use crate::error::EvalError;
use crate::index::{concat, gather, iota, pad, scatter};
use crate::reduce::reduce;
use crate::tensor::{Tensor, count};
use crate::view::{broadcast, slice, transpose, window};

/// A graph of primitives that is ready to run.
pub struct Interpreter {
    graph: Graph,
    /// Values that are the same in every run.
    constants: Vec<Option<Tensor>>,
    /// Nodes that a run evaluates, and the values that nothing needs afterwards.
    steps: Vec<(usize, Vec<ValueId>)>,
}

impl Interpreter {
    /// Takes a graph of primitives and the tensors that its constants refer to.
    ///
    /// # Errors
    /// If an operator is no primitive, or a constant has no data.
    pub fn new(graph: Graph, store: &TensorStore) -> Result<Interpreter, EvalError> {
        if !is_whole(&graph) {
            return Err(EvalError::Operands("graph"));
        }
        let mut constants: Vec<Option<Tensor>> = vec![None; graph.values.len()];
        let mut uses = uses(&graph);
        let mut steps = Vec::new();
        load(&graph, store, &uses, &mut constants)?;
        let open = vec![None; graph.axes.len()];
        let mut budget = ElementBudget::of(&constants);
        for (index, node) in graph.nodes.iter().enumerate() {
            let ready = node.inputs.iter().flatten().all(|id| constants[id.index()].is_some());
            let value = if ready {
                budgeted(&graph, node, &open, &mut budget)
                    .and_then(|()| evaluate(&graph, node, &constants, &open))
            } else {
                Ok(None)
            };
            match value.map_err(|why| named(&graph, node, why))? {
                Some(value) => {
                    keep(node, value, &mut constants);
                    for id in node.inputs.iter().flatten() {
                        uses[id.index()] -= 1;
                        if uses[id.index()] == 0 {
                            constants[id.index()] = None;
                            budget.give_back(*id);
                        }
                    }
                }
                None => steps.push(index),
            }
        }
        let steps = with_ends(&graph, &steps);
        Ok(Interpreter { graph, constants, steps })
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The results for inputs in the order of the graph's.
    ///
    /// # Errors
    /// If an input does not fit, an index is outside, or a tensor becomes too large.
    pub fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>, EvalError> {
        let sizes = self.bind(inputs)?;
        let mut values = self.constants.clone();
        for (id, tensor) in self.graph.inputs.iter().zip(inputs) {
            values[id.index()] = Some(tensor.clone());
        }
        let mut budget = ElementBudget::of(&values);
        for (index, ends) in &self.steps {
            let node = &self.graph.nodes[*index];
            let value = budgeted(&self.graph, node, &sizes, &mut budget)
                .and_then(|()| evaluate(&self.graph, node, &values, &sizes));
            let value = value.map_err(|why| named(&self.graph, node, why))?;
            let open =
                || EvalError::OpenAxis(self.graph.axes.first().map_or_else(String::new, |a| a.name.clone()));
            keep(node, value.ok_or_else(open)?, &mut values);
            for id in ends {
                values[id.index()] = None;
                budget.give_back(*id);
            }
        }
        let result = |id: ValueId| values[id.index()].clone();
        let outputs = self.graph.outputs.iter();
        outputs
            .map(|output| result(output.value).ok_or_else(|| EvalError::Missing(output.name.clone())))
            .collect()
    }

    /// Sizes of the axes as the inputs have them.
    fn bind(&self, inputs: &[Tensor]) -> Result<Vec<Option<u64>>, EvalError> {
        let mut sizes: Vec<Option<u64>> = vec![None; self.graph.axes.len()];
        for (at, id) in self.graph.inputs.iter().enumerate() {
            let value = &self.graph.values[id.index()];
            let tensor = inputs.get(at).ok_or_else(|| EvalError::Missing(value.name.clone()))?;
            for (dim, size) in value.ty.dims.iter().zip(&tensor.dims) {
                if let Some(slot) = dim.as_axis().and_then(|axis| sizes.get_mut(axis.0 as usize)) {
                    slot.get_or_insert(*size as u64);
                }
            }
        }
        for (id, tensor) in self.graph.inputs.iter().zip(inputs) {
            let value = &self.graph.values[id.index()];
            let dims = evaluated(&value.ty.dims, &sizes);
            if dims.as_ref() != Some(&tensor.dims) || value.ty.dtype != tensor.dtype {
                return Err(EvalError::Input {
                    name: value.name.clone(),
                    found: tensor.ty(),
                    wanted: value.ty.text(&self.graph.axes),
                });
            }
        }
        for (axis, size) in self.graph.axes.iter().zip(&sizes) {
            if let Some(size) = size.filter(|size| !(axis.least..=axis.most).contains(size)) {
                let (name, least, most) = (axis.name.clone(), axis.least, axis.most);
                return Err(EvalError::Bounds { name, size, least, most });
            }
        }
        Ok(sizes)
    }
}

/// Whether every value that is named exists.
fn is_whole(graph: &Graph) -> bool {
    let count = graph.values.len();
    let nodes = graph.nodes.iter().flat_map(|node| node.inputs.iter().flatten().chain(&node.outputs));
    let ends = graph.outputs.iter().map(|output| &output.value).chain(&graph.inputs);
    let constants = graph.constants.iter().map(|constant| &constant.value);
    nodes.chain(ends).chain(constants).all(|id| id.index() < count)
}

/// How many nodes and outputs use each value.
fn uses(graph: &Graph) -> Vec<usize> {
    let mut uses = vec![0; graph.values.len()];
    let used = graph.nodes.iter().flat_map(|node| node.inputs.iter().flatten().copied());
    for id in used.chain(graph.outputs.iter().map(|output| output.value)) {
        uses[id.index()] += 1;
    }
    uses
}

fn load(
    graph: &Graph,
    store: &TensorStore,
    uses: &[usize],
    into: &mut [Option<Tensor>],
) -> Result<(), EvalError> {
    for constant in graph.constants.iter().filter(|constant| uses[constant.value.index()] > 0) {
        let value = &graph.values[constant.value.index()];
        let missing = || EvalError::Constant(value.name.clone());
        let dims = evaluated(&value.ty.dims, &[]).ok_or_else(missing)?;
        let tensor = match &constant.data {
            Data::Stored(name) => store.tensors.get(name).and_then(Tensor::stored),
            data => Tensor::constant(value.ty.dtype, &dims, data),
        };
        let fits = tensor.filter(|tensor| tensor.dtype == value.ty.dtype && tensor.dims == dims);
        into[constant.value.index()] = Some(fits.ok_or_else(missing)?);
    }
    Ok(())
}

/// Behind each step, the values whose last use it is.
fn with_ends(graph: &Graph, steps: &[usize]) -> Vec<(usize, Vec<ValueId>)> {
    let mut seen = vec![false; graph.values.len()];
    graph.outputs.iter().for_each(|output| seen[output.value.index()] = true);
    let mut all: Vec<(usize, Vec<ValueId>)> = Vec::with_capacity(steps.len());
    for index in steps.iter().rev() {
        let mut ends = Vec::new();
        for id in graph.nodes[*index].inputs.iter().flatten() {
            if !std::mem::replace(&mut seen[id.index()], true) {
                ends.push(*id);
            }
        }
        all.push((*index, ends));
    }
    all.reverse();
    all
}

fn keep(node: &Node, value: Tensor, values: &mut [Option<Tensor>]) {
    if let Some(id) = node.outputs.first() {
        values[id.index()] = Some(value);
    }
}

fn named(graph: &Graph, node: &Node, why: EvalError) -> EvalError {
    let name = node.outputs.first().and_then(|id| graph.value(*id)).map_or("", |value| &value.name);
    EvalError::Node { name: name.to_string(), why: Box::new(why) }
}

/// Takes room for what a node computes, if its sizes are known.
fn budgeted(
    graph: &Graph,
    node: &Node,
    sizes: &[Option<u64>],
    budget: &mut ElementBudget,
) -> Result<(), EvalError> {
    let Some(id) = node.outputs.first() else { return Ok(()) };
    let Some(value) = graph.value(*id) else { return Ok(()) };
    let Some(dims) = evaluated(&value.ty.dims, sizes) else { return Ok(()) };
    budget.take(*id, count(&dims)?)
}

/// Sizes as numbers; `None` if one is open or negative.
fn evaluated(dims: &[Dim], sizes: &[Option<u64>]) -> Option<Vec<usize>> {
    dims.iter().map(|dim| dim.value(sizes).and_then(|size| usize::try_from(size).ok())).collect()
}

/// The result of a node; `Ok(None)` if an axis is open.
fn evaluate(
    graph: &Graph,
    node: &Node,
    values: &[Option<Tensor>],
    sizes: &[Option<u64>],
) -> Result<Option<Tensor>, EvalError> {
    let missing = || EvalError::Missing("an operand".to_string());
    let mut inputs: Vec<&Tensor> = Vec::with_capacity(node.inputs.len());
    for id in &node.inputs {
        let id = id.ok_or_else(missing)?;
        inputs.push(values.get(id.index()).and_then(Option::as_ref).ok_or_else(|| {
            EvalError::Missing(graph.value(id).map_or_else(String::new, |value| value.name.clone()))
        })?);
    }
    let number = |dim: &Dim| dim.value(sizes).and_then(|size| usize::try_from(size).ok());
    macro_rules! known {
        ($value:expr) => {
            match $value {
                Some(value) => value,
                None => return Ok(None),
            }
        };
    }
    let value = match (&node.op, inputs.as_slice()) {
        (Op::Unary(op), [x]) => unary(*op, x)?,
        (Op::Binary(op), [x, y]) => binary(*op, x, y)?,
        (Op::Select, [c, x, y]) => select(c, x, y)?,
        (Op::Convert(dtype), [x]) => convert(x, *dtype),
        (Op::Reduce { fold, axes, keep }, [x]) => reduce(*fold, x, axes, *keep)?,
        (Op::Einsum(spec), inputs) => einsum(spec, inputs)?,
        (Op::Reshape(dims), [x]) => {
            let dims = known!(evaluated(dims, sizes));
            if count(&dims)? != x.len() {
                return Err(EvalError::Operands("reshape"));
            }
            Tensor { dims, ..(*x).clone() }
        }
        (Op::Broadcast(dims), [x]) => broadcast(x, &known!(evaluated(dims, sizes)))?,
        (Op::Transpose(order), [x]) => transpose(x, order)?,
        (Op::Slice { axis, start, size, step }, [x]) => {
            slice(x, *axis, known!(start.value(sizes)), known!(number(size)), *step)?
        }
        (Op::Concat { axis }, inputs) => concat(*axis, inputs)?,
        (Op::Pad { axis, low, high }, [x, value]) => {
            pad(x, *axis, known!(number(low)), known!(number(high)), value)?
        }
        (Op::Gather { axis }, [x, indices]) => gather(x, *axis, indices)?,
        (Op::Scatter { fold }, [x, indices, updates]) => scatter(*fold, x, indices, updates)?,
        (Op::Iota { dtype, dims, axis }, []) => iota(*dtype, &known!(evaluated(dims, sizes)), *axis)?,
        (Op::Size(dim), []) => Tensor::ints(Dtype::I64, &[], vec![known!(dim.value(sizes))]),
        (Op::Window { axis, size, stride, dilation }, [x]) => {
            let cut = |number: &u64| usize::try_from(*number).unwrap_or(usize::MAX);
            window(x, *axis, (cut(size), cut(stride), cut(dilation)))?
        }
        (Op::Rich(rich, _), _) => return Err(EvalError::Rich(rich.name())),
        (op, _) => return Err(EvalError::Operands(op.name())),
    };
    Ok(Some(value))
}
