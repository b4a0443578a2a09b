//! How many elements enter each operation: pair mode halves flits, reductions and scatters change their
//! number.
//!
//! Trimmed flits enter narrow stages with their low half only; after a reduction that leaves half a flit, so
//! do later narrow stages.

use super::fault::VectorFault;
use super::flit::{FLIT_WORDS, HALF_WORDS};
use super::steps::{fixed, product, rewiden, steps};
use super::unit::stage;
use crate::capped::Capped;
use crate::program::vector::{InterSliceReduce, Op, OpKind, OperandSource, ReduceOutput, Vector};

/// The stream in front of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamShape {
    /// Flits.
    pub flits: u64,
    /// Words of each that enter.
    pub words: u64,
}

impl StreamShape {
    /// Elements that enter.
    pub fn elements(self) -> u64 {
        self.flits.capped_mul(self.words)
    }
}

/// Shapes in front of every operation (joined, for the one that joins groups), and the flits that leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamShapes {
    /// Flits that enter the chain.
    pub flits: u64,
    /// One for each operation.
    pub entering: Vec<StreamShape>,
    /// After everything.
    pub flits_out: u64,
}

/// Whether an operation joins the two groups.
pub fn joins(op: &Op) -> bool {
    sources(op).any(|source| matches!(source, OperandSource::Pair))
}

/// All sources of an operation.
pub(crate) fn sources(op: &Op) -> impl Iterator<Item = &OperandSource> {
    op.operands.iter().flat_map(|choice| &choice.sources).map(|guarded| &guarded.source)
}

/// Follows a stream through the chain.
///
/// # Errors
/// The first place where loops do not fit the stream.
pub fn shapes(vector: &Vector, flits_in: u64) -> Result<StreamShapes, VectorFault> {
    let mut flits = flits_in;
    if vector.between_first {
        flits = scattered(vector.between, flits)?;
    }
    let mut shape = StreamShape { flits, words: FLIT_WORDS };
    let mut narrow = false;
    let mut entering = Vec::with_capacity(vector.ops.len());
    for (at, op) in vector.ops.iter().enumerate() {
        let was = std::mem::replace(&mut narrow, stage(&op.kind).narrow());
        shape.words = match (was, narrow) {
            (false, true) if vector.trim => HALF_WORDS,
            (true, true) => shape.words,
            _ => FLIT_WORDS,
        };
        if joins(op) {
            shape.flits = joined(at, shape.flits)?;
        }
        entering.push(shape);
        operands_fit(at, op, shape)?;
        if let OpKind::Reduce(reduce) = &op.kind {
            let needed = shape.elements() / HALF_WORDS;
            let sizes = steps(reduce).ok_or(VectorFault::Size { at })?;
            if reduce.limits.iter().any(|limit| fixed(limit.extent).is_none()) {
                return Err(VectorFault::Size { at });
            }
            if sizes.steps != needed {
                return Err(VectorFault::ReduceSteps { at, found: sizes.steps, needed });
            }
            let how = rewiden(reduce, shape.words == HALF_WORDS).ok_or(VectorFault::Halves { at })?;
            shape = StreamShape { flits: sizes.results / how.results_per_flit(), words: how.words() };
        }
    }
    let flits_out = if vector.between_first { shape.flits } else { scattered(vector.between, shape.flits)? };
    Ok(StreamShapes { flits, entering, flits_out })
}

fn joined(at: usize, flits: u64) -> Result<u64, VectorFault> {
    if flits.is_multiple_of(2) { Ok(flits / 2) } else { Err(VectorFault::PairFlits { at, flits }) }
}

fn operands_fit(at: usize, op: &Op, shape: StreamShape) -> Result<(), VectorFault> {
    for source in sources(op) {
        let OperandSource::Vrf { loops, .. } = source else { continue };
        let found = product(loops.iter().map(|row| row.size)).ok_or(VectorFault::Size { at })?;
        if found != shape.elements() {
            return Err(VectorFault::VrfElements { at, found, needed: shape.elements() });
        }
    }
    Ok(())
}

fn scattered(between: Option<InterSliceReduce>, flits: u64) -> Result<u64, VectorFault> {
    let Some(InterSliceReduce { slices, gives: ReduceOutput::Scatter { inner }, .. }) = between else {
        return Ok(flits);
    };
    let period = slices.capped_mul(inner);
    if period == 0 || !flits.is_multiple_of(period) {
        return Err(VectorFault::ScatterFlits { flits, period });
    }
    Ok(flits / slices)
}

/// Flits that leave; `None` if the chain's loops do not fit so many flits, or sizes are not known.
pub fn flits_out(vector: &Vector, flits_in: u64) -> Option<u64> {
    shapes(vector, flits_in).ok().map(|shapes| shapes.flits_out)
}

/// The first place where the chain's loops do not fit a stream of so many flits.
pub fn misfit(vector: &Vector, flits_in: u64) -> Option<VectorFault> {
    shapes(vector, flits_in).err()
}

/// Lowest and highest word that loops reach from where they start.
pub(crate) fn reach(loops: &[crate::program::exec::Loop]) -> Option<(i64, i64)> {
    loops.iter().try_fold((0_i64, 0_i64), |(low, high), row| {
        let last = i64::try_from(fixed(row.size)?.saturating_sub(1)).ok()?.checked_mul(row.stride)?;
        Some((low.checked_add(last.min(0))?, high.checked_add(last.max(0))?))
    })
}
