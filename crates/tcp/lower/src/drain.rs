//! The order in which sums leave the contraction engine, as a layout: flit after flit (paper section IV-C;
//! drain orders from the vISA book).

use tilewright_base::invariant::Exact;
use tilewright_tcp_isa::program::exec::Drain;

use super::dynamic::DynamicAxes;
use super::loops::SequencerLoop;
use super::view::{DigitStep, LoopPiece, SliceView, ViewDigit, steps};

/// What leaves, outermost first: loops over flits, then the elements of a flit.
#[derive(Clone, Debug)]
pub(super) struct DrainLayout {
    /// Surviving steps, then columns (interleaved) or lanes and column chunks (sequential).
    pub(super) flits: Vec<(FlitLoop, u64)>,
    /// Pieces within a flit, or within the flits of a lane's columns, with the places they take.
    pub(super) within: Vec<(LoopPiece, u64)>,
    /// Elements of a flit that are sums.
    pub(super) valid: u64,
    pub(super) drain: Drain,
}

/// A loop over flits.
#[derive(Clone, Copy, Debug)]
pub(super) enum FlitLoop {
    /// Over a piece.
    Piece(LoopPiece),
    /// Over the columns of a lane that one flit does not hold.
    Chunks,
}

/// What the engine holds when sums leave.
pub(super) struct DrainSums<'a> {
    /// Surviving steps in order.
    pub(super) time: &'a [LoopPiece],
    /// Pieces on lanes.
    pub(super) lanes: &'a [LoopPiece],
    /// Surviving packet pieces with their sizes.
    pub(super) columns: &'a [(LoopPiece, u64)],
    /// Elements of a flit.
    pub(super) flit_elements: u64,
}

impl DrainLayout {
    /// The layout of a drain order.
    pub(super) fn new(sums: &DrainSums<'_>, drain: Drain) -> DrainLayout {
        let mut flits: Vec<(FlitLoop, u64)> =
            sums.time.iter().map(|p| (FlitLoop::Piece(*p), p.size)).collect();
        if drain == Drain::Interleaved {
            flits.extend(sums.columns.iter().map(|(piece, size)| (FlitLoop::Piece(*piece), *size)));
            let within = sums.lanes.iter().map(|piece| (*piece, piece.size)).collect();
            return DrainLayout { flits, within, valid: steps(sums.lanes), drain };
        }
        flits.extend(sums.lanes.iter().map(|piece| (FlitLoop::Piece(*piece), piece.size)));
        let columns: u64 = sums.columns.iter().map(|(_, size)| size).product();
        let within = sums.columns.to_vec();
        if columns > sums.flit_elements {
            flits.push((FlitLoop::Chunks, columns.div_ceil(sums.flit_elements)));
        }
        DrainLayout { flits, within, valid: columns.min(sums.flit_elements), drain }
    }

    /// Flits that leave.
    pub(super) fn count(&self) -> u64 {
        self.flits.iter().fold(1, |all: u64, (_, size)| all.exact_mul(*size))
    }

    /// Flits inside a loop.
    pub(super) fn inside(&self, index: usize) -> u64 {
        self.flits[index + 1..].iter().fold(1, |all: u64, (_, size)| all.exact_mul(*size))
    }

    /// Loops that write flits one after the other, each at the place that it has if every loop runs to its
    /// end; those that a reducer scatters are left out.
    pub(super) fn loops(&self, unit: u64, scattered: &[usize], dynamic: &DynamicAxes) -> Vec<SequencerLoop> {
        let mut stride = unit;
        let mut loops = Vec::new();
        for (index, (flit, size)) in self.flits.iter().enumerate().rev() {
            if scattered.contains(&index) {
                continue;
            }
            let by = match flit {
                FlitLoop::Piece(piece) => dynamic.steps(piece),
                FlitLoop::Chunks => None,
            };
            loops.push(SequencerLoop { size: *size, by, stride });
            stride *= size;
        }
        loops.reverse();
        loops
    }

    /// The layout if flits are written one after the other, except those that a reducer scatters over slices.
    pub(super) fn view(
        &self,
        base: u64,
        flit_elements: u64,
        slices: &[ViewDigit],
        scattered: &[usize],
    ) -> SliceView {
        let mut digits: Vec<ViewDigit> = slices.to_vec();
        let mut stride = 1;
        for (piece, size) in self.within.iter().rev() {
            digits.push(digit(piece, *size, stride));
            stride *= size;
        }
        stride = flit_elements;
        for (index, (flit, size)) in self.flits.iter().enumerate().rev() {
            if scattered.contains(&index) {
                continue;
            }
            // Chunks continue the elements of a flit, whose pieces cover them.
            if let FlitLoop::Piece(piece) = flit {
                digits.push(digit(piece, *size, stride));
            }
            stride *= size;
        }
        SliceView { base, digits }
    }
}

fn digit(piece: &LoopPiece, size: u64, stride: u64) -> ViewDigit {
    ViewDigit { axis: piece.axis, weight: piece.weight, size, at: DigitStep::Offset(stride) }
}
