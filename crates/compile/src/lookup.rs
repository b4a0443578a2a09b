//! Who makes each value of a graph, who uses it, and whether only constants are behind it.

use tilewright_graph::{Graph, Node, ValueId};

/// Indices of a graph's nodes by value.
pub(crate) struct Lookup<'g> {
    graph: &'g Graph,
    made: Vec<Option<usize>>,
    used: Vec<Vec<usize>>,
    constant: Vec<bool>,
}

impl<'g> Lookup<'g> {
    /// Of a graph whose nodes come behind their operands.
    pub(crate) fn new(graph: &'g Graph) -> Lookup<'g> {
        let count = graph.values.len();
        let (mut made, mut used, mut constant) =
            (vec![None; count], vec![Vec::new(); count], vec![false; count]);
        for known in &graph.constants {
            if let Some(flag) = constant.get_mut(known.value.index()) {
                *flag = true;
            }
        }
        for (index, node) in graph.nodes.iter().enumerate() {
            let mut all = !node.inputs.is_empty();
            for input in node.inputs.iter().flatten() {
                all &= constant.get(input.index()).copied().unwrap_or(false);
                let users: Option<&mut Vec<usize>> = used.get_mut(input.index());
                if let Some(users) = users.filter(|users| users.last() != Some(&index)) {
                    users.push(index);
                }
            }
            for output in &node.outputs {
                if let (Some(maker), Some(flag)) =
                    (made.get_mut(output.index()), constant.get_mut(output.index()))
                {
                    (*maker, *flag) = (Some(index), all);
                }
            }
        }
        Lookup { graph, made, used, constant }
    }

    /// The node that makes a value.
    pub(crate) fn maker(&self, value: ValueId) -> Option<&'g Node> {
        self.graph.nodes.get(self.made.get(value.index()).copied().flatten()?)
    }

    /// Nodes that use a value, in order, with their indices.
    pub(crate) fn users(&self, value: ValueId) -> impl Iterator<Item = (usize, &'g Node)> {
        let used = self.used.get(value.index()).map_or(&[][..], Vec::as_slice);
        used.iter().filter_map(|index| Some((*index, self.graph.nodes.get(*index)?)))
    }

    /// Whether only constants are behind a value.
    pub(crate) fn is_constant(&self, value: ValueId) -> bool {
        self.constant.get(value.index()).copied().unwrap_or(false)
    }
}
