//! What folds axes: reductions and contractions. Padding of what they fold becomes neutral.

use super::layout::{Digit, Padding, aligned, merged};
use super::masks::neutral;
use super::{Bounded, BoundingPass};
use crate::graph::ValueId;
use crate::infer::{BuildResult, Subscripts, shape_error};
use crate::op::Fold;

impl BoundingPass<'_> {
    /// A reduction.
    pub(super) fn reduce(
        &mut self,
        fold: Fold,
        reduced: &[usize],
        keep: bool,
        (x, axes): Bounded,
    ) -> BuildResult<Bounded> {
        let ranges = self.axes();
        let is_good = |digit: &Digit| match fold {
            Fold::Sum => digit.has_zeros(),
            // The largest of copies is the one that is copied, if there is one.
            Fold::Max | Fold::Min => digit.padding == Padding::Same && digit.dim.range(ranges).0 > 0,
            Fold::Prod => false,
        };
        let dtype = self.b.dtype(x);
        let element = self.b.scalar(dtype, neutral(fold, dtype))?;
        let filled = self.filled(x, &axes, reduced, &is_good, element)?;
        let y = self.b.reduce(fold, filled, reduced, keep)?;
        let left = axes.into_iter().enumerate().filter_map(|(axis, digits)| match reduced.contains(&axis) {
            true => keep.then(Vec::new),
            false => Some(digits.into_iter().map(kept).collect()),
        });
        Ok((y, left.collect()))
    }

    /// A sum of products.
    pub(super) fn einsum(&mut self, spec: &str, operands: &[Bounded]) -> BuildResult<Bounded> {
        let parts = Subscripts::parse(spec).ok_or_else(|| shape_error(spec, "subscripts"))?;
        let mut labels: Vec<(u8, Vec<Digit>)> = Vec::new();
        for (own, (_, axes)) in parts.inputs.iter().zip(operands) {
            for (label, digits) in own.iter().zip(axes) {
                self.meet(&mut labels, *label, digits)?;
            }
        }
        let integers = operands.first().is_some_and(|(x, _)| !self.b.dtype(*x).is_float());
        let mut done: Vec<u8> = Vec::new();
        let mut inputs: Vec<ValueId> = Vec::new();
        for (own, (x, axes)) in parts.inputs.iter().zip(operands) {
            // Zero times an integer is zero; a float that is none, or infinite, must not meet the zero.
            let summed = |label: &u8| !(parts.output.contains(label) || integers && done.contains(label));
            let chosen: Vec<usize> =
                own.iter().enumerate().filter(|(_, label)| summed(label)).map(|(axis, _)| axis).collect();
            let zero = self.b.scalar(self.b.dtype(*x), 0.0)?;
            inputs.push(self.filled(*x, axes, &chosen, &Digit::has_zeros, zero)?);
            done.extend(own);
        }
        let y = self.b.einsum(spec, &inputs)?;
        let find = |label: &u8| labels.iter().find(|(known, _)| known == label);
        let axes = parts.output.iter().filter_map(find);
        Ok((y, axes.map(|(_, digits)| digits.iter().cloned().map(kept).collect()).collect()))
    }

    /// Notes where the elements of a label lie; operands must agree on it.
    fn meet(&self, labels: &mut Vec<(u8, Vec<Digit>)>, label: u8, digits: &[Digit]) -> BuildResult<()> {
        let Some((_, known)) = labels.iter_mut().find(|(known, _)| *known == label) else {
            labels.push((label, digits.to_vec()));
            return Ok(());
        };
        let pairs = aligned(known, digits).ok_or_else(|| self.misaligned(known, digits))?;
        let both = pairs.into_iter().map(|(x, y)| if x.padding == Padding::Same { y } else { x });
        *known = merged(both).ok_or_else(|| self.misaligned(digits, digits))?;
        Ok(())
    }
}

/// A digit of a value that was computed: only what was the same everywhere is known to be.
pub(super) fn kept(digit: Digit) -> Digit {
    match digit.padding {
        Padding::Zero => Digit::new(digit.dim, Padding::Unknown),
        _ => digit,
    }
}
