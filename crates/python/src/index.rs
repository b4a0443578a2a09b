//! Index expressions of kernels: `nl.arange`, `nl.mgrid` and what arithmetic makes of them.
//!
//! An expression is affine as long as it can be: a constant and a coefficient for each axis of its shape, so
//! that an indexed tensor stays an access pattern. Division and data-dependent indices give explicit values.

use std::sync::Arc;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyEllipsis, PyInt, PySlice, PyTuple};
use smallvec::SmallVec;
use tilewright_neuron_isa::TensorRegion;

use crate::mask::Mask;

/// Sizes of an expression's axes.
pub(crate) type IndexShape = SmallVec<[usize; 4]>;

/// Most elements that explicit values may have.
const MAX_VALUES: usize = 1 << 28;

/// An index expression.
#[pyclass(frozen, from_py_object, module = "tilewright._core")]
#[derive(Clone, Debug)]
pub(crate) struct Index {
    pub(crate) shape: IndexShape,
    pub(crate) constant: i64,
    pub(crate) coefficients: SmallVec<[i64; 4]>,
    /// Explicit values in row-major order, in place of constant and coefficients.
    pub(crate) values: Option<Arc<[i64]>>,
    /// Tiles whose elements are in it: it is known only at run time.
    pub(crate) by: Option<Arc<[TensorRegion]>>,
}

impl Index {
    /// A number.
    pub(crate) fn constant(value: i64) -> Index {
        Index {
            shape: IndexShape::new(),
            constant: value,
            coefficients: SmallVec::new(),
            values: None,
            by: None,
        }
    }

    /// `start + step * position` along one axis of `rank`.
    pub(crate) fn axis(rank: usize, axis: usize, start: i64, count: usize, step: i64) -> Index {
        let mut shape = IndexShape::from_elem(1, rank);
        let mut coefficients = SmallVec::from_elem(0, rank);
        shape[axis] = count;
        coefficients[axis] = step;
        Index { shape, constant: start, coefficients, values: None, by: None }
    }

    /// Explicit values.
    pub(crate) fn explicit(shape: IndexShape, values: Vec<i64>) -> Index {
        let coefficients = SmallVec::from_elem(0, shape.len());
        Index { shape, constant: 0, coefficients, values: Some(values.into()), by: None }
    }

    pub(crate) fn elements(&self) -> usize {
        self.shape.iter().fold(1, |product: usize, &size| product.saturating_mul(size))
    }

    /// The same over a larger shape; sizes of 1 are repeated.
    pub(crate) fn broadcast(&self, shape: &[usize]) -> Index {
        let missing = shape.len().saturating_sub(self.shape.len());
        if self.values.is_none() {
            let mut coefficients: SmallVec<[i64; 4]> = SmallVec::from_elem(0, missing);
            coefficients.extend(
                self.coefficients.iter().zip(&self.shape).map(|(&c, &size)| if size == 1 { 0 } else { c }),
            );
            let by = self.by.clone();
            return Index { shape: shape.into(), constant: self.constant, coefficients, values: None, by };
        }
        let mut padded = IndexShape::from_elem(1, missing);
        padded.extend_from_slice(&self.shape);
        let source = self.values.as_deref().unwrap_or_default();
        let mut values = Vec::with_capacity(shape.iter().product());
        for_each_position(shape, |position| {
            let mut at = 0;
            for (&size, &index) in padded.iter().zip(position) {
                at = at * size + if size == 1 { 0 } else { index };
            }
            values.push(source.get(at).copied().unwrap_or_default());
        });
        Index { by: self.by.clone(), ..Index::explicit(shape.into(), values) }
    }

    /// The expression, known only when those tiles are.
    pub(crate) fn picked_by(mut self, region: Option<TensorRegion>) -> Index {
        self.by = region.map(|region| [region].into());
        self
    }

    /// Tiles whose elements are in one of them.
    fn tiles_of(&self, other: &Index) -> Option<Arc<[TensorRegion]>> {
        match (&self.by, &other.by) {
            (Some(a), Some(b)) => Some(a.iter().chain(b.iter()).copied().collect()),
            (by, None) | (None, by) => by.clone(),
        }
    }

    /// Every value in row-major order.
    pub(crate) fn evaluate(&self) -> Vec<i64> {
        if let Some(values) = &self.values {
            return values.to_vec();
        }
        let mut values = Vec::with_capacity(self.elements());
        let (Some((&inner, outer)), Some((&step, outer_steps))) =
            (self.shape.split_last(), self.coefficients.split_last())
        else {
            return vec![self.constant];
        };
        for_each_position(outer, |position| {
            let terms = position.iter().zip(outer_steps).map(|(&at, &c)| c.wrapping_mul(at as i64));
            let first = terms.fold(self.constant, i64::wrapping_add);
            values.extend((0..inner).map(|at| first.wrapping_add(step.wrapping_mul(at as i64))));
        });
        values
    }

    /// Least and largest value; `None` if there is none.
    pub(crate) fn range(&self) -> Option<(i64, i64)> {
        if let Some(values) = &self.values {
            return Some((*values.iter().min()?, *values.iter().max()?));
        }
        if self.shape.contains(&0) {
            return None;
        }
        let (mut least, mut most) = (self.constant, self.constant);
        for (&size, &c) in self.shape.iter().zip(&self.coefficients) {
            let reach = c.saturating_mul(size as i64 - 1);
            if reach < 0 { least = least.saturating_add(reach) } else { most = most.saturating_add(reach) }
        }
        Some((least, most))
    }

    /// Both combined: affine if `affine` gives constants and coefficients, value by value otherwise.
    pub(crate) fn combine(
        &self,
        other: &Index,
        affine: Option<fn(i64, i64) -> i64>,
        each: impl Fn(i64, i64) -> i64,
    ) -> PyResult<Index> {
        let shape = broadcast_shapes(&self.shape, &other.shape)?;
        if let (Some(affine), None, None) = (affine, &self.values, &other.values) {
            let (a, b) = (self.broadcast(&shape), other.broadcast(&shape));
            let coefficients =
                a.coefficients.iter().zip(&b.coefficients).map(|(&a, &b)| affine(a, b)).collect();
            let constant = affine(a.constant, b.constant);
            return Ok(Index { shape, constant, coefficients, values: None, by: self.tiles_of(other) });
        }
        if shape.iter().product::<usize>() > MAX_VALUES {
            return Err(PyValueError::new_err(format!(
                "an index expression of shape {shape:?} is too large"
            )));
        }
        let (a, b) = (self.broadcast(&shape).evaluate(), other.broadcast(&shape).evaluate());
        let values = a.iter().zip(&b).map(|(&a, &b)| each(a, b)).collect();
        Ok(Index { by: self.tiles_of(other), ..Index::explicit(shape, values) })
    }

    pub(crate) fn scaled(&self, factor: i64) -> Index {
        let mut scaled = self.clone();
        scaled.constant = self.constant.wrapping_mul(factor);
        scaled.coefficients.iter_mut().for_each(|c| *c = c.wrapping_mul(factor));
        if let Some(values) = &self.values {
            scaled.values = Some(values.iter().map(|value| value.wrapping_mul(factor)).collect());
        }
        scaled
    }

    pub(crate) fn plus(&self, other: &Index) -> PyResult<Index> {
        self.combine(other, Some(i64::wrapping_add), i64::wrapping_add)
    }

    pub(crate) fn minus(&self, other: &Index) -> PyResult<Index> {
        self.combine(other, Some(i64::wrapping_sub), i64::wrapping_sub)
    }

    fn times(&self, other: &Index) -> PyResult<Index> {
        let by = self.tiles_of(other);
        if other.is_number() {
            return Ok(Index { by, ..self.scaled(other.constant) });
        }
        if self.is_number() {
            return Ok(Index { by, ..other.scaled(self.constant) });
        }
        self.combine(other, None, i64::wrapping_mul)
    }

    fn is_number(&self) -> bool {
        self.values.is_none() && self.coefficients.iter().all(|&c| c == 0) && self.elements() == 1
    }

    fn divided(&self, other: &Index, remainder: bool) -> PyResult<Index> {
        if let Some((least, most)) = other.range()
            && least <= 0
            && most >= 0
        {
            return Err(pyo3::exceptions::PyZeroDivisionError::new_err("index expression divided by zero"));
        }
        if remainder {
            self.combine(other, None, |a, b| a.wrapping_rem_euclid(b))
        } else {
            self.combine(other, None, |a, b| a.wrapping_div_euclid(b))
        }
    }

    /// The expression that the axes of `[:, None]`-like keys make of this one.
    fn reindexed(&self, key: &Bound<'_, PyAny>) -> PyResult<Index> {
        let items: Vec<Bound<'_, PyAny>> = match key.cast::<PyTuple>() {
            Ok(tuple) => tuple.iter().collect(),
            Err(_) => vec![key.clone()],
        };
        let named =
            items.iter().filter(|item| !item.is_none() && !item.is_instance_of::<PyEllipsis>()).count();
        let mut out = Index { shape: IndexShape::new(), coefficients: SmallVec::new(), ..self.clone() };
        let mut axis = 0;
        for item in &items {
            if item.is_none() {
                out.shape.push(1);
                out.coefficients.push(0);
            } else if item.is_instance_of::<PyEllipsis>() {
                while axis + named < self.shape.len() {
                    out.take(self, &mut axis, 0, None, 1)?;
                }
            } else if let Ok(slice) = item.cast::<PySlice>() {
                let size = self.shape.get(axis).copied().unwrap_or(0);
                let indices = slice.indices(size as isize)?;
                let count = indices.slicelength;
                out.take(self, &mut axis, indices.start as i64, Some(count), indices.step as i64)?;
            } else {
                return Err(PyTypeError::new_err("index expressions take slices, None and ... only"));
            }
        }
        while axis < self.shape.len() {
            out.take(self, &mut axis, 0, None, 1)?;
        }
        Ok(out)
    }

    /// Moves one axis of `from` here, cut to `count` steps.
    fn take(
        &mut self,
        from: &Index,
        axis: &mut usize,
        start: i64,
        count: Option<usize>,
        step: i64,
    ) -> PyResult<()> {
        let (Some(&size), Some(&c)) = (from.shape.get(*axis), from.coefficients.get(*axis)) else {
            return Err(PyValueError::new_err("too many indices for an index expression"));
        };
        let count = count.unwrap_or(size);
        if from.values.is_some() && count != size {
            return Err(PyValueError::new_err("a computed index expression cannot be sliced"));
        }
        self.shape.push(count);
        self.coefficients.push(c.wrapping_mul(step));
        self.constant = self.constant.wrapping_add(c.wrapping_mul(start));
        *axis += 1;
        Ok(())
    }
}

/// An index or a number.
pub(crate) fn operand(value: &Bound<'_, PyAny>) -> PyResult<Option<Index>> {
    if let Ok(index) = value.cast::<Index>() {
        return Ok(Some(index.get().clone()));
    }
    if let Ok(tile) = value.cast::<crate::tensor::Tensor>() {
        return tile.get().as_index().map(Some);
    }
    if !value.is_instance_of::<PyInt>() && !value.hasattr(intern!(value.py(), "__index__"))? {
        return Ok(None);
    }
    let by = registers_of(value)?;
    Ok(value.extract::<i64>().ok().map(|number| Index { by, ..Index::constant(number) }))
}

/// The registers that a number was loaded into; none of a number that is known before the run.
pub(crate) fn registers_of(value: &Bound<'_, PyAny>) -> PyResult<Option<Arc<[TensorRegion]>>> {
    if value.is_exact_instance_of::<PyInt>() {
        return Ok(None);
    }
    let Some(registers) = value.getattr_opt(intern!(value.py(), "__registers__"))? else { return Ok(None) };
    let mut regions: Vec<TensorRegion> = Vec::new();
    for register in registers.try_iter()? {
        regions.extend(TensorRegion::of(&register?.cast::<crate::tensor::Tensor>()?.get().tile));
    }
    Ok((!regions.is_empty()).then(|| regions.into()))
}

fn binary(value: &Bound<'_, PyAny>, combine: impl FnOnce(&Index) -> PyResult<Index>) -> PyResult<Py<PyAny>> {
    let py = value.py();
    match operand(value)? {
        Some(other) => Ok(Py::new(py, combine(&other)?)?.into_any()),
        None => Ok(py.NotImplemented()),
    }
}

#[pymethods]
impl Index {
    /// `start, start + step, ...`: a one-dimensional expression.
    #[staticmethod]
    #[pyo3(signature = (start, stop, step=1))]
    fn arange(start: i64, stop: i64, step: i64) -> PyResult<Index> {
        if step == 0 {
            return Err(PyValueError::new_err("arange with step 0"));
        }
        let span = if step > 0 { stop.saturating_sub(start) } else { start.saturating_sub(stop) };
        let step_size = i64::try_from(step.unsigned_abs()).unwrap_or(i64::MAX);
        let count = span.max(0).saturating_add(step_size - 1) / step_size;
        Ok(Index::axis(1, 0, start, usize::try_from(count).unwrap_or(0), step))
    }

    #[getter(shape)]
    fn py_shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.shape.iter())
    }

    #[getter]
    fn ndim(&self) -> usize {
        self.shape.len()
    }

    /// Every value, in row-major order.
    fn tolist(&self) -> Vec<i64> {
        self.evaluate()
    }

    fn __getitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<Index> {
        self.reindexed(key)
    }

    fn __add__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(other, |other| self.plus(other))
    }

    fn __radd__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(other, |other| self.plus(other))
    }

    fn __sub__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(other, |other| self.minus(other))
    }

    fn __rsub__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(other, |other| other.minus(self))
    }

    fn __mul__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(other, |other| self.times(other))
    }

    fn __rmul__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(other, |other| self.times(other))
    }

    fn __floordiv__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(other, |other| self.divided(other, false))
    }

    fn __mod__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(other, |other| self.divided(other, true))
    }

    fn __neg__(&self) -> Index {
        self.scaled(-1)
    }

    fn __richcmp__(&self, other: &Bound<'_, PyAny>, op: pyo3::basic::CompareOp) -> PyResult<Py<PyAny>> {
        let py = other.py();
        let Some(other) = operand(other)? else { return Ok(py.NotImplemented()) };
        Ok(Py::new(py, Mask::compare(self, &other, op)?)?.into_any())
    }

    fn __repr__(&self) -> String {
        match &self.values {
            Some(_) => format!("<index of shape {:?}>", self.shape),
            None => format!("<index {} + {:?} over {:?}>", self.constant, self.coefficients, self.shape),
        }
    }
}

/// The shape that both are repeated to.
pub(crate) fn broadcast_shapes(a: &[usize], b: &[usize]) -> PyResult<IndexShape> {
    let rank = a.len().max(b.len());
    let size = |shape: &[usize], axis: usize| {
        (axis + shape.len()).checked_sub(rank).and_then(|at| shape.get(at).copied()).unwrap_or(1)
    };
    (0..rank)
        .map(|axis| match (size(a, axis), size(b, axis)) {
            (a, b) if a == b || b == 1 => Ok(a),
            (1, b) => Ok(b),
            _ => Err(PyValueError::new_err(format!(
                "index expressions of shapes {a:?} and {b:?} do not fit: give each its axis with [:, \
                     None] or [None, :]"
            ))),
        })
        .collect()
}

/// Calls `visit` with each position of a shape, in row-major order.
pub(crate) fn for_each_position(shape: &[usize], mut visit: impl FnMut(&[usize])) {
    if shape.contains(&0) {
        return;
    }
    let mut position: SmallVec<[usize; 6]> = SmallVec::from_elem(0, shape.len());
    loop {
        visit(&position);
        let mut axis = shape.len();
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            position[axis] += 1;
            if position[axis] < shape[axis] {
                break;
            }
            position[axis] = 0;
        }
    }
}
