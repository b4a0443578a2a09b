//! Values of a graph that do not depend on its inputs, by the interpreter.

use std::collections::BTreeSet;

use tilewright_graph::graph::GraphOutput;
use tilewright_graph::{Graph, TensorStore, ValueId};
use tilewright_reference::{Interpreter, Tensor};

/// Elements of each value that constants alone decide and others need, and all values that they decide.
///
/// # Errors
/// A constant without data, or one that the interpreter cannot compute.
pub(super) fn folded(
    graph: &Graph,
    store: &TensorStore,
) -> Result<(Vec<Option<Tensor>>, BTreeSet<ValueId>), String> {
    let mut known: BTreeSet<ValueId> = graph.constants.iter().map(|constant| constant.value).collect();
    let mut part = Graph { inputs: Vec::new(), nodes: Vec::new(), states: Vec::new(), ..graph.clone() };
    for node in &graph.nodes {
        if node.inputs.iter().flatten().all(|id| known.contains(id)) {
            known.extend(node.outputs.iter().copied());
            part.nodes.push(node.clone());
        }
    }
    let outside = graph.nodes.iter().filter(|node| node.outputs.iter().any(|id| !known.contains(id)));
    let used = outside.flat_map(|node| node.inputs.iter().flatten().copied());
    let wanted: BTreeSet<ValueId> =
        used.chain(graph.outputs.iter().map(|output| output.value)).filter(|id| known.contains(id)).collect();
    part.outputs = wanted.iter().map(|id| GraphOutput { name: String::new(), value: *id }).collect();
    let interpreter = Interpreter::new(part, store).map_err(|error| error.to_string())?;
    let results = interpreter.run(&[]).map_err(|error| error.to_string())?;
    let mut all: Vec<Option<Tensor>> = vec![None; graph.values.len()];
    for (id, tensor) in wanted.iter().zip(results) {
        all[id.index()] = Some(tensor);
    }
    Ok((all, known))
}
