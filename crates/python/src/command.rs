//! The command `tilewright` for those who installed the package and have no Cargo: the same command line,
//! called from Python.

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs `tilewright` with these arguments, the first of which is its name; kernels run in the interpreter
/// named. Prints, and gives the exit code.
#[pyfunction]
pub(crate) fn run_command(py: Python<'_>, arguments: Vec<OsString>, python: OsString) -> u8 {
    py.detach(|| tilewright_cli::run_here(arguments, python))
}
