//! Element types as small numbers, and the NumPy types that stand for them in Python.
//!
//! Plain types come first, in the order of [`Dtype::ALL`], then the words of block-scaled operands.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use tilewright_neuron_isa::TensorView;
use tilewright_neuron_isa::mx::MxFormat;
use tilewright_num::Dtype;

static NUMPY: PyOnceLock<Vec<Py<PyAny>>> = PyOnceLock::new();

/// An element type: how its bytes are read, and what words of a block-scaled operand hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ElementType {
    pub(crate) dtype: Dtype,
    pub(crate) mx: Option<MxFormat>,
}

impl ElementType {
    /// The type of a view.
    pub(crate) fn of(view: &TensorView) -> ElementType {
        ElementType { dtype: view.dtype, mx: view.mx }
    }

    /// Its number.
    pub(crate) fn code(self) -> usize {
        let place = |mx| MxFormat::ALL.iter().position(|&one| one == mx).unwrap_or(0);
        match self.mx {
            Some(mx) => Dtype::ALL.len() + place(mx),
            None => Dtype::ALL.iter().position(|&one| one == self.dtype).unwrap_or(0),
        }
    }
}

/// The type of a number.
pub(crate) fn from_code(code: usize) -> PyResult<ElementType> {
    if let Some(&dtype) = Dtype::ALL.get(code) {
        return Ok(ElementType { dtype, mx: None });
    }
    let packed = code.checked_sub(Dtype::ALL.len()).and_then(|at| MxFormat::ALL.get(at));
    packed
        .map(|&mx| ElementType { dtype: mx.word(), mx: Some(mx) })
        .ok_or_else(|| PyValueError::new_err(format!("no element type has number {code}")))
}

/// The Python object of a type.
pub(crate) fn object(py: Python<'_>, element: ElementType) -> PyResult<Py<PyAny>> {
    let types = NUMPY.get(py).ok_or_else(|| PyValueError::new_err("element types are not registered"))?;
    types
        .get(element.code())
        .map(|object| object.clone_ref(py))
        .ok_or_else(|| PyValueError::new_err("element type without object"))
}

/// Names of the types, in the order of their numbers.
#[pyfunction]
pub(crate) fn dtype_names() -> Vec<&'static str> {
    Dtype::ALL.iter().map(|dtype| dtype.name()).chain(MxFormat::ALL.iter().map(|mx| mx.name())).collect()
}

/// Tells which Python object stands for each type, in the order of their numbers.
#[pyfunction]
pub(crate) fn register_dtypes(py: Python<'_>, objects: Vec<Py<PyAny>>) {
    // Registering twice keeps the first.
    let _ = NUMPY.set(py, objects);
}

/// The type of a result, from the numbers of two operands' types.
#[pyfunction]
pub(crate) fn promote(a: usize, b: usize) -> PyResult<usize> {
    let dtype = tilewright_neuron_exec::convert::promote(from_code(a)?.dtype, from_code(b)?.dtype);
    Ok(ElementType { dtype, mx: None }.code())
}
