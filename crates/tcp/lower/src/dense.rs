//! Copies within each slice's memory that write one element after the other: fetched in the order wanted,
//! committed densely.

use tilewright_base::Diagnostic;
use tilewright_notation::problem::AxisId;
use tilewright_notation::syntax::ast::Operand;
use tilewright_num::Dtype;
use tilewright_tcp_isa::program::exec::{Memory, Switch};

use super::build::ContractionBuilder;
use super::commands::{self, copy};
use super::limits::FetchLoop;
use super::loops::SequencerLoop;
use super::view::{DigitStep, LoopPiece, SliceView, UncutDigit, ViewDigit};
use crate::limits::MaskedFetch;
use crate::write_widths::whole_part;

/// A dense copy: what is fetched in which order.
pub(super) struct DenseCopy<'a> {
    pub(super) name: String,
    pub(super) operand: Operand,
    pub(super) from: &'a SliceView,
    /// Outermost first.
    pub(super) rows: Vec<FetchLoop>,
    pub(super) dtype: Dtype,
    /// Digits over slices that count towards positions and are not the view's own.
    pub(super) over_slices: Vec<ViewDigit>,
    pub(super) slices: Vec<(u64, u64)>,
}

impl DenseCopy<'_> {
    /// Makes the whole a number of 8-byte words: the outermost loop runs on. Gives the bytes written.
    pub(super) fn fill_up(&mut self, word_bits: u64, bits: u64) -> u64 {
        if self.rows.is_empty() {
            self.rows.push(FetchLoop::plain(1, 0, 1));
        }
        let inner: u64 = self.rows[1..].iter().map(|row| row.size).product();
        while !(self.rows[0].size * inner * bits).is_multiple_of(word_bits) {
            self.rows[0].size += 1;
        }
        self.rows[0].size * inner * bits / 8
    }
}

impl ContractionBuilder<'_> {
    /// Puts the command of a dense copy to `base` behind the others; `bytes` as [`DenseCopy::fill_up`] gave
    /// them.
    pub(super) fn copy_densely(&mut self, dense: DenseCopy<'_>, base: u64, bytes: u64) {
        let setup = self.setup;
        let packet_bytes = whole_part(bytes, setup.machine.network.flit_bytes);
        let bits = u64::from(dense.dtype.bits());
        let fetched = MaskedFetch {
            operand: dense.operand,
            view: dense.from,
            rows: &dense.rows,
            over_slices: &dense.over_slices,
            packet: packet_bytes * 8 / bits,
            dtype: dense.dtype,
            zero_point: None,
        };
        let fetch = commands::fetch(setup, self.problem, &self.dynamic, &[], &fetched);
        let loops = [SequencerLoop::of(bytes / packet_bytes, packet_bytes)];
        let commit = commands::commit(setup, Memory::Dm, base, &loops, packet_bytes, dense.slices);
        let count = self.execs.iter().filter(|exec| exec.name.starts_with(&dense.name)).count();
        let name = if count == 0 { dense.name } else { format!("{}_{count}", dense.name) };
        self.execs.push(copy(setup, &name, fetch, Switch::default(), commit));
    }

    /// A copy of an operand in which no axis is cut: each run of its digits within a slice becomes one.
    pub(super) fn straightened(
        &mut self,
        operand: Operand,
        view: &SliceView,
        slices: Vec<(u64, u64)>,
    ) -> Result<SliceView, Box<Diagnostic>> {
        let (mut rows, mut runs): (Vec<FetchLoop>, Vec<ViewDigit>) = (Vec::new(), Vec::new());
        for axis in self.problem.tensor(operand) {
            for run in runs_of(view, *axis) {
                rows.extend(run.iter().map(|digit| FetchLoop::of(piece_of(digit), stride(digit))));
                let size = run.iter().map(|digit| digit.size).product();
                let weight = run.last().map_or(1, |digit| digit.weight);
                runs.push(ViewDigit { axis: *axis, weight, size, at: DigitStep::Offset(0) });
            }
        }
        let dtype = if operand == Operand::Out { self.setup.accumulator_dtype() } else { self.stored() };
        let name = format!("straighten_{}", operand.name());
        let mut dense = DenseCopy { name, operand, from: view, rows, dtype, over_slices: Vec::new(), slices };
        let bytes = dense.fill_up(self.setup.machine.dm.write_granule_bytes * 8, self.bits(operand));
        let base = self.room(bytes)?;
        self.copy_densely(dense, base, bytes);
        let mut stride = 1;
        for digit in runs.iter_mut().rev() {
            digit.at = DigitStep::Offset(stride);
            stride *= digit.size;
        }
        runs.extend(view.digits.iter().filter(|digit| matches!(digit.at, DigitStep::Slice(_))));
        Ok(SliceView { base, digits: runs }.sliding(self.problem, operand))
    }
}

/// Digits of an axis within a slice, most significant first, in runs that follow one another.
fn runs_of(view: &SliceView, axis: AxisId) -> Vec<Vec<ViewDigit>> {
    let mut digits: Vec<ViewDigit> = view
        .digits
        .iter()
        .copied()
        .filter(|digit| digit.axis == axis && matches!(digit.at, DigitStep::Offset(_)))
        .collect();
    digits.sort_by_key(|digit| std::cmp::Reverse(digit.weight));
    let mut runs: Vec<Vec<ViewDigit>> = Vec::new();
    for digit in digits {
        let above = runs.last().and_then(|run| run.last()).map(|outer| outer.weight);
        // Places past the values that the digit above leaves are padding.
        match (runs.last_mut(), above) {
            (Some(run), Some(above))
                if above.is_multiple_of(digit.weight) && above / digit.weight <= digit.size =>
            {
                run.push(ViewDigit { size: above / digit.weight, ..digit });
            }
            _ => runs.push(vec![digit]),
        }
    }
    runs
}

/// A loop over all of a stored digit.
pub(super) fn piece_of(digit: &ViewDigit) -> LoopPiece {
    let whole = UncutDigit { weight: digit.weight, live: digit.size, places: digit.size };
    LoopPiece { axis: digit.axis, weight: digit.weight, size: digit.size, digit: whole }
}

fn stride(digit: &ViewDigit) -> u64 {
    match digit.at {
        DigitStep::Offset(stride) | DigitStep::Slice(stride) => stride,
    }
}
