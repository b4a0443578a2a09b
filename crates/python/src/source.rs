//! The line of a kernel: the innermost Python frame that is not of this package.

use std::cell::RefCell;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;

static FOLDER: PyOnceLock<String> = PyOnceLock::new();

thread_local! {
    /// Addresses of code objects of this package, rising; the objects live as long as the process.
    static OURS: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Tells where the package lies, so that its own frames can be passed over.
#[pyfunction]
pub(crate) fn set_folder(py: Python<'_>, folder: String) {
    // Setting twice keeps the first.
    let _ = FOLDER.set(py, folder);
}

/// A frame of a kernel.
pub(crate) struct KernelFrame<'py> {
    frame: Bound<'py, PyAny>,
    /// Its code object.
    pub(crate) code: Bound<'py, PyAny>,
}

impl KernelFrame<'_> {
    /// Where in its code it is: cheaper to ask for than the line.
    pub(crate) fn place(&self) -> i32 {
        self.number(intern!(self.frame.py(), "f_lasti"))
    }

    /// The line that it runs.
    pub(crate) fn line(&self) -> i32 {
        self.number(intern!(self.frame.py(), "f_lineno"))
    }

    fn number(&self, name: &Bound<'_, PyString>) -> i32 {
        self.frame.getattr(name).and_then(|number| number.extract()).unwrap_or(0)
    }
}

/// The innermost frame that is not of this package.
pub(crate) fn caller(py: Python<'_>) -> Option<KernelFrame<'_>> {
    let folder = FOLDER.get(py)?;
    let mut frame = innermost(py)?;
    loop {
        let code = frame.getattr(intern!(py, "f_code")).ok()?;
        let address = code.as_ptr() as usize;
        if !OURS.with_borrow(|ours| ours.binary_search(&address).is_ok()) {
            if !is_ours(&code, folder) {
                return Some(KernelFrame { frame, code });
            }
            // Held for good, so that the address stays its own.
            std::mem::forget(code);
            OURS.with_borrow_mut(|ours| ours.insert(ours.partition_point(|&other| other < address), address));
        }
        frame = frame.getattr(intern!(py, "f_back")).ok()?;
        if frame.is_none() {
            return None;
        }
    }
}

/// The frame that runs now.
#[expect(unsafe_code, reason = "the interpreter lends its frame; it is held from here on")]
fn innermost(py: Python<'_>) -> Option<Bound<'_, PyAny>> {
    // SAFETY: the interpreter is attached; what it gives is borrowed and alive, or null outside Python code.
    unsafe { Bound::from_borrowed_ptr_or_opt(py, pyo3::ffi::PyEval_GetFrame().cast()) }
}

/// The frame as `file:line`; empty if there is none.
pub(crate) fn here(py: Python<'_>) -> String {
    let place = |caller: KernelFrame<'_>| {
        let file = caller.code.getattr(intern!(py, "co_filename")).and_then(|name| name.extract::<String>());
        file.map(|file| format!("{file}:{}", caller.line())).ok()
    };
    caller(py).and_then(place).unwrap_or_default()
}

fn is_ours(code: &Bound<'_, PyAny>, folder: &str) -> bool {
    let name = code.getattr(intern!(code.py(), "co_filename")).ok();
    let name = name.as_ref().and_then(|name| name.cast::<PyString>().ok());
    name.and_then(|name| name.to_cow().ok()).is_some_and(|name| name.starts_with(folder))
}
