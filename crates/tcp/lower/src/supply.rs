//! How an operand reaches the slices that work on it (paper section III-B; topologies from the vISA book).
//!
//! Slices agree with their sources on the bits of the slice number whose axis the operand shares with the
//! tactic, or over which it has copies; over the other bits the fetch network brings packets round. If the
//! order in which a topology delivers is the order in which the loops want them, one command does; otherwise
//! everything is first brought into each slice's own memory.

use tilewright_base::invariant::OrBroken;
use tilewright_notation::algebra::RadixMap;
use tilewright_notation::algebra::map::SLICE;
use tilewright_notation::problem::{Digit, Problem};
use tilewright_notation::syntax::ast::Operand;
use tilewright_tcp_isa::program::exec::Switch;
use tilewright_tcp_isa::switch::{Ring, Topology};

use super::dynamic::DynamicAxes;
use super::view::{DigitStep, LoopPiece, SliceView, ViewDigit};

/// Where each slice's data comes from.
#[derive(Clone, Debug)]
pub(super) struct OperandSupply {
    /// Bits of the slice number on which a slice and its source agree.
    pub(super) local_bits: u64,
    /// Digits of the operand on the other bits, most significant first.
    pub(super) remote: Vec<ViewDigit>,
    /// Slices that the tactic and the operand span: a power of two.
    pub(super) span: u64,
}

impl OperandSupply {
    pub(super) fn new(
        problem: &Problem,
        operand: Operand,
        map: &RadixMap,
        view: &SliceView,
        parallel: &[Digit],
    ) -> OperandSupply {
        let mut local_bits = 0;
        let mut span = 1;
        for digit in parallel.iter().rev() {
            if digit.axis.is_some_and(|axis| problem.stores(operand, axis)) {
                local_bits |= (digit.slots - 1) * span;
            }
            span *= digit.slots;
        }
        for copies in map.copies.iter().filter(|copies| copies.to_axis == SLICE) {
            local_bits |= (copies.count.next_power_of_two() - 1) * copies.to_stride;
        }
        let stored = map.to.first().copied().or_broken("a shape has slices").next_power_of_two();
        let span = span.next_power_of_two().max(stored);
        let mut remote: Vec<ViewDigit> =
            view.digits.iter().flat_map(|digit| off_bits(digit, local_bits)).collect();
        remote.sort_by_key(|digit| std::cmp::Reverse(stride_of(digit)));
        OperandSupply { local_bits: local_bits & (span - 1), remote: joined(&remote), span }
    }

    /// Every slice has its own data.
    pub(super) fn is_local(&self) -> bool {
        self.local_bits == self.span - 1
    }

    /// The slices whose data a slice needs, ascending.
    pub(super) fn sources(&self, slice: u64) -> Vec<u64> {
        let mut sources = vec![slice & self.local_bits];
        for digit in &self.remote {
            let steps = (0..digit.size).map(|step| step * stride_of(digit));
            sources =
                sources.iter().flat_map(|source| steps.clone().map(move |step| source + step)).collect();
        }
        sources
    }

    /// Slices of a ring: up to the highest bit that is not local_bits.
    fn ring(&self) -> u64 {
        let moved = !self.local_bits & (self.span - 1);
        (moved + 1).next_power_of_two()
    }

    /// The switch that brings every source's packet at every step, sources innermost.
    pub(super) fn gathering(&self) -> Switch {
        let ring = self.ring();
        let slice0 = 1_u64 << self.local_bits.trailing_ones();
        let whole: u64 = self.remote.iter().map(|digit| digit.size).product();
        if slice0 * whole == ring && self.local_bits & (ring - 1) == slice0 - 1 {
            let topology = Topology::Broadcast1(Ring { slice1: whole, slice0 });
            return Switch { topology, sources: Vec::new() };
        }
        let sources = (0..ring).map(|slice| {
            self.sources(slice)
                .iter()
                .map(|source| {
                    u16::try_from(*source).or_broken("a ring is small enough for a bitmap of sources")
                })
                .collect()
        });
        Switch { topology: Topology::Custom(ring), sources: sources.collect() }
    }

    /// The switch that delivers in the order of these loops, if there is one; loops over slices are those of
    /// `remote`.
    pub(super) fn in_order(
        &self,
        pieces: &[(LoopPiece, Option<DigitStep>)],
        dynamic: &DynamicAxes,
    ) -> Option<Switch> {
        if self.is_local() {
            return Some(Switch::default());
        }
        // Topologies have numbers, not registers: only loops outside of what is remote may be counted at run
        // time.
        let over_slices = |(_, at): &(LoopPiece, Option<DigitStep>)| matches!(at, Some(DigitStep::Slice(_)));
        let first = pieces.iter().position(over_slices).unwrap_or(pieces.len());
        if pieces[first..].iter().any(|(piece, _)| dynamic.steps(piece).is_some()) {
            return None;
        }
        if self.gathers_in_order(pieces) {
            return Some(self.gathering());
        }
        let ring = self.ring();
        let whole: u64 = self.remote.iter().map(|digit| digit.size).product();
        if self.local_bits & (ring - 1) != 0 || whole != ring {
            return None;
        }
        self.broadcast01(pieces)
    }

    /// All loops over slices are innermost, the most significant first.
    fn gathers_in_order(&self, pieces: &[(LoopPiece, Option<DigitStep>)]) -> bool {
        let first =
            pieces.iter().position(|(_, at)| matches!(at, Some(DigitStep::Slice(_)))).unwrap_or(pieces.len());
        self.descends(&pieces[first..], &self.remote)
    }

    /// Whether loops run exactly through these digits of the slice number, in order.
    fn descends(&self, pieces: &[(LoopPiece, Option<DigitStep>)], digits: &[ViewDigit]) -> bool {
        let mut walked: Vec<(u64, u64)> = Vec::new();
        for (piece, at) in pieces {
            let Some(DigitStep::Slice(stride)) = at else { return false };
            match walked.last_mut() {
                Some(outer) if outer.0 == stride * piece.size => *outer = (*stride, outer.1 * piece.size),
                _ => walked.push((*stride, piece.size)),
            }
        }
        let mut wanted: Vec<(u64, u64)> = Vec::new();
        for digit in digits {
            let stride = stride_of(digit);
            match wanted.last_mut() {
                Some(outer) if outer.0 == stride * digit.size => *outer = (stride, outer.1 * digit.size),
                _ => wanted.push((stride, digit.size)),
            }
        }
        walked == wanted
    }

    /// `t1, s1, t0, s0`: at most two runs of loops over slices, the second of them innermost.
    fn broadcast01(&self, pieces: &[(LoopPiece, Option<DigitStep>)]) -> Option<Switch> {
        let over_slices = |(_, at): &(LoopPiece, Option<DigitStep>)| matches!(at, Some(DigitStep::Slice(_)));
        let start1 = pieces.iter().position(over_slices)?;
        let end1 = pieces[start1..]
            .iter()
            .position(|piece| !over_slices(piece))
            .map_or(pieces.len(), |n| start1 + n);
        let start0 = pieces[end1..].iter().position(over_slices).map_or(pieces.len(), |n| end1 + n);
        let run = |part: &[(LoopPiece, Option<DigitStep>)]| {
            part.iter().map(|(piece, _)| piece.size).product::<u64>()
        };
        let (slice1, time0, slice0) =
            (run(&pieces[start1..end1]), run(&pieces[end1..start0]), run(&pieces[start0..]));
        let mut walked = pieces[start1..end1].to_vec();
        walked.extend_from_slice(&pieces[start0..]);
        if !self.descends(&walked, &self.remote) {
            return None;
        }
        let topology = Topology::Broadcast01(Ring { slice1, slice0 }, time0);
        Some(Switch { topology, sources: Vec::new() })
    }

    /// The view after everything was brought into each slice's memory, sources `bytes` apart.
    pub(super) fn gathered(&self, view: &SliceView, base: u64, source_elements: u64) -> SliceView {
        let mut digits: Vec<ViewDigit> = Vec::new();
        for digit in &view.digits {
            match digit.at {
                DigitStep::Offset(_) => digits.push(*digit),
                DigitStep::Slice(_) => digits.extend(on_bits(digit, self.local_bits)),
            }
        }
        let mut stride = source_elements;
        for digit in self.remote.iter().rev() {
            digits.push(ViewDigit { at: DigitStep::Offset(stride), ..*digit });
            stride *= digit.size;
        }
        SliceView { base, digits }
    }
}

/// Neighbouring bits of one digit put together again.
fn joined(digits: &[ViewDigit]) -> Vec<ViewDigit> {
    let mut joined: Vec<ViewDigit> = Vec::new();
    for digit in digits {
        match joined.last_mut() {
            Some(high)
                if high.axis == digit.axis
                    && high.weight == digit.weight * digit.size
                    && stride_of(high) == stride_of(digit) * digit.size =>
            {
                *high = ViewDigit { size: high.size * digit.size, ..*digit };
            }
            _ => joined.push(*digit),
        }
    }
    joined
}

fn stride_of(digit: &ViewDigit) -> u64 {
    match digit.at {
        DigitStep::Slice(stride) | DigitStep::Offset(stride) => stride,
    }
}

/// The parts of a slice digit that lie on local_bits bits.
fn on_bits(digit: &ViewDigit, local_bits: u64) -> Vec<ViewDigit> {
    parts(digit).into_iter().filter(|part| local_bits & stride_of(part) != 0).collect()
}

/// The parts of a slice digit that lie on other bits.
fn off_bits(digit: &ViewDigit, local_bits: u64) -> Vec<ViewDigit> {
    match digit.at {
        DigitStep::Offset(_) => Vec::new(),
        DigitStep::Slice(_) => {
            parts(digit).into_iter().filter(|part| local_bits & stride_of(part) == 0).collect()
        }
    }
}

/// A slice digit bit by bit; one with idle places stays whole.
fn parts(digit: &ViewDigit) -> Vec<ViewDigit> {
    let DigitStep::Slice(stride) = digit.at else { return vec![*digit] };
    if !digit.size.is_power_of_two() {
        return vec![*digit];
    }
    (0..digit.size.trailing_zeros())
        .map(|bit| ViewDigit {
            size: 2,
            weight: digit.weight << bit,
            at: DigitStep::Slice(stride << bit),
            ..*digit
        })
        .collect()
}
