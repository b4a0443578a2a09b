//! Tensors under masks: what is left of a view, and what must not be outside its tensor.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tilewright_neuron_isa::Refusal;
use tilewright_neuron_isa::pattern::SKIP;

use crate::error::plain;
use crate::index::{Index, IndexShape};
use crate::key::IndexBounds;
use crate::mask::{Mask, MaskExtent};
use crate::tensor::Tensor;

impl Tensor {
    /// What the mask leaves of the view; elements outside the tensor must be among what it takes away.
    pub(crate) fn masked(&self, mask: &Mask) -> PyResult<Option<Tensor>> {
        let shape = self.shape();
        let full: IndexShape = fit(&mask.shape, &shape)?;
        match mask.extent(&full) {
            MaskExtent::Everything => Ok(Some(self.clone())),
            MaskExtent::Nothing => Ok(None),
            MaskExtent::Box(ranges) => {
                let mut view = self.tile.view.clone();
                if let (Some(offsets), true) = (&view.gather, shape[..] == full[..]) {
                    view.gather = Some(boxed(offsets, &shape, &ranges));
                    for (dim, &(_, count)) in view.dims.iter_mut().zip(&ranges) {
                        dim.size = count;
                    }
                    let mut out = self.with_view(view);
                    out.bounds = self.bounds.iter().filter_map(|bounds| shrink(bounds, &ranges)).collect();
                    return Ok(Some(out));
                }
                if view.gather.is_some() {
                    return self.flagged(&mask.over(&full)).map(Some);
                }
                let bounds = self.bounds.iter().filter_map(|bounds| shrink(bounds, &ranges)).collect();
                for (axis, &(start, count)) in ranges.iter().enumerate() {
                    if shape[axis] == full[axis] && (start, count) != (0, shape[axis]) {
                        view.slice(axis, start, count, 1).map_err(|refusal| plain(&refusal))?;
                    }
                }
                let mut out = self.with_view(view);
                out.bounds = bounds;
                Ok(Some(out))
            }
            MaskExtent::Flags(flags) => self.flagged(&flags).map(Some),
        }
    }

    /// Only the elements whose flag is set; the others are skipped.
    pub(crate) fn flagged(&self, flags: &[bool]) -> PyResult<Tensor> {
        let offsets = self.tile.view.offsets();
        if offsets.len() != flags.len() {
            return Err(PyValueError::new_err(format!(
                "a mask of {} elements for {}",
                flags.len(),
                offsets.len()
            )));
        }
        let kept: Vec<i64> =
            offsets.iter().zip(flags).map(|(&offset, &flag)| if flag { offset } else { SKIP }).collect();
        let mut view = self.tile.view.clone();
        view.gather = Some(kept.into());
        view.offset = 0;
        let mut out = self.with_view(view);
        for bounds in &self.bounds {
            let mut values = bounds.index.broadcast(&self.shape()).evaluate();
            for (value, flag) in values.iter_mut().zip(flags) {
                if !flag {
                    *value = 0;
                }
            }
            let index = Index::explicit(self.shape().iter().copied().collect(), values);
            out.bounds.push(IndexBounds { index, ..bounds.clone() });
        }
        Ok(out)
    }

    /// The view without what lies outside the tensor.
    pub(crate) fn skipping(&self) -> PyResult<Tensor> {
        if self.bounds.is_empty() {
            return Ok(self.clone());
        }
        let shape = self.shape();
        let mut flags = vec![true; self.tile.elements()];
        for bounds in &self.bounds {
            let size = i64::try_from(bounds.size).unwrap_or(i64::MAX);
            for (flag, at) in flags.iter_mut().zip(bounds.index.broadcast(&shape).evaluate()) {
                *flag &= (0..size).contains(&at);
            }
        }
        let mut out = self.flagged(&flags)?;
        out.bounds.clear();
        Ok(out)
    }

    /// First step and number of steps that a mask leaves of each dimension; none if it leaves no box.
    fn ranges(&self, mask: &Mask) -> PyResult<Option<Vec<(usize, usize)>>> {
        let shape = self.shape();
        let full = fit(&mask.shape, &shape)?;
        let own = |range: &dyn Fn(usize) -> (usize, usize)| {
            let dims = shape.iter().zip(&full).enumerate();
            dims.map(|(axis, (&size, &full))| if size == full { range(axis) } else { (0, size) }).collect()
        };
        Ok(match mask.extent(&full) {
            MaskExtent::Everything => Some(own(&|axis| (0, shape[axis]))),
            MaskExtent::Nothing => Some(vec![(0, 0); shape.len()]),
            MaskExtent::Box(ranges) => Some(own(&|axis| ranges[axis])),
            MaskExtent::Flags(_) => None,
        })
    }

    /// The first rows and columns, which an operand of a product has under a mask between its brackets: `x[i
    /// <= 64]` (NKI API masking, operand masking).
    pub(crate) fn first_of(&self, mask: &Mask) -> PyResult<Tensor> {
        let ranges = self.ranges(mask)?;
        let leading =
            ranges.is_some_and(|ranges| ranges.iter().all(|&(start, count)| start == 0 && count > 0));
        let part = if leading { self.masked(mask)? } else { None };
        part.ok_or_else(|| {
            plain(&Refusal::new(
                "neuron/pattern",
                format!(
                    "a tensor of shape {:?} indexed with a mask that does not leave its first elements",
                    self.shape()
                ),
                "masks as i <= 64, of operands of a product",
                "give other masks with mask=, or slice the tensor",
            ))
        })
    }
}

/// The mask's shape over the axes of a tile.
fn fit(mask: &[usize], shape: &[usize]) -> PyResult<IndexShape> {
    let missing = shape.len().checked_sub(mask.len());
    let Some(missing) = missing else {
        return Err(PyValueError::new_err(format!("a mask of shape {mask:?} for a tile of shape {shape:?}")));
    };
    let mut full: IndexShape = shape.iter().copied().collect();
    for (axis, &size) in mask.iter().enumerate() {
        let tile = &mut full[missing + axis];
        if *tile == 1 || size == *tile {
            *tile = size;
        } else if size != 1 {
            return Err(PyValueError::new_err(format!(
                "a mask of shape {mask:?} for a tile of shape {shape:?}"
            )));
        }
    }
    Ok(full)
}

/// The offsets of a box of a gathered tile, in its order.
fn boxed(offsets: &[i64], shape: &[usize], ranges: &[(usize, usize)]) -> Arc<[i64]> {
    let mut kept = Vec::with_capacity(ranges.iter().map(|&(_, count)| count).product());
    let counts: Vec<usize> = ranges.iter().map(|&(_, count)| count).collect();
    crate::index::for_each_position(&counts, |position| {
        let place = position.iter().zip(ranges).zip(shape);
        let at = place.fold(0, |at, ((&step, &(start, _)), &size)| at * size + start + step);
        kept.push(offsets.get(at).copied().unwrap_or(SKIP));
    });
    kept.into()
}

/// An index after each axis was cut; `None` if it lies inside its dimension now.
fn shrink(bounds: &IndexBounds, ranges: &[(usize, usize)]) -> Option<IndexBounds> {
    let mut index = bounds.index.clone();
    if let Some(values) = &index.values {
        let skip = ranges.len().checked_sub(index.shape.len())?;
        let own = index.shape.iter().zip(&ranges[skip..]);
        let ranges: Vec<(usize, usize)> =
            own.map(|(&size, &range)| if size > 1 { range } else { (0, 1) }).collect();
        let kept = boxed(values, &index.shape, &ranges).to_vec();
        index = Index::explicit(ranges.iter().map(|&(_, count)| count).collect(), kept);
        return IndexBounds { index, ..bounds.clone() }.still();
    }
    let skip = ranges.len().saturating_sub(index.shape.len());
    for (axis, &(start, count)) in ranges.iter().skip(skip).enumerate() {
        if index.shape[axis] > 1 {
            index.shape[axis] = count;
            index.constant += index.coefficients[axis] * start as i64;
        }
    }
    IndexBounds { index, ..bounds.clone() }.still()
}

#[pymethods]
impl Tensor {
    /// What a mask leaves of it; None if nothing.
    #[pyo3(name = "masked")]
    fn py_masked(&self, mask: &Bound<'_, PyAny>) -> PyResult<Option<Tensor>> {
        self.masked(&Mask::from_python(mask)?)
    }

    /// First step and number of steps that a mask leaves of each dimension; None if it leaves no box.
    #[pyo3(name = "ranges")]
    fn py_ranges(&self, mask: &Bound<'_, PyAny>) -> PyResult<Option<Vec<(usize, usize)>>> {
        self.ranges(&Mask::from_python(mask)?)
    }

    /// Without what lies outside the tensor.
    #[pyo3(name = "skipping")]
    fn py_skipping(&self) -> PyResult<Tensor> {
        self.skipping()
    }
}
