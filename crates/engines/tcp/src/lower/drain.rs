//! The order in which sums leave the contraction engine, as a layout: flit after flit (paper section IV-C; drain orders from the
//! vISA book).

use super::view::{At, Piece, View, ViewDigit, steps};
use crate::cost::contraction::Drain;

/// What leaves, outermost first: loops over flits, then the elements of a flit.
#[derive(Clone, Debug)]
pub(super) struct Leaving {
    /// Surviving steps, then columns (interleaved) or lanes and column chunks (sequential).
    pub(super) flits: Vec<(FlitLoop, u64)>,
    /// Pieces within a flit with the places they take.
    pub(super) within: Vec<(Piece, u64)>,
    /// Elements of a flit that are sums.
    pub(super) valid: u64,
    pub(super) drain: Drain,
}

/// A loop over flits.
#[derive(Clone, Copy, Debug)]
pub(super) enum FlitLoop {
    /// Over a piece.
    Piece(Piece),
    /// Over the parts of a piece that one flit does not hold.
    Chunks(Piece),
}

/// What the engine holds when sums leave.
pub(super) struct Sums<'a> {
    /// Surviving steps in order.
    pub(super) time: &'a [Piece],
    /// Pieces on lanes.
    pub(super) lanes: &'a [Piece],
    /// Surviving packet pieces with their sizes.
    pub(super) columns: &'a [(Piece, u64)],
    /// Elements of a flit.
    pub(super) flit_elements: u64,
}

impl Leaving {
    /// The layout of a drain order; sequential needs at most one piece of columns beyond a flit.
    pub(super) fn new(sums: &Sums<'_>, drain: Drain) -> Option<Leaving> {
        let mut flits: Vec<(FlitLoop, u64)> =
            sums.time.iter().map(|p| (FlitLoop::Piece(*p), p.size)).collect();
        if drain == Drain::Interleaved {
            flits.extend(sums.columns.iter().map(|(piece, size)| (FlitLoop::Piece(*piece), *size)));
            let within = sums.lanes.iter().map(|piece| (*piece, piece.size)).collect();
            return Some(Leaving { flits, within, valid: steps(sums.lanes), drain });
        }
        flits.extend(sums.lanes.iter().map(|piece| (FlitLoop::Piece(*piece), piece.size)));
        let columns: u64 = sums.columns.iter().map(|(_, size)| size).product();
        if columns <= sums.flit_elements {
            return Some(Leaving { flits, within: sums.columns.to_vec(), valid: columns, drain });
        }
        let [(piece, size)] = sums.columns else { return None };
        flits.push((FlitLoop::Chunks(*piece), size.div_ceil(sums.flit_elements)));
        let within = vec![(*piece, sums.flit_elements)];
        Some(Leaving { flits, within, valid: sums.flit_elements, drain })
    }

    /// Flits that leave.
    pub(super) fn count(&self) -> u64 {
        self.flits.iter().fold(1, |all: u64, (_, size)| all.saturating_mul(*size))
    }

    /// Flits inside a loop.
    pub(super) fn inside(&self, index: usize) -> u64 {
        self.flits[index + 1..].iter().fold(1, |all: u64, (_, size)| all.saturating_mul(*size))
    }

    /// The layout if flits are written one after the other, except those that a reducer scatters over slices.
    pub(super) fn view(
        &self,
        base: u64,
        flit_elements: u64,
        slices: &[ViewDigit],
        scattered: &[usize],
    ) -> View {
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
            match flit {
                FlitLoop::Piece(piece) => digits.push(digit(piece, *size, stride)),
                // Chunks continue the elements of a flit, so one digit covers both.
                FlitLoop::Chunks(piece) => {
                    digits.retain(|digit| (digit.axis, digit.weight) != (piece.axis, piece.weight));
                    digits.push(digit(piece, *size * flit_elements, 1));
                }
            }
            stride *= size;
        }
        View { base, digits }
    }
}

fn digit(piece: &Piece, size: u64, stride: u64) -> ViewDigit {
    ViewDigit { axis: piece.axis, weight: piece.weight, size, at: At::Offset(stride) }
}
