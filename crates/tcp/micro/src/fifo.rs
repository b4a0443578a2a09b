//! A bounded queue of flits, each with the cycle from which it may be taken: a buffer, a link or a pipeline.
//!
//! Stages are stepped from the last to the first, so a place that is freed in a cycle may be filled in the
//! same cycle, as in a register that is read and written at one clock edge.

use std::collections::VecDeque;

/// Flits between two stages. They carry no data: who needs to know which flit it is counts.
#[derive(Clone, Debug)]
pub(crate) struct Fifo {
    ready_at: VecDeque<u64>,
    capacity: u64,
    latency_cycles: u64,
}

impl Fifo {
    /// A queue of at least one flit; what is pushed may be taken `latency_cycles` later, at the earliest in
    /// the next cycle.
    pub(crate) fn new(capacity: u64, latency_cycles: u64) -> Fifo {
        Fifo { ready_at: VecDeque::new(), capacity: capacity.max(1), latency_cycles: latency_cycles.max(1) }
    }

    pub(crate) fn has_room(&self) -> bool {
        (self.ready_at.len() as u64) < self.capacity
    }

    pub(crate) fn is_ready(&self, now: u64) -> bool {
        self.ready_at.front().is_some_and(|&ready| ready <= now)
    }

    pub(crate) fn push(&mut self, now: u64) {
        self.ready_at.push_back(now + self.latency_cycles);
    }

    pub(crate) fn pop(&mut self) {
        self.ready_at.pop_front();
    }
}
