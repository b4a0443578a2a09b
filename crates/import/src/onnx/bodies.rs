//! Graphs within nodes: the branches of `If`, the bodies of `Loop` and `Scan`. Their nodes are read like all
//! others, each time that they run; their names are forgotten behind them.

use tilewright_graph::ValueId;

use super::{OnnxReader, proto, tensor};
use crate::error::{ImportError, ImportResult};

/// How deep bodies lie in one another, at most.
const MOST_DEPTH: usize = 8;
/// How often bodies of a model are read, at most.
const MOST_TURNS: usize = 1 << 14;
/// Values of a graph in which bodies are written out, at most.
const MOST_VALUES: usize = 1 << 20;

/// How far the reader is in bodies.
#[derive(Default)]
pub(super) struct Bodies {
    depth: usize,
    turns: usize,
    /// Names in the order in which they were defined.
    pub(super) defined: Vec<String>,
}

impl OnnxReader<'_> {
    /// What a body gives for these inputs. It sees all names that are defined around it.
    pub(crate) fn body(
        &mut self,
        item: &str,
        body: &proto::GraphProto,
        inputs: &[ValueId],
    ) -> ImportResult<Vec<ValueId>> {
        self.bodies.turns += 1;
        let values = self.b.graph().values.len();
        if self.bodies.depth >= MOST_DEPTH || self.bodies.turns > MOST_TURNS || values > MOST_VALUES {
            let (depth, turns) = (self.bodies.depth + 1, self.bodies.turns);
            let what = format!("body {turns} of the model, {depth} deep, with {values} values before it");
            return Err(ImportError::about(self.file, item, what).allowed(format!(
                "{MOST_TURNS} times a body, {MOST_DEPTH} deep, {MOST_VALUES} values: bodies are written out"
            )));
        }
        if body.inputs.len() != inputs.len() {
            let what = format!("a body of {} inputs is given {}", body.inputs.len(), inputs.len());
            return Err(ImportError::about(self.file, item, what).allowed("as many as it has"));
        }
        let start = self.bodies.defined.len();
        self.bodies.depth += 1;
        let outputs = self.turn(item, body, inputs);
        self.bodies.depth -= 1;
        for name in self.bodies.defined.split_off(start) {
            self.values.remove(&name);
        }
        outputs
    }

    fn turn(
        &mut self,
        item: &str,
        body: &proto::GraphProto,
        inputs: &[ValueId],
    ) -> ImportResult<Vec<ValueId>> {
        for (input, id) in body.inputs.iter().zip(inputs) {
            self.define(format!("{item}: input `{}`", input.name), &input.name, *id)?;
        }
        for constant in &body.initializers {
            let stored = tensor::stored(self.file, constant.clone(), &tensor::no_external_data)?;
            let id = self.tensor(&constant.name, stored)?;
            self.define(format!("{item}: tensor `{}`", constant.name), &constant.name, id)?;
        }
        for node in &body.nodes {
            self.node(node)?;
        }
        let found = |output: &proto::ValueInfoProto| {
            let id = self.values.get(&output.name).copied();
            id.ok_or_else(|| {
                let what = format!("its body's output `{}` is given by no node", output.name);
                ImportError::about(self.file, item, what)
            })
        };
        body.outputs.iter().map(found).collect()
    }
}
