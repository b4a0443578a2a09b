//! Zeros before the start of a window: the fetch unit's mask has an upper end only, so what lies before
//! position 0 is put there by a fill, and the operand is copied behind it with the window outermost. What
//! slices then take from different positions on is cut out of such a copy ([`super::halo`]).

use tilewright_base::{Diagnostic, Span};
use tilewright_notation::problem::AxisId;
use tilewright_notation::syntax::ast::Operand;
use tilewright_notation::window::Window;
use tilewright_num::{Dtype, int_pattern};
use tilewright_tcp_isa::capped::Capped;
use tilewright_tcp_isa::program::exec::{Context, Exec, ExecBody, Fill, Memory};

use super::build::ContractionBuilder;
use super::commands;
use super::dense::DenseCopy;
use super::limits::FetchLoop;
use super::loops::SequencerLoop;
use super::view::{DigitStep, SliceView, ViewDigit};
use crate::write_widths::whole_part;

impl ContractionBuilder<'_> {
    /// Whether a window of an operand begins before what is stored, or elsewhere on every slice.
    pub(super) fn has_margins(&self, operand: Operand) -> bool {
        self.problem.windows_of(operand).any(|window| self.has_margin(window))
    }

    fn has_margin(&self, window: &Window) -> bool {
        window.before > 0 || self.spreads(window)
    }

    /// A view in which every window begins at position 0, or at that of its slice; the operand must be in
    /// each slice's own memory.
    pub(super) fn with_margins(
        &mut self,
        operand: Operand,
        mut view: SliceView,
    ) -> Result<SliceView, Box<Diagnostic>> {
        let problem = self.problem;
        for window in problem.windows_of(operand) {
            if !self.has_margin(window) {
                continue;
            }
            view = self.with_margin(operand, window, &view)?;
        }
        Ok(view)
    }

    fn with_margin(
        &mut self,
        operand: Operand,
        window: &Window,
        view: &SliceView,
    ) -> Result<SliceView, Box<Diagnostic>> {
        let bits = self.bits(operand);
        let word_bits = self.setup.machine.dm.write_granule_bytes * 8;
        let outer = stored(view, window.axis);
        let others: Vec<AxisId> =
            self.problem.tensor(operand).iter().copied().filter(|axis| *axis != window.axis).collect();
        let inner: Vec<ViewDigit> = others.iter().flat_map(|axis| stored(view, *axis)).collect();
        let mut rows: Vec<FetchLoop> = inner.iter().map(row).collect();
        if rows.is_empty() {
            rows.push(FetchLoop::plain(1, 0, 1));
        }
        // Rows are whole words: the outermost of their loops runs on.
        let rest: u64 = rows.iter().skip(1).map(|row| row.size).product();
        if let Some(first) = rows.first_mut() {
            while !(first.size * rest * bits).is_multiple_of(word_bits) {
                first.size += 1;
            }
        }
        let row_elements: u64 = rows.iter().map(|row| row.size).product();
        let positions: u64 = outer.iter().map(|digit| digit.size).product();
        let margin_bytes = window.before.capped_mul(row_elements * bits / 8);
        let row_bytes = row_elements * bits / 8;
        let bytes = positions * row_bytes;
        // Slices that begin late may look past the end.
        let behind_bytes = self.positions_behind(window, window.before + positions).capped_mul(row_bytes);
        let base = self.room(bytes.capped_add(margin_bytes).capped_add(behind_bytes))?;
        self.fill_margin(operand, base, margin_bytes);
        self.fill_margin(operand, base + margin_bytes + bytes, behind_bytes);
        rows.splice(0..0, outer.iter().map(row));
        let name = format!("margin_{}", operand.name());
        let slices = self.live_slices();
        let dense = DenseCopy {
            name,
            operand,
            from: view,
            rows,
            dtype: self.stored(),
            over_slices: Vec::new(),
            slices,
        };
        self.copy_densely(dense, base + margin_bytes, bytes);
        let mut digits = Vec::new();
        let mut stride = 1;
        for digit in inner.iter().rev() {
            digits.push(ViewDigit { at: DigitStep::Offset(stride), ..*digit });
            stride *= digit.size;
        }
        let (base, size) = match self.spreads(window) {
            true => self.cut_out(operand, window, base, row_bytes)?,
            false => (base, window.before + positions),
        };
        digits.push(ViewDigit { axis: window.axis, weight: 1, size, at: DigitStep::Offset(row_elements) });
        digits.extend(view.digits.iter().filter(|digit| matches!(digit.at, DigitStep::Slice(_))));
        Ok(SliceView { base, digits }.sliding(self.problem, operand))
    }

    /// What a zero is before the zero point is taken off.
    fn fill_margin(&mut self, operand: Operand, base: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let zero = self.zero_point(operand).map_or(0, |zero| u64::from(int_pattern(self.stored(), zero)));
        let byte = if self.stored() == Dtype::I4 { zero & 0xF | (zero & 0xF) << 4 } else { zero & 0xFF };
        let word = u64::from_le_bytes([byte.to_le_bytes()[0]; 8]);
        let slices = self.live_slices();
        self.fill(format!("zero_{}_{base}", operand.name()), base, bytes, word, slices);
    }

    /// Writes a word over and over, on the sub context.
    pub(super) fn fill(&mut self, name: String, base: u64, bytes: u64, word: u64, slices: Vec<(u64, u64)>) {
        let setup = self.setup;
        let part = whole_part(bytes, setup.machine.network.flit_bytes);
        let loops = [SequencerLoop::of(bytes / part, part)];
        let mut commit = commands::commit(setup, Memory::Dm, base, &loops, part, slices);
        commit.width = setup.machine.commit.sub_width_bytes;
        let (context, pes, span) = (Context::Sub, setup.fused_pes, Span::default());
        let body = ExecBody::Fill(Fill { word, commit });
        self.execs.push(Exec { name, context, pes, body, span });
    }
}

/// Digits of a stored axis within a slice, most significant first.
fn stored(view: &SliceView, axis: AxisId) -> Vec<ViewDigit> {
    let mut digits: Vec<ViewDigit> = view
        .digits
        .iter()
        .copied()
        .filter(|digit| digit.axis == axis && matches!(digit.at, DigitStep::Offset(_)))
        .collect();
    digits.sort_by_key(|digit| std::cmp::Reverse(digit.weight));
    digits
}

fn row(digit: &ViewDigit) -> FetchLoop {
    let (DigitStep::Offset(stride) | DigitStep::Slice(stride)) = digit.at;
    FetchLoop::plain(digit.size, stride, digit.size)
}
