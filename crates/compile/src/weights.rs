//! Constants of a graph as numbers: stored ones, and those that only constants make (weights that are kept as
//! integers and scales).

use std::collections::BTreeSet;

use tilewright_graph::{Graph, GraphOutput, TensorStore, ValueId, primitives};
use tilewright_reference::{Elements, Interpreter};

use crate::CompileError;

/// A constant matrix or vector.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// Rows; 1 for a vector.
    pub rows: u64,
    /// Columns.
    pub columns: u64,
    /// Elements, row by row.
    pub elements: std::sync::Arc<Vec<f32>>,
}

impl Matrix {
    /// An element; 0 outside.
    pub fn at(&self, row: u64, column: u64) -> f32 {
        let index = row.saturating_mul(self.columns).saturating_add(column);
        let found = usize::try_from(index).ok().and_then(|index| self.elements.get(index));
        found.copied().filter(|_| column < self.columns).unwrap_or(0.0)
    }
}

/// The constant of a name.
///
/// # Errors
/// No such value, or one that depends on inputs.
pub fn constant(graph: &Graph, store: &TensorStore, name: &str) -> Result<Matrix, CompileError> {
    let refused = |why: String| CompileError::Weight { name: name.to_string(), why };
    let index = graph.values.iter().position(|value| value.name == name);
    let id = index.and_then(|index| u32::try_from(index).ok()).map(ValueId);
    let id = id.ok_or_else(|| refused("the graph has no such value".to_string()))?;
    let part = behind(graph, id);
    let part = primitives(&part).map_err(|complaint| refused(complaint.message.clone()))?;
    let interpreter = Interpreter::new(part, store).map_err(|error| refused(error.to_string()))?;
    let outputs = interpreter.run(&[]).map_err(|error| refused(error.to_string()))?;
    let tensor = outputs.into_iter().next().ok_or_else(|| refused("it has no elements".to_string()))?;
    let Elements::Floats(elements) = tensor.elements else {
        return Err(refused("it holds integers".to_string()));
    };
    let columns = tensor.dims.last().copied().unwrap_or(1).max(1) as u64;
    Ok(Matrix { rows: elements.len() as u64 / columns, columns, elements })
}

/// The part of a graph that a value needs.
fn behind(graph: &Graph, id: ValueId) -> Graph {
    let mut needed = BTreeSet::from([id]);
    let mut nodes = Vec::new();
    for node in graph.nodes.iter().rev() {
        if node.outputs.iter().any(|output| needed.contains(output)) {
            needed.extend(node.inputs.iter().flatten().copied());
            nodes.push(node.clone());
        }
    }
    nodes.reverse();
    Graph {
        name: graph.name.clone(),
        axes: graph.axes.clone(),
        values: graph.values.clone(),
        inputs: graph.inputs.iter().copied().filter(|input| needed.contains(input)).collect(),
        constants: graph
            .constants
            .iter()
            .filter(|constant| needed.contains(&constant.value))
            .cloned()
            .collect(),
        nodes,
        outputs: vec![GraphOutput { name: "value".to_string(), value: id }],
        states: Vec::new(),
    }
}
