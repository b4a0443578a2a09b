//! Explicit access patterns, `.ap` of the second dialect: steps and counts over the storage of a tensor.
//!
//! On chip the first pair is the partitions, and they must be neighbours: its step is the elements that a
//! partition of the tensor holds (NKI deep dive on access patterns, requirement on the partition dimension).
//! A pattern says over what it steps: with the elements of the whole tensor it is one over the storage,
//! whatever the view; with those of the view it was called on it begins where the view begins, so that
//! patterns of patterns mean what they say.

use tilewright_neuron_isa::mx::MxFormat;
use tilewright_neuron_isa::operand::elements_as;
use tilewright_neuron_isa::pattern::{PatternDims, signed};
use tilewright_neuron_isa::refusal::{Refusal, rule};
use tilewright_neuron_isa::{TensorAccess, TensorView};
use tilewright_num::Dtype;

use crate::Tile;

impl Tile {
    /// The part that a pattern of steps and counts means, from `offset` on; all in elements of `dtype`.
    ///
    /// # Errors
    /// If partitions are skipped, or elements lie outside the tensor.
    pub fn explicit(
        &self,
        mut dims: PatternDims,
        mut offset: usize,
        dtype: Dtype,
        mx: Option<MxFormat>,
    ) -> Result<Tile, Refusal> {
        if let Some(first) = dims.first_mut().filter(|_| self.storage.memory.on_chip()) {
            let of_tensor = elements_as(self.storage.free_elements(), self.storage.dtype, dtype);
            let of_view = elements_as(self.view.free_elements(), self.view.dtype, dtype);
            if of_view > 0 && first.stride != signed(of_tensor) && first.stride == signed(of_view) {
                let begin = elements_as(self.view.offset, self.view.dtype, dtype);
                let rows = (offset / of_view).saturating_mul(of_tensor);
                offset = begin.saturating_add(rows).saturating_add(offset % of_view);
                first.stride = signed(of_tensor);
            }
            let near = first.size <= 1 || first.stride == signed(of_tensor);
            rule(near, || skips_partitions(first.stride, of_tensor, of_view))?;
        }
        let view = TensorView { offset, dims, mx, ..TensorView::whole(&[], dtype, 0) };
        let tile = Tile { storage: self.storage.clone(), view };
        tile.check_bounds()?;
        Ok(tile)
    }
}

fn skips_partitions(step: isize, of_tensor: usize, of_view: usize) -> Refusal {
    let own = if of_view == of_tensor { String::new() } else { format!(", or {of_view}, those of the view") };
    Refusal::new(
        "neuron/pattern",
        format!("an access pattern that steps {step} elements from partition to partition"),
        format!("{of_tensor}, the elements that a partition holds{own}"),
        "take neighbouring partitions; copy others by DMA, row by row",
    )
}
