//! Access patterns: which elements of a tensor an operand means, in which order.
//!
//! A pattern is an offset and nested (size, stride) loops in elements, outermost first, as the access-pattern
//! hardware of every engine runs it (NKI architecture guide, data movement). What no such loops describe,
//! rows picked by an index tile or elements cut out by a mask, is a list of element offsets.

use std::sync::Arc;

use smallvec::SmallVec;
use tilewright_base::invariant::OrBroken;
use tilewright_num::Dtype;

use crate::mx::MxFormat;
use crate::refusal::{Refusal, rule};
use crate::{EngineKind, TensorRegion};

/// One loop of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatternDim {
    /// Steps.
    pub size: usize,
    /// Elements from one step to the next.
    pub stride: isize,
}

/// Loops of a pattern.
pub type PatternDims = SmallVec<[PatternDim; 5]>;

/// Offset that stands for an element that is neither read nor written.
pub const SKIP: i64 = -1;

/// Most elements that an operand may have.
pub const MAX_ELEMENTS: usize = 1 << 32;

/// A part of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorView {
    /// First element, in elements of `dtype`.
    pub offset: usize,
    /// Loops, outermost first.
    pub dims: PatternDims,
    /// How the bytes are read.
    pub dtype: Dtype,
    /// What the words of `dtype` hold, if they are those of a block-scaled operand.
    pub mx: Option<MxFormat>,
    /// Leading dimensions that number tiles rather than partitions.
    pub blocks: usize,
    /// Element offsets in place of the loops' strides, or [`SKIP`].
    pub gather: Option<Arc<[i64]>>,
    /// The tile that the offsets were read from.
    pub index: Option<Arc<IndexTile>>,
    /// Tiles whose values picked the offsets: descriptors of a transfer are then made at run time.
    pub picked_by: Option<Arc<[TensorRegion]>>,
}

/// A tile of offsets (NKI tensor, `indirect`; docs/hardware-rules.md#tensor-indirection): engines read them
/// in groups of partitions, of a size that depends on the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexTile {
    /// Where it lies.
    pub region: TensorRegion,
    /// Partitions of a group: for Vector, Scalar and GpSimd, and for the tensor engine.
    pub groups: (usize, usize),
    /// Offsets as Vector, Scalar and GpSimd read them; none if there are too few.
    pub lanes: Option<Arc<[i64]>>,
    /// Offsets as the tensor engine reads them.
    pub array: Option<Arc<[i64]>>,
}

impl IndexTile {
    /// What to say if an engine does not find as many offsets as it needs.
    pub fn too_few(&self, engine: EngineKind) -> Refusal {
        let (engine, group) =
            (engine.name(), if engine == EngineKind::Tensor { self.groups.1 } else { self.groups.0 });
        Refusal::new(
            "neuron/shape",
            format!(
                "offsets of a tile for the {engine} engine, which reads them in groups of {group} partitions"
            ),
            format!("partitions in whole groups of {group}, and as many offsets in each as num_elem says"),
            "give num_elem, or spread the offsets over the partitions of a group",
        )
    }
}

impl TensorView {
    /// The whole of a tensor of that shape.
    pub fn whole(shape: &[usize], dtype: Dtype, blocks: usize) -> TensorView {
        let mut dims = PatternDims::new();
        let mut stride = 1_usize;
        for &size in shape.iter().rev() {
            dims.push(PatternDim { size, stride: signed(stride) });
            stride = stride.saturating_mul(size.max(1));
        }
        dims.reverse();
        TensorView { offset: 0, dims, dtype, mx: None, blocks, gather: None, index: None, picked_by: None }
    }

    /// The name of its element type in kernels.
    pub fn type_name(&self) -> &'static str {
        self.mx.map_or(self.dtype.name(), MxFormat::name)
    }

    /// Sizes of the loops.
    pub fn shape(&self) -> SmallVec<[usize; 5]> {
        self.dims.iter().map(|dim| dim.size).collect()
    }

    /// Elements.
    pub fn elements(&self) -> usize {
        self.dims.iter().fold(1, |product: usize, dim| product.saturating_mul(dim.size))
    }

    /// Partitions: the size of the first dimension.
    pub fn partitions(&self) -> usize {
        self.dims.first().map_or(1, |dim| dim.size)
    }

    /// Elements of a partition.
    pub fn free_elements(&self) -> usize {
        self.dims.iter().skip(1).fold(1, |product: usize, dim| product.saturating_mul(dim.size))
    }

    /// Elements of a partition without those that are repeated.
    pub fn distinct_free_elements(&self) -> usize {
        let own = self.dims.iter().skip(1).filter(|dim| dim.stride != 0);
        own.fold(1, |product: usize, dim| product.saturating_mul(dim.size))
    }

    /// Bytes of a partition.
    pub fn free_bytes(&self) -> u64 {
        as_u64(self.dtype.size_bytes(self.free_elements()))
    }

    /// True if elements of a partition lie one after the other.
    pub fn free_contiguous(&self) -> bool {
        self.gather.is_none() && contiguous(&self.dims[1.min(self.dims.len())..])
    }

    /// Bytes between neighbouring elements of the innermost loop.
    pub fn inner_stride_bytes(&self) -> usize {
        let inner =
            self.dims.iter().rev().find(|dim| dim.size > 1).map_or(1, |dim| dim.stride.unsigned_abs());
        inner.saturating_mul(self.dtype.size_bytes(1))
    }

    /// Least and largest element offset; `None` if there is no element.
    pub fn extent(&self) -> Option<(i64, i64)> {
        if let Some(offsets) = &self.gather {
            let used = offsets.iter().copied().filter(|&offset| offset != SKIP);
            return used.fold(None, |range, offset| match range {
                None => Some((offset, offset)),
                Some((least, most)) => Some((least.min(offset), most.max(offset))),
            });
        }
        if self.dims.iter().any(|dim| dim.size == 0) {
            return None;
        }
        let start = i64::try_from(self.offset).unwrap_or(i64::MAX);
        let (mut least, mut most) = (start, start);
        for dim in &self.dims {
            let reach = i64::try_from(dim.size - 1).unwrap_or(i64::MAX).saturating_mul(dim.stride as i64);
            if reach < 0 { least = least.saturating_add(reach) } else { most = most.saturating_add(reach) }
        }
        Some((least, most))
    }

    /// A slice of one dimension: `count` steps from `start`, each `step` apart.
    ///
    /// # Errors
    /// If the slice leaves the dimension.
    pub fn slice(&mut self, axis: usize, start: usize, count: usize, step: usize) -> Result<(), Refusal> {
        self.need_affine("a slice of a gathered view")?;
        let Some(dim) = self.dims.get_mut(axis) else { return Err(no_axis(axis)) };
        let last =
            count.checked_sub(1).map_or(Some(0), |n| n.checked_mul(step).and_then(|n| n.checked_add(start)));
        rule(count == 0 || last.is_some_and(|last| last < dim.size), || {
            Refusal::new(
                "neuron/bounds",
                format!("elements {start} to {} of a dimension of {}", last.unwrap_or(usize::MAX), dim.size),
                "a slice inside the tensor",
                "cut the slice at the end of the tensor",
            )
        })?;
        if count > 0 {
            self.offset = self.offset.wrapping_add_signed(signed(start).wrapping_mul(dim.stride));
        }
        *dim = PatternDim { size: count, stride: dim.stride.wrapping_mul(signed(step)) };
        Ok(())
    }

    /// Drops a dimension at one of its steps.
    ///
    /// # Errors
    /// If there is no such step.
    pub fn select(&mut self, axis: usize, index: usize) -> Result<(), Refusal> {
        self.slice(axis, index, 1, 1)?;
        self.dims.remove(axis);
        if axis < self.blocks {
            self.blocks -= 1;
        }
        Ok(())
    }

    /// Repeats a dimension of size 1.
    ///
    /// # Errors
    /// If the dimension has another size.
    pub fn broadcast(&mut self, axis: usize, size: usize) -> Result<(), Refusal> {
        self.need_affine("a broadcast of a gathered view")?;
        let Some(dim) = self.dims.get_mut(axis) else { return Err(no_axis(axis)) };
        rule(dim.size == 1 || dim.size == size, || {
            Refusal::new(
                "neuron/shape",
                format!("{} elements repeated to {size}", dim.size),
                "a dimension of size 1 may be repeated",
                "give both operands the same size, or size 1",
            )
        })?;
        if dim.size != size {
            *dim = PatternDim { size, stride: 0 };
        }
        Ok(())
    }

    /// The same elements with other dimensions, if they can be described by loops.
    ///
    /// # Errors
    /// If the number of elements differs, or the elements do not lie so that the new loops reach them.
    pub fn reshape(&self, shape: &[usize]) -> Result<TensorView, Refusal> {
        let wanted = shape.iter().fold(1, |product: usize, &size| product.saturating_mul(size));
        rule(wanted == self.elements(), || {
            Refusal::new(
                "neuron/shape",
                format!("a view of {} elements reshaped to {shape:?}", self.elements()),
                "a shape of as many elements",
                "check the sizes",
            )
        })?;
        if self.gather.is_some() {
            let mut view = TensorView { mx: self.mx, ..TensorView::whole(shape, self.dtype, 0) };
            view.gather.clone_from(&self.gather);
            view.picked_by.clone_from(&self.picked_by);
            return Ok(view);
        }
        let dims = regroup(&self.dims, shape).ok_or_else(|| {
            Refusal::new(
                "neuron/shape",
                format!("a strided view of shape {:?} reshaped to {shape:?}", self.shape()),
                "a reshape that splits dimensions or merges contiguous ones",
                "copy the tile first",
            )
        })?;
        Ok(TensorView { dims, blocks: 0, ..self.clone() })
    }

    /// Dimensions in another order.
    ///
    /// # Errors
    /// If `order` is no permutation.
    pub fn permute(&self, order: &[usize]) -> Result<TensorView, Refusal> {
        self.need_affine("a permutation of a gathered view")?;
        let mut seen = vec![false; self.dims.len()];
        let mut dims = PatternDims::new();
        for &axis in order {
            let (Some(dim), Some(seen)) = (self.dims.get(axis), seen.get_mut(axis)) else {
                return Err(no_axis(axis));
            };
            *seen = true;
            dims.push(*dim);
        }
        rule(seen.iter().all(|&seen| seen) && dims.len() == self.dims.len(), || {
            Refusal::new(
                "neuron/shape",
                format!("dimensions in the order {order:?}"),
                "each dimension once",
                "list each dimension once",
            )
        })?;
        Ok(TensorView { dims, blocks: 0, ..self.clone() })
    }

    /// Dimensions in another order, of picked elements too: what a transfer reads when it transposes rows
    /// that a tile picks.
    ///
    /// # Errors
    /// If `order` is no permutation.
    pub fn transpose_gather(&self, order: &[usize]) -> Result<TensorView, Refusal> {
        let Some(offsets) = &self.gather else { return self.permute(order) };
        let transposed = TensorView::whole(&self.shape(), self.dtype, 0).permute(order)?;
        let from = transposed.offsets().into_iter().map(|at| usize::try_from(at).ok());
        let picked = from.map(|at| at.and_then(|at| offsets.get(at)).copied().unwrap_or(SKIP));
        let whole = TensorView::whole(&transposed.shape(), self.dtype, 0);
        Ok(TensorView { dims: whole.dims, gather: Some(picked.collect()), blocks: 0, ..self.clone() })
    }

    /// The same bytes as another type; the innermost dimension grows or shrinks.
    ///
    /// # Errors
    /// If the innermost dimension is not contiguous or has not a whole number of new elements.
    pub fn reinterpret(&self, dtype: Dtype) -> Result<TensorView, Refusal> {
        let (old, new) = (self.dtype.size_bytes(1), dtype.size_bytes(1));
        let mut view = TensorView { dtype, mx: None, ..self.clone() };
        if old == new {
            return Ok(view);
        }
        self.need_affine("a gathered view as another type")?;
        let refuse = || {
            Refusal::new(
                "neuron/dtype",
                format!("a view of shape {:?} and type {} as {dtype}", self.shape(), self.dtype),
                "a contiguous innermost dimension of a whole number of elements of the new type",
                "copy the tile first, or view with a type of the same size",
            )
        };
        let Some((inner, outer)) = view.dims.split_last_mut() else { return Err(refuse()) };
        let fits = |elements: usize| (elements * old).is_multiple_of(new);
        let strides = outer.iter().all(|dim| fits(dim.stride.unsigned_abs()));
        rule(
            (inner.stride == 1 || inner.size == 1) && fits(inner.size) && fits(self.offset) && strides,
            refuse,
        )?;
        *inner = PatternDim { size: inner.size * old / new, stride: 1 };
        for dim in outer {
            dim.stride = dim.stride * signed(old) / signed(new);
        }
        view.offset = self.offset * old / new;
        Ok(view)
    }

    /// Calls `run(offset, steps, stride)` for each innermost loop, in order. Not for gathered views.
    pub fn for_each_run(&self, mut run: impl FnMut(usize, usize, isize)) {
        let merged = merged(&self.dims);
        let Some((inner, outer)) = merged.split_last() else { return run(self.offset, 1, 1) };
        if merged.iter().any(|dim| dim.size == 0) {
            return;
        }
        let mut index: SmallVec<[usize; 6]> = SmallVec::from_elem(0, outer.len());
        let mut offset = self.offset;
        loop {
            run(offset, inner.size, inner.stride);
            let mut axis = outer.len();
            loop {
                if axis == 0 {
                    return;
                }
                axis -= 1;
                index[axis] += 1;
                offset = offset.wrapping_add_signed(outer[axis].stride);
                if index[axis] < outer[axis].size {
                    break;
                }
                offset = offset.wrapping_add_signed(-(outer[axis].stride * signed(outer[axis].size)));
                index[axis] = 0;
            }
        }
    }

    /// The first of the innermost loops; none if there is no element. Not for gathered views.
    pub fn for_first_run(&self, mut run: impl FnMut(usize, usize, isize)) {
        let merged = merged(&self.dims);
        if let Some(inner) = merged.last().filter(|_| merged.iter().all(|dim| dim.size > 0)) {
            run(self.offset, inner.size, inner.stride);
        }
    }

    /// The offset of each element, in order.
    pub fn offsets(&self) -> Vec<i64> {
        if let Some(offsets) = &self.gather {
            return offsets.to_vec();
        }
        let mut offsets = Vec::with_capacity(self.elements());
        self.for_each_run(|start, steps, stride| {
            let start = start as i64;
            offsets.extend((0..steps as i64).map(|step| start + step * stride as i64));
        });
        offsets
    }

    /// Refuses what only loops can do.
    /// Calls `run(start, steps, stride)` for each innermost loop; `None` where elements are skipped.
    pub fn visit(&self, mut run: impl FnMut(Option<usize>, usize, isize)) {
        let Some(offsets) = &self.gather else {
            return self.for_each_run(|start, steps, stride| run(Some(start), steps, stride));
        };
        let mut rest = &offsets[..];
        while let Some(&first) = rest.first() {
            let mut steps = 1;
            if first == SKIP {
                while rest.get(steps) == Some(&SKIP) {
                    steps += 1;
                }
                run(None, steps, 1);
            } else {
                while rest.get(steps) == Some(&(first + steps as i64)) {
                    steps += 1;
                }
                run(usize::try_from(first).ok(), steps, 1);
            }
            rest = &rest[steps..];
        }
    }

    fn need_affine(&self, asked: &str) -> Result<(), Refusal> {
        rule(self.gather.is_none(), || {
            Refusal::new(
                "neuron/pattern",
                asked,
                "views made of loops",
                "copy the gathered elements to a tile first",
            )
        })
    }
}

fn no_axis(axis: usize) -> Refusal {
    Refusal::new(
        "neuron/shape",
        format!("dimension {axis}"),
        "a dimension that the tensor has",
        "check the number of dimensions",
    )
}

/// True if the loops step through neighbouring elements.
fn contiguous(dims: &[PatternDim]) -> bool {
    let mut expected = 1_usize;
    for dim in dims.iter().rev().filter(|dim| dim.size != 1) {
        if dim.stride != signed(expected) {
            return false;
        }
        expected = expected.saturating_mul(dim.size);
    }
    true
}

/// Loops that run on from one another, made one.
fn merged(dims: &[PatternDim]) -> PatternDims {
    let mut merged = PatternDims::new();
    for dim in dims.iter().filter(|dim| dim.size != 1) {
        match merged.last_mut() {
            Some(outer) if outer.stride == dim.stride.wrapping_mul(signed(dim.size)) => {
                *outer = PatternDim { size: outer.size.saturating_mul(dim.size), stride: dim.stride };
            }
            _ => merged.push(*dim),
        }
    }
    if merged.is_empty() {
        merged.push(PatternDim { size: 1, stride: 1 });
    }
    merged
}

/// Loops of another shape over the same elements.
fn regroup(dims: &[PatternDim], shape: &[usize]) -> Option<PatternDims> {
    if shape.contains(&0) {
        return Some(TensorView::whole(shape, Dtype::F32, 0).dims);
    }
    let mut source = merged(dims);
    let mut out = PatternDims::new();
    for &size in shape.iter().rev() {
        if size == 1 {
            out.push(PatternDim { size: 1, stride: 1 });
            continue;
        }
        while source.len() > 1 && source.last().is_some_and(|dim| dim.size == 1) {
            source.pop();
        }
        let inner = source.last_mut()?;
        if !inner.size.is_multiple_of(size) {
            return None;
        }
        out.push(PatternDim { size, stride: inner.stride });
        *inner = PatternDim { size: inner.size / size, stride: inner.stride.wrapping_mul(signed(size)) };
    }
    out.reverse();
    Some(out)
}

/// Sizes are far below the limit of `isize`; anything else is saturated and refused by bounds.
pub fn signed(size: usize) -> isize {
    isize::try_from(size).unwrap_or(isize::MAX)
}

/// A size as a figure of the machine.
pub fn as_u64(size: usize) -> u64 {
    u64::try_from(size).or_broken("a size of more than 64 bits")
}
