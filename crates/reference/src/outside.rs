//! Indices outside of the axes that they choose from, of operators whose indices follow from integers alone.
//! A chip clamps what leads to no element; neither it nor the interpreter, which stops there, sees an index
//! along one axis that leads to an element of another row.

use tilewright_graph::rich::{Attr, Attrs, RichOp};
use tilewright_graph::{Dim, Graph, GraphOutput, IndexInput, Node, Op, TensorStore, ValueId, primitives};

use crate::error::EvalError;
use crate::run::Interpreter;
use crate::tensor::Tensor;

/// An index outside of its axis: the first of its operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutsideIndex {
    /// What the operator gives.
    pub result: String,
    /// The operator.
    pub op: String,
    /// Its indices.
    pub indices: String,
    /// Which element of the indices, row-major.
    pub element: usize,
    /// The index.
    pub index: i64,
    /// Elements of the axis.
    pub size: u64,
    /// How many indices of the operator are outside.
    pub count: usize,
}

/// Inputs of a graph that choose from axes of fixed sizes, in another shape or type at most: what can be said
/// of a run without the graph.
pub fn index_inputs(graph: &Graph) -> Vec<IndexInput> {
    let of = |one: IndexUse<'_>| {
        let [axis] = &one.axes[..] else { return None };
        let size = u64::try_from(axis.as_fixed()?).ok()?;
        let mut id = one.indices;
        while !graph.inputs.contains(&id) {
            let maker = graph.nodes.iter().find(|node| node.outputs.contains(&id))?;
            let same = match &maker.op {
                Op::Convert(to) => !to.is_float(),
                Op::Reshape(_) | Op::Transpose(_) | Op::Broadcast(_) => true,
                _ => false,
            };
            id = maker.inputs.first().copied().flatten().filter(|_| same)?;
        }
        let value = graph.value(id).filter(|value| !value.ty.dtype.is_float())?;
        let result = one.node.outputs.first().and_then(|id| graph.value(*id));
        Some(IndexInput {
            input: value.name.clone(),
            size,
            result: result.map_or_else(String::new, |value| value.name.clone()),
            op: one.node.op.name().to_string(),
        })
    };
    graph.nodes.iter().filter_map(|node| of(IndexUse::of(graph, node)?)).collect()
}

impl OutsideIndex {
    /// The first element of an input that is outside of the axis that it chooses from.
    pub fn of_input(input: &IndexInput, elements: &[i64]) -> Option<OutsideIndex> {
        let size = i64::try_from(input.size).unwrap_or(i64::MAX);
        let mut all = elements.iter().enumerate().filter(|(_, index)| !(-size..size).contains(*index));
        let (element, index) = all.next()?;
        Some(OutsideIndex {
            result: input.result.clone(),
            op: input.op.clone(),
            indices: input.input.clone(),
            element,
            index: *index,
            size: input.size,
            count: 1 + all.count(),
        })
    }
}

/// Indices that choose from axes: from one, or from one axis for each column.
struct IndexUse<'g> {
    node: &'g Node,
    indices: ValueId,
    axes: Vec<Dim>,
}

/// The indices that are outside for inputs in the order of the graph's, one for each operator. Indices that
/// follow from floats are not looked at: they would take a run of the model.
///
/// # Errors
/// Inputs that do not fit the graph.
pub fn outside_indices(
    graph: &Graph,
    store: &TensorStore,
    inputs: &[Tensor],
) -> Result<Vec<OutsideIndex>, EvalError> {
    let whole = whole_numbers(graph);
    let uses = graph.nodes.iter().filter_map(|node| IndexUse::of(graph, node));
    let uses: Vec<IndexUse<'_>> = uses.filter(|one| whole[one.indices.index()]).collect();
    if uses.is_empty() {
        return Ok(Vec::new());
    }
    let sizes = axis_sizes(graph, inputs);
    let values = |uses: &[IndexUse<'_>]| evaluated(graph, store, &whole, uses, inputs);
    // One index that is outside stops all that follows from it: then each operator is looked at alone.
    let found = match values(&uses) {
        Ok(found) => found.into_iter().map(Some).collect(),
        Err(EvalError::Node { .. }) => {
            let alone = |one: &IndexUse<'_>| values(std::slice::from_ref(one)).ok()?.pop();
            uses.iter().map(alone).collect::<Vec<_>>()
        }
        Err(other) => return Err(other),
    };
    let outside = |(one, tensor): (&IndexUse<'_>, Option<Tensor>)| one.outside(graph, &tensor?, &sizes);
    Ok(uses.iter().zip(found).filter_map(outside).collect())
}

/// Values that follow from integers and bools alone.
fn whole_numbers(graph: &Graph) -> Vec<bool> {
    let is_whole = |id: &ValueId| graph.value(*id).is_some_and(|value| !value.ty.dtype.is_float());
    let mut whole = vec![false; graph.values.len()];
    let given = graph.inputs.iter().copied().chain(graph.constants.iter().map(|constant| constant.value));
    given.filter(is_whole).for_each(|id| whole[id.index()] = true);
    for node in &graph.nodes {
        if node.inputs.iter().flatten().all(|id| whole[id.index()]) {
            node.outputs.iter().filter(|id| is_whole(id)).for_each(|id| whole[id.index()] = true);
        }
    }
    whole
}

/// Sizes of the axes as inputs have them.
fn axis_sizes(graph: &Graph, inputs: &[Tensor]) -> Vec<Option<u64>> {
    let mut sizes = vec![None; graph.axes.len()];
    for (id, tensor) in graph.inputs.iter().zip(inputs) {
        let dims = graph.value(*id).map(|value| value.ty.dims.as_slice()).unwrap_or_default();
        for (dim, size) in dims.iter().zip(&tensor.dims) {
            if let Some(slot) = dim.as_axis().and_then(|axis| sizes.get_mut(axis.0 as usize)) {
                slot.get_or_insert(*size as u64);
            }
        }
    }
    sizes
}

/// The indices of operators, by the part of the graph that computes with integers.
fn evaluated(
    graph: &Graph,
    store: &TensorStore,
    whole: &[bool],
    uses: &[IndexUse<'_>],
    inputs: &[Tensor],
) -> Result<Vec<Tensor>, EvalError> {
    let is_whole = |id: &ValueId| whole.get(id.index()).copied().unwrap_or(false);
    let is_needed = |node: &&Node| node.inputs.iter().flatten().chain(&node.outputs).all(is_whole);
    let output =
        |(at, one): (usize, &IndexUse<'_>)| GraphOutput { name: format!("{at}"), value: one.indices };
    let part = Graph {
        nodes: graph.nodes.iter().filter(is_needed).cloned().collect(),
        constants: graph.constants.iter().filter(|constant| is_whole(&constant.value)).cloned().collect(),
        outputs: uses.iter().enumerate().map(output).collect(),
        states: Vec::new(),
        ..graph.clone()
    };
    let part = primitives(&part).map_err(|_| EvalError::Operands("indices"))?;
    Interpreter::new(part, store)?.run(inputs)
}

impl<'g> IndexUse<'g> {
    fn of(graph: &'g Graph, node: &'g Node) -> Option<IndexUse<'g>> {
        let dims = |at: usize| Some(graph.value(node.inputs.get(at).copied().flatten()?)?.ty.dims.as_slice());
        let (from, indices) = (dims(0)?, node.inputs.get(1).copied().flatten()?);
        let one = |axis: i64| {
            let axis = if axis < 0 { axis.checked_add_unsigned(from.len() as u64)? } else { axis };
            Some(vec![from.get(usize::try_from(axis).ok()?)?.clone()])
        };
        let axes = match &node.op {
            Op::Gather { axis } => vec![from.get(*axis)?.clone()],
            Op::Scatter { .. } => one(0)?,
            Op::Rich(RichOp::GatherElements | RichOp::ScatterElements, attrs) => one(number(attrs, "axis"))?,
            Op::Rich(RichOp::GatherNd | RichOp::ScatterNd, attrs) => {
                let columns = usize::try_from(dims(1)?.last()?.as_fixed()?).ok()?;
                let first = usize::try_from(number(attrs, "batch")).ok()?;
                from.get(first..first.checked_add(columns)?)?.to_vec()
            }
            _ => return None,
        };
        Some(IndexUse { node, indices, axes })
    }

    /// The first index that is outside, and how many are.
    fn outside(&self, graph: &Graph, indices: &Tensor, sizes: &[Option<u64>]) -> Option<OutsideIndex> {
        let axes: Option<Vec<i64>> = self.axes.iter().map(|axis| axis.value(sizes)).collect();
        let axes = axes.filter(|axes| !axes.is_empty())?;
        let is_outside = |(at, index): (usize, &i64)| {
            let size = axes[at % axes.len()];
            (!(-size..size).contains(index)).then_some((at, *index, size))
        };
        let mut all = indices.as_ints().iter().enumerate().filter_map(is_outside);
        let (element, index, size) = all.next()?;
        let name = |id: ValueId| graph.value(id).map_or_else(String::new, |value| value.name.clone());
        Some(OutsideIndex {
            result: self.node.outputs.first().map(|id| name(*id)).unwrap_or_default(),
            op: self.node.op.name().to_string(),
            indices: name(self.indices),
            element,
            index,
            size: size.unsigned_abs(),
            count: 1 + all.count(),
        })
    }
}

/// An attribute that is a whole number; 0 if it is not given.
fn number(attrs: &Attrs, name: &str) -> i64 {
    match attrs.0.get(name) {
        Some(Attr::Int(number)) => *number,
        _ => 0,
    }
}
