//! Norms of the residual, and the vector of all tokens.

use tilewright_base::invariant::to_index;
use tilewright_num::Function;

use super::arith::{UNIT, add, bf16, div, fma, function, in_fours, in_order, mul, sub, to_i8};
use super::contract::ContractionInput;
use super::{ReferenceModel, TokenRows};
use crate::weights::Matrix;

impl ReferenceModel<'_> {
    /// The sum of a token's columns: of each slice in fours, then of all slices.
    fn sum(&self, values: &[f32]) -> f32 {
        let share = to_index(self.plan.features.share).max(1);
        in_order(values.chunks(share).map(|own| {
            let own: Vec<Option<f32>> = own.iter().copied().map(Some).collect();
            in_fours(&own).unwrap_or(0.0)
        }))
    }

    #[expect(clippy::cast_precision_loss, reason = "widths are far below 2^24")]
    fn inverse_width(&self) -> f32 {
        1.0 / self.plan.features.width as f32
    }

    /// The root of the mean square.
    fn root(&self, values: &[f32], epsilon: f32) -> f32 {
        let squares: Vec<f32> = values.iter().map(|value| mul(*value, *value)).collect();
        function(Function::Sqrt, fma(self.sum(&squares), self.inverse_width(), epsilon))
    }

    pub(super) fn rms(&self, x: &[f32], gain: &Matrix, epsilon: f32, known: Option<f32>) -> ContractionInput {
        let root = self.root(x, epsilon);
        let scaled = (0..).zip(x).map(|(column, x)| mul(*x, gain.at(0, column)));
        if !self.integers() {
            return ContractionInput::Floats(scaled.map(|value| bf16(div(value, root))).collect());
        }
        if let Some(peak) = known {
            let integer = |value: f32| to_i8(div(mul(value, UNIT / peak), root));
            return ContractionInput::Integers(scaled.map(integer).collect(), peak);
        }
        let scaled: Vec<f32> = scaled.collect();
        let magnitudes = (0..).zip(x).map(|(column, x)| mul(x.abs(), gain.at(0, column).abs()));
        let peak = magnitudes.fold(0.0_f32, f32::max);
        let integer = |value: &f32| to_i8(div(mul(*value, UNIT), peak));
        ContractionInput::Integers(scaled.iter().map(integer).collect(), div(peak, root))
    }

    /// In full, and as contractions take it.
    pub(super) fn layer(
        &self,
        x: &[f32],
        gain: &Matrix,
        bias: Option<&Matrix>,
        (epsilon, known): (f32, Option<f32>),
    ) -> (Vec<f32>, ContractionInput) {
        let mean = mul(self.sum(x), self.inverse_width());
        let centred: Vec<f32> = x.iter().map(|x| sub(*x, mean)).collect();
        let root = self.root(&centred, epsilon);
        let scaled = (0..).zip(&centred).map(|(column, value)| {
            let value = div(mul(*value, gain.at(0, column)), root);
            bias.map_or(value, |bias| add(value, bias.at(0, column)))
        });
        let kept: Vec<f32> = scaled.collect();
        let taken = match (self.integers(), known) {
            (true, Some(peak)) => ContractionInput::known(&kept, peak),
            (true, None) => ContractionInput::quantised(&kept, |_| true),
            _ => ContractionInput::Floats(kept.iter().copied().map(bf16).collect()),
        };
        (kept, taken)
    }

    /// Tokens are summed from the newest on, those of each processing element first; then the sum is scaled
    /// to length 1.
    pub(super) fn pool(&self, x: &TokenRows) -> Vec<f32> {
        let own = (self.machine.pe.slices / self.pes()).max(1);
        let column = |at: usize| {
            let parts = (0..self.pes()).map(|pe| {
                let places = (0_u64..).zip(x.iter().rev());
                let own = places.filter(|(place, _)| place % self.machine.pe.slices / own == pe);
                in_order(own.map(|(_, row)| row.get(at).copied().unwrap_or(0.0)))
            });
            in_order(parts)
        };
        let width = to_index(self.plan.features.width);
        let sums: Vec<f32> = (0..width).map(column).collect();
        let squares: Vec<f32> = sums.iter().map(|value| mul(*value, *value)).collect();
        let length = function(Function::Sqrt, self.sum(&squares)).max(f32::MIN_POSITIVE);
        sums.iter().map(|value| div(*value, length)).collect()
    }
}
