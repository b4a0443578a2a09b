//! Generation: a language model run step by step, its caches kept from one run to the next.

use tilewright_graph::{Dtype, ValueId};

use crate::error::EvalError;
use crate::run::Interpreter;
use crate::tensor::Tensor;

/// Names under which models take their tokens and positions.
const TOKENS: [&str; 2] = ["tokens", "input_ids"];
const POSITIONS: [&str; 2] = ["positions", "position_ids"];

/// One sequence on a language model.
pub struct Session<'i> {
    interpreter: &'i Interpreter,
    tokens: ValueId,
    /// Inputs in the order of the graph; states are those of the last run.
    inputs: Vec<Tensor>,
    seen: usize,
}

impl<'i> Session<'i> {
    /// A sequence without tokens.
    ///
    /// # Errors
    /// If the graph has no input of tokens, or one whose purpose is not known.
    pub fn new(interpreter: &'i Interpreter) -> Result<Session<'i>, EvalError> {
        let graph = interpreter.graph();
        let tokens = TOKENS.iter().find_map(|name| graph.input(name));
        let tokens = tokens.ok_or(EvalError::NoLanguage("input `tokens` or `input_ids`"))?;
        graph.output("logits").ok_or(EvalError::NoLanguage("output `logits`"))?;
        let own: Vec<_> =
            graph.values[tokens.index()].ty.dims.iter().filter_map(|dim| dim.as_axis()).collect();
        let mut sizes = vec![Some(0); graph.axes.len()];
        own.iter().for_each(|axis| sizes[axis.0 as usize] = Some(1));
        let mut inputs = Vec::new();
        for id in &graph.inputs {
            let value = &graph.values[id.index()];
            let dims: Option<Vec<usize>> = value
                .ty
                .dims
                .iter()
                .map(|dim| dim.value(&sizes).and_then(|size| usize::try_from(size).ok()))
                .collect();
            let dims = dims.ok_or_else(|| EvalError::Missing(value.name.clone()))?;
            let elements = crate::tensor::count(&dims)?;
            inputs.push(if value.ty.dtype.is_float() {
                Tensor::floats(value.ty.dtype, &dims, vec![0.0; elements])
            } else {
                Tensor::ints(value.ty.dtype, &dims, vec![0; elements])
            });
        }
        Ok(Session { interpreter, tokens, inputs, seen: 0 })
    }

    /// Takes tokens behind those it has; the result is the logits of each, `[.., tokens, vocabulary]`
    /// flattened to rows.
    ///
    /// # Errors
    /// If the graph refuses them: a token outside the vocabulary, a sequence that is too long.
    pub fn feed(&mut self, tokens: &[i64]) -> Result<Vec<Vec<f32>>, EvalError> {
        let graph = self.interpreter.graph();
        for (id, input) in graph.inputs.iter().zip(&mut self.inputs) {
            let value = &graph.values[id.index()];
            let rank = value.ty.dims.len();
            let mut dims = vec![1; rank];
            if let Some(last) = dims.last_mut() {
                *last = tokens.len();
            }
            if *id == self.tokens {
                *input = Tensor::ints(value.ty.dtype, &dims, tokens.to_vec());
            } else if POSITIONS.contains(&value.name.as_str()) {
                let from = i64::try_from(self.seen).unwrap_or(i64::MAX);
                let positions = (0..tokens.len()).map(|at| from + i64::try_from(at).unwrap_or(i64::MAX));
                *input = Tensor::ints(Dtype::I64, &dims, positions.collect());
            }
        }
        let outputs = self.interpreter.run(&self.inputs)?;
        for state in &graph.states {
            let at = graph.inputs.iter().position(|id| *id == state.input);
            if let (Some(at), Some(output)) = (at, outputs.get(state.output)) {
                self.inputs[at] = output.clone();
            }
        }
        self.seen += tokens.len();
        let logits = graph.output("logits").and_then(|at| outputs.get(at));
        let logits = logits.ok_or(EvalError::NoLanguage("output `logits`"))?;
        let width = logits.dims.last().copied().unwrap_or(1).max(1);
        Ok(logits.as_floats().chunks(width).map(<[f32]>::to_vec).collect())
    }
}

/// The place of the largest number, the first of equals; `None` where one is no number or the largest is not
/// finite, as after an overflow.
pub fn best(logits: &[f32]) -> Option<i64> {
    let mut found = (0, f32::NEG_INFINITY);
    for (at, value) in (0_i64..).zip(logits) {
        if value.is_nan() {
            return None;
        }
        if *value > found.1 {
            found = (at, *value);
        }
    }
    found.1.is_finite().then_some(found.0)
}
