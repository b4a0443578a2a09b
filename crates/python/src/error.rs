//! Refusals of the engine as Python exceptions.

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyIndexError};
use pyo3::prelude::*;
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
    let error = Refused::new_err(text);
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

/// An element outside its tensor, as NumPy says it.
pub(crate) fn out_of_bounds(index: i64, size: usize) -> PyErr {
    PyIndexError::new_err(format!("index {index} is out of bounds for axis 0 with size {size}"))
}
