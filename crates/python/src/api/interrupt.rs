//! Ctrl-C while Rust works without the interpreter's lock: looked at every now and then, and raised when the
//! work has stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use pyo3::prelude::*;
use tilewright_base::invariant::broken;

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
            let (done, finished) = channel::<()>();
            let worker = scope.spawn(move || {
                let result = work();
                drop(done);
                result
            });
            while finished.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
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

/// Runs work on a thread of its own with the lock released. When a signal handler of Python raises, the
/// exception is given at once and `stop` is set: the work ends where it next looks at it, and what it gives
/// is dropped.
pub(crate) fn abandonable<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce(&AtomicBool) -> T + Send + 'static,
) -> PyResult<T> {
    let (give, take) = channel();
    let stop = Arc::new(AtomicBool::new(false));
    let looked_at = Arc::clone(&stop);
    let worker = std::thread::spawn(move || {
        // Nobody takes it if the work was abandoned.
        let _ = give.send(work(&looked_at));
    });
    let result = py.detach(move || {
        loop {
            match take.recv_timeout(EVERY) {
                Ok(result) => return Ok(Some(result)),
                Err(RecvTimeoutError::Timeout) => Python::attach(|py| py.check_signals())
                    .inspect_err(|_| stop.store(true, Ordering::Relaxed))?,
                Err(RecvTimeoutError::Disconnected) => return PyResult::Ok(None),
            }
        }
    })?;
    match (result, worker.join()) {
        (Some(result), _) => Ok(result),
        (None, Err(panic)) => std::panic::resume_unwind(panic),
        (None, Ok(())) => broken(format_args!("work that ended without a panic gives something")),
    }
}
