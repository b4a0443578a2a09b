//! What the check of lowered shapes and a tactic found out.

use smallvec::SmallVec;
use tilewright_base::Diagnostic;
use tilewright_notation::algebra::access::AccessPattern;
use tilewright_notation::reuse::Reuse;
use tilewright_notation::syntax::ast::Operand;

use super::memory::ShapeFootprint;
use crate::placed_tactic::PlacedTactic;

/// What the check found out; everything but the complaints is there as far as it could be worked out.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Refusals, warnings and notes.
    pub diagnostics: Vec<Diagnostic>,
    /// Memory of each shape given.
    pub footprints: SmallVec<[ShapeFootprint; 4]>,
    /// The tactic with its digits placed.
    pub placed: Option<PlacedTactic>,
    /// How the streamed operand reaches the slices.
    pub delivery: Option<Delivery>,
    /// Reuse of the streamed operand.
    pub reuse: Option<Reuse>,
    /// Address loops of each operand that has a shape and a tactic.
    pub sequences: SmallVec<[AddressLoops; 4]>,
    /// Bytes of each fetch of the streamed operand.
    pub read_bytes: Option<u64>,
    /// What happens to sums spread over slices.
    pub reduction: Option<SliceReduction>,
}

/// The address loops of one operand.
#[derive(Clone, Debug)]
pub struct AddressLoops {
    /// Operand that the loops address.
    pub operand: Operand,
    /// The loops in elements, merged.
    pub pattern: AccessPattern,
    /// Sequencer entries that they take.
    pub entries: usize,
}

impl Verdict {
    /// Nothing was refused.
    pub fn legal(&self) -> bool {
        !tilewright_base::diagnostic::any_error(&self.diagnostics)
    }
}

/// How the streamed operand reaches the slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Slices of a ring that exchange packets; 1 if each slice reads its own DM only.
    pub ring_slices: u64,
    /// Slices that receive each packet.
    pub receivers: u64,
}

/// What happens to sums that are spread over slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceReduction {
    /// Slices that hold parts of one sum.
    pub group_slices: u64,
    /// The parts lie on neighbouring slices, so the inter-slice reducer adds them; otherwise DMA and the
    /// vector engine do.
    pub by_reducer: bool,
    /// What the freed slices take, if the output shape is given.
    pub freed: Option<FreedSlices>,
}

/// What slices take once their partial sums are added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreedSlices {
    /// Copies of the result.
    Broadcast,
    /// Nothing.
    Idle,
    /// Each a part of the result.
    Scatter,
}
