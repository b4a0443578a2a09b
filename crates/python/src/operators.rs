//! Operators of tensors: Python code decides which instructions they are.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;

use crate::index::Index;
use crate::tensor::Tensor;

/// What Python code does for the operators of tensors: called with a name and the operands.
static OPERATORS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Sets the function behind operators and assignments.
#[pyfunction]
pub(crate) fn set_operators(py: Python<'_>, function: Py<PyAny>) {
    // Setting twice keeps the first.
    let _ = OPERATORS.set(py, function);
}

#[pymethods]
impl Tensor {
    fn __richcmp__(
        slf: &Bound<'_, Self>,
        other: &Bound<'_, PyAny>,
        op: pyo3::basic::CompareOp,
    ) -> PyResult<Py<PyAny>> {
        use pyo3::basic::CompareOp;
        let py = slf.py();
        let name = match op {
            CompareOp::Eq if other.is_none() => {
                return Ok(false.into_pyobject(py)?.to_owned().into_any().unbind());
            }
            CompareOp::Ne if other.is_none() => {
                return Ok(true.into_pyobject(py)?.to_owned().into_any().unbind());
            }
            CompareOp::Eq => "equal",
            CompareOp::Ne => "not_equal",
            CompareOp::Lt => "less",
            CompareOp::Le => "less_equal",
            CompareOp::Gt => "greater",
            CompareOp::Ge => "greater_equal",
        };
        operator(py, name, (slf.clone(), other.clone()))
    }

    fn __neg__(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        operator(slf.py(), "negative", (slf.clone(),))
    }

    fn __invert__(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        operator(slf.py(), "invert", (slf.clone(),))
    }

    fn __add__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        if let Some((own, other)) = place(slf, other)? {
            return Ok(Py::new(slf.py(), own.plus(&other)?)?.into_any());
        }
        operator(slf.py(), "add", (slf.clone(), other.clone()))
    }

    fn __radd__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        operator(slf.py(), "add", (other.clone(), slf.clone()))
    }

    fn __sub__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        if let Some((own, other)) = place(slf, other)? {
            return Ok(Py::new(slf.py(), own.minus(&other)?)?.into_any());
        }
        operator(slf.py(), "subtract", (slf.clone(), other.clone()))
    }

    fn __rsub__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        operator(slf.py(), "subtract", (other.clone(), slf.clone()))
    }

    fn __mul__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        operator(slf.py(), "multiply", (slf.clone(), other.clone()))
    }

    fn __rmul__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        operator(slf.py(), "multiply", (other.clone(), slf.clone()))
    }

    fn __truediv__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        operator(slf.py(), "divide", (slf.clone(), other.clone()))
    }

    fn __rtruediv__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        operator(slf.py(), "divide", (other.clone(), slf.clone()))
    }

    fn __mod__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        operator(slf.py(), "mod", (slf.clone(), other.clone()))
    }

    fn __and__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        operator(slf.py(), "bitwise_and", (slf.clone(), other.clone()))
    }

    fn __or__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        operator(slf.py(), "bitwise_or", (slf.clone(), other.clone()))
    }

    fn __xor__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        operator(slf.py(), "bitwise_xor", (slf.clone(), other.clone()))
    }

    fn __iadd__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<()> {
        let temporary = references(other) <= 1;
        operator(slf.py(), "iadd", (slf.clone(), other.clone(), temporary)).map(|_| ())
    }

    fn __isub__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<()> {
        operator(slf.py(), "isubtract", (slf.clone(), other.clone())).map(|_| ())
    }

    fn __imul__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<()> {
        operator(slf.py(), "imultiply", (slf.clone(), other.clone())).map(|_| ())
    }
}

/// One integer of a tile beside an index expression: a place known at run time, which no instruction adds up.
fn place(tile: &Bound<'_, Tensor>, other: &Bound<'_, PyAny>) -> PyResult<Option<(Index, Index)>> {
    let view = &tile.get().tile.view;
    match other.cast::<Index>() {
        Ok(other) if view.elements() == 1 && !view.dtype.is_float() => {
            Ok(Some((tile.get().as_index()?, other.get().clone())))
        }
        _ => Ok(None),
    }
}

/// How many hold an object: one if it was just made and has no name.
#[expect(unsafe_code, reason = "the count of a live object is read; nothing is changed")]
pub(crate) fn references(object: &Bound<'_, PyAny>) -> isize {
    // SAFETY: `object` is alive and the interpreter is attached.
    unsafe { pyo3::ffi::Py_REFCNT(object.as_ptr()) }
}

/// Calls what stands behind an operator.
pub(crate) fn operator<'py>(
    py: Python<'py>,
    name: &str,
    operands: impl IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>, Error = PyErr>,
) -> PyResult<Py<PyAny>> {
    let function = OPERATORS
        .get(py)
        .ok_or_else(|| PyTypeError::new_err("tensors have operators inside kernels only"))?;
    let operands = operands.into_pyobject(py)?;
    Ok(function.bind(py).call1((name, operands))?.unbind())
}
