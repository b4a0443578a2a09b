//! Runs the loops of a tactic literally, one step after the other: what a tactic means before any machine is
//! asked.
//!
//! A window is where its loops have moved it; steps that read outside of what is stored add nothing and are
//! skipped.
//!
//! Slow by design and independent of the engines, so that it can check them.

use crate::problem::{AxisId, Digit, Loops, Problem};
use crate::syntax::ast::{MAX_TERMS, Terms};

/// Calls `visit` with the coordinate of every axis, in the order of the tactic; padding is skipped.
///
/// Digits over slices run outermost. The problem's digits must have passed [`crate::radix::check`].
pub fn for_each_step(problem: &Problem, tactic: &Loops, mut visit: impl FnMut(&[u32])) {
    let (lanes, packet): (&[Digit], &[Digit]) =
        tactic.roles.as_ref().map_or((&[], &[]), |roles| (&roles.lanes, &roles.packet));
    let digits: Vec<WalkDigit> = tactic
        .parallel
        .iter()
        .chain(&tactic.slice)
        .chain(lanes)
        .chain(packet)
        .filter_map(WalkDigit::new)
        .collect();
    let extents: Terms<u32> =
        problem.axes.iter().map(|axis| u32::try_from(axis.extent).unwrap_or(u32::MAX)).collect();
    let mut counters = vec![0_u32; digits.len()];
    let mut position = [0_u32; MAX_TERMS];
    loop {
        place_windows(problem, &mut position);
        let here = &position[..extents.len()];
        if here.iter().zip(&extents).all(|(at, extent)| at < extent) {
            visit(here);
        }
        if !advance(&digits, &mut counters, &mut position) {
            return;
        }
    }
}

/// Positions outside of 32 bits, or before the start, count as far behind the end.
fn place_windows(problem: &Problem, position: &mut [u32; MAX_TERMS]) {
    for window in &problem.windows {
        let at = |axis: AxisId| position.get(usize::from(axis.0)).copied().unwrap_or(0);
        let place = window.position(|axis| u64::from(at(axis)));
        if let Some(slot) = position.get_mut(usize::from(window.axis.0)) {
            *slot = place.and_then(|place| u32::try_from(place).ok()).unwrap_or(u32::MAX);
        }
    }
}

struct WalkDigit {
    axis: usize,
    stride: u32,
    size: u32,
}

impl WalkDigit {
    fn new(digit: &Digit) -> Option<WalkDigit> {
        let narrow = |value: u64| u32::try_from(value).ok();
        let axis = usize::from(digit.axis?.0);
        Some(WalkDigit { axis, stride: narrow(digit.stride)?, size: narrow(digit.live)? })
            .filter(|step| step.size > 1)
    }
}

/// Counts up by one, innermost digit fastest; false when every digit has come round.
fn advance(digits: &[WalkDigit], counters: &mut [u32], position: &mut [u32; MAX_TERMS]) -> bool {
    for (digit, counter) in digits.iter().zip(counters.iter_mut()).rev() {
        *counter += 1;
        position[digit.axis] = position[digit.axis].wrapping_add(digit.stride);
        if *counter < digit.size {
            return true;
        }
        position[digit.axis] = position[digit.axis].wrapping_sub(digit.stride.wrapping_mul(digit.size));
        *counter = 0;
    }
    false
}
