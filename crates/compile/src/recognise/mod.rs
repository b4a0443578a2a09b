//! Patterns of primitives back to the rich operators that clustering knows (before stage 2): models that come
//! as ONNX files spell norms, rotations and attention out, and so does the text of stage 1.
//!
//! Each rule is a function of one node, the last of its pattern: it says which operator with which operands
//! gives the same, or why a pattern that began well did not end so. The node is replaced in its place, what
//! nothing uses any more is taken out, and all begins anew until no rule fits.
//!
//! | rule | pattern |
//! |---|---|
//! | [`numbers`] | integers times one, plus zero |
//! | [`linear`] | `matmul` with a constant matrix, or its einsum |
//! | [`activation`] | `x * sigmoid(x)` |
//! | [`gelu`] | `x * (erf(x / sqrt 2) + 1) / 2` |
//! | [`norm`] | `x / sqrt(mean(x * x) + eps) * gain` |
//! | [`rope`] | products with cosines and sines, joined again |
//! | [`layer_norm`] | `(x - mean(x)) / sqrt(variance(x) + eps) * gain + bias` |
//! | [`grouped`] | attention as stage 1 writes it |
//! | [`attention`] | `softmax(q * k + mask) * v`, keys perhaps repeated for groups of heads |

mod activation;
mod attention;
mod gelu;
mod grouped;
mod layer_norm;
mod linear;
mod near_miss;
mod norm;
mod numbers;
mod rope;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use tilewright_base::invariant::OrBroken;

use tilewright_graph::prune::prune;
use tilewright_graph::{Graph, Node, Op, Type, Value, ValueId};

use near_miss::NearMiss;
use view::GraphView;

/// What a rule says about a node.
enum PatternMatch {
    /// It is not the end of this pattern.
    No,
    /// It begins like it; why it is not.
    Near(NearMiss),
    /// It gives the same as this value.
    Is(ValueId),
    /// It gives the same as this.
    Becomes(Box<Rewrite>),
}

/// A node in the place of another.
struct Rewrite {
    op: Op,
    inputs: Vec<Option<ValueId>>,
    /// A node before it, whose result it takes as one more operand: what it does, of what, and its type and
    /// name.
    before: Option<(Op, ValueId, Type, String)>,
    /// Results that the other did not have.
    extra: Vec<Type>,
}

impl Rewrite {
    fn new(op: Op, inputs: &[ValueId]) -> Rewrite {
        Rewrite { op, inputs: inputs.iter().copied().map(Some).collect(), before: None, extra: Vec::new() }
    }
}

type PatternRule = fn(&GraphView<'_>, &Node) -> PatternMatch;

/// Rules by name.
const RULES: [(&str, PatternRule); 9] = [
    ("a number", numbers::neutral),
    ("a projection", linear::linear),
    ("silu", activation::silu),
    ("gelu", gelu::gelu),
    ("rms_norm", norm::rms_norm),
    ("rope", rope::rope),
    ("layer_norm", layer_norm::layer_norm),
    ("attention by groups", grouped::attention),
    ("attention", attention::attention),
];

/// Rounds at most; each takes patterns that the last ones made.
const ROUNDS: usize = 16;

/// The same graph with rich operators in the place of patterns.
#[must_use]
pub fn recognise(graph: &Graph) -> Graph {
    let mut graph = graph.clone();
    for _ in 0..ROUNDS {
        let Some(next) = round(&graph) else { break };
        graph = next;
    }
    graph
}

/// Patterns that began well and did not fit: the node, the rule and why.
pub fn near(graph: &Graph) -> Vec<String> {
    let view = GraphView::new(graph);
    let mut all = Vec::new();
    for node in &graph.nodes {
        for (name, rule) in RULES {
            if let PatternMatch::Near(why) = rule(&view, node) {
                let value = node.outputs.first().map_or(String::new(), |value| view.name(*value));
                all.push(format!("`{value}` is not {name}: {why}"));
            }
        }
    }
    all
}

/// All rules on all nodes once; `None` if none fits.
fn round(graph: &Graph) -> Option<Graph> {
    let view = GraphView::new(graph);
    let mut next = GraphDraft::new(graph);
    let mut changed = false;
    for node in &graph.nodes {
        let found = RULES.iter().map(|(_, rule)| rule(&view, node));
        let mut fits = found.filter(|found| matches!(found, PatternMatch::Is(_) | PatternMatch::Becomes(_)));
        changed |= match fits.next() {
            Some(PatternMatch::Is(value)) => next.equal(node, value),
            Some(PatternMatch::Becomes(rewrite)) => next.replace(node, *rewrite),
            _ => {
                next.nodes.push(node.clone());
                false
            }
        };
    }
    changed.then(|| next.finish())
}

/// A graph being rewritten.
struct GraphDraft<'g> {
    old: &'g Graph,
    values: Vec<Value>,
    names: BTreeSet<String>,
    nodes: Vec<Node>,
    same: BTreeMap<ValueId, ValueId>,
    /// Results of nodes before others, by the name that was asked for.
    fresh: BTreeMap<String, ValueId>,
}

impl GraphDraft<'_> {
    fn new(old: &Graph) -> GraphDraft<'_> {
        let names = old.values.iter().map(|value| value.name.clone()).collect();
        GraphDraft {
            old,
            values: old.values.clone(),
            names,
            nodes: Vec::new(),
            same: BTreeMap::new(),
            fresh: BTreeMap::new(),
        }
    }

    fn add(&mut self, ty: Type, mut name: String) -> ValueId {
        while !self.names.insert(name.clone()) {
            name.push('_');
        }
        self.values.push(Value { name, ty });
        ValueId(u32::try_from(self.values.len() - 1).or_broken("values of a graph fit 32 bits"))
    }

    fn equal(&mut self, node: &Node, value: ValueId) -> bool {
        if let [output] = node.outputs[..] {
            self.same.insert(output, value);
            return true;
        }
        self.nodes.push(node.clone());
        false
    }

    fn replace(&mut self, node: &Node, rewrite: Rewrite) -> bool {
        let Rewrite { op, mut inputs, before, extra } = rewrite;
        if let Some((op, from, ty, name)) = before {
            let value = match self.fresh.get(&name) {
                Some(value) => *value,
                None => {
                    let value = self.add(ty, name.clone());
                    self.nodes.push(Node { op, inputs: vec![Some(from)], outputs: vec![value] });
                    self.fresh.insert(name, value);
                    value
                }
            };
            inputs.push(Some(value));
        }
        let mut outputs = node.outputs.clone();
        let name = outputs.first().and_then(|output| self.values.get(output.index()));
        let name = name.map_or(String::new(), |value| value.name.clone());
        outputs.extend(extra.into_iter().map(|ty| self.add(ty, format!("{name}.more"))));
        self.nodes.push(Node { op, inputs, outputs });
        true
    }

    fn finish(self) -> Graph {
        let resolve = |mut id: ValueId| {
            while let Some(same) = self.same.get(&id) {
                id = *same;
            }
            id
        };
        let mut nodes = self.nodes.clone();
        for input in nodes.iter_mut().flat_map(|node| &mut node.inputs).flatten() {
            *input = resolve(*input);
        }
        let mut outputs = self.old.outputs.clone();
        outputs.iter_mut().for_each(|output| output.value = resolve(output.value));
        prune(Graph { values: self.values.clone(), nodes, outputs, ..self.old.clone() })
    }
}

#[cfg(test)]
mod tests;
