//! Frames that are searched side by side while somebody waits: whoever waits is asked now and then whether to
//! go on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use rayon::prelude::*;

/// How long whoever waits is left alone.
const QUIET: Duration = Duration::from_millis(50);

/// What tells frames that are being searched to end where they are.
#[derive(Debug, Default)]
pub struct StopFlag(AtomicBool);

impl StopFlag {
    /// Whether to end.
    pub fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Does `work` for each of `all`, in their order; meanwhile `stop` may set `halt`.
///
/// On a thread of the pool itself there is nobody who could wait, and `stop` is not asked.
pub fn side_by_side<I: Sync, R: Send>(
    all: &[I],
    work: impl Fn(&I) -> R + Sync,
    halt: &StopFlag,
    stop: &mut dyn FnMut() -> bool,
) -> Vec<R> {
    if rayon::current_thread_index().is_some() {
        return all.par_iter().map(&work).collect();
    }
    let (done, ended) = channel();
    rayon::in_place_scope(|scope| {
        scope.spawn(|_| {
            // Whoever waits is there until this was sent.
            let _ = done.send(all.par_iter().map(&work).collect());
            drop(done);
        });
        loop {
            match ended.recv_timeout(QUIET) {
                Ok(results) => return results,
                Err(RecvTimeoutError::Timeout) if halt.asked() => {}
                Err(RecvTimeoutError::Timeout) => {
                    if stop() {
                        halt.ask();
                    }
                }
                // The work failed, which the scope tells.
                Err(RecvTimeoutError::Disconnected) => return Vec::new(),
            }
        }
    })
}
