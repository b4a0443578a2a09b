//! Loops of sequencers and steps, as the registers of every engine hold them.

use tilewright_base::invariant::OrBroken;

use super::Count;
use crate::capped::Capped;

/// One loop of a sequencer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loop {
    /// Iterations.
    pub size: Count,
    /// Between iterations, in the unit's own measure; may be negative.
    pub stride: i64,
}

/// Iterations of all loops together.
pub fn iterations(loops: &[Loop]) -> u64 {
    loops.iter().fold(1, |all, row| all.capped_mul(row.size.fixed()))
}

/// A digit of the slice number: `slice / stride % size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceDigit {
    /// Slices between neighbours.
    pub stride: u64,
    /// Values.
    pub size: u64,
    /// Weight of one value of the digit.
    pub weight: u64,
}

impl SliceDigit {
    /// What a slice's number counts by this digit, which was checked to have a stride and a size.
    pub fn position(&self, slice: u64) -> u64 {
        let value = slice.checked_div(self.stride).and_then(|rest| rest.checked_rem(self.size));
        value.or_broken("a digit of slices has a stride and a size").capped_mul(self.weight)
    }
}

/// A loop over steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepLoop {
    /// Iterations.
    pub size: Count,
    /// Its iterations go into one result.
    pub summed: bool,
}
