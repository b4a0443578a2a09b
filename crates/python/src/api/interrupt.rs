//! Ctrl-C while Rust works without the interpreter's lock: looked at every now and then, and raised when the
//! work has stopped.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pyo3::prelude::*;

/// Time between two looks, short for people and long for the lock.
const EVERY: Duration = Duration::from_millis(50);

/// Runs work on another thread with the lock released, and sets `stop` when a signal handler of Python
/// raises; the exception is then given in place of what the work gave.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    stop: &AtomicBool,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    let mut raised = None;
    let result = py.detach(|| {
        std::thread::scope(|scope| {
            let (done, finished) = std::sync::mpsc::channel::<()>();
            let worker = scope.spawn(move || {
                let result = work();
                drop(done);
                result
            });
            while finished.recv_timeout(EVERY) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                if raised.is_none()
                    && let Err(error) = Python::attach(|py| py.check_signals())
                {
                    raised = Some(error);
                    stop.store(true, Ordering::Relaxed);
                }
            }
            worker.join()
        })
    });
    match (raised, result) {
        (Some(error), _) => Err(error),
        (None, Ok(result)) => Ok(result),
        (None, Err(panic)) => std::panic::resume_unwind(panic),
    }
}
