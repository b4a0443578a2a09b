//! A contraction by its definition, element by element: the reference of lowered programs.
//!
//! Integers are summed exactly and wrapped to 32 bits. Floats are summed in double precision, and may differ
//! by what single precision loses in any order of the sum.

use tilewright_base::invariant::{OrBroken, to_index};
use tilewright_machine::Tcp;
use tilewright_num::{Dtype, RuleSet, decode, int_value};
use tilewright_tcp_isa::program::tensor::Tensor;

use crate::ArrayError;
use crate::array::Array;
use crate::readings::{Reading, input};

/// Axis names with extents, and the elements.
#[derive(Clone, Copy, Debug)]
pub struct NamedArray<'a> {
    /// Names and extents, outermost first.
    pub axes: &'a [(String, u64)],
    /// Row-major elements.
    pub array: &'a Array,
}

/// What a comparison found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValueComparison {
    /// Results that were computed again.
    pub compared: u64,
    /// Results that there are.
    pub results: u64,
    /// Those that differ.
    pub different: u64,
}

/// Parts of a float sum's magnitude by which results may differ: single precision over many terms, in any
/// order.
const FLOAT_SLACK: f64 = 1e-5;

/// Computes results again, evenly spread over the output, with at most so many products.
pub fn compare(rules: &RuleSet, [in0, in1, out]: [NamedArray<'_>; 3], most_products: u64) -> ValueComparison {
    let summed: Vec<(&str, u64)> = in0
        .axes
        .iter()
        .filter(|(name, _)| !out.axes.iter().any(|(other, _)| other == name))
        .map(|(name, extent)| (name.as_str(), *extent))
        .collect();
    let terms = summed.iter().fold(1_u64, |all, (_, extent)| all.saturating_mul(*extent));
    let results = out.array.patterns.len() as u64;
    let compared = results.min((most_products / terms.max(1)).max(1));
    let mut comparison = ValueComparison { compared, results, different: 0 };
    for number in 0..compared {
        // Evenly spread, and at a different place within each part.
        let part = results / compared.max(1);
        let index = number * part + number.wrapping_mul(7919) % part.max(1);
        let sum = sum_at(rules, [in0, in1, out], &summed, terms, index);
        let at = to_index(index);
        let found = out.array.patterns.get(at).copied().or_broken("an array has all elements of its axes");
        comparison.different += u64::from(!sum.agrees(rules, out.array.dtype, found));
    }
    comparison
}

/// The same for a run of a program: its inputs as they are given, and the output that the run left; none
/// without them.
pub fn compare_run(
    machine: &Tcp,
    [in0, in1, out]: [&Tensor; 3],
    reading: &Reading,
    files: &mut dyn FnMut(&Tensor) -> Result<Array, ArrayError>,
    most_products: u64,
) -> Option<ValueComparison> {
    let a = input(machine, in0, files).ok()??;
    let b = input(machine, in1, files).ok()??;
    let (_, result) = reading.outputs.iter().find(|(name, _)| *name == out.name)?;
    let named = [
        NamedArray { axes: &in0.axes, array: &a },
        NamedArray { axes: &in1.axes, array: &b },
        NamedArray { axes: &out.axes, array: result },
    ];
    Some(compare(tilewright_tcp_exec::rules(machine), named, most_products))
}

/// A sum in both arithmetics.
struct ReferenceSum {
    whole: i64,
    real: f64,
    magnitude: f64,
}

impl ReferenceSum {
    fn agrees(&self, rules: &RuleSet, dtype: Dtype, pattern: u32) -> bool {
        if dtype.is_float() {
            let found = f64::from(decode(rules, dtype, pattern));
            (found - self.real).abs() <= FLOAT_SLACK * self.magnitude
        } else {
            #[expect(clippy::cast_possible_truncation, reason = "accumulators wrap")]
            let wrapped = i64::from(self.whole as i32);
            int_value(dtype, pattern) == wrapped
        }
    }
}

fn sum_at(
    rules: &RuleSet,
    [in0, in1, out]: [NamedArray<'_>; 3],
    summed: &[(&str, u64)],
    terms: u64,
    index: u64,
) -> ReferenceSum {
    let mut place: Vec<(&str, u64)> = Vec::with_capacity(out.axes.len() + summed.len());
    let mut rest = index;
    for (name, extent) in out.axes.iter().rev() {
        place.push((name.as_str(), rest % extent));
        rest /= extent;
    }
    let survivors = place.len();
    let mut sum = ReferenceSum { whole: 0, real: 0.0, magnitude: 0.0 };
    for term in 0..terms {
        place.truncate(survivors);
        let mut rest = term;
        for (name, extent) in summed.iter().rev() {
            place.push((name, rest % extent));
            rest /= extent;
        }
        let (a, b) = (element(in0, &place), element(in1, &place));
        if in0.array.dtype.is_float() {
            let value =
                f64::from(decode(rules, in0.array.dtype, a)) * f64::from(decode(rules, in1.array.dtype, b));
            sum.real += value;
            sum.magnitude += value.abs();
        } else {
            let product = int_value(in0.array.dtype, a).wrapping_mul(int_value(in1.array.dtype, b));
            sum.whole = sum.whole.wrapping_add(product);
        }
    }
    sum
}

fn element(tensor: NamedArray<'_>, place: &[(&str, u64)]) -> u32 {
    let mut index = 0_u64;
    for (name, extent) in tensor.axes {
        let at = place.iter().find(|(other, _)| other == name).map_or(0, |(_, at)| *at);
        index = index * extent + at;
    }
    tensor.array.patterns.get(to_index(index)).copied().or_broken("an array has all elements of its axes")
}
