//! Windows that loops over slices move: every slice begins at a position of its own, but all of them fetch
//! from one base. So the DMA engine, which has strides of its own for each side, copies to one place of every
//! slice what that slice looks at: its part of the window and the halo that its neighbours look at too (paper
//! section III-D; vISA book, DMA engine).

use tilewright_base::invariant::Exact;
use tilewright_base::{Diagnostic, Span};
use tilewright_notation::problem::Digit;
use tilewright_notation::syntax::ast::Operand;
use tilewright_notation::window::Window;
use tilewright_tcp_isa::program::Count;
use tilewright_tcp_isa::program::transfer::{
    Address, MemoryInstance, MemoryLocation, SLICE_STRIDE, Transfer, TransferLoop,
};

use super::build::ContractionBuilder;
use super::off_chip::{packets, turn_around};
use super::view::{DigitStep, ViewDigit};
use crate::no_lowering::refuse;

impl ContractionBuilder<'_> {
    /// Whether loops over slices move a window.
    pub(super) fn spreads(&self, window: &Window) -> bool {
        self.over_slices(window).next().is_some()
    }

    /// The positions by which slices of an operand are apart: what masks count beside loops.
    pub(super) fn apart(&self, operand: Operand) -> Vec<ViewDigit> {
        let of_window = |window| {
            self.over_slices(window).flat_map(move |(digit, stride, moved)| {
                let at = DigitStep::Slice(stride);
                let along = ViewDigit { axis: window.axis, weight: moved, size: digit.live, at };
                let looped = digit.axis.map(|axis| ViewDigit { axis, weight: digit.stride, ..along });
                [Some(along), looped].into_iter().flatten()
            })
        };
        self.problem.windows_of(operand).flat_map(of_window).collect()
    }

    /// Digits over slices that move a window: each with the slices and the positions between neighbours.
    fn over_slices<'w>(&'w self, window: &'w Window) -> impl Iterator<Item = (Digit, u64, u64)> + 'w {
        let mut below = 1;
        let strides = self.placed.parallel.iter().rev().map(move |digit| {
            let stride = below;
            below *= digit.slots;
            (*digit, stride)
        });
        strides.filter_map(|(digit, stride)| {
            let moved = digit.axis.map_or(0, |axis| window.factor(axis)) * digit.stride;
            (moved > 0 && digit.live > 1).then_some((digit, stride, moved))
        })
    }

    /// Positions of a window that one slice looks at.
    fn positions_seen(&self, window: &Window) -> u64 {
        let placed = self.placed;
        let digits = placed.time.iter().chain(&placed.lanes).chain(&placed.packet);
        digits.fold(1, |seen: u64, digit| {
            let moved = digit.axis.map_or(0, |axis| window.factor(axis)) * digit.stride;
            seen.exact_add(moved.exact_mul(digit.slots.max(digit.live) - 1))
        })
    }

    /// Positions past so many that the last slice looks at.
    pub(super) fn positions_behind(&self, window: &Window, positions: u64) -> u64 {
        if !self.spreads(window) {
            return 0;
        }
        let first = self.over_slices(window).map(|(digit, _, moved)| (digit.live - 1) * moved).sum::<u64>();
        first.exact_add(self.positions_seen(window)).saturating_sub(positions)
    }

    /// Copies to each slice what it looks at, of rows with the window outermost. Gives where it lies, and how
    /// many positions there are.
    pub(super) fn cut_out(
        &mut self,
        operand: Operand,
        window: &Window,
        base: u64,
        row_bytes: u64,
    ) -> Result<(u64, u64), Box<Diagnostic>> {
        let machine = self.setup.machine;
        let seen = self.positions_seen(window);
        let bytes = seen.exact_mul(row_bytes);
        let to = self.room(bytes)?;
        let over_slices = self.slice_loops(window, row_bytes);
        for (from, packet, count) in packets(machine, bytes) {
            let mut loops = over_slices.clone();
            if count > 1 {
                let step = packet.cast_signed();
                loops.push(TransferLoop { size: Count::Fixed(count), source: step, target: step });
            }
            if loops.len() as u64 > machine.tdma.loops {
                let message =
                    format!("{} loops over slices cut out a window of {}", loops.len(), operand.name());
                return Err(refuse(self.problem, &message, "fewer digits over slices"));
            }
            let place = |base: u64| {
                Address::new(MemoryLocation {
                    chip: 0,
                    medium: MemoryInstance::Dm { slice: 0 },
                    offset: base + from,
                })
            };
            let name = format!("cut_{}_{}", operand.name(), self.transfers.len());
            let (source, target) = (place(base), place(to));
            let transfer =
                Transfer { name, source, target, loops, packet, index: None, span: Span::default() };
            self.transfers.push((self.execs.len(), transfer));
        }
        Ok((to, seen))
    }

    /// Loops over the slices that work, outermost first; neighbours that continue each other on both sides
    /// are one.
    fn slice_loops(&self, window: &Window, row_bytes: u64) -> Vec<TransferLoop> {
        let mut loops: Vec<TransferLoop> = Vec::new();
        let mut slices = 1_u64;
        for digit in self.placed.parallel.iter().rev() {
            let target = slices.cast_signed().exact_mul(SLICE_STRIDE);
            let moved = digit.axis.map_or(0, |axis| window.factor(axis)) * digit.stride * row_bytes;
            let source = target.exact_add(moved.cast_signed());
            turn_around(&mut loops, digit.live, (source, target));
            slices = slices.exact_mul(digit.slots);
        }
        loops.reverse();
        loops
    }
}
