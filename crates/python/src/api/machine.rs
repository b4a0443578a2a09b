//! Machines as Python holds them.

use pyo3::prelude::*;
use tilewright_machine::{LoadedMachine, builtin_names, json};
use tilewright_workbench::chip;

use super::refusal::raise;

/// A machine that was loaded and checked.
#[pyclass(frozen)]
pub(crate) struct MachineHandle {
    pub(crate) loaded: LoadedMachine,
}

#[pymethods]
impl MachineHandle {
    /// A machine that comes with the package, by name.
    #[staticmethod]
    fn named(py: Python<'_>, chip: &str) -> PyResult<MachineHandle> {
        let loaded = chip::named(chip).map_err(|refusal| raise(py, &refusal))?;
        Ok(MachineHandle { loaded })
    }

    /// A machine from the text of a file.
    #[staticmethod]
    fn from_text(py: Python<'_>, name: &str, text: &str) -> PyResult<MachineHandle> {
        let loaded = chip::from_text(name, text).map_err(|refusal| raise(py, &refusal))?;
        Ok(MachineHandle { loaded })
    }

    /// The same with figures changed, each as `section.key=value`.
    fn varied(&self, py: Python<'_>, settings: Vec<String>) -> PyResult<MachineHandle> {
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let loaded = chip::varied(&self.loaded, &settings).map_err(|refusal| raise(py, &refusal))?;
        Ok(MachineHandle { loaded })
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.loaded.name
    }

    /// Everything about it as JSON, as `machine show --json` prints it.
    fn json(&self) -> String {
        serde_json::to_string(&json(&self.loaded)).unwrap_or_default()
    }

    /// It as text, as `machine show` prints it.
    fn text(&self) -> String {
        tilewright_machine::show(&self.loaded)
    }
}

/// Names of the machines that come with the package.
#[pyfunction]
pub(crate) fn machine_names() -> Vec<&'static str> {
    builtin_names()
}
