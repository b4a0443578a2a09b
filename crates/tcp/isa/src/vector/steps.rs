//! A reduction within a slice: groups, slots and the halves of flits (vISA book, intra-slice reduce).
//!
//! The outermost summed loop and everything inside it form a group; surviving loops inside it are slots,
//! which stay open until the group ends. Without a summed loop every step is a group of its own.

use super::flit::{FLIT_WORDS, HALF_WORDS};
use crate::program::Count;
use crate::program::vector::Reduce;

/// Sizes of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReduceSteps {
    /// Halves that enter.
    pub steps: u64,
    /// Steps of a group.
    pub group: u64,
    /// Results open at once.
    pub slots: u64,
    /// Results.
    pub results: u64,
}

/// The size, if it is a number.
pub fn fixed(count: Count) -> Option<u64> {
    match count {
        Count::Fixed(value) => Some(value),
        Count::Register(_) => None,
    }
}

/// The product of sizes, if all are numbers and it fits.
pub(crate) fn product(mut counts: impl Iterator<Item = Count>) -> Option<u64> {
    counts.try_fold(1_u64, |all, count| all.checked_mul(fixed(count)?))
}

/// The sizes of a reduction; `None` if a size is not known or the product does not fit.
pub fn steps(reduce: &Reduce) -> Option<ReduceSteps> {
    let steps = product(reduce.steps.iter().map(|step| step.size))?;
    let outer = reduce.steps.iter().position(|step| step.summed);
    let Some(outer) = outer else { return Some(ReduceSteps { steps, group: 1, slots: 1, results: steps }) };
    let groups = product(reduce.steps.iter().take(outer).map(|step| step.size))?;
    let inner = reduce.steps.iter().skip(outer);
    let group = product(inner.clone().map(|step| step.size))?;
    let slots = product(inner.filter(|step| !step.summed).map(|step| step.size))?;
    Some(ReduceSteps { steps, group, slots, results: groups.checked_mul(slots)? })
}

/// How results become flits again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewiden {
    /// One element in a flit of its own.
    Single,
    /// Half a flit of its own: trimmed, or both halves went into one result.
    Half,
    /// Low and high half follow each other and join.
    Join,
}

impl Rewiden {
    /// Words of a flit that later narrow stages see.
    pub fn words(self) -> u64 {
        if self == Rewiden::Join { FLIT_WORDS } else { HALF_WORDS }
    }

    /// Results that make a flit.
    pub fn results_per_flit(self) -> u64 {
        if self == Rewiden::Join { 2 } else { 1 }
    }
}

/// How the results of a reduction widen; `None` if the innermost loop is odd, so that halves swap from
/// iteration to iteration.
pub fn rewiden(reduce: &Reduce, trim: bool) -> Option<Rewiden> {
    if reduce.tree {
        return Some(Rewiden::Single);
    }
    if trim {
        return Some(Rewiden::Half);
    }
    let innermost = reduce.steps.iter().rev().find(|step| step.size != Count::Fixed(1));
    match innermost {
        Some(step) if fixed(step.size).is_some_and(|size| size % 2 == 1) => None,
        Some(step) if !step.summed => Some(Rewiden::Join),
        _ => Some(Rewiden::Half),
    }
}
