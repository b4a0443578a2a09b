//! The loop table of a contraction: one row a loop, one column for each unit that steps with it.
//!
//! Fetch, register files, accumulators and commit each have a sequencer of their own (paper sections IV-B, IV-C); they run in step
//! because all of them are programmed from the same loops. A row says what one step of its loop means to each.

use tilewright_notation::problem::AxisId;

/// A place that a loop steps through: within a slice's memory, or from slice to slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Elements of the slice's memory.
    Offset(u64),
    /// Slices: the fetch network brings the data in, or the inter-slice reducer spreads it out.
    Slice(u64),
}

/// One loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Iterations.
    pub size: u64,
    /// The axis that it counts.
    pub axis: AxisId,
    /// What an iteration is worth on the axis.
    pub weight: u64,
    /// The streamed operand; `None` where the same data is used again.
    pub stream: Option<Step>,
    /// The register files; `None` where the same row is used again.
    pub trf: Option<u64>,
    /// The output; `None` where sums are formed.
    pub out: Option<Step>,
}

/// One digit of the slice number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceRow {
    /// Slices between neighbours.
    pub slice_weight: u64,
    /// Values that work.
    pub live: u64,
    /// Places, idle ones included.
    pub slots: u64,
    /// The axis that it counts.
    pub axis: AxisId,
    /// What a step is worth on the axis.
    pub weight: u64,
}

/// A contraction, ready to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Digits of the slice number.
    pub slices: Vec<SliceRow>,
    /// Loops in time, outermost first, repeats of the feed unit included.
    pub time: Vec<Row>,
    /// Loops on the lanes.
    pub lanes: Vec<Row>,
    /// Loops within a packet, innermost last.
    pub packet: Vec<Row>,
    /// Contracted elements of a packet, which the tree sums; the innermost rows of `packet`.
    pub tree_rows: usize,
    /// Extents of the axes; steps past them are padding.
    pub extents: Vec<u64>,
    /// Bits of the slice number on which a slice and the one that it reads the stream from agree.
    pub stream_kept: u64,
    /// Bits of the slice number on which a slice and the one that takes its result agree.
    pub out_kept: u64,
}

impl Table {
    /// Slices that the tactic spans.
    pub fn slice_count(&self) -> u64 {
        self.slices.iter().fold(1, |all: u64, row| all.saturating_mul(row.slots))
    }

    /// Steps of the contraction engine on each slice.
    pub fn engine_cycles(&self) -> u64 {
        self.time.iter().fold(1, |all: u64, row| all.saturating_mul(row.size))
    }

    /// Where a slice stands on each axis, or `None` if it is idle.
    pub fn origin(&self, slice: u64) -> Option<Vec<u64>> {
        let mut origin = vec![0; self.extents.len()];
        for row in &self.slices {
            let value = slice / row.slice_weight % row.slots;
            if value >= row.live {
                return None;
            }
            origin[usize::from(row.axis.0)] += value * row.weight;
        }
        Some(origin)
    }
}
