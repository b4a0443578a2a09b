//! Masks: comparisons of index expressions (NKI API masking), and what they leave of a shape.

use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use smallvec::SmallVec;

use crate::index::{Index, IndexShape, broadcast_shapes, for_each_position};

/// Where an index expression holds: a conjunction of `expression >= 0`, or explicit flags.
#[pyclass(frozen, from_py_object, module = "tilewright._core")]
#[derive(Clone, Debug)]
pub(crate) struct Mask {
    pub(crate) shape: IndexShape,
    terms: Vec<Index>,
    flags: Option<Arc<[bool]>>,
}

/// What a mask leaves of a tile.
pub(crate) enum MaskExtent {
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
    /// Compares two index expressions element by element.
    pub(crate) fn compare(a: &Index, b: &Index, op: pyo3::basic::CompareOp) -> PyResult<Mask> {
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
        Mask { shape: IndexShape::new(), terms, flags: None }
    }

    /// Makes a mask of a Python mask or bool.
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
    pub(crate) fn extent(&self, shape: &[usize]) -> MaskExtent {
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
                (None, _) => return MaskExtent::Nothing,
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
            return MaskExtent::Nothing;
        }
        if ranges.iter().zip(shape).all(|(&(low, high), &size)| low == 0 && high == size as i64) {
            return MaskExtent::Everything;
        }
        let size = |value: i64| usize::try_from(value).unwrap_or(0);
        MaskExtent::Box(ranges.iter().map(|&(low, high)| (size(low), size(high - low))).collect())
    }

    fn flag_extent(&self, shape: &[usize]) -> MaskExtent {
        let flags = self.over(shape);
        let held = flags.iter().filter(|&&flag| flag).count();
        if held == flags.len() {
            return MaskExtent::Everything;
        }
        if held == 0 {
            return MaskExtent::Nothing;
        }
        let around = around(&flags, shape);
        // As many elements as the smallest box around them: they are that box.
        let full = around.iter().map(|&(_, count)| count).product::<usize>() == held;
        if full { MaskExtent::Box(around) } else { MaskExtent::Flags(flags.into()) }
    }
}

/// First step and number of steps of each axis of the smallest box around what is set.
fn around(flags: &[bool], shape: &[usize]) -> SmallVec<[(usize, usize); 4]> {
    let mut found: SmallVec<[(usize, usize); 4]> = SmallVec::from_elem((usize::MAX, 0), shape.len());
    let mut flags = flags.iter();
    for_each_position(shape, |position| {
        if flags.next() == Some(&true) {
            for ((first, last), &at) in found.iter_mut().zip(position) {
                (*first, *last) = ((*first).min(at), (*last).max(at));
            }
        }
    });
    found.iter().map(|&(first, last)| (first, last - first + 1)).collect()
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
            MaskExtent::Everything => Ok(true),
            MaskExtent::Nothing => Ok(false),
            _ => Err(PyTypeError::new_err(
                "a mask has no single truth value: join masks with & and |, and write 0 <= i < n as (0 <= i) \
                 & (i < n)",
            )),
        }
    }

    /// A flag for each element, in row-major order.
    fn tolist(&self) -> Vec<bool> {
        self.over(&self.shape)
    }
}
