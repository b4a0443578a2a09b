//! Why something cannot be recorded. Each names both figures of the contradiction.

use crate::layout::{CounterId, TrackId};

/// Why a layout, an interval, a sample or a trace is refused.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Parents come first, which also makes the tracks a forest.
    #[error("track {track} `{name}` has parent {parent}, but a parent is declared before its children")]
    ParentNotEarlier {
        /// The child.
        track: u32,
        /// Its name.
        name: String,
        /// The parent it names.
        parent: u32,
    },
    /// A viewer shows siblings of one name as one.
    #[error("two tracks or counters under one parent are called `{name}`; give siblings different names")]
    NameTaken {
        /// The name used twice.
        name: String,
    },
    /// Ids are 32 bits wide and layouts are small.
    #[error("{count} {what}, but a layout holds at most {most}")]
    TooMany {
        /// Tracks, counters or components.
        what: &'static str,
        /// How many there are.
        count: usize,
        /// How many there may be.
        most: usize,
    },
    /// An id of another layout.
    #[error("track {} is not in the layout, which has {count}", .track.0)]
    UnknownTrack {
        /// The id.
        track: TrackId,
        /// How many tracks there are.
        count: usize,
    },
    /// An id of another layout.
    #[error("counter {} is not in the layout, which has {count}", .counter.0)]
    UnknownCounter {
        /// The id.
        counter: CounterId,
        /// How many counters there are.
        count: usize,
    },
    /// An id of another layout.
    #[error("energy component {component} is not in the layout, which has {count}")]
    UnknownComponent {
        /// The id.
        component: u32,
        /// How many components there are.
        count: usize,
    },
    /// Time runs forward.
    #[error("interval `{name}` starts at cycle {start_cycles} and ends before it, at {end_cycles}")]
    EndBeforeStart {
        /// The interval's name.
        name: String,
        /// Its start.
        start_cycles: u64,
        /// Its end.
        end_cycles: u64,
    },
    /// The time before the settled cycle has been added up and forgotten.
    #[error("interval `{name}` starts at cycle {start_cycles}, but time is settled up to {settled_cycles}")]
    Late {
        /// The interval's name.
        name: String,
        /// Its start.
        start_cycles: u64,
        /// What `advance` promised.
        settled_cycles: u64,
    },
    /// A counter is a step function, fed from left to right.
    #[error("counter `{name}` is set at cycle {at_cycles} after it was set at {last_cycles}")]
    SampleBackwards {
        /// The counter's name.
        name: String,
        /// The sample's cycle.
        at_cycles: u64,
        /// The cycle of the sample before.
        last_cycles: u64,
    },
    /// The writer of a trace refused.
    #[error("the trace cannot be written: {0}")]
    Write(#[from] std::io::Error),
}
