//! The seam between the search and what is searched. A target says which candidates there are, in frames, and
//! walks through the choices of a frame; the search keeps, excludes and counts, and knows no machine.

use std::fmt::Debug;

use crate::refusal::RefusalCounts;
use crate::search::FrameVisitor;

/// Least ticks and energy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostBound {
    /// Ticks of all that is done.
    pub ticks: u64,
    /// Energy of all that is done.
    pub energy_fj: u64,
}

impl CostBound {
    /// What is below both.
    #[must_use]
    pub fn least(self, other: CostBound) -> CostBound {
        CostBound { ticks: self.ticks.min(other.ticks), energy_fj: self.energy_fj.min(other.energy_fj) }
    }
}

/// What a frame leaves open.
pub trait TargetChoice: Copy + Debug + PartialEq + Send + Sync {
    /// A number that differs from that of any other choice of the same frame, and orders ties.
    fn code(&self) -> u64;

    /// Orders ties of different frames too, least first: for choices that are variants of others.
    fn rank(&self) -> u64 {
        0
    }
}

/// A machine with an einsum on it.
pub trait SearchTarget: Sync {
    /// What is settled first.
    type Frame: Clone + Debug + Send + Sync;
    /// What a frame leaves open.
    type Choice: TargetChoice;

    /// Ticks of a second: time is counted in cycles of a clock, or in picoseconds where engines have clocks
    /// of their own.
    fn ticks_per_s(&self) -> u64;

    /// All frames in a fixed order; those that nothing can come of are counted as refused.
    fn frames(&self, refused: &mut RefusalCounts) -> Vec<Self::Frame>;

    /// What every candidate of a frame takes at least.
    fn bound(&self, frame: &Self::Frame) -> CostBound;

    /// Shows all choices of a frame, always in the same order, until enough are seen. Sets that `seen`
    /// excludes are left out.
    fn walk(&self, frame: &Self::Frame, seen: &mut FrameVisitor<'_, Self::Choice>);
}
