//! Element types as small numbers, and the NumPy types that stand for them in Python.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use tilewright_num::Dtype;

static NUMPY: PyOnceLock<Vec<Py<PyAny>>> = PyOnceLock::new();

/// The type of a number.
pub(crate) fn from_code(code: usize) -> PyResult<Dtype> {
    Dtype::ALL
        .get(code)
        .copied()
        .ok_or_else(|| PyValueError::new_err(format!("no element type has number {code}")))
}

/// The number of a type.
pub(crate) fn code(dtype: Dtype) -> usize {
    Dtype::ALL.iter().position(|&one| one == dtype).unwrap_or(0)
}

/// The Python object of a type.
pub(crate) fn object(py: Python<'_>, dtype: Dtype) -> PyResult<Py<PyAny>> {
    let types = NUMPY.get(py).ok_or_else(|| PyValueError::new_err("element types are not registered"))?;
    types
        .get(code(dtype))
        .map(|object| object.clone_ref(py))
        .ok_or_else(|| PyValueError::new_err("element type without object"))
}

/// Names of the types, in the order of their numbers.
#[pyfunction]
pub(crate) fn dtype_names() -> Vec<&'static str> {
    Dtype::ALL.iter().map(|dtype| dtype.name()).collect()
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
    Ok(code(tilewright_neuron::convert::promote(from_code(a)?, from_code(b)?)))
}
