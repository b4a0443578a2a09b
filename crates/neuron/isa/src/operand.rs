//! Operands as instructions name them: a tensor and the part of it that is meant.

use tilewright_num::Dtype;

use crate::pattern::TensorView;
use crate::refusal::{Refusal, rule};
use crate::tensor::TensorDecl;

/// A tensor and the part of it that an instruction reads or writes, whoever holds its bytes.
pub trait TensorAccess {
    /// The tensor.
    fn tensor(&self) -> &TensorDecl;

    /// The part.
    fn view(&self) -> &TensorView;

    /// Refuses a view that leaves its tensor.
    ///
    /// # Errors
    /// If an element lies outside.
    fn check_bounds(&self) -> Result<(), Refusal> {
        let size = self.tensor().size_bytes() / self.view().dtype.size_bytes(1).max(1);
        let inside =
            |(least, most): (i64, i64)| least >= 0 && usize::try_from(most).is_ok_and(|most| most < size);
        rule(self.view().extent().is_none_or(inside), || {
            let (least, most) = self.view().extent().unwrap_or_default();
            Refusal::new(
                "neuron/bounds",
                format!("elements {least} to {most} of a tensor of {size}"),
                "an access pattern inside its tensor",
                "check offset, strides and counts, or mask what lies outside",
            )
        })
    }

    /// Elements that a partition of the tensor holds, as the view reads them.
    fn partition_elements(&self) -> usize {
        elements_as(self.tensor().free_elements(), self.tensor().dtype, self.view().dtype)
    }

    /// Elements from one partition of the view to the next; none if it has one only, or is no loop.
    fn partition_step(&self) -> Option<isize> {
        let first = self.view().dims.first().filter(|dim| dim.size > 1)?;
        (self.tensor().memory.on_chip() && self.view().gather.is_none()).then_some(first.stride)
    }
}

/// So many elements of one type as elements of another.
pub fn elements_as(count: usize, from: Dtype, to: Dtype) -> usize {
    from.size_bytes(count) / to.size_bytes(1).max(1)
}
