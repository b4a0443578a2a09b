//! Refusals of the engine as Python exceptions.

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyIndexError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};
use tilewright_neuron_isa::Refusal;

use crate::source;

create_exception!(
    _core,
    Refused,
    PyException,
    "What cannot be done: with `code`, `asked`, `allowed` and `instead`."
);

/// A refusal as an exception that reads as findings do, with `code`, `asked`, `allowed`, `instead`, `line`,
/// and the `rule`: its file and line.
pub(crate) fn raise(py: Python<'_>, refusal: &Refusal, line: &str) -> PyErr {
    let place = if line.is_empty() { String::new() } else { format!(" {line}") };
    let text = format!(
        "error[{}]{place}\n  asked:   {}\n  allowed: {}\n  instead: {}",
        refusal.code, refusal.asked, refusal.allowed, refusal.instead
    );
    detailed(py, Refused::new_err(text), refusal, line)
}

/// An exception with the fields of a refusal.
fn detailed(py: Python<'_>, error: PyErr, refusal: &Refusal, line: &str) -> PyErr {
    let value = error.value(py);
    let rule = format!("{}:{}", refusal.rule.file(), refusal.rule.line());
    let fields = [
        ("code", refusal.code),
        ("asked", &refusal.asked),
        ("allowed", &refusal.allowed),
        ("instead", &refusal.instead),
        ("line", line),
        ("rule", &rule),
    ];
    for (name, field) in fields {
        // An attribute that cannot be set leaves the message, which has it all.
        let _ = value.setattr(name, field);
    }
    error
}

/// A refusal outside an instruction, with the line of the kernel that runs now.
pub(crate) fn plain(refusal: &Refusal) -> PyErr {
    Python::attach(|py| raise(py, refusal, &source::here(py)))
}

/// A refusal that is an `IndexError` too, for those who catch what the vendor's simulator raises.
fn out_of_bounds_type(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static TYPE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let made = TYPE.get_or_try_init(py, || {
        let bases = PyTuple::new(py, [py.get_type::<Refused>(), py.get_type::<PyIndexError>()])?;
        let names = PyDict::new(py);
        names.set_item("__module__", "tilewright._core")?;
        names.set_item("__doc__", "A place outside its tensor that values of the run gave.")?;
        let made = py.get_type::<PyType>().call1(("OutOfBounds", bases, names))?;
        Ok::<_, PyErr>(made.cast_into::<PyType>()?.unbind())
    })?;
    Ok(made.bind(py))
}

/// An element outside its tensor that values of the run gave: NumPy's words, and the place in the kernel.
pub(crate) fn out_of_bounds(index: i64, size: usize, dimension: Option<(usize, usize)>) -> PyErr {
    let of = dimension.map_or_else(String::new, |(axis, size)| {
        format!(", where a value of the run places it beyond the {size} elements of dimension {axis}")
    });
    let refusal = Refusal::new(
        "neuron/bounds",
        format!("index {index} is out of bounds for axis 0 with size {size}{of}"),
        "places inside the tensor",
        "check the index, register or tile that says where, or let transfers leave out what lies beyond with \
         oob_mode.skip",
    );
    Python::attach(|py| {
        let line = source::here(py);
        let place = if line.is_empty() { String::new() } else { format!(" {line}") };
        let text = format!(
            "error[{}]{place}\n  asked:   {}\n  allowed: {}\n  instead: {}",
            refusal.code, refusal.asked, refusal.allowed, refusal.instead
        );
        match out_of_bounds_type(py) {
            Ok(kind) => detailed(py, PyErr::from_type(kind.clone(), text), &refusal, &line),
            Err(error) => error,
        }
    })
}
