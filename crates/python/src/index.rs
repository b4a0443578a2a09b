//! Index expressions of kernels: `nl.arange`, `nl.mgrid` and what arithmetic makes of them, and masks.
//!
//! An expression is affine as long as it can be: a constant and a coefficient for each axis of its shape, so that an
//! indexed tensor stays an access pattern. Division and data-dependent indices give explicit values.

use std::sync::Arc;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyEllipsis, PyInt, PySlice, PyTuple};
use smallvec::SmallVec;
use tilewright_neuron::Region;

/// Sizes of an expression's axes.
pub(crate) type Shape = SmallVec<[usize; 4]>;

/// Most elements that explicit values may have.
const MAX_VALUES: usize = 1 << 28;

/// An index expression.
#[pyclass(frozen, from_py_object, module = "tilewright._core")]
#[derive(Clone, Debug)]
pub(crate) struct Index {
    pub(crate) shape: Shape,
    pub(crate) constant: i64,
    pub(crate) coefficients: SmallVec<[i64; 4]>,
    /// Explicit values in row-major order, in place of constant and coefficients.
    pub(crate) values: Option<Arc<[i64]>>,
    /// Tiles whose elements are in it: it is known only at run time.
    pub(crate) by: Option<Arc<[Region]>>,
}

impl Index {
    /// A number.
    pub(crate) fn constant(value: i64) -> Index {
        Index { shape: Shape::new(), constant: value, coefficients: SmallVec::new(), values: None, by: None }
    }

    /// `start + step * position` along one axis of `rank`.
    pub(crate) fn axis(rank: usize, axis: usize, start: i64, count: usize, step: i64) -> Index {
        let mut shape = Shape::from_elem(1, rank);
        let mut coefficients = SmallVec::from_elem(0, rank);
        shape[axis] = count;
        coefficients[axis] = step;
        Index { shape, constant: start, coefficients, values: None, by: None }
    }

    /// Explicit values.
    pub(crate) fn explicit(shape: Shape, values: Vec<i64>) -> Index {
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
        let mut padded = Shape::from_elem(1, missing);
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

    /// The same, known only when those tiles are.
    pub(crate) fn picked_by(mut self, region: Option<Region>) -> Index {
        self.by = region.map(|region| [region].into());
        self
    }

    /// Tiles whose elements are in one of them.
    fn tiles_of(&self, other: &Index) -> Option<Arc<[Region]>> {
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
        for_each_position(&self.shape, |position| {
            let terms = position.iter().zip(&self.coefficients).map(|(&at, &c)| c.wrapping_mul(at as i64));
            values.push(terms.fold(self.constant, i64::wrapping_add));
        });
        values
    }

    /// Least and greatest value; `None` if there is none.
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
        let mut out = Index { shape: Shape::new(), coefficients: SmallVec::new(), ..self.clone() };
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
pub(crate) fn registers_of(value: &Bound<'_, PyAny>) -> PyResult<Option<Arc<[Region]>>> {
    if value.is_exact_instance_of::<PyInt>() {
        return Ok(None);
    }
    let Some(registers) = value.getattr_opt(intern!(value.py(), "__registers__"))? else { return Ok(None) };
    let mut regions: Vec<Region> = Vec::new();
    for register in registers.try_iter()? {
        regions.extend(Region::of(&register?.cast::<crate::tensor::Tensor>()?.get().tile));
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

/// Where an index expression holds: a conjunction of `expression >= 0`, or explicit flags.
#[pyclass(frozen, from_py_object, module = "tilewright._core")]
#[derive(Clone, Debug)]
pub(crate) struct Mask {
    pub(crate) shape: Shape,
    terms: Vec<Index>,
    flags: Option<Arc<[bool]>>,
}

/// What a mask leaves of a tile.
pub(crate) enum Extent {
    /// All of it.
    Everything,
    /// Nothing.
    Nothing,
    /// For each axis of the mask, the first step and how many.
    Box(SmallVec<[(usize, usize); 4]>),
    /// A flag for each element of the mask's shape.
    Flags(Arc<[bool]>),
}

impl Mask {
    fn compare(a: &Index, b: &Index, op: pyo3::basic::CompareOp) -> PyResult<Mask> {
        use pyo3::basic::CompareOp;
        let one = Index::constant(1);
        let terms = match op {
            CompareOp::Lt => vec![b.minus(a)?.minus(&one)?],
            CompareOp::Le => vec![b.minus(a)?],
            CompareOp::Gt => vec![a.minus(b)?.minus(&one)?],
            CompareOp::Ge => vec![a.minus(b)?],
            CompareOp::Eq => vec![a.minus(b)?, b.minus(a)?],
            CompareOp::Ne => {
                let difference = a.minus(b)?;
                let flags = difference.evaluate().iter().map(|&value| value != 0).collect();
                return Ok(Mask { shape: difference.shape, terms: Vec::new(), flags: Some(flags) });
            }
        };
        let shape = terms.first().map(|term| term.shape.clone()).unwrap_or_default();
        Ok(Mask { shape, terms, flags: None })
    }

    fn constant(holds: bool) -> Mask {
        let terms = if holds { Vec::new() } else { vec![Index::constant(-1)] };
        Mask { shape: Shape::new(), terms, flags: None }
    }

    /// From a mask or a Python bool.
    pub(crate) fn from_python(value: &Bound<'_, PyAny>) -> PyResult<Mask> {
        if let Ok(mask) = value.cast::<Mask>() {
            return Ok(mask.get().clone());
        }
        if let Ok(holds) = value.extract::<bool>() {
            return Ok(Mask::constant(holds));
        }
        // NumPy's own bools.
        Ok(Mask::constant(value.is_truthy()?))
    }

    fn and(&self, other: &Mask) -> PyResult<Mask> {
        let shape = broadcast_shapes(&self.shape, &other.shape)?;
        if self.flags.is_none() && other.flags.is_none() {
            let terms = self.terms.iter().chain(&other.terms).cloned().collect();
            return Ok(Mask { shape, terms, flags: None });
        }
        self.flagwise(other, |a, b| a && b)
    }

    fn flagwise(&self, other: &Mask, combine: impl Fn(bool, bool) -> bool) -> PyResult<Mask> {
        let shape = broadcast_shapes(&self.shape, &other.shape)?;
        let (a, b) = (self.over(&shape), other.over(&shape));
        let flags = a.iter().zip(&b).map(|(&a, &b)| combine(a, b)).collect();
        Ok(Mask { shape, terms: Vec::new(), flags: Some(flags) })
    }

    /// A flag for each element of a shape that the mask is broadcast to.
    pub(crate) fn over(&self, shape: &[usize]) -> Vec<bool> {
        let mut flags = vec![true; shape.iter().product()];
        if let Some(own) = &self.flags {
            let own = Index::explicit(self.shape.clone(), own.iter().map(|&flag| i64::from(flag)).collect());
            for (flag, value) in flags.iter_mut().zip(own.broadcast(shape).evaluate()) {
                *flag &= value != 0;
            }
        }
        for term in &self.terms {
            for (flag, value) in flags.iter_mut().zip(term.broadcast(shape).evaluate()) {
                *flag &= value >= 0;
            }
        }
        flags
    }

    /// What it leaves of a tile of that shape.
    pub(crate) fn extent(&self, shape: &[usize]) -> Extent {
        if self.flags.is_some() {
            return self.flag_extent(shape);
        }
        let mut ranges: SmallVec<[(i64, i64); 4]> = shape.iter().map(|&size| (0, size as i64)).collect();
        for term in &self.terms {
            if term.values.is_some() || term.shape.len() > shape.len() {
                return self.flag_extent(shape);
            }
            let term = term.broadcast(shape);
            let mut moving =
                term.coefficients.iter().enumerate().filter(|&(axis, &c)| c != 0 && shape[axis] > 1);
            match (moving.next(), moving.next()) {
                (None, _) if term.constant >= 0 => {}
                (None, _) => return Extent::Nothing,
                (Some((axis, &c)), None) => {
                    // constant + c * x >= 0
                    let (low, high) = &mut ranges[axis];
                    if c > 0 {
                        *low = (*low).max(
                            (-term.constant).div_euclid(c) + i64::from((-term.constant).rem_euclid(c) != 0),
                        );
                    } else {
                        *high = (*high).min(term.constant.div_euclid(-c) + 1);
                    }
                }
                _ => return self.flag_extent(shape),
            }
        }
        if ranges.iter().any(|(low, high)| low >= high) {
            return Extent::Nothing;
        }
        if ranges.iter().zip(shape).all(|(&(low, high), &size)| low == 0 && high == size as i64) {
            return Extent::Everything;
        }
        let size = |value: i64| usize::try_from(value).unwrap_or(0);
        Extent::Box(ranges.iter().map(|&(low, high)| (size(low), size(high - low))).collect())
    }

    fn flag_extent(&self, shape: &[usize]) -> Extent {
        let flags = self.over(shape);
        if flags.iter().all(|&flag| flag) {
            Extent::Everything
        } else if flags.iter().any(|&flag| flag) {
            Extent::Flags(flags.into())
        } else {
            Extent::Nothing
        }
    }
}

#[pymethods]
impl Mask {
    #[getter(shape)]
    fn py_shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.shape.iter())
    }

    fn __and__(&self, other: &Bound<'_, PyAny>) -> PyResult<Mask> {
        self.and(&Mask::from_python(other)?)
    }

    fn __rand__(&self, other: &Bound<'_, PyAny>) -> PyResult<Mask> {
        self.and(&Mask::from_python(other)?)
    }

    fn __or__(&self, other: &Bound<'_, PyAny>) -> PyResult<Mask> {
        self.flagwise(&Mask::from_python(other)?, |a, b| a || b)
    }

    fn __ror__(&self, other: &Bound<'_, PyAny>) -> PyResult<Mask> {
        self.flagwise(&Mask::from_python(other)?, |a, b| a || b)
    }

    fn __invert__(&self) -> Mask {
        let flags = self.over(&self.shape).iter().map(|flag| !flag).collect();
        Mask { shape: self.shape.clone(), terms: Vec::new(), flags: Some(flags) }
    }

    fn __bool__(&self) -> PyResult<bool> {
        match self.extent(&self.shape) {
            Extent::Everything => Ok(true),
            Extent::Nothing => Ok(false),
            _ => Err(PyTypeError::new_err("a mask has no single truth value: join masks with & and |")),
        }
    }

    /// A flag for each element, in row-major order.
    fn tolist(&self) -> Vec<bool> {
        self.over(&self.shape)
    }
}

/// The shape that both are repeated to.
pub(crate) fn broadcast_shapes(a: &[usize], b: &[usize]) -> PyResult<Shape> {
    let rank = a.len().max(b.len());
    let size = |shape: &[usize], axis: usize| {
        (axis + shape.len()).checked_sub(rank).and_then(|at| shape.get(at).copied()).unwrap_or(1)
    };
    (0..rank)
        .map(|axis| match (size(a, axis), size(b, axis)) {
            (a, b) if a == b || b == 1 => Ok(a),
            (1, b) => Ok(b),
            _ => {
                Err(PyValueError::new_err(format!("index expressions of shapes {a:?} and {b:?} do not fit")))
            }
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
