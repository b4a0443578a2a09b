//! A graph of primitives as equal parts that know nothing of each other: one axis of its inputs, the batch,
//! is divided, and every part computes its positions of it.
//!
//! That positions are independent is proven node by node, from the inputs on: of each value it is known along
//! which axis it has a block for each position, or that it is the same for all of them. A node that folds,
//! shifts or mixes positions has no such axis, and the graph is not divided; no name and no order of axes is
//! trusted. Values that depend on no position are there whole in every part.

use std::collections::BTreeMap;

use tilewright_base::Diagnostic;
use tilewright_graph::infer::shape_error;
use tilewright_graph::{BuildResult, Builder, Data, Dim, Graph, Node, Op, Subscripts, ValueId};

/// A part of a graph, and how inputs and outputs are put together of parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DividedGraph {
    /// The graph of one part; all are the same.
    pub graph: Graph,
    /// Parts.
    pub parts: u64,
    /// Positions of the axis that is divided.
    pub positions: u64,
    /// Inputs by name, with the axis that is divided; none if every part takes all of it.
    pub inputs: Vec<(String, Option<usize>)>,
    /// The axis of each output along which parts follow each other; none if every part gives all of it.
    pub outputs: Vec<Option<usize>>,
}

/// A graph of primitives with fixed sizes in so many parts, along the first axis of its inputs that can be
/// divided.
///
/// # Errors
/// `graph/divide`, for the first axis of the inputs: a size that has no such parts, or the node that mixes
/// positions.
pub fn divided(graph: &Graph, parts: u64) -> BuildResult<DividedGraph> {
    if !graph.states.is_empty() {
        return Err(refused("a graph with state is not divided", "graphs without caches"));
    }
    let rank = graph.inputs.iter().filter_map(|id| graph.value(*id)).map(|value| value.ty.dims.len()).max();
    let mut first = None;
    for axis in 0..rank.unwrap_or_default() {
        match along(graph, parts, axis) {
            Ok(found) => return Ok(found),
            Err(why) => first = first.or(Some(why)),
        }
    }
    Err(first.unwrap_or_else(|| refused("the graph has no input with an axis", "inputs with a batch")))
}

fn refused(what: impl Into<String>, allowed: impl Into<String>) -> Box<Diagnostic> {
    let instead = "one chip, or a graph whose inputs have a batch of independent positions";
    Box::new(Diagnostic::error("graph/divide", what).allowed(allowed).instead(instead))
}

/// Divides an axis of all inputs that have as many positions along it as the first that has it.
fn along(graph: &Graph, parts: u64, axis: usize) -> BuildResult<DividedGraph> {
    let size = |id: &ValueId| graph.value(*id)?.ty.dims.get(axis)?.as_fixed();
    let positions = graph.inputs.iter().find_map(size).and_then(|size| u64::try_from(size).ok());
    let positions = positions.filter(|size| *size > 0).ok_or_else(|| {
        refused(format!("axis {axis} of the inputs has no fixed size"), "sizes that are fixed or bounded")
    })?;
    if parts == 0 || !positions.is_multiple_of(parts) {
        return Err(refused(
            format!("{positions} positions along axis {axis} of the inputs have no {parts} equal parts"),
            "a size that is a multiple of the parts",
        ));
    }
    let divider = Divider {
        graph,
        parts,
        positions,
        b: Builder::new(graph.name.clone()),
        new: vec![None; graph.values.len()],
        axes: BTreeMap::new(),
    };
    divider.divided(axis)
}

/// A graph of one part in the making.
struct Divider<'g> {
    graph: &'g Graph,
    parts: u64,
    positions: u64,
    b: Builder,
    /// New values by old ones.
    new: Vec<Option<ValueId>>,
    /// Old values that are divided, with the axis whose outermost digit is the position.
    axes: BTreeMap<ValueId, usize>,
}

/// Sizes of an old value.
fn dims_of(graph: &Graph, id: ValueId) -> &[Dim] {
    graph.value(id).map_or(&[], |value| &value.ty.dims)
}

fn fixed(dims: &[Dim]) -> Option<Vec<u64>> {
    dims.iter().map(|dim| dim.as_fixed().and_then(|size| u64::try_from(size).ok())).collect()
}

fn missing() -> Box<Diagnostic> {
    Box::new(Diagnostic::error("graph/order", "a value is used before it is defined"))
}

/// Why a node is not divided.
type Proof<T> = Result<T, String>;

impl<'g> Divider<'g> {
    fn divided(mut self, axis: usize) -> BuildResult<DividedGraph> {
        let graph = self.graph;
        graph.values.iter().for_each(|value| self.b.reserve(&value.name));
        let mut inputs = Vec::new();
        for id in &graph.inputs {
            let value = graph.value(*id).ok_or_else(missing)?;
            let here = value.ty.dims.get(axis).and_then(Dim::as_fixed);
            let is_divided = here.is_some_and(|size| u64::try_from(size) == Ok(self.positions));
            let mut ty = value.ty.clone();
            if is_divided {
                ty.dims[axis] = self.part_of(&ty.dims[axis]).ok_or_else(missing)?;
                self.axes.insert(*id, axis);
            }
            inputs.push((value.name.clone(), is_divided.then_some(axis)));
            self.new[id.index()] = Some(self.b.input(&value.name, ty)?);
        }
        for constant in &graph.constants {
            let value = graph.value(constant.value).ok_or_else(missing)?;
            let named = self.b.called(value.name.clone());
            self.new[constant.value.index()] = Some(named.constant(value.ty.clone(), constant.data.clone())?);
        }
        for node in &graph.nodes {
            self.node(node)?;
        }
        let mut outputs = Vec::new();
        for output in &graph.outputs {
            outputs.push(self.axes.get(&output.value).copied());
            let value = self.value(output.value)?;
            self.b.output(&output.name, value);
        }
        if outputs.iter().all(Option::is_none) {
            return Err(refused(
                format!("no output has positions of axis {axis} of the inputs"),
                "outputs with the axis that is divided",
            ));
        }
        let (parts, positions) = (self.parts, self.positions);
        Ok(DividedGraph { graph: self.b.finish(), parts, positions, inputs, outputs })
    }

    fn value(&self, old: ValueId) -> BuildResult<ValueId> {
        self.new.get(old.index()).copied().flatten().ok_or_else(missing)
    }

    /// A size in one part.
    fn part_of(&self, size: &Dim) -> Option<Dim> {
        let size = u64::try_from(size.as_fixed()?).ok()?;
        i64::try_from(size / self.parts).ok().map(Dim::fixed)
    }

    fn dims(&self, id: ValueId) -> &'g [Dim] {
        dims_of(self.graph, id)
    }

    fn node(&mut self, node: &Node) -> BuildResult<()> {
        let Some(out) = node.outputs.first().copied() else { return Ok(()) };
        let name = self.graph.value(out).map_or("", |value| value.name.as_str());
        let ids: Vec<ValueId> = node.inputs.iter().flatten().copied().collect();
        let (axis, op) = if ids.iter().any(|id| self.axes.contains_key(id)) {
            let found = self.axis(node, &ids, out).and_then(|axis| Ok((axis, self.op(node, axis)?)));
            let (axis, op) = found.map_err(|why| {
                let what = format!("node `{name}` ({}) {why}", node.op.name());
                refused(what, "nodes that compute each position of the batch alone")
            })?;
            (Some(axis), op)
        } else {
            (None, node.op.clone())
        };
        let before = self.b.graph().values.len();
        let mut inputs = Vec::new();
        for id in &ids {
            inputs.push(self.operand(node, *id, axis, out)?);
        }
        let made = self.b.emit(op, &inputs)?;
        if made.index() >= before {
            self.b.rename(made, name);
        }
        self.new[out.index()] = Some(made);
        if let Some(axis) = axis {
            let wanted = self.dims(out).get(axis).and_then(|size| self.part_of(size));
            if self.b.dims(made).get(axis) != wanted.as_ref() {
                return Err(shape_error(format!("a part of `{name}` has other sizes"), "equal parts"));
            }
            self.axes.insert(out, axis);
        }
        Ok(())
    }

    /// An operand in one part: of a value that is the same for all positions, as many as the others have.
    fn operand(
        &mut self,
        node: &Node,
        id: ValueId,
        axis: Option<usize>,
        out: ValueId,
    ) -> BuildResult<ValueId> {
        let value = self.value(id)?;
        let stretches = matches!(node.op, Op::Binary(_) | Op::Select | Op::Concat { .. });
        let Some(axis) = axis.filter(|_| stretches && !self.axes.contains_key(&id)) else { return Ok(value) };
        let own = (axis + self.dims(id).len()).checked_sub(self.dims(out).len());
        let Some(own) = own.filter(|own| !self.dims(id)[*own].is(1)) else { return Ok(value) };
        let part = self.part_of(&self.dims(id)[own]).ok_or_else(missing)?;
        self.b.slice(value, own, Dim::fixed(0), part, 1)
    }

    /// The axis of a node's result that is divided.
    fn axis(&self, node: &Node, ids: &[ValueId], out: ValueId) -> Proof<usize> {
        let first = || ids.first().copied().ok_or_else(|| "has no operand".to_string());
        let of = |id: ValueId| self.axes.get(&id).copied();
        let own = || of(first()?).ok_or_else(|| "takes positions of the batch as its parameters".to_string());
        match &node.op {
            Op::Unary(_) | Op::Convert(_) => own(),
            Op::Binary(_) | Op::Select | Op::Concat { .. } => self.stretched(&node.op, ids, out),
            Op::Reduce { axes, keep, .. } => {
                let own = own()?;
                if axes.contains(&own) {
                    return Err("folds positions of the batch".to_string());
                }
                let before = axes.iter().filter(|axis| **axis < own).count();
                Ok(if *keep { own } else { own - before })
            }
            Op::Einsum(spec) => self.einsum(spec, ids),
            Op::Reshape(_) => self.reshaped(first()?, own()?, out),
            Op::Broadcast(_) => {
                let own = own()?;
                let moved = own + self.dims(out).len() - self.dims(first()?).len();
                let same = self.dims(out).get(moved) == self.dims(first()?).get(own);
                if same { Ok(moved) } else { Err("repeats positions of the batch".to_string()) }
            }
            Op::Transpose(order) => {
                let own = own()?;
                order.iter().position(|from| *from == own).ok_or_else(|| "leaves the batch out".to_string())
            }
            Op::Slice { axis, .. } => {
                let own = own()?;
                let whole = self.dims(first()?).get(own) == self.dims(out).get(own);
                let in_order = !matches!(node.op, Op::Slice { step, .. } if step != 1);
                if *axis != own || whole && in_order {
                    Ok(own)
                } else {
                    Err("takes some positions of the batch".to_string())
                }
            }
            Op::Pad { axis, .. } => {
                let own = own()?;
                let fill = ids.get(1).copied().and_then(of);
                match (*axis == own, fill) {
                    (false, None) => Ok(own),
                    (true, _) => Err("pads the batch".to_string()),
                    (_, Some(_)) => Err("pads with positions of the batch".to_string()),
                }
            }
            Op::Window { axis, .. } => {
                let own = own()?;
                match axis.cmp(&own) {
                    std::cmp::Ordering::Less => Ok(own + 1),
                    std::cmp::Ordering::Equal => Err("has windows along the batch".to_string()),
                    std::cmp::Ordering::Greater => Ok(own),
                }
            }
            Op::Gather { axis } => self.gathered(*axis, ids),
            Op::Scatter { .. } => {
                let [Some(x), None, Some(rows)] = [0, 1, 2].map(|at| ids.get(at).copied().and_then(of))
                else {
                    return Err("writes rows by numbers of the batch, or over it".to_string());
                };
                if x > 0 && x == rows { Ok(x) } else { Err("writes rows of the batch by number".to_string()) }
            }
            Op::Iota { .. } | Op::Size(_) | Op::Rich(..) => Err("is no primitive of operands".to_string()),
        }
    }

    /// Operands that meet element by element, or one behind the other.
    fn stretched(&self, op: &Op, ids: &[ValueId], out: ValueId) -> Proof<usize> {
        let rank = self.dims(out).len();
        let moved = |id: &ValueId| Some(self.axes.get(id)? + rank - self.dims(*id).len());
        let mut axes = ids.iter().filter_map(moved);
        let axis = axes.next().ok_or_else(|| "has no operand with the batch".to_string())?;
        if axes.any(|other| other != axis) {
            return Err("has the batch along different axes of its operands".to_string());
        }
        if matches!(op, Op::Concat { axis: joined } if *joined == axis) {
            return Err("lays something behind the batch".to_string());
        }
        for id in ids {
            let own = (axis + self.dims(*id).len()).checked_sub(rank);
            let Some(own) = own.filter(|own| !self.dims(*id)[*own].is(1)) else {
                continue;
            };
            if !self.axes.contains_key(id) && !self.is_same_along(*id, own) {
                let name = self.graph.value(*id).map_or("", |value| value.name.as_str());
                return Err(format!(
                    "has an operand `{name}` that differs from position to position of the \
                     batch and is no input with it"
                ));
            }
        }
        Ok(axis)
    }

    /// Whether a value that is not divided has the same elements at all positions of an axis.
    fn is_same_along(&self, id: ValueId, axis: usize) -> bool {
        let data = self.graph.constants.iter().find(|constant| constant.value == id);
        if let Some(constant) = data {
            let Some(dims) = fixed(self.dims(id)) else { return false };
            return match &constant.data {
                Data::Floats(all) => is_same(all, &dims, axis),
                Data::Ints(all) => is_same(all, &dims, axis),
                Data::Stored(_) => false,
            };
        }
        let Some(node) = self.graph.nodes.iter().find(|node| node.outputs.contains(&id)) else {
            return false;
        };
        let rank = self.dims(id).len();
        let same = |from: &ValueId| match (axis + self.dims(*from).len()).checked_sub(rank) {
            None => true,
            Some(own) => self.dims(*from)[own].is(1) || self.is_same_along(*from, own),
        };
        match &node.op {
            Op::Unary(_) | Op::Convert(_) | Op::Binary(_) | Op::Select | Op::Broadcast(_) => {
                node.inputs.iter().flatten().all(same)
            }
            Op::Iota { axis: counted, .. } => *counted != axis,
            _ => false,
        }
    }

    fn einsum(&self, spec: &str, ids: &[ValueId]) -> Proof<usize> {
        let letters =
            Subscripts::parse(spec).ok_or_else(|| "has subscripts that are not letters".to_string())?;
        let mut batch = None;
        for (id, own) in ids.iter().zip(&letters.inputs) {
            let Some(letter) = self.axes.get(id).and_then(|axis| own.get(*axis)) else { continue };
            let twice = own.iter().filter(|known| *known == letter).count() > 1;
            if twice || batch.is_some_and(|known| known != *letter) {
                return Err("multiplies positions of the batch with each other".to_string());
            }
            batch = Some(*letter);
        }
        let letter = batch.ok_or_else(|| "has no operand with the batch".to_string())?;
        let whole = ids
            .iter()
            .zip(&letters.inputs)
            .find(|(id, own)| own.contains(&letter) && !self.axes.contains_key(id));
        if let Some((id, _)) = whole {
            let name = self.graph.value(*id).map_or("", |value| value.name.as_str());
            return Err(format!(
                "multiplies each position of the batch with elements of `{name}` for it alone"
            ));
        }
        let kept = letters.output.iter().position(|known| *known == letter);
        kept.ok_or_else(|| "sums over positions of the batch".to_string())
    }

    /// Positions stay the outermost digit of an axis.
    fn reshaped(&self, from: ValueId, own: usize, out: ValueId) -> Proof<usize> {
        let open = || "has sizes that are open".to_string();
        let (old, new) = (fixed(self.dims(from)).ok_or_else(open)?, fixed(self.dims(out)).ok_or_else(open)?);
        let outside: u64 = old[..own].iter().product();
        let mut before = 1;
        for (axis, size) in new.iter().enumerate() {
            if before == outside && *size > 0 && size.is_multiple_of(self.positions) {
                return Ok(axis);
            }
            before *= size;
        }
        Err("joins the batch with axes before it, or cuts it".to_string())
    }

    fn gathered(&self, axis: usize, ids: &[ValueId]) -> Proof<usize> {
        let [x, indices] = ids else { return Err("has no numbers".to_string()) };
        match (self.axes.get(x), self.axes.get(indices)) {
            (Some(own), None) if *own < axis => Ok(*own),
            (Some(own), None) if *own > axis => Ok(own - 1 + self.dims(*indices).len()),
            (None, Some(own)) => Ok(axis + own),
            (Some(_), None) => Err("looks up positions of the batch by number".to_string()),
            _ => Err("looks up elements of each position of the batch by numbers of its own".to_string()),
        }
    }

    /// The operator in one part.
    fn op(&self, node: &Node, axis: usize) -> Proof<Op> {
        let part = |dims: &[Dim]| -> Proof<Vec<Dim>> {
            let mut dims = dims.to_vec();
            let size = dims.get(axis).and_then(|size| self.part_of(size));
            dims[axis] = size.ok_or_else(|| "has sizes that are open".to_string())?;
            Ok(dims)
        };
        Ok(match &node.op {
            Op::Reshape(dims) => Op::Reshape(part(dims)?),
            Op::Broadcast(dims) => Op::Broadcast(part(dims)?),
            // All of the axis.
            Op::Slice { axis: own, start, size, step } if *own == axis => {
                let part = self.part_of(size).ok_or_else(|| "has sizes that are open".to_string())?;
                Op::Slice { axis: *own, start: start.clone(), size: part, step: *step }
            }
            op => op.clone(),
        })
    }
}

/// Whether elements are the same at all positions of an axis.
fn is_same<E: PartialEq>(all: &[E], dims: &[u64], axis: usize) -> bool {
    let count = |dims: &[u64]| usize::try_from(dims.iter().product::<u64>()).unwrap_or(usize::MAX);
    let Some((size, inner)) = dims.get(axis).map(|size| (count(&[*size]), count(&dims[axis + 1..]))) else {
        return false;
    };
    if inner == 0 || size == 0 {
        return true;
    }
    all.chunks(size * inner).all(|block| block.chunks(inner).all(|one| Some(one) == block.get(..inner)))
}
