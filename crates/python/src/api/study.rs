//! The case study, called from Python.

use std::path::Path;

use pyo3::prelude::*;
use tilewright_workbench::case_study::{StudyRequest, case_study};

use super::interrupt::abandonable;
use super::machine::MachineHandle;
use super::refusal::raise;

#[expect(clippy::disallowed_methods, reason = "what the user names is read for the user, as `study` does")]
fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    std::fs::read(path)
}

/// The tables and figures of a model as JSON, and as text.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "named ones of the Python function")]
pub(crate) fn study_model(
    py: Python<'_>,
    model: String,
    machine: &MachineHandle,
    is_int8: bool,
    pes: u64,
    chips: u64,
    brief: bool,
    is_papers_machine: bool,
) -> PyResult<(String, String)> {
    let loaded = machine.loaded.clone();
    let found = abandonable(py, move || {
        let request = StudyRequest { model: &model, is_int8, pes, chips, brief, is_papers_machine };
        case_study(&loaded, &request, &read, &mut |_| ())
    })?;
    let (data, text) = found.map_err(|refusal| raise(py, &refusal))?;
    Ok((data.to_string(), text))
}
