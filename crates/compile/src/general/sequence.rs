//! One text on a planned language model: what its programs are given run by run, and the state that goes from
//! one run to the next, whatever sizes the programs have.

use std::collections::BTreeMap;

use tilewright_base::invariant::OrBroken;
use tilewright_graph::{BuildResult, Dim, Dtype, Graph, InputRole, LanguageGraph};
use tilewright_reference::Tensor;

use super::interface::{GraphInterface, Port};
use super::run_sizes::RunSizes;
use super::tensors;

/// A text as far as it was computed.
#[derive(Clone, Debug)]
pub struct Sequence {
    inputs: Vec<InputState>,
    /// The number of the result with logits.
    logits: usize,
    /// Tokens so far.
    tokens: Vec<u64>,
}

/// An input of a language model before any token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceInput {
    /// The name that its programs have for it.
    pub name: String,
    /// What it is for.
    pub role: InputRole,
    /// Its type.
    pub dtype: Dtype,
    /// The sizes that it begins with, if it is state; of others as many as it has axes.
    pub dims: Vec<usize>,
}

/// An input of the model, by the name that its programs have for it.
#[derive(Clone, Debug)]
struct InputState {
    name: String,
    rank: usize,
    role: InputRole,
    /// What it is given next, if it is state; of others the type.
    now: Tensor,
}

/// Words of all inputs of a program for one run.
pub struct SequenceRun<'g> {
    /// In the order of the interface.
    pub words: Vec<Vec<u32>>,
    sizes: RunSizes<'g>,
    tokens: Vec<u64>,
}

impl Sequence {
    /// A text without tokens, for a graph of primitives and what its inputs are for.
    pub fn new(graph: &Graph, language: &LanguageGraph) -> Sequence {
        let values = graph.inputs.iter().filter_map(|id| graph.value(*id));
        let inputs = values.zip(&language.roles).map(|(value, role)| {
            // Nothing was seen yet: an axis that can be empty is, and of all others one stands there.
            let size = |dim: &Dim| match dim.as_fixed() {
                Some(size) => usize::try_from(size).or_broken("sizes of inputs are not negative"),
                None => usize::from(dim.range(&graph.axes).0 > 0),
            };
            let dims = value.ty.dims.iter().map(size).collect();
            SequenceInput { name: value.name.clone(), role: *role, dtype: value.ty.dtype, dims }
        });
        Sequence::of_inputs(&inputs.collect::<Vec<_>>(), language.logits)
    }

    /// The same for inputs that are known without their graph, and the number of the result with logits.
    pub fn of_inputs(inputs: &[SequenceInput], logits: usize) -> Sequence {
        let state = |input: &SequenceInput| {
            let SequenceInput { name, role, dtype, dims } = input;
            let elements = dims.iter().product();
            let now = match dtype.is_float() {
                true => Tensor::floats(*dtype, dims, vec![0.0; elements]),
                false => Tensor::ints(*dtype, dims, vec![0; elements]),
            };
            InputState { name: name.clone(), rank: dims.len(), role: *role, now }
        };
        Sequence { inputs: inputs.iter().map(state).collect(), logits, tokens: Vec::new() }
    }

    /// Whether something goes from run to run.
    pub fn has_state(&self) -> bool {
        self.inputs.iter().any(|input| matches!(input.role, InputRole::State(_)))
    }

    /// How many tokens there were so far.
    pub fn seen(&self) -> u64 {
        self.tokens.len() as u64
    }

    /// Arrays that the model takes for tokens behind those that were seen, in the order of its inputs;
    /// without state that is all of them.
    pub fn arrays(&self, fresh: &[u64]) -> Vec<Tensor> {
        let all = self.tokens.len() + fresh.len();
        let seen = if self.has_state() { self.tokens.len() } else { 0 };
        let whole = |number: u64| i64::try_from(number).or_broken("tokens and positions fit 63 bits");
        let tokens = self.tokens.iter().chain(fresh).skip(seen).copied().map(whole);
        let array = |input: &InputState| {
            let row = |numbers: Vec<i64>| {
                let mut dims = vec![1; input.rank];
                dims.last_mut().into_iter().for_each(|last| *last = numbers.len());
                Tensor::ints(input.now.dtype, &dims, numbers)
            };
            match input.role {
                InputRole::Tokens => row(tokens.clone().collect()),
                InputRole::Positions => row((seen as u64..all as u64).map(whole).collect()),
                InputRole::Mask => row(vec![1; all]),
                InputRole::State(_) => input.now.clone(),
            }
        };
        self.inputs.iter().map(array).collect()
    }

    /// What a program is given for tokens behind those that were seen.
    ///
    /// # Errors
    /// `graph/bounds`, for more of them than it takes.
    pub fn inputs<'g>(&self, interface: &'g GraphInterface, fresh: &[u64]) -> BuildResult<SequenceRun<'g>> {
        let arrays = self.arrays(fresh);
        let names = self.inputs.iter().map(|input| input.name.as_str());
        let named: BTreeMap<&str, &Tensor> = names.zip(&arrays).collect();
        let find = |name: &str| named.get(name).copied();
        let sizes = RunSizes::new(&interface.open, &find)?;
        let words = |port: &Port| match sizes.size_words(port) {
            Some(words) => words,
            None => {
                let words = find(&port.name).and_then(tensors::words);
                sizes.padded(port, words.unwrap_or_default())
            }
        };
        let words = interface.inputs.iter().map(words).collect();
        Ok(SequenceRun { words, sizes, tokens: self.tokens.iter().chain(fresh).copied().collect() })
    }

    /// Takes what a run gave, as words in the order of the interface: its state is that of the next run.
    /// Logits of its last token.
    pub fn take(
        &mut self,
        run: &SequenceRun<'_>,
        interface: &GraphInterface,
        results: &[Vec<u32>],
    ) -> Vec<f32> {
        let result = |at: usize| {
            let (port, words) = (interface.results.get(at)?, results.get(at)?);
            Some(run.sizes.result(at, port, words))
        };
        for input in &mut self.inputs {
            let InputRole::State(output) = input.role else { continue };
            if let Some(state) = result(output) {
                input.now = state;
            }
        }
        self.tokens.clone_from(&run.tokens);
        let logits = result(self.logits);
        let width = logits.as_ref().and_then(|logits| logits.dims.last().copied()).unwrap_or(0);
        logits.map_or_else(Vec::new, |logits| {
            let all = logits.as_floats();
            all.get(all.len().saturating_sub(width)..).unwrap_or_default().to_vec()
        })
    }
}
