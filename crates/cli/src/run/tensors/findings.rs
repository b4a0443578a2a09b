//! What a run loses without a word of its own: indices outside of an axis, and on the chip integers that end
//! where 32 bits do.

use tilewright_base::{Diagnostic, Sources};
use tilewright_compile::general::interface::Port;
use tilewright_graph::{Dtype, IndexInput};
use tilewright_import::Model;
use tilewright_reference::{OutsideIndex, Tensor, outside_indices};

use super::inputs::InputArrays;
use crate::outcome::{FAILED, GOOD, Outcome, rendered};

/// Operators whose indices are reported, at most.
const MOST_REPORTED: usize = 3;

/// Indices of a run that are outside of their axes.
pub(super) struct OutsideIndices(Vec<OutsideIndex>);

impl OutsideIndices {
    /// Those that follow from integers of inputs and constants.
    pub(super) fn of(model: &Model, given: &InputArrays) -> Result<OutsideIndices, Outcome> {
        let inputs = given.of(&model.graph)?;
        let found = outside_indices(&model.graph, &model.store, &inputs);
        // Inputs that do not fit are refused where the graph runs.
        Ok(OutsideIndices(found.unwrap_or_default()))
    }

    /// Those among inputs of a compiled graph, as its program takes them.
    pub(super) fn of_words(indices: &[IndexInput], ports: &[Port], words: &[Vec<u32>]) -> OutsideIndices {
        let outside = |input: &IndexInput| {
            let (_, words) = ports.iter().zip(words).find(|(port, _)| port.name == input.input)?;
            let elements: Vec<i64> = words.iter().map(|word| i64::from(word.cast_signed())).collect();
            OutsideIndex::of_input(input, &elements)
        };
        OutsideIndices(indices.iter().filter_map(outside).collect())
    }

    /// Adds them to what a run says: it gave values, and some are not those of the model.
    pub(super) fn reported(&self, mut outcome: Outcome, colour: bool) -> Outcome {
        if self.0.is_empty() {
            return outcome;
        }
        let reported: Vec<Diagnostic> = self.0.iter().take(MOST_REPORTED).map(diagnostic).collect();
        outcome.stderr += &rendered(&Sources::default(), &reported, colour);
        if let Some(more) = self.0.len().checked_sub(MOST_REPORTED).filter(|more| *more > 0) {
            outcome.stderr += &format!("and {more} operators more\n");
        }
        if outcome.code == GOOD {
            outcome.code = FAILED;
        }
        outcome
    }
}

fn diagnostic(found: &OutsideIndex) -> Diagnostic {
    let OutsideIndex { result, op, indices, element, index, size, count } = found;
    let others = match count {
        1 => String::new(),
        all => format!("; {all} of its elements are"),
    };
    let what = format!("element {element} of `{indices}` is {index}, outside of an axis of {size}{others}");
    Diagnostic::error("graph/index", what)
        .allowed(match size {
            0 => "no index: the axis is empty".to_string(),
            size => format!("-{size} to {}", size - 1),
        })
        .instead("indices inside of the axis: others choose another element")
        .with_note(format!("`{result}` ({op}) has elements that are not those of the model"))
}

/// What is said of integers where those of the chip end.
pub(super) fn ends(results: &[(String, Tensor)]) -> String {
    let (least, most) = (i64::from(i32::MIN), i64::from(i32::MAX));
    let mut text = String::new();
    for (name, tensor) in results.iter().filter(|(_, tensor)| matches!(tensor.dtype, Dtype::I32 | Dtype::I64))
    {
        let count = tensor.as_ints().iter().filter(|value| [least, most].contains(value)).count();
        if count > 0 {
            text += &format!(
                "warning: output `{name}`: {count} of {} elements at the ends of the chip's integers, \
                 {least} and {most}: numbers beyond may have become these\n",
                tensor.len()
            );
        }
    }
    text
}
