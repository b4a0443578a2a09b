//! How often each fetched element of an operand is used, before it is fetched again.
//!
//! For a streamed operand X under the tactic `I | t1 .. tk`: the product of the digits of I whose axis X lacks (the network
//! delivers one fetch to all of those slices), times the digits inside the innermost non-packet digit of X whose axis X
//! lacks (lanes and repeats of the feed unit). The paper's examples give F (section II-B), 256 and 128 (section VI-B).

use crate::problem::{Digit, Problem};
use crate::syntax::ast::{Operand, Terms};

/// The factors of a reuse count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reuse {
    /// Digits over slices that share one fetch.
    pub across_slices: Terms<Digit>,
    /// Digits within a slice that share one fetch.
    pub within_slice: Terms<Digit>,
}

impl Reuse {
    /// Reuse of a streamed operand; `packet_terms` innermost terms of the slice tactic fill the packet.
    pub fn of_stream(problem: &Problem, operand: Operand, packet_terms: usize) -> Reuse {
        let Some(tactic) = &problem.tactic else { return Reuse::default() };
        let in_operand = |digit: &Digit| digit.axis.is_some_and(|axis| problem.has(operand, axis));
        let lanes: &[Digit] = tactic.roles.as_ref().map_or(&[], |(lanes, _)| lanes);
        let loops = tactic.slice.len()
            - if tactic.roles.is_some() { 0 } else { packet_terms.min(tactic.slice.len()) };
        let mut within: Terms<Digit> = Terms::new();
        let outside_packet = tactic.slice[..loops].iter().chain(lanes);
        for digit in outside_packet.collect::<Vec<_>>().into_iter().rev() {
            if in_operand(digit) && digit.live > 1 {
                break;
            }
            if !in_operand(digit) && within.try_push(*digit).is_err() {
                break;
            }
        }
        within.reverse();
        let across = tactic.parallel.iter().filter(|digit| !in_operand(digit)).copied();
        Reuse { across_slices: across.collect(), within_slice: within }
    }

    /// The count.
    pub fn count(&self) -> u64 {
        self.factors().fold(1, |product, digit| product.saturating_mul(digit.live))
    }

    /// All factors, slices first.
    pub fn factors(&self) -> impl Iterator<Item = &Digit> {
        self.across_slices.iter().chain(&self.within_slice)
    }
}
