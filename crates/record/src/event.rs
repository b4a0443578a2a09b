//! What happened: intervals on tracks, samples of counters, and the flows between intervals.
//!
//! Names and source lines are shared text, and names of counts are constants, so that recording a
//! command a million times copies no text.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::layout::{CounterId, TrackId};

/// Names a signal: given by the interval that raises it and by those that wait for it.
///
/// The simulator numbers signals as it likes, for instance by the serial number of the command that
/// raises them. One id for each pair of signal and wait is drawn most clearly: a trace viewer draws
/// several waits on one id as a chain in order of time, and each arrow from the slice that starts first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowId(pub u64);

/// Named integers of one interval, such as bytes, macs or flits.
pub type Counts = SmallVec<[(&'static str, u64); 3]>;

/// A track busy with one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Where.
    pub track: TrackId,
    /// With what.
    pub name: Arc<str>,
    /// First cycle.
    pub start_cycles: u64,
    /// The cycle after the last.
    pub end_cycles: u64,
    /// What was done in it.
    pub counts: Counts,
    /// The stage that decided how long it took.
    pub binding: Option<&'static str>,
    /// The line of program text it comes from.
    pub source: Option<Arc<str>>,
    /// Signals it raises.
    pub signals: SmallVec<[FlowId; 1]>,
    /// Signals it waited for.
    pub waits: SmallVec<[FlowId; 1]>,
}

impl Interval {
    /// A track busy from one cycle to another, with nothing counted.
    pub fn new(track: TrackId, name: impl Into<Arc<str>>, start_cycles: u64, end_cycles: u64) -> Interval {
        Interval {
            track,
            name: name.into(),
            start_cycles,
            end_cycles,
            counts: Counts::new(),
            binding: None,
            source: None,
            signals: SmallVec::new(),
            waits: SmallVec::new(),
        }
    }

    /// The interval with a further count.
    #[must_use]
    pub fn with_count(mut self, name: &'static str, count: u64) -> Interval {
        self.counts.push((name, count));
        self
    }

    /// How long it took; zero if it ends before it starts.
    pub fn length_cycles(&self) -> u64 {
        self.end_cycles.saturating_sub(self.start_cycles)
    }
}

/// A counter has a new value from a cycle on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Which counter.
    pub counter: CounterId,
    /// From which cycle on.
    pub at_cycles: u64,
    /// The value, in the counter's unit.
    pub value: u64,
}

/// Anything that a sink keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A busy track.
    Interval(Interval),
    /// A new value of a counter.
    Sample(Sample),
}
