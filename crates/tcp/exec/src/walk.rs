//! The loop sequencer followed literally: every address of nested loops, in order (vISA book, sequencer).

use smallvec::SmallVec;
use tilewright_base::invariant::Exact;
use tilewright_tcp_isa::capped::Capped;
use tilewright_tcp_isa::program::exec::Loop;

use super::fault::{ExecProblem, product};
use crate::limits::MAX_SLICE;

/// Farthest that the steps of a walk may lie from its start: sums of addresses then never overflow.
const MAX_SPAN: u64 = 1 << 60;

/// A place in nested loops.
#[derive(Clone, Debug)]
pub struct OffsetWalk {
    loops: SmallVec<[(u64, i64); 8]>,
    index: SmallVec<[u64; 8]>,
    offset: i64,
    left: u64,
}

/// Checks that no step of loops is too far from the first.
pub(super) fn check_span(loops: &[(u64, i64)]) -> Result<(), ExecProblem> {
    let reach = |row: &(u64, i64)| u128::from(row.0.max(1) - 1) * u128::from(row.1.unsigned_abs());
    let span = loops.iter().map(reach).fold(0, u128::capped_add);
    if span > u128::from(MAX_SPAN) {
        return Err(ExecProblem::TooLarge { what: "addresses apart", most: MAX_SPAN });
    }
    Ok(())
}

/// Sizes and strides of a unit's loops.
pub(super) fn pairs(loops: &[Loop]) -> SmallVec<[(u64, i64); 8]> {
    loops.iter().map(|row| (row.size.fixed(), row.stride)).collect()
}

impl OffsetWalk {
    /// Stands at the first step of loops `(size, stride)`, outermost first.
    pub fn new(loops: SmallVec<[(u64, i64); 8]>) -> Result<OffsetWalk, ExecProblem> {
        let left = product("steps", loops.iter().map(|row| row.0), MAX_SLICE)?;
        check_span(&loops)?;
        Ok(OffsetWalk { index: loops.iter().map(|_| 0).collect(), loops, offset: 0, left })
    }

    /// Steps that are left, this one included.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// Where this step is, if there is one.
    pub(super) fn offset(&self) -> Option<i64> {
        (self.left > 0).then_some(self.offset)
    }

    /// The iteration of each loop.
    pub(super) fn index(&self) -> &[u64] {
        &self.index
    }

    /// Goes to the next step.
    pub(super) fn advance(&mut self) {
        self.left = self.left.exact_sub(1);
        for (index, (size, stride)) in self.index.iter_mut().zip(&self.loops).rev() {
            *index += 1;
            self.offset = self.offset.wrapping_add(*stride);
            if *index < *size {
                return;
            }
            self.offset = self.offset.wrapping_sub(stride.wrapping_mul(size.cast_signed()));
            *index = 0;
        }
    }

    /// Sizes and strides of the loops.
    pub(super) fn loops(&self) -> impl Iterator<Item = (u64, i64)> {
        self.loops.iter().copied()
    }

    /// Takes the innermost loops off as one run of neighbours, each so far from the last: the walk of the
    /// rest, and the length of the run.
    pub(super) fn runs(loops: &[(u64, i64)], apart: u64) -> Result<(OffsetWalk, u64), ExecProblem> {
        let mut run = 1_u64;
        let mut outer = loops;
        while let Some(((size, stride), rest)) = outer.split_last() {
            if *size != 1 && u64::try_from(*stride).ok() != run.checked_mul(apart) {
                break;
            }
            run = product("steps", [run, *size], MAX_SLICE)?;
            outer = rest;
        }
        Ok((OffsetWalk::new(outer.iter().copied().collect())?, run))
    }
}

impl Iterator for OffsetWalk {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        let offset = self.offset()?;
        self.advance();
        Some(offset)
    }
}
