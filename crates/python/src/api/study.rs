//! The case study, called from Python.

use pyo3::prelude::*;
use tilewright_workbench::case_study::{StudyRequest, case_study};

use super::files::DiskFiles;
use super::interrupt::abandonable;
use super::machine::MachineHandle;
use super::refusal::raise;

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
    let found = abandonable(py, move |stop| {
        let request = StudyRequest { model: &model, is_int8, pes, chips, brief, is_papers_machine };
        case_study(&loaded, &request, &DiskFiles, stop)
    })?;
    let (data, text) = found.map_err(|refusal| raise(py, &refusal))?;
    Ok((data.to_string(), text))
}
