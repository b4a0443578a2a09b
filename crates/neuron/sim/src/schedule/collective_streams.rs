//! Collectives that a core has under way: as many as there are CC-cores for it.
//!
//! Documented: the CC-cores of a device (docs/hardware-rules.md#chips-and-cores and #collectives). Assumed: a
//! core has an equal share of them, one collective takes one of them from where its ranks meet to its last
//! result, and they start in the order of the program.

use tilewright_base::invariant::{Exact, to_index};
use tilewright_neuron_isa::Chip;

/// The time of what does not happen unless something else does first.
pub const NEVER_PS: u64 = u64::MAX;

/// Streams of one core.
#[derive(Debug)]
pub struct CollectiveStreams {
    most: usize,
    /// Ends of those of which it is known.
    ends_ps: Vec<u64>,
    /// How many collectives wait for other ranks.
    waiting: usize,
}

impl CollectiveStreams {
    /// As many as a core of a chip has.
    pub fn new(chip: &Chip) -> CollectiveStreams {
        let figures = &chip.neuron.chip;
        CollectiveStreams::of(to_index(figures.cc_cores / figures.cores).max(1))
    }

    /// So many of them.
    pub fn of(most: usize) -> CollectiveStreams {
        CollectiveStreams { most, ends_ps: Vec::new(), waiting: 0 }
    }

    /// How many collectives can be under way.
    pub fn most(&self) -> usize {
        self.most
    }

    /// A collective begins that ends at `done_ps`; when the next one can.
    pub fn begin(&mut self, now_ps: u64, done_ps: u64) -> u64 {
        self.ends_ps.push(done_ps);
        self.free_ps(now_ps)
    }

    /// A collective begins to wait for other ranks; when the next one can begin.
    pub fn wait(&mut self, now_ps: u64) -> u64 {
        self.waiting += 1;
        self.free_ps(now_ps)
    }

    /// The ranks that one waited for came; when the next one can begin.
    pub fn go_on(&mut self, now_ps: u64, done_ps: u64) -> u64 {
        self.waiting = self.waiting.exact_sub(1);
        self.begin(now_ps, done_ps)
    }

    /// When a stream is free; never as long as all of them wait.
    fn free_ps(&mut self, now_ps: u64) -> u64 {
        self.ends_ps.retain(|&end_ps| end_ps > now_ps);
        self.ends_ps.sort_unstable();
        let taken = self.ends_ps.len() + self.waiting;
        if taken < self.most {
            return now_ps;
        }
        self.ends_ps.get(taken - self.most).copied().unwrap_or(NEVER_PS)
    }
}
