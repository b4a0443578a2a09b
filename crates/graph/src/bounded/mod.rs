//! Graphs of open sizes at their bounds: one graph of fixed sizes that computes every size up to them.
//!
//! Every open axis becomes as long as it may be. Elements lie first, padding behind them ([`layout`]), and
//! run-time sizes are scalar inputs. What folds or contracts an open axis gets the neutral element where
//! there is padding: `select(mask, x, neutral)`, with the mask made of a size. Padding that nothing folds is
//! left as it comes, and whoever runs the graph cuts it off ([`OpenSizes`]). This is what XLA calls bounded
//! dynamic shapes, and its pass a dynamic padder.
//!
//! Sizes that a graph knows as numbers while it runs (the divisor of a mean, the last position) are inputs
//! too. i64 has the range of i32 here, as it has on chips of 32-bit words.

mod folds;
pub mod layout;
mod masks;
mod moves;
mod nodes;
mod open_sizes;

use std::collections::BTreeMap;

use tilewright_base::Diagnostic;

use crate::build::Builder;
use crate::dim::{Axis, AxisId, Dim};
use crate::graph::{Graph, Node, Type, ValueId};
use crate::infer::{BuildResult, size_error};
use layout::{Digit, Padding, plain};

pub use open_sizes::{AxisSizes, OpenSizes, OpenTensor, SizeInput, out_of_bounds};

/// A graph at the bounds of its axes, and what whoever runs it must know of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundedGraph {
    /// Primitives of fixed sizes. Its inputs are those of the open graph, and behind them run-time sizes.
    pub graph: Graph,
    /// Which sizes are open.
    pub sizes: OpenSizes,
}

/// A graph of primitives at the bounds of its axes.
///
/// # Errors
/// `graph/open`, for a node that cannot be computed while an axis is open.
pub fn bounded(graph: &Graph) -> BuildResult<BoundedGraph> {
    let mut pass = BoundingPass::new(graph);
    for id in &graph.inputs {
        pass.input(*id)?;
    }
    for constant in &graph.constants {
        let (name, ty) = pass.described(constant.value)?;
        let fixed = Type::new(ty.dtype, pass.bounds(&ty.dims)?);
        let id = pass.b.called(name).constant(fixed, constant.data.clone())?;
        pass.define(constant.value, id, ty.dims.iter().map(|dim| plain(dim, Padding::Same)).collect());
    }
    for node in &graph.nodes {
        let before = pass.b.graph().values.len();
        let name = node.outputs.first().and_then(|id| graph.value(*id)).map_or("", |value| &value.name);
        let (id, axes) = pass.node(node).map_err(|why| in_node(*why, name, node))?;
        if id.index() >= before {
            pass.b.rename(id, name);
        }
        if let Some(output) = node.outputs.first() {
            pass.define(*output, id, axes);
        }
    }
    pass.finish()
}

/// A complaint about a node, with its name and operator.
fn in_node(complaint: Diagnostic, name: &str, node: &Node) -> Box<Diagnostic> {
    let message = format!("node `{name}` ({}): {}", node.op.name(), complaint.message);
    Box::new(Diagnostic { message, ..complaint })
}

/// A value at its bounds: which, and where its elements lie along each axis.
type Bounded = (ValueId, Vec<Vec<Digit>>);

/// The pass in the making.
struct BoundingPass<'g> {
    open: &'g Graph,
    b: Builder,
    values: Vec<Option<Bounded>>,
    /// Largest size of each axis.
    most: Vec<Option<u64>>,
    /// Run-time sizes as i32 scalars.
    sizes: BTreeMap<Dim, ValueId>,
    /// Which positions of an axis hold elements.
    masks: BTreeMap<Vec<(Dim, bool)>, ValueId>,
}

impl<'g> BoundingPass<'g> {
    fn new(open: &'g Graph) -> BoundingPass<'g> {
        let mut b = Builder::new(open.name.clone());
        open.values.iter().for_each(|value| b.reserve(&value.name));
        let most = open.axes.iter().map(|axis| Some(axis.most)).collect();
        let values = vec![None; open.values.len()];
        BoundingPass { open, b, values, most, sizes: BTreeMap::new(), masks: BTreeMap::new() }
    }

    fn axes(&self) -> &'g [Axis] {
        &self.open.axes
    }

    fn described(&self, id: ValueId) -> BuildResult<(&'g str, &'g Type)> {
        let value = self.open.value(id);
        value.map(|value| (value.name.as_str(), &value.ty)).ok_or_else(undefined)
    }

    fn define(&mut self, id: ValueId, new: ValueId, axes: Vec<Vec<Digit>>) {
        if let Some(slot) = self.values.get_mut(id.index()) {
            *slot = Some((new, axes));
        }
    }

    fn bounded_value(&self, id: ValueId) -> BuildResult<Bounded> {
        self.values.get(id.index()).cloned().flatten().ok_or_else(undefined)
    }

    fn input(&mut self, id: ValueId) -> BuildResult<()> {
        let (name, ty) = self.described(id)?;
        let fixed = Type::new(ty.dtype, self.bounds(&ty.dims)?);
        let new = self.b.input(name, fixed)?;
        self.define(id, new, ty.dims.iter().map(|dim| plain(dim, Padding::Zero)).collect());
        Ok(())
    }

    /// The largest that a size may be, which is what it is where every axis is largest.
    fn bound(&self, dim: &Dim) -> BuildResult<Dim> {
        if dim.as_fixed().is_some() {
            return Ok(dim.clone());
        }
        let shrinks = |axis: &AxisId| dim.growth(*axis).is_none_or(|growth| growth.range(self.axes()).0 < 0);
        if let Some(axis) = dim.axes().into_iter().find(shrinks) {
            let what = format!("the size {} shrinks while another grows", dim.text(self.axes()));
            return Err(self.refusal(what, &Dim::axis(axis)));
        }
        let most = dim.value(&self.most).map(Dim::fixed);
        most.ok_or_else(|| size_error(format!("the size {} is too large", dim.text(self.axes())), "64 bits"))
    }

    fn bounds(&self, dims: &[Dim]) -> BuildResult<Vec<Dim>> {
        dims.iter().map(|dim| self.bound(dim)).collect()
    }

    /// The length of an axis at its bound.
    fn length(&self, digits: &[Digit]) -> BuildResult<Dim> {
        let bounds: BuildResult<Vec<Dim>> = digits.iter().map(|digit| self.bound(&digit.dim)).collect();
        Dim::product(&bounds?).ok_or_else(|| size_error("an axis is too long", "64 bits"))
    }

    fn lengths(&self, axes: &[Vec<Digit>]) -> BuildResult<Vec<Dim>> {
        axes.iter().map(|digits| self.length(digits)).collect()
    }

    /// A refusal of something that a size of this kind cannot have while it is open.
    fn refusal(&self, what: impl Into<String>, dim: &Dim) -> Box<Diagnostic> {
        let names: Vec<String> = dim
            .axes()
            .iter()
            .filter_map(|axis| self.axes().get(axis.0 as usize))
            .map(|axis| format!("`{}`", axis.name))
            .collect();
        let axes = names.join(" and ");
        Box::new(
            Diagnostic::error("graph/open", what)
                .allowed(format!("a fixed size of {axes}"))
                .instead(format!("a number for {axes}")),
        )
    }

    fn finish(mut self) -> BuildResult<BoundedGraph> {
        let mut outputs = Vec::new();
        for output in &self.open.outputs {
            let (id, axes) = self.bounded_value(output.value)?;
            self.b.output(&output.name, id);
            let digits = |axis: &Vec<Digit>| axis.iter().map(|digit| digit.dim.clone()).collect();
            outputs.push(OpenTensor { name: output.name.clone(), axes: axes.iter().map(digits).collect() });
        }
        let mut inputs = Vec::new();
        for id in &self.open.inputs {
            let (name, ty) = self.described(*id)?;
            let axes = ty.dims.iter().map(|dim| vec![dim.clone()]).collect();
            inputs.push(OpenTensor { name: name.to_string(), axes });
        }
        let named = |(dim, id): (&Dim, &ValueId)| {
            let name = self.b.graph().value(*id)?.name.clone();
            Some(SizeInput { name, size: dim.clone() })
        };
        let mut sizes: Vec<(&Dim, &ValueId)> = self.sizes.iter().collect();
        sizes.sort_unstable_by_key(|(_, id)| **id);
        let sizes = sizes.into_iter().filter_map(named).collect();
        let sizes = OpenSizes { axes: self.axes().to_vec(), inputs, sizes, outputs };
        Ok(BoundedGraph { graph: self.b.finish(), sizes })
    }
}

fn undefined() -> Box<Diagnostic> {
    Box::new(Diagnostic::error("graph/order", "a value is used before it is defined"))
}
