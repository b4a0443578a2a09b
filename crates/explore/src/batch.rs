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
pub(crate) struct StopFlag(AtomicBool);

impl StopFlag {
    /// Whether to end.
    pub(crate) fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Does `work` for each of `all`, in their order; meanwhile `stop` may set `halt`.
///
/// On a thread of the pool itself there is nobody who could wait, and `stop` is not asked.
pub(crate) fn side_by_side<I: Sync, R: Send>(
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_waits_for_a_halt_ends() {
        let halt = StopFlag::default();
        let wait = |number: &u64| {
            while !halt.asked() {
                std::thread::yield_now();
            }
            number * 2
        };
        assert_eq!(side_by_side(&[1, 2, 3], wait, &halt, &mut || true), [2, 4, 6]);
    }

    #[test]
    fn a_pool_of_one_thread_does_the_work_itself() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
        let halt = StopFlag::default();
        let results = pool.install(|| side_by_side(&[1, 2, 3], |number| number + 1, &halt, &mut || true));
        assert_eq!(results, [2, 3, 4]);
    }
}
