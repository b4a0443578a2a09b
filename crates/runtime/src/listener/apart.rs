//! Timeline and values at the same time, on threads of their own: the simulator tells which commands are
//! done, in order, and values follow as fast as they can.
//!
//! Only where values decide nothing but themselves. A command that cannot be carried out is found after the
//! timeline has gone on; then the timeline has to be made again, up to that command, so that a run's readings
//! never depend on who was faster.

use std::ops::ControlFlow;
use std::sync::mpsc::{SyncSender, sync_channel};

use super::values::{FinishedCommand, ValueExecutor};
use super::{CommandObserver, in_pool};

/// Commands that the timeline is ahead, at most.
const AHEAD: usize = 1 << 12;

/// Makes a timeline and, beside it, values.
pub(super) fn run<T: Send>(
    values: &mut ValueExecutor<'_>,
    timeline: impl FnOnce(&mut dyn CommandObserver) -> T + Send,
) -> T {
    let (mut sender, done) = sync_channel(AHEAD);
    std::thread::scope(|threads| {
        let timeline = threads.spawn(move || timeline(&mut sender));
        // The last look at `done` ends with this: a timeline that is still under way learns so when it next
        // sends.
        let _faulty = in_pool(move || done.into_iter().try_for_each(|command| values.take(command)));
        timeline.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

impl CommandObserver for SyncSender<FinishedCommand> {
    fn take(&mut self, command: FinishedCommand) -> ControlFlow<()> {
        if self.send(command).is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}
