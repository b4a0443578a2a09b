//! The run that goes on in this thread, so that operators of tensors find it, and tensors of other runs are
//! told from its own.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;
use tilewright_neuron_isa::Refusal;

use crate::error::plain;
use crate::session::Session;

/// Launches so far; no launch has number 0.
static LAUNCHES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static SESSION: RefCell<Option<Py<Session>>> = const { RefCell::new(None) };
    /// The launch that the session belongs to; 0 outside kernels.
    static LAUNCH: Cell<u64> = const { Cell::new(0) };
}

/// A number for a launch; sessions of ranks that run together share one.
#[pyfunction]
pub(crate) fn next_launch() -> u64 {
    LAUNCHES.fetch_add(1, Ordering::Relaxed) + 1
}

/// Makes a session the one that runs in this thread; none after the kernel.
#[pyfunction]
#[pyo3(signature = (session=None))]
pub(crate) fn enter(session: Option<Bound<'_, Session>>) -> PyResult<()> {
    let launch = match &session {
        Some(session) => session.try_borrow()?.launch,
        None => 0,
    };
    LAUNCH.set(launch);
    let before = SESSION.replace(session.map(Bound::unbind));
    // Dropped last: the end of a session may run Python code.
    drop(before);
    Ok(())
}

/// The session that runs in this thread.
pub(crate) fn session(py: Python<'_>) -> Option<Bound<'_, Session>> {
    SESSION.with_borrow(|session| session.as_ref().map(|session| session.bind(py).clone()))
}

/// Refuses a tensor of another launch inside a kernel.
pub(crate) fn check(launch: u64) -> PyResult<()> {
    let now = LAUNCH.get();
    if now == 0 || now == launch {
        return Ok(());
    }
    Err(plain(&Refusal::new(
        "neuron/launch",
        "a tensor of another launch",
        "tensors that this launch made, and its arguments",
        "make it inside the kernel, or return it and pass the array to the next call",
    )))
}
