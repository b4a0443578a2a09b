//! Sums over slices: who adds them and what the freed slices take (paper section II-B; vISA book, inter-slice
//! reducer).

use tilewright_notation::algebra::RadixMap;
use tilewright_notation::algebra::map::SLICE;
use tilewright_notation::problem::{Digit, Problem};
use tilewright_tcp_isa::program::vector::ReduceOutput;

use super::drain::{DrainLayout, FlitLoop};
use super::dynamic::DynamicAxes;
use super::view::{DigitStep, SliceView};

/// The slices that hold parts of the same sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartialSums {
    /// Bits of the slice number over which sums are spread.
    pub(super) bits: u64,
    /// The output has copies on some of them.
    copies: bool,
}

impl PartialSums {
    /// `None` if every slice has whole sums.
    pub(super) fn new(problem: &Problem, parallel: &[Digit], out: &RadixMap) -> Option<PartialSums> {
        let mut bits = 0;
        let mut stride = 1;
        for digit in parallel.iter().rev() {
            if digit.axis.is_some_and(|axis| problem.contracted(axis)) {
                bits |= (digit.slots - 1) * stride;
            }
            stride *= digit.slots;
        }
        let over_slices = out.copies.iter().filter(|copies| copies.to_axis == SLICE);
        let copies = over_slices.into_iter().any(|copies| copies.count > 1 && bits & copies.to_stride != 0);
        (bits != 0).then_some(PartialSums { bits, copies })
    }

    /// Slices of a group.
    pub(super) fn slices(self) -> u64 {
        1 << self.bits.count_ones()
    }

    /// The parts lie on neighbouring slices, so the reducer adds them.
    pub(super) fn adjacent(self) -> bool {
        self.bits & (self.bits + 1) == 0
    }

    /// What one command of the reducer can give, and the flit loops that it scatters; `None` if it takes a
    /// bridge.
    pub(super) fn gives(
        self,
        leaving: &DrainLayout,
        out: &SliceView,
        dynamic: &DynamicAxes,
    ) -> Option<(ReduceOutput, Vec<usize>)> {
        let on_slices = |(_, (flit, _)): &(usize, &(FlitLoop, u64))| match flit {
            FlitLoop::Piece(piece) => out.over_slices(piece),
            FlitLoop::Chunks => false,
        };
        if leaving.within.iter().any(|(piece, _)| out.over_slices(piece)) {
            return None;
        }
        let scattered: Vec<usize> =
            leaving.flits.iter().enumerate().filter(on_slices).map(|(i, _)| i).collect();
        let (Some(first), Some(last)) = (scattered.first(), scattered.last()) else {
            let gives = if self.copies { ReduceOutput::Broadcast } else { ReduceOutput::First };
            return Some((gives, Vec::new()));
        };
        // The reducer counts flits by numbers, not by registers.
        let counted = |(flit, _): &(FlitLoop, u64)| match flit {
            FlitLoop::Piece(piece) => dynamic.steps(piece).is_some(),
            FlitLoop::Chunks => false,
        };
        if leaving.flits[*first..].iter().any(counted) {
            return None;
        }
        let mut expected = self.slices();
        for (flit, size) in &leaving.flits[*first..=*last] {
            let FlitLoop::Piece(piece) = flit else { return None };
            let Ok(Some(DigitStep::Slice(stride))) = out.step(piece) else { return None };
            if stride * size != expected || !out.has_room(piece) {
                return None;
            }
            expected = stride;
        }
        let inner = leaving.inside(*last);
        (expected == 1).then_some((ReduceOutput::Scatter { inner }, scattered))
    }
}
