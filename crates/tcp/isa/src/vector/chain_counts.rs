//! What follows from a chain for those who count cycles and joules.

use super::shape::shapes;
use super::unit::{VeStage, VeUnit, gives, stage, unit};
use crate::capped::Capped;
use crate::program::vector::{InterSliceReduce, ReduceOutput, Vector, Word};

/// Whether any stage takes half a flit at a time.
pub fn narrow(vector: &Vector) -> bool {
    vector.ops.iter().any(|op| stage(&op.kind).narrow())
}

/// Units that delay the stream.
pub fn units(vector: &Vector) -> u64 {
    vector.ops.iter().filter(|op| unit(&op.kind).delays()).fold(0, |count, _| count + 1)
}

/// Type of the words that leave.
pub fn output(vector: &Vector) -> Word {
    vector.ops.iter().fold(vector.input, |word, op| gives(&op.kind, word))
}

/// Operations of one slice by what they cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpCounts {
    /// On integers and bits, comparisons included.
    pub int: u64,
    /// On floats, conversions included.
    pub float: u64,
    /// Exponentials, other functions and quotients.
    pub exp: u64,
}

/// Operations of one slice on a stream of so many flits; `None` if the chain does not fit it. Every element
/// that enters a unit counts once, padding too; so does every element that enters the reducer between slices.
pub fn op_counts(vector: &Vector, flits_in: u64) -> Option<OpCounts> {
    let shapes = shapes(vector, flits_in).ok()?;
    let mut counts = OpCounts::default();
    let comparisons = vector.tags.len() as u64;
    let compared = shapes.flits.capped_mul(super::FLIT_WORDS).capped_mul(comparisons);
    *counts.of_word(vector.input) += compared;
    let mut word = vector.input;
    for (op, shape) in vector.ops.iter().zip(&shapes.entering) {
        let unit = unit(&op.kind);
        let count = match (unit, unit.stage()) {
            (VeUnit::Fpu | VeUnit::Exp | VeUnit::Div, _) => &mut counts.exp,
            (_, VeStage::Logic | VeStage::Fxp | VeStage::Filter) => &mut counts.int,
            (_, VeStage::ToFloat | VeStage::ToFixed | VeStage::Float) => &mut counts.float,
            _ => counts.of_word(word),
        };
        *count = count.capped_add(shape.elements());
        word = gives(&op.kind, word);
    }
    if let Some(between) = vector.between {
        let (word, flits) = if vector.between_first {
            (vector.input, flits_in)
        } else {
            (word, before_scatter(between, shapes.flits_out))
        };
        let count = counts.of_word(word);
        *count = count.capped_add(flits.capped_mul(super::FLIT_WORDS));
    }
    Some(counts)
}

fn before_scatter(between: InterSliceReduce, flits_out: u64) -> u64 {
    match between.gives {
        ReduceOutput::Scatter { .. } => flits_out.capped_mul(between.slices),
        _ => flits_out,
    }
}

impl OpCounts {
    fn of_word(&mut self, word: Word) -> &mut u64 {
        match word {
            Word::I32 => &mut self.int,
            Word::F32 => &mut self.float,
        }
    }
}
