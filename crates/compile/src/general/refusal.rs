//! Why a graph does not become kernels: the node with its types, what it asks for that the chip has not, and
//! the nearest thing that it has.

use std::fmt;

use thiserror::Error;
use tilewright_graph::{Binary, Dtype, Fold, Graph, Node, Op, Type, ValueId};

/// A node that is not lowered.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("node `{node}` ({op}) is not lowered: {why}")]
pub struct Refusal {
    /// The node, by the name of its first result.
    pub node: String,
    /// What it does.
    pub op: String,
    /// What is in the way.
    pub why: String,
}

/// Something, or why a node is in its way; who knows the node fills it in.
pub type Lowered<T> = Result<T, String>;

/// Operators of a graph that are compiled, at most: more take longer than anybody waits.
pub const MOST_NODES: usize = 1 << 16;

/// Elements of a value, at most.
const MOST_ELEMENTS: i64 = 1 << 26;

/// What a whole graph is called where a node would be.
const WHOLE: &str = "graph";
/// What is said of a number that no row of an axis has.
const OUTSIDE: &str = "is outside an axis of";

/// A constant index that an axis does not have.
pub(super) fn outside(index: i64, size: u64) -> String {
    format!("index {index} {OUTSIDE} {size}")
}

/// Refuses a graph of too many operators, and one that gives nothing.
///
/// # Errors
/// The graph, and what is in the way.
pub fn check_graph(graph: &Graph) -> Result<(), Refusal> {
    let why = if graph.nodes.len() > MOST_NODES {
        format!("it has {} operators; at most {MOST_NODES} are compiled", graph.nodes.len())
    } else if graph.outputs.is_empty() {
        "it has no output, so that nothing of it is computed".to_string()
    } else {
        return Ok(());
    };
    Err(Refusal { node: graph.name.clone(), op: WHOLE.to_string(), why })
}

/// A refusal with what its graph knows of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedNode {
    refusal: Refusal,
    /// Types of operands and results, if the node is found.
    types: Option<(Vec<String>, Vec<String>)>,
    /// The nearest thing that is computed, and what to write to have it.
    pub nearest: Option<(&'static str, &'static str)>,
    /// Nobody computes it: the graph is wrong.
    pub is_wrong: bool,
}

impl fmt::Display for RefusedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refusal { node, op, why } = &self.refusal;
        match &self.types {
            _ if op == WHOLE => write!(f, "graph `{node}` is not lowered: {why}"),
            None => self.refusal.fmt(f),
            Some((operands, results)) => {
                let (operands, results) = (operands.join(", "), results.join(", "));
                write!(f, "node `{node}` ({op}: {operands} -> {results}) is not lowered: {why}")
            }
        }
    }
}

/// What the graph of primitives knows of a refused node.
pub fn refused_node(graph: &Graph, refusal: &Refusal) -> RefusedNode {
    if refusal.op == WHOLE {
        let nearest = match graph.outputs.is_empty() {
            true => Some(("one output or more", "an output for what is wanted")),
            false if graph.nodes.len() > MOST_NODES => Some(("65,536 operators", "the graph in parts")),
            false => None,
        };
        let is_wrong = graph.outputs.is_empty();
        return RefusedNode { refusal: refusal.clone(), types: None, nearest, is_wrong };
    }
    let Some(node) = find(graph, &refusal.node) else {
        return RefusedNode { refusal: refusal.clone(), types: None, nearest: None, is_wrong: false };
    };
    let ty = |id: &ValueId| graph.value(*id).map(|value| value.ty.clone());
    let operands: Vec<Type> = node.inputs.iter().flatten().filter_map(ty).collect();
    let results: Vec<Type> = node.outputs.iter().filter_map(ty).collect();
    let texts = |types: &[Type]| types.iter().map(|ty| ty.text(&graph.axes)).collect();
    let is_wrong = refusal.why.contains(OUTSIDE);
    let nearest = if is_wrong {
        Some(("numbers of the axis, those below 0 from its end", "an index that the axis has"))
    } else {
        nearest(&node.op, &operands, &results)
    };
    let types = Some((texts(&operands), texts(&results)));
    RefusedNode { refusal: refusal.clone(), types, nearest, is_wrong }
}

/// The node that gives a value of a name; kernels call a copy of it in another type by a longer one.
pub(super) fn find<'g>(graph: &'g Graph, name: &str) -> Option<&'g Node> {
    let gives = |name: &str| {
        let is = |id: &ValueId| graph.value(*id).is_some_and(|value| value.name == name);
        graph.nodes.iter().find(|node| node.outputs.iter().any(is))
    };
    gives(name).or_else(|| gives(name.rsplit_once('.')?.0))
}

/// What is computed that is nearest to a node, and what to write to have it.
fn nearest(op: &Op, operands: &[Type], results: &[Type]) -> Option<(&'static str, &'static str)> {
    let all = || operands.iter().chain(results);
    let elements = |ty: &Type| {
        let sizes = ty.dims.iter().map(|dim| dim.as_fixed().unwrap_or(1));
        sizes.fold(1_i64, i64::saturating_mul)
    };
    let some = |dtypes: &[Dtype]| operands.iter().any(|ty| dtypes.contains(&ty.dtype));
    let floats = operands.iter().all(|ty| ty.dtype.is_float());
    if all().any(|ty| elements(ty) == 0) {
        return Some(("tensors of one element or more", "the graph without the empty tensor"));
    }
    if all().any(|ty| elements(ty) > MOST_ELEMENTS) {
        return Some(("values of 268,435,456 elements", "smaller sizes, or the operator in parts"));
    }
    Some(match op {
        Op::Binary(Binary::Pow) => ("powers of f32", "operands converted to f32, and the power back"),
        Op::Binary(Binary::Mod | Binary::Rem | Binary::Div) if !floats => (
            "div of f32; of integers below 2^24, where limits of inputs of 16 bits say that they are",
            "operands held below 2^24 by min and max before",
        ),
        Op::Binary(Binary::Mod) => ("div and floor of f32", "x - y * floor(x / y), in f32"),
        Op::Binary(Binary::Rem) => {
            ("div and floor of f32", "x - y * floor(x / y) in f32, where both have the same sign")
        }
        Op::Einsum(_) if operands.len() > 2 => {
            ("einsums of one and two operands", "an einsum of two operands, and of its result with the next")
        }
        Op::Einsum(_) if !floats => (
            "products of f32 in bf16, and of i8 or u8 converted to i32, less a constant zero point",
            "operands converted to i8 and then to i32",
        ),
        Op::Scatter { fold: Some(_), .. } => {
            ("scatters that replace rows", "the fold as an operator of its own")
        }
        Op::Reduce { fold: Fold::Prod, .. } => (
            "products of f32 over an axis; sums, maxima and minima of i32",
            "operands converted to f32, where their product is exact, and the product back",
        ),
        Op::Reduce { .. } => ("sums, maxima and minima of f32 and i32", "operands converted to one of them"),
        _ if some(&[Dtype::F16, Dtype::Bf16, Dtype::F8E4M3]) => ("f32", "operands converted to f32"),
        _ if some(&[Dtype::I64]) => (
            "i32; i64 where results fit 32 bits for inputs of 16 bits",
            "operands converted to i32, where their values fit",
        ),
        _ => return None,
    })
}
