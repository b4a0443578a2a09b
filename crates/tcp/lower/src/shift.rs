//! Convolution mode of the feed unit: windows that overlap are fetched once and shifted over (vISA book,
//! contraction engine).
//!
//! It serves a loop that moves the packet along a stored axis whose positions lie side by side: all that the
//! packets of the loop see is fetched as one buffer of up to three flits. Positions before the start of a
//! window are what the buffer shows before its first element, if the buffer starts where the stored axis
//! does; so they need no copy.

use tilewright_notation::problem::AxisId;
use tilewright_notation::window::Window;
use tilewright_tcp_isa::contraction::shift_max;
use tilewright_tcp_isa::program::exec::Shift;
use tilewright_tcp_isa::switch::Topology;

use super::build::{ContractionBuilder, ContractionNest};
use super::limits::FetchLoop;
use super::view::{DigitStep, LoopPiece};

/// A stream whose packets are shifts of what is fetched.
#[derive(Clone, Debug)]
pub(super) struct ShiftedStream {
    pub(super) shift: Shift,
    /// Elements that are fetched at a time.
    pub(super) buffer: u64,
    /// The stored axis along which they lie.
    pub(super) along: AxisId,
}

impl ContractionBuilder<'_> {
    /// The shifts that do the work of the innermost loop over packets, if they may and spare flits. Data must
    /// be in each slice's own memory.
    pub(super) fn shifted(&self, nest: &ContractionNest) -> Option<ShiftedStream> {
        let (machine, problem) = (self.setup.machine, self.problem);
        let (last, outer) = nest.fetch_steps.split_last()?;
        let packet = nest.packet.only()?;
        let mut windows = problem.windows_of(problem.streamed());
        let window =
            windows.find(|window| [packet, *last].iter().all(|piece| window.factor(piece.axis) > 0))?;
        let stored: Vec<DigitStep> = nest
            .stream
            .digits
            .iter()
            .filter(|digit| digit.axis == window.axis)
            .map(|digit| digit.at)
            .collect();
        let side_by_side = stored == [DigitStep::Offset(1)] && nest.stream.stride(&packet) == Ok(Some(1));
        let Ok(Some(DigitStep::Offset(stride))) = nest.stream.step(last) else { return None };
        let local = nest.switch.topology == Topology::Forwarding;
        if !side_by_side || !local || !self.unpadded(nest, packet.axis) || !self.unpadded(nest, last.axis) {
            return None;
        }
        let most = shift_max(machine, self.setup.dtype);
        let initial = -i64::try_from(window.before).ok()?;
        let early = window.before > 0;
        let from_start = outer.iter().all(|piece| window.factor(piece.axis) == 0);
        if stride > most || early && (window.before > most / 2 || !from_start || !lone_margin(self, window)) {
            return None;
        }
        let seen = (last.size - 1) * stride + nest.packet.active;
        let bits = self.setup.element_bits();
        let word_elements = machine.fetch.packet_granule_bytes * 8 / bits;
        let buffer = seen.saturating_sub(window.before).max(1).next_multiple_of(word_elements);
        let flits = (buffer * bits).div_ceil(machine.network.flit_bytes * 8);
        let room = machine.ce.flit_buffer_bytes / machine.network.flit_bytes;
        // A copy with zeros is spared in any case.
        if flits > room || !early && flits >= last.size * nest.packet.flits {
            return None;
        }
        let shift = Shift { initial, stride, shifts: last.size, pop: flits };
        Some(ShiftedStream { shift, buffer, along: window.axis })
    }

    /// Whether no loop over an axis runs past its end, so nothing that it reads must be hidden.
    fn unpadded(&self, nest: &ContractionNest, axis: AxisId) -> bool {
        let known = self.problem.axis(axis);
        let time = nest.time();
        let over = |piece: &&LoopPiece| piece.axis == axis;
        let last: u64 = time.iter().filter(over).map(|piece| (piece.size - 1) * piece.weight).sum();
        let in_packet = nest
            .packet
            .only()
            .filter(|piece| piece.axis == axis)
            .map_or(0, |piece| (piece.size - 1) * piece.weight);
        !known.dynamic && last + in_packet < known.extent
    }
}

/// Whether a window is the only one of its operand with positions before the start.
fn lone_margin(builder: &ContractionBuilder<'_>, window: &Window) -> bool {
    let mut early = builder.problem.windows_of(window.operand).filter(|window| window.before > 0);
    early.all(|other| other.axis == window.axis)
}

impl ShiftedStream {
    /// The loop over what is fetched at a time.
    pub(super) fn row(&self) -> FetchLoop {
        FetchLoop { along: Some(self.along), ..FetchLoop::plain(self.buffer, 1, self.buffer) }
    }
}
