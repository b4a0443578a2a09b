//! Takes out what no output needs, and numbers values in one canonical order.

use crate::graph::{Graph, ValueId};
use tilewright_base::invariant::OrBroken;

/// The same graph without nodes and constants that no output needs; inputs stay. Values are numbered
/// canonically.
pub fn prune(mut graph: Graph) -> Graph {
    let mut needed = vec![false; graph.values.len()];
    let mark = |id: ValueId, needed: &mut Vec<bool>| {
        if let Some(flag) = needed.get_mut(id.index()) {
            *flag = true;
        }
    };
    graph.outputs.iter().for_each(|output| mark(output.value, &mut needed));
    for node in graph.nodes.iter().rev() {
        if node.outputs.iter().any(|id| needed.get(id.index()).copied().unwrap_or(false)) {
            let ids = node.outputs.iter().copied().chain(node.inputs.iter().flatten().copied());
            ids.for_each(|id| mark(id, &mut needed));
        }
    }
    let wanted = |id: &ValueId| needed.get(id.index()).copied().unwrap_or(false);
    graph.constants.retain(|constant| wanted(&constant.value));
    graph.nodes.retain(|node| node.outputs.iter().any(wanted));
    canonical(graph)
}

/// The same graph with its values numbered in the order in which its text defines them: inputs, constants,
/// results of nodes. Values that nothing defines are dropped.
pub fn canonical(mut graph: Graph) -> Graph {
    let inputs = graph.inputs.iter().copied();
    let constants = graph.constants.iter().map(|constant| constant.value);
    let results = graph.nodes.iter().flat_map(|node| node.outputs.iter().copied());
    let order: Vec<ValueId> = inputs.chain(constants).chain(results).collect();
    let mut to: Vec<Option<ValueId>> = vec![None; graph.values.len()];
    let mut values = Vec::with_capacity(order.len());
    for old in order {
        let (Some(slot), Some(value)) = (to.get_mut(old.index()), graph.values.get(old.index())) else {
            continue;
        };
        if slot.is_none() {
            *slot = Some(ValueId(u32::try_from(values.len()).or_broken("values of a graph are bounded")));
            values.push(value.clone());
        }
    }
    let rename = |id: &mut ValueId| *id = to.get(id.index()).copied().flatten().unwrap_or(*id);
    graph.inputs.iter_mut().for_each(rename);
    graph.constants.iter_mut().for_each(|constant| rename(&mut constant.value));
    for node in &mut graph.nodes {
        node.inputs.iter_mut().flatten().for_each(rename);
        node.outputs.iter_mut().for_each(rename);
    }
    graph.outputs.iter_mut().for_each(|output| rename(&mut output.value));
    graph.states.iter_mut().for_each(|state| rename(&mut state.input));
    Graph { values, ..graph }
}
