//! Projections, combinations and logits.

use super::arith::{UNIT, add, as_whole, bf16, in_order, mul, to_i8, tree, whole};
use tilewright_base::invariant::to_index;
use tilewright_num::Dtype;

use super::{KernelState, ReferenceModel, ShardedRow};
use crate::kernel::WeightMatrix;
use crate::tcp::sizes::Packets;

/// What a contraction takes of a row: numbers, or integers and what a unit is worth.
#[derive(Clone, Debug)]
pub(super) enum ContractionInput {
    /// bf16.
    Floats(Vec<f32>),
    /// i8, in units of a 127th of this.
    Integers(Vec<i32>, f32),
}

impl ContractionInput {
    /// A row in units of a absolute maximum that is known.
    pub(super) fn known(row: &[f32], peak: f32) -> ContractionInput {
        ContractionInput::Integers(row.iter().map(|value| to_i8(mul(*value, UNIT / peak))).collect(), peak)
    }

    /// A row in units of the absolute maximum of what counts.
    pub(super) fn quantised(row: &[f32], counts: impl Fn(u64) -> bool) -> ContractionInput {
        let counted = (0..).zip(row).filter(|(at, _)| counts(*at));
        let peak = counted.fold(0.0_f32, |peak, (_, value)| peak.max(value.abs()));
        let integer = |value: &f32| to_i8(super::arith::div(mul(*value, UNIT), peak));
        ContractionInput::Integers(row.iter().map(integer).collect(), peak)
    }
}

/// The absolute maximum of a weight's row is the largest integer.
fn unit_of(row: &[f32], qmax: f32) -> f32 {
    row.iter().fold(0.0_f32, |most, weight| most.max(weight.abs())) / qmax
}

#[expect(clippy::cast_possible_truncation, reason = "within the numbers of i8")]
fn quantised(weight: f32, unit: f32, qmax: f32) -> i32 {
    if unit > 0.0 { (weight / unit).round().clamp(-qmax, qmax) as i32 } else { 0 }
}

/// A sum of products of bf16: trees of packets, one after the other from zero.
pub(super) fn dot(a: &[f32], b: impl Fn(usize) -> f32, packets: Packets) -> f32 {
    let each = to_index(packets.elements).max(1);
    let mut sum = 0.0;
    for (packet, values) in a.chunks(each).enumerate() {
        let mut products: Vec<f32> =
            values.iter().enumerate().map(|(at, a)| mul(*a, b(packet * each + at))).collect();
        products.resize(each, 0.0);
        sum = add(sum, tree(products));
    }
    sum
}

impl ReferenceModel<'_> {
    /// The row of a weight that comes to a place, in the order of the contracted axis.
    fn row(&self, weight: &WeightMatrix, pe: u64, place: u64) -> Option<(u64, Vec<f32>)> {
        let matrix = self.constant(&weight.name);
        let source = weight.rows.source(pe, place)?;
        let column = |at: u64| weight.columns.source(pe, at).map_or(0.0, |at| matrix.at(source, at));
        Some((source, (0..weight.columns.stored()).map(column).collect()))
    }

    /// What a unit of a row of a weight is worth, all columns taken together.
    fn unit(&self, weight: &WeightMatrix, row: u64) -> f32 {
        let Some(qmax) = self.qmax() else { return 1.0 };
        let matrix = self.constant(&weight.name);
        let all: Vec<f32> = (0..matrix.columns).map(|column| matrix.at(row, column)).collect();
        unit_of(&all, qmax)
    }

    /// Integers: exact, then what units are worth.
    fn exact(&self, a: &[i32], peak: f32, weight: &WeightMatrix, row: u64, elements: &[f32]) -> f32 {
        let (unit, qmax) = (self.unit(weight, row), self.qmax().unwrap_or(UNIT));
        let products = a.iter().zip(elements).map(|(a, b)| a.wrapping_mul(quantised(*b, unit, qmax)));
        let sum = products.fold(0, i32::wrapping_add);
        mul(mul(whole(sum), unit / UNIT), peak)
    }

    /// The largest integer of weights, if they are integers.
    fn qmax(&self) -> Option<f32> {
        match self.plan.options.weights(self.plan.options.dtype) {
            Dtype::I4 => Some(7.0),
            Dtype::I8 => Some(UNIT),
            _ => None,
        }
    }

    /// A row of a weight as floats meet it, and what a sum of products is multiplied by: integers are floats
    /// too.
    fn as_floats(&self, weight: &WeightMatrix, row: u64, elements: Vec<f32>) -> (Vec<f32>, Option<f32>) {
        let Some(qmax) = self.qmax() else {
            return (elements.into_iter().map(bf16).collect(), None);
        };
        let unit = self.unit(weight, row);
        let integers = elements.into_iter().map(|element| whole(quantised(element, unit, qmax)));
        (integers.collect(), Some(unit))
    }

    /// Features times a row of a weight: by slice, then between slices.
    fn by_features(
        &self,
        taken: &ContractionInput,
        kernel: usize,
        weight: &WeightMatrix,
        pe: u64,
        place: u64,
    ) -> f32 {
        let Some((row, elements)) = self.row(weight, pe, place) else { return 0.0 };
        let sum = match taken {
            ContractionInput::Integers(values, peak) => self.exact(values, *peak, weight, row, &elements),
            ContractionInput::Floats(values) => {
                let (elements, unit) = self.as_floats(weight, row, elements);
                let share = to_index(self.plan.features.share).max(1);
                let packets = self.packets(kernel);
                let sum = in_order(values.chunks(share).enumerate().map(|(slice, values)| {
                    let at = |index: usize| elements.get(slice * share + index).copied().unwrap_or(0.0);
                    dot(values, at, packets)
                }));
                unit.map_or(sum, |unit| mul(sum, unit))
            }
        };
        match &weight.bias {
            Some(bias) => add(sum, self.constant(bias).at(0, row)),
            None => sum,
        }
    }

    fn packets(&self, kernel: usize) -> Packets {
        let packed = self.plan.packed(kernel);
        packed.map_or(Packets { flits: 1, elements: 1, count: 1 }, |packed| packed.packets)
    }

    pub(super) fn project(&self, state: &mut KernelState, kernel: usize, parts: &[WeightMatrix]) {
        let of = |taken: &ContractionInput, pe: u64| -> ShardedRow {
            let place = |weight: &WeightMatrix, place: u64| {
                let value = self.by_features(taken, kernel, weight, pe, place);
                if self.eight() { bf16(value) } else { value }
            };
            parts
                .iter()
                .map(|weight| (0..weight.rows.stored()).map(|at| place(weight, at)).collect())
                .collect()
        };
        state.rows =
            (0..self.all_pes()).map(|pe| state.normal.iter().map(|taken| of(taken, pe)).collect()).collect();
    }

    pub(super) fn head(&self, state: &KernelState, kernel: usize, weight: &WeightMatrix) -> Vec<f32> {
        let Some(last) = state.normal.last() else { return Vec::new() };
        let mut logits = vec![0.0; to_index(weight.rows.size)];
        for pe in 0..self.all_pes() {
            for place in 0..weight.rows.stored() {
                let source = weight.rows.source(pe, place).and_then(|row| usize::try_from(row).ok());
                if let Some(logit) = source.and_then(|row| logits.get_mut(row)) {
                    *logit = self.by_features(last, kernel, weight, pe, place);
                }
            }
        }
        logits
    }

    pub(super) fn combine(&self, state: &mut KernelState, kernel: usize, weight: &WeightMatrix) {
        let packets = self.packets(kernel);
        let dtype = self.plan.packed(kernel).map_or(self.plan.options.dtype, |packed| packed.dtype);
        let peak = self.kernels.peak_into(kernel);
        let bias = weight.bias.as_ref().map(|bias| self.constant(bias));
        for (token, x) in state.x.iter_mut().enumerate() {
            let rows: Vec<ContractionInput> = (0..)
                .zip(&state.ready)
                .map(|(pe, rows)| {
                    // What no weight takes does not say how great a row is.
                    ReferenceModel::taken((dtype, peak), rows.get(token).map_or(&[], Vec::as_slice), |at| {
                        weight.columns.source(pe, at).is_some()
                    })
                })
                .collect();
            for (column, x) in (0..).zip(x.iter_mut()) {
                // What is sent is short for prompts.
                let sent = |sum: f32| if self.pes() > 1 && !state.one { bf16(sum) } else { sum };
                let part =
                    |(pe, row): (u64, &ContractionInput)| sent(self.by_row(row, weight, pe, column, packets));
                let parts: Vec<f32> = (0..).zip(&rows).map(part).collect();
                let of_chip = to_index(self.pes()).max(1);
                let chips = parts.chunks(of_chip).map(|parts| in_order(parts.iter().copied()));
                let sum = match self.plan.options.chips {
                    1 => in_order(chips),
                    _ => in_order(chips.map(sent)),
                };
                *x = add(*x, sum);
                if let Some(bias) = bias {
                    *x = add(*x, bias.at(0, column));
                }
            }
        }
    }

    fn taken(
        (dtype, peak): (Dtype, Option<f32>),
        row: &[f32],
        counts: impl Fn(u64) -> bool,
    ) -> ContractionInput {
        match (dtype, peak) {
            // With a scale that was found beforehand rows are integers already.
            (Dtype::I8, Some(peak)) => {
                ContractionInput::Integers(row.iter().copied().map(as_whole).collect(), peak)
            }
            (Dtype::I8, None) => ContractionInput::quantised(row, counts),
            _ => ContractionInput::Floats(row.to_vec()),
        }
    }

    fn by_row(
        &self,
        row: &ContractionInput,
        weight: &WeightMatrix,
        pe: u64,
        column: u64,
        packets: Packets,
    ) -> f32 {
        let Some((source, elements)) = self.row(weight, pe, column) else { return 0.0 };
        match row {
            ContractionInput::Integers(values, peak) => self.exact(values, *peak, weight, source, &elements),
            ContractionInput::Floats(values) => {
                let (elements, unit) = self.as_floats(weight, source, elements);
                let sum = dot(values, |at| elements.get(at).copied().unwrap_or(0.0), packets);
                unit.map_or(sum, |unit| mul(sum, unit))
            }
        }
    }
}
