//! What a slice brings of a value for one share, in the order in which it lies in HBM, and how the fetch
//! sequencer walks over it.

use tilewright_base::invariant::OrBroken;
use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::vector::FLIT_WORDS;

use super::operands::Operand;
use super::view::signed;

/// What a slice brings of an operand for one share: rows at regular pitches, and how the share walks over
/// them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hull {
    /// Elements before the first that is needed, so that the run starts on a granule.
    pub(super) lead: u64,
    /// Elements from the first that is needed to the one that the walk begins at, which goes back from there.
    pub(super) behind: i64,
    /// Where the walk begins in data memory.
    pub(super) begins: u64,
    /// Size, pitch in the value and pitch in data memory of each level, outermost first; the last is
    /// contiguous.
    pub(super) levels: Vec<(u64, i64, u64)>,
    /// Elements that it takes in data memory.
    pub(super) elements: u64,
    /// Size and stride in data memory of each axis of the share.
    pub(super) walk: Vec<(u64, i64)>,
    /// Distance in data memory of each step from stream to stream.
    pub(super) steps: Vec<i64>,
}

impl Hull {
    /// The first element that the first share brings.
    pub(super) fn first(&self, operand: &Operand) -> i64 {
        operand.first - self.behind - signed(self.lead)
    }

    /// Elements of a contiguous run.
    pub(super) fn run(&self) -> u64 {
        self.levels.last().or_broken("a hull has a run").0
    }

    /// Access units of HBM that requests for a row touch.
    pub(super) fn row_units(&self, machine: &Tcp, operand: &Operand) -> u64 {
        let (unit, step) = (machine.hbm.access_bytes, machine.tdma.request_bytes);
        let first = self.first(operand) * signed(operand.element_bytes);
        let inside = first.rem_euclid(signed(unit)).unsigned_abs();
        let bytes = self.run() * operand.element_bytes;
        let touched = |bytes: u64| (inside + bytes).div_ceil(unit);
        let rest = bytes % step;
        bytes / step * touched(step) + if rest > 0 { touched(rest) } else { 0 }
    }

    /// Whether the share is what was brought, in its order.
    pub(super) fn is_stream(&self) -> bool {
        self.lead == 0 && self.stream_elements() == Some(self.elements)
    }

    /// Words of an access of the walk, whose innermost elements may lie apart: a flit that several runs make
    /// up comes in as many parts as they allow. What is spread over the share mostly comes from register
    /// files.
    pub(super) fn words_per_cycle(&self, narrow: bool) -> u64 {
        if self.walk.iter().any(|(size, stride)| *size > 1 && *stride == 0) {
            return if narrow { 1 } else { FLIT_WORDS };
        }
        let mut run = 1;
        for (size, stride) in self.walk.iter().rev().filter(|(size, _)| *size > 1) {
            if *stride != signed(run) {
                break;
            }
            run *= size;
        }
        1 << run.trailing_zeros().min(FLIT_WORDS.trailing_zeros())
    }

    /// Elements of the share, if they lie one after the other where they were brought.
    pub(super) fn stream_elements(&self) -> Option<u64> {
        let mut next = 1;
        let order = self.walk.iter().rev().filter(|(size, _)| *size != 1).all(|(size, stride)| {
            let fits = *stride == signed(next);
            next *= *size;
            fits
        });
        order.then_some(next)
    }
}
