//! Takes out what no output needs.

use crate::graph::{Graph, ValueId};

/// The same graph without nodes and constants that no output needs; inputs stay.
pub fn prune(graph: Graph) -> Graph {
    let mut needed = vec![false; graph.values.len()];
    let mark = |id: ValueId, needed: &mut Vec<bool>| {
        if let Some(flag) = needed.get_mut(id.index()) {
            *flag = true;
        }
    };
    graph
        .outputs
        .iter()
        .map(|output| output.value)
        .chain(graph.inputs.iter().copied())
        .for_each(|id| mark(id, &mut needed));
    for node in graph.nodes.iter().rev() {
        if node.outputs.iter().any(|id| needed.get(id.index()).copied().unwrap_or(false)) {
            node.outputs
                .iter()
                .copied()
                .chain(node.inputs.iter().flatten().copied())
                .for_each(|id| mark(id, &mut needed));
        }
    }
    let mut next = 0_u32;
    let renumbered: Vec<Option<ValueId>> = needed
        .iter()
        .map(|needed| {
            needed.then(|| {
                next += 1;
                ValueId(next - 1)
            })
        })
        .collect();
    let to = |id: ValueId| renumbered.get(id.index()).copied().flatten();
    let Graph { name, axes, values, inputs, constants, nodes, outputs, states } = graph;
    let values =
        values.into_iter().zip(&needed).filter(|(_, needed)| **needed).map(|(value, _)| value).collect();
    let constants = constants
        .into_iter()
        .filter_map(|mut constant| {
            constant.value = to(constant.value)?;
            Some(constant)
        })
        .collect();
    let nodes = nodes
        .into_iter()
        .filter_map(|mut node| {
            node.outputs = node.outputs.iter().map(|id| to(*id)).collect::<Option<_>>()?;
            node.inputs = node.inputs.iter().map(|id| id.map(|id| to(id).unwrap_or(id))).collect();
            Some(node)
        })
        .collect();
    let outputs = outputs
        .into_iter()
        .map(|mut output| {
            output.value = to(output.value).unwrap_or(output.value);
            output
        })
        .collect();
    let states = states
        .into_iter()
        .map(|mut state| {
            state.input = to(state.input).unwrap_or(state.input);
            state
        })
        .collect();
    let inputs = inputs.into_iter().filter_map(to).collect();
    Graph { name, axes, values, inputs, constants, nodes, outputs, states }
}
