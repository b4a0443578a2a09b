//! The map of a tensor with windows as its loops see it: loops in place of the axes that they move.

use smallvec::SmallVec;
use tilewright_base::invariant::OrBroken;

use super::refine::DigitClash;
use super::{MapDigit, RadixMap};
use crate::algebra::map::OFFSET;
use crate::problem::{AxisId, Problem};
use crate::syntax::ast::{Operand, Terms};

/// A map from loops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unrolled {
    /// Its source axes.
    pub axes: Terms<AxisId>,
    /// The map; several positions may have one place.
    pub map: RadixMap,
}

/// The map of a tensor from loops; `None` if the tensor has no window, so that its axes are the loops.
///
/// A sum of loops that carries from one stored digit into another is a clash on the window's axis.
pub fn unrolled(problem: &Problem, operand: Operand, map: &RadixMap) -> Result<Option<Unrolled>, DigitClash> {
    if problem.windows_of(operand).next().is_none() {
        return Ok(None);
    }
    let axes = problem.read_axes(operand);
    let mut all = map.clone();
    for window in problem.windows_of(operand) {
        let Some(stored_axis) = problem.tensor(operand).iter().position(|axis| *axis == window.axis) else {
            continue;
        };
        let of_window = |digit: &&MapDigit| usize::from(digit.from_axis) == stored_axis;
        let mut stored: SmallVec<[MapDigit; 4]> = map.digits.iter().filter(of_window).copied().collect();
        stored.sort_unstable_by_key(|digit| digit.from_stride);
        let cuts: Vec<(u64, u64)> = stored.iter().map(|digit| (digit.from_stride, digit.size)).collect();
        let clash = |left: u64| DigitClash {
            axis: u8::try_from(stored_axis).or_broken("an einsum has few axes"),
            left,
            right: left,
        };
        let steps = window.steps(problem, &cuts).map_err(|carry| clash(carry.weight))?;
        all.digits.retain(|digit| usize::from(digit.from_axis) != stored_axis);
        for (_, axis) in &window.terms {
            let from_axis = u8::try_from(all.from.len()).or_broken("an einsum has few axes");
            all.from.push(problem.axis(*axis).extent);
            for step in steps.iter().filter(|step| step.axis == *axis) {
                let at = step.digit.and_then(|digit| stored.get(digit));
                all.digits.push(MapDigit {
                    to_axis: at.map_or(OFFSET, |at| at.to_axis),
                    to_stride: at.map_or(0, |at| at.to_stride.saturating_mul(step.times)),
                    from_axis,
                    from_stride: step.weight,
                    size: step.size,
                });
            }
        }
    }
    Ok(Some(Unrolled { axes, map: all }))
}
