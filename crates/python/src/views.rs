//! Views of tensors: other shapes, orders, slices and types over the same bytes.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tilewright_neuron_isa::operand::elements_as;
use tilewright_neuron_isa::pattern::{PatternDim, PatternDims};
use tilewright_neuron_isa::refusal::rule;
use tilewright_neuron_isa::{Refusal, TensorRegion, TensorView};

use crate::dtype::{self, ElementType};
use crate::error::plain;
use crate::index::Index;
use crate::key::IndexBounds;
use crate::tensor::Tensor;

#[pymethods]
impl Tensor {
    /// Another shape over the same elements.
    #[pyo3(name = "reshaped")]
    fn reshaped(&self, shape: Vec<isize>) -> PyResult<Tensor> {
        let known: usize = shape.iter().filter_map(|&size| usize::try_from(size).ok()).product();
        let elements = self.tile.elements();
        let sizes: Vec<usize> =
            shape.iter().map(|&size| usize::try_from(size).unwrap_or(elements / known.max(1))).collect();
        self.viewed(|view| view.reshape(&sizes))
    }

    /// Dimensions in another order.
    fn permuted(&self, order: Vec<usize>) -> PyResult<Tensor> {
        self.viewed(|view| view.permute(&order))
    }

    /// The same of picked elements too, for transfers that transpose.
    fn transposed(&self, order: Vec<usize>) -> PyResult<Tensor> {
        self.viewed(|view| view.transpose_gather(&order))
    }

    /// Sizes of 1 repeated, new dimensions in front.
    fn broadcasted(&self, shape: Vec<usize>) -> PyResult<Tensor> {
        let missing = shape.len().saturating_sub(self.tile.view.dims.len());
        self.affine(|view| {
            for _ in 0..missing {
                view.dims.insert(0, PatternDim { size: 1, stride: 0 });
            }
            for (axis, &size) in shape.iter().enumerate() {
                view.broadcast(axis, size).map_err(|refusal| {
                    let asked =
                        format!("a tensor of shape {:?} where one of {shape:?} is needed", self.shape());
                    Refusal { asked, ..refusal }
                })?;
            }
            Ok(())
        })
    }

    /// A new dimension of size 1.
    fn expanded(&self, axis: isize) -> PyResult<Tensor> {
        let rank = isize::try_from(self.tile.view.dims.len()).unwrap_or(isize::MAX);
        let at = self.axis(if axis < 0 { axis + rank + 1 } else { axis })?;
        self.affine(|view| {
            view.dims.insert(at, PatternDim { size: 1, stride: 1 });
            Ok(())
        })
    }

    /// Without a dimension of size 1.
    fn squeezed(&self, axis: isize) -> PyResult<Tensor> {
        let at = self.axis(axis)?;
        let size = self.tile.view.dims.get(at).map_or(1, |dim| dim.size);
        rule(size == 1, || {
            Refusal::new(
                "neuron/shape",
                format!("dimension {at} squeezed, which has {size} elements"),
                "a dimension of one element may be left out",
                "take one of its elements with an index, or reshape",
            )
        })
        .map_err(|refusal| plain(&refusal))?;
        self.affine(|view| view.select(at, 0))
    }

    /// A slice of one dimension.
    #[pyo3(signature = (axis, start, count, step=1))]
    fn sliced(&self, axis: isize, start: usize, count: usize, step: usize) -> PyResult<Tensor> {
        let at = self.axis(axis)?;
        self.affine(|view| view.slice(at, start, count, step))
    }

    /// The same bytes as another type.
    fn reinterpreted(&self, code: usize) -> PyResult<Tensor> {
        let element = dtype::from_code(code)?;
        if let Some(dtype) = self.declared.filter(|&dtype| dtype != element.dtype) {
            return Err(PyValueError::new_err(format!(
                "a tile of {dtype} has no bytes to view as {} while NKI_PRECISE_FP is 0",
                element.dtype
            )));
        }
        if self.declared.is_some() {
            return Ok(self.clone());
        }
        let view = self.operand()?.view.reinterpret(element.dtype).map_err(|refusal| plain(&refusal))?;
        Ok(self.with_view(TensorView { mx: element.mx, ..view }))
    }

    /// Explicit strides and counts in elements, and an offset. `by` is the tile that gave the offset.
    #[pyo3(signature = (pattern, offset=0, code=None, by=None))]
    fn pattern(
        &self,
        pattern: Vec<(isize, usize)>,
        offset: usize,
        code: Option<usize>,
        by: Option<&Tensor>,
    ) -> PyResult<Tensor> {
        let dims: PatternDims =
            pattern.into_iter().map(|(stride, size)| PatternDim { size, stride }).collect();
        let ElementType { dtype, mx } =
            code.map_or(Ok(ElementType::of(&self.tile.view)), dtype::from_code)?;
        let tile = self.tile.explicit(dims, offset, dtype, mx).map_err(|refusal| plain(&refusal))?;
        let picked_by = by.and_then(|by| TensorRegion::of(&by.tile)).map(|region| [region].into());
        Ok(self.with_view(TensorView { picked_by, ..tile.view }))
    }

    /// The same view, whose place is known when these registers are.
    fn placed_by(&self, registers: Vec<Bound<'_, Tensor>>) -> Tensor {
        let mut view = self.tile.view.clone();
        let known = registers.iter().filter_map(|register| TensorRegion::of(&register.get().tile));
        let earlier = view.picked_by.iter().flat_map(|tiles| tiles.iter().copied());
        view.picked_by = Some(earlier.chain(known).collect());
        let mut out = self.with_view(view);
        out.bounds.clone_from(&self.bounds);
        out
    }

    /// Explicit element offsets over the whole storage; negative ones are skipped. `by` is the tile that
    /// picked them.
    #[pyo3(signature = (offsets, shape, base, limit, by=None))]
    fn gathered(
        &self,
        offsets: Vec<i64>,
        shape: Vec<usize>,
        base: i64,
        limit: i64,
        by: Option<&Tensor>,
    ) -> PyResult<Tensor> {
        let index = Index::explicit(shape.iter().copied().collect(), offsets.clone());
        let mut view =
            TensorView { mx: self.tile.view.mx, ..TensorView::whole(&shape, self.tile.view.dtype, 0) };
        view.gather = Some(offsets.into());
        view.picked_by = by.and_then(|by| TensorRegion::of(&by.tile)).map(|region| [region].into());
        let mut out = self.with_view(view);
        let inside = index.range().is_none_or(|(least, most)| least >= 0 && most < limit);
        if !inside {
            let size = usize::try_from(limit).unwrap_or(0);
            out.bounds.push(IndexBounds { index, axis: None, size, stride: 1, base });
        }
        Ok(out)
    }

    /// Whether a tile of indices picked its elements.
    #[getter]
    fn is_picked(&self) -> bool {
        self.tile.view.gather.is_some() && self.tile.view.picked_by.is_some()
    }

    /// The first element of the tensor that a view of picked elements has more than once, by dimension of the
    /// tensor, and how often it has it.
    fn repeated_element(&self) -> Option<(Vec<usize>, usize)> {
        let (view, tensor) = (&self.tile.view, &self.tile.storage.tensor);
        let most =
            i64::try_from(elements_as(tensor.shape.iter().product(), tensor.dtype, view.dtype)).ok()?;
        let mut offsets: Vec<i64> = view.gather.as_deref()?.to_vec();
        offsets.retain(|offset| (0..most).contains(offset));
        offsets.sort_unstable();
        let twice = offsets.windows(2).position(|pair| pair[0] == pair[1])?;
        let count = offsets[twice..].iter().take_while(|&&offset| offset == offsets[twice]).count();
        let mut rest = elements_as(usize::try_from(offsets[twice]).ok()?, view.dtype, tensor.dtype);
        let mut place = vec![0; tensor.shape.len()];
        for (step, &size) in place.iter_mut().zip(&tensor.shape).rev() {
            (*step, rest) = (rest % size.max(1), rest / size.max(1));
        }
        Some((place, count))
    }
}
