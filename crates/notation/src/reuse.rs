//! How often each fetched element of an operand is used before it is fetched again.
//!
//! For a streamed operand X under the tactic `I | t1 .. tk`: the product of the digits of I whose axis X
//! lacks (the network delivers one fetch to all of those slices), times the digits within a slice that use
//! the fetched packet again: lanes, and the innermost loops in time whose axes X lacks (repeats of the feed
//! unit). The paper's examples give F (section II-B), 256 and 128 (section VI-B).

use crate::problem::{Digit, Problem};
use crate::syntax::ast::{Operand, Terms};

/// The factors of a reuse count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reuse {
    /// Digits over slices that share one fetch.
    pub across_slices: Terms<Digit>,
    /// Loops in time during which the packet is held, outermost first.
    pub repeats: Terms<Digit>,
    /// Lanes that share the packet.
    pub lanes: Terms<Digit>,
}

/// How many of the innermost loops in time an operand is held for, because it lacks their axes.
pub fn held_terms(problem: &Problem, operand: Operand, time: &[Digit]) -> usize {
    let lacks = |digit: &&Digit| !digit.axis.is_some_and(|axis| problem.has(operand, axis));
    time.iter().rev().take_while(lacks).count()
}

impl Reuse {
    /// Reuse of `operand` by digits over slices, in time (outermost first) and on lanes.
    pub fn of_stream(
        problem: &Problem,
        operand: Operand,
        parallel: &[Digit],
        time: &[Digit],
        lanes: &[Digit],
    ) -> Reuse {
        let lacks = |digit: &&Digit| !digit.axis.is_some_and(|axis| problem.has(operand, axis));
        let held = held_terms(problem, operand, time);
        let some =
            |digits: &[Digit]| digits.iter().filter(lacks).filter(|digit| digit.live > 1).copied().collect();
        Reuse { across_slices: some(parallel), repeats: some(&time[time.len() - held..]), lanes: some(lanes) }
    }

    /// The count.
    pub fn count(&self) -> u64 {
        self.factors().fold(1, |product, digit| product.saturating_mul(digit.live))
    }

    /// All factors: slices, repeats, lanes.
    pub fn factors(&self) -> impl Iterator<Item = &Digit> {
        self.across_slices.iter().chain(&self.repeats).chain(&self.lanes)
    }
}
