//! What will happen, in order of time; at one time in the order in which it was planned.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Something that happens to a PE, by its index over all chips.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EventKind {
    /// The control core goes on.
    Core(u32),
    /// The command processor goes on.
    Processor(u32),
    /// An execution of a context ends, unless its end was planned anew.
    ExecDone(u32, u8, u32),
    /// A transfer's start-up is over.
    Moves(u32),
    /// A message of another PE arrives.
    Bell(u32, u32),
    /// A switch bitmap is written.
    Bitmap(u32),
    /// A sub command and a main command beside it begin to use ports and banks, or one of them is done with
    /// that.
    Contends(u32),
    /// Commands begin to use banks that DMA needs, or are done with them.
    Banks(u32),
}

/// Events that are to come, in the order of their times.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    heap: BinaryHeap<Reverse<(u64, u64, EventKind)>>,
    planned: u64,
}

impl EventQueue {
    pub(crate) fn plan(&mut self, at_cycles: u64, what: EventKind) {
        self.planned += 1;
        self.heap.push(Reverse((at_cycles, self.planned, what)));
    }

    pub(crate) fn next_at(&self) -> u64 {
        self.heap.peek().map_or(u64::MAX, |Reverse((at, ..))| *at)
    }

    pub(crate) fn take(&mut self) -> Option<(u64, EventKind)> {
        self.heap.pop().map(|Reverse((at, _, what))| (at, what))
    }
}
