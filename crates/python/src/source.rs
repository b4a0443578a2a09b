//! The line of a kernel: the innermost Python frame that is not of this package.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

static FOLDER: PyOnceLock<String> = PyOnceLock::new();
static GETFRAME: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Tells where the package lies, so that its own frames can be passed over.
#[pyfunction]
pub(crate) fn set_folder(py: Python<'_>, folder: String) -> PyResult<()> {
    let getframe = py.import("sys")?.getattr("_getframe")?.unbind();
    // Setting twice keeps the first.
    let _ = GETFRAME.set(py, getframe);
    let _ = FOLDER.set(py, folder);
    Ok(())
}

/// Code object and line of the frame.
pub(crate) fn caller(py: Python<'_>) -> Option<(Bound<'_, PyAny>, i32)> {
    let (folder, getframe) = (FOLDER.get(py)?, GETFRAME.get(py)?);
    let mut frame = getframe.bind(py).call0().ok()?;
    loop {
        let code = frame.getattr(intern!(py, "f_code")).ok()?;
        let name = code.getattr(intern!(py, "co_filename")).ok()?;
        let ours = name.cast::<pyo3::types::PyString>().ok()?.to_cow().ok()?.starts_with(folder.as_str());
        if !ours {
            let line = frame.getattr(intern!(py, "f_lineno")).ok()?.extract().unwrap_or(0);
            return Some((code, line));
        }
        frame = frame.getattr(intern!(py, "f_back")).ok()?;
        if frame.is_none() {
            return None;
        }
    }
}
