//! Generation: a language model run step by step, its caches kept from one run to the next.

use tilewright_graph::{InputRole, LanguageGraph};

use crate::error::EvalError;
use crate::run::Interpreter;
use crate::tensor::{Tensor, count};

/// One sequence on a language model.
pub struct Session<'i> {
    interpreter: &'i Interpreter,
    language: LanguageGraph,
    /// Inputs in the order of the graph; states are those of the last run.
    inputs: Vec<Tensor>,
    /// Tokens so far.
    tokens: Vec<i64>,
}

impl<'i> Session<'i> {
    /// A sequence without tokens.
    ///
    /// # Errors
    /// If the graph has no input of tokens, or one whose purpose is not known.
    pub fn new(interpreter: &'i Interpreter) -> Result<Session<'i>, EvalError> {
        let graph = interpreter.graph();
        let language = LanguageGraph::of(graph)?;
        let tokens = graph.inputs.iter().zip(&language.roles).find(|(_, role)| **role == InputRole::Tokens);
        let tokens = tokens.and_then(|(id, _)| graph.value(*id)).map_or(&[][..], |value| &value.ty.dims);
        let mut sizes = vec![Some(0); graph.axes.len()];
        tokens.iter().filter_map(|dim| dim.as_axis()).for_each(|axis| sizes[axis.0 as usize] = Some(1));
        let mut inputs = Vec::new();
        for id in &graph.inputs {
            let value = &graph.values[id.index()];
            let size = |dim: &tilewright_graph::Dim| usize::try_from(dim.value(&sizes)?).ok();
            let dims: Option<Vec<usize>> = value.ty.dims.iter().map(size).collect();
            let dims = dims.ok_or_else(|| EvalError::Missing(value.name.clone()))?;
            let elements = count(&dims)?;
            inputs.push(if value.ty.dtype.is_float() {
                Tensor::floats(value.ty.dtype, &dims, vec![0.0; elements])
            } else {
                Tensor::ints(value.ty.dtype, &dims, vec![0; elements])
            });
        }
        Ok(Session { interpreter, language, inputs, tokens: Vec::new() })
    }

    /// Takes tokens behind those it has; the result is the logits of each, `[.., tokens, vocabulary]`
    /// flattened to rows. A graph without state is given all tokens again.
    ///
    /// # Errors
    /// If the graph refuses them: a token outside the vocabulary, a sequence that is too long.
    pub fn feed(&mut self, tokens: &[i64]) -> Result<Vec<Vec<f32>>, EvalError> {
        let seen = self.tokens.len();
        self.tokens.extend(tokens);
        let from = if self.language.has_state() { seen } else { 0 };
        let tokens = self.tokens.get(from..).unwrap_or_default();
        let graph = self.interpreter.graph();
        for (input, role) in self.inputs.iter_mut().zip(&self.language.roles) {
            let (dtype, rank) = (input.dtype, input.dims.len());
            let row = |numbers: Vec<i64>| {
                let mut dims = vec![1; rank];
                dims.last_mut().into_iter().for_each(|last| *last = numbers.len());
                Tensor::ints(dtype, &dims, numbers)
            };
            *input = match role {
                InputRole::Tokens => row(tokens.to_vec()),
                InputRole::Positions => {
                    row((from..self.tokens.len()).filter_map(|at| i64::try_from(at).ok()).collect())
                }
                InputRole::Mask => row(vec![1; self.tokens.len()]),
                InputRole::State(_) => continue,
            };
        }
        let outputs = self.interpreter.run(&self.inputs)?;
        for state in &graph.states {
            let at = graph.inputs.iter().position(|id| *id == state.input);
            if let (Some(at), Some(output)) = (at, outputs.get(state.output)) {
                self.inputs[at] = output.clone();
            }
        }
        let logits = outputs.get(self.language.logits);
        let (width, all) = logits.map_or((1, &[][..]), |logits| {
            (logits.dims.last().copied().unwrap_or(1).max(1), logits.as_floats())
        });
        Ok(all.chunks(width).map(<[f32]>::to_vec).collect())
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
