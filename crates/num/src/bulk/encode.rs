//! Slices of f32 to any type.
//!
//! A normal result is the f32 magnitude with half a step added and the low bits dropped, its exponent
//! rebiased. A subnormal result is the magnitude counted in least steps: adding 2^23 leaves the count,
//! rounded to nearest even by the addition itself, in the mantissa; a tie that went down shows as a rest of
//! exactly one half.

#![expect(clippy::cast_possible_truncation, reason = "words are stored in the format's own width")]

use super::{assert_sizes, below};
use crate::minifloat::{F32_BIAS, F32_INFINITY, F32_MAGNITUDE, F32_MIN_NORMAL};
use crate::{
    Dtype, FloatRule, MiniFloat, NumError, Rounding, RuleSet, SubnormalCarry, Subnormals, convert, store,
    widest,
};

/// Writes f32 values as elements of `dtype`, each as [`convert`] from f32 does. Where `dtype` is f32 too,
/// subnormals and NaN are settled rather than copied.
///
/// # Errors
/// Only a value outside i5 or i9 under wrapping rules; elements before it are written.
///
/// # Panics
/// If `bytes` has not the size of `values.len()` elements.
pub fn encode_slice(rules: &RuleSet, dtype: Dtype, values: &[f32], bytes: &mut [u8]) -> Result<(), NumError> {
    assert_sizes(dtype, values.len(), bytes.len());
    match rules.float_rule(dtype) {
        None => return encode_ints(rules, dtype, values, bytes),
        Some(_) if dtype == Dtype::F32 => settle_slice(rules, values, bytes),
        Some(rule) if rule == FloatRule::ieee(MiniFloat::BF16) => encode_bf16(rules, values, bytes),
        Some(rule) => encode_floats(&Encoder::new(rules, rule), dtype.storage_bits(), values, bytes),
    }
    Ok(())
}

widest! {
    fn settle_slice(rules: &RuleSet, values: &[f32], bytes: &mut [u8]) {
        for (word, value) in bytes.as_chunks_mut().0.iter_mut().zip(values) {
            *word = rules.settle_f32(value.to_bits()).to_le_bytes();
        }
    }
}

widest! {
    fn encode_floats(lane: &Encoder, storage_bits: u32, values: &[f32], bytes: &mut [u8]) {
        match storage_bits {
            4 => encode_nibbles(lane, values, bytes),
            8 => {
                for (byte, value) in bytes.iter_mut().zip(values) {
                    *byte = lane.encode(value.to_bits()) as u8;
                }
            }
            16 => {
                for (word, value) in bytes.as_chunks_mut().0.iter_mut().zip(values) {
                    *word = (lane.encode(value.to_bits()) as u16).to_le_bytes();
                }
            }
            _ => {
                for (word, value) in bytes.as_chunks_mut().0.iter_mut().zip(values) {
                    *word = lane.encode(value.to_bits()).to_le_bytes();
                }
            }
        }
    }
}

widest! {
    /// The short way for the commonest conversion: once settled, rounding the upper half is all there is to
    /// do, since a carry makes the next exponent or infinity and the NaN word has nothing to round.
    fn encode_bf16(rules: &RuleSet, values: &[f32], bytes: &mut [u8]) {
        for (word, value) in bytes.as_chunks_mut().0.iter_mut().zip(values) {
            let pattern = rules.settle_f32(value.to_bits());
            let odd = (pattern >> 16) & 1;
            *word = (((pattern + 0x7FFF + odd) >> 16) as u16).to_le_bytes();
        }
    }
}

fn encode_nibbles(lane: &Encoder, values: &[f32], bytes: &mut [u8]) {
    let (pairs, last) = values.as_chunks::<2>();
    for (byte, [low, high]) in bytes.iter_mut().zip(pairs) {
        *byte = (lane.encode(low.to_bits()) | (lane.encode(high.to_bits()) << 4)) as u8;
    }
    if let ([value], Some(byte)) = (last, bytes.last_mut()) {
        *byte = lane.encode(value.to_bits()) as u8;
    }
}

fn encode_ints(rules: &RuleSet, dtype: Dtype, values: &[f32], bytes: &mut [u8]) -> Result<(), NumError> {
    bytes.fill(0);
    for (index, value) in values.iter().enumerate() {
        store(dtype, bytes, index, convert(rules, Dtype::F32, dtype, value.to_bits())?);
    }
    Ok(())
}

/// The constants of one format under one rule set.
struct Encoder {
    padding_bits: u32,
    sign_shift: u32,
    mantissa_shift: u32,
    /// Half a step of the result's mantissa, less one where ties go to even.
    below_half: u32,
    /// One where ties go to even.
    even: u32,
    rebias: u32,
    /// f32 magnitude of the least normal value.
    min_normal: u32,
    /// Least steps in one; 1 where the exponent is that of f32 and steps need no counting.
    steps_per_one: f32,
    counts_steps: bool,
    max_subnormal: u32,
    max_finite: u32,
    overflow: u32,
    nan: u32,
    nan_sign: u32,
    flush_below: u32,
}

impl Encoder {
    fn new(rules: &RuleSet, rule: FloatRule) -> Self {
        let format = rule.format;
        let even = u32::from(rule.rounding == Rounding::NearestEven);
        let mantissa_shift = 23 - format.mantissa_bits;
        let one = 1 << format.mantissa_bits;
        Self {
            padding_bits: format.padding_bits,
            sign_shift: format.sign_shift(),
            mantissa_shift,
            below_half: (1 << (mantissa_shift - 1)) - even,
            even,
            rebias: (F32_BIAS - format.bias).unsigned_abs() << format.mantissa_bits,
            min_normal: (format.min_exponent() + F32_BIAS).unsigned_abs() << 23,
            steps_per_one: steps_per_one(format),
            counts_steps: format.bias != F32_BIAS,
            max_subnormal: if rule.subnormal_carry == SubnormalCarry::Clamp { one - 1 } else { one },
            max_finite: format.max_finite(),
            overflow: rule.overflow_magnitude(),
            nan: rule.nan_magnitude(),
            nan_sign: rules.nan_sign_mask(),
            flush_below: if rules.f32_subnormals == Subnormals::Flush { F32_MIN_NORMAL } else { 0 },
        }
    }

    #[inline(always)]
    fn encode(&self, pattern: u32) -> u32 {
        let sign = pattern >> 31;
        let whole = pattern & F32_MAGNITUDE;
        let magnitude = if below(whole, self.flush_below) { 0 } else { whole };
        let odd = (magnitude >> self.mantissa_shift) & self.even;
        let rounded = (magnitude.wrapping_add(self.below_half).wrapping_add(odd)) >> self.mantissa_shift;
        let normal = rounded.wrapping_sub(self.rebias);
        let steps = if self.counts_steps { self.count_steps(magnitude) } else { normal };
        let subnormal = if below(self.max_subnormal, steps) { self.max_subnormal } else { steps };
        let finite = if below(magnitude, self.min_normal) { subnormal } else { normal };
        let bounded = if below(self.max_finite, finite) { self.overflow } else { finite };
        let is_nan = below(F32_INFINITY, magnitude);
        let encoded = if is_nan { self.nan } else { bounded };
        let sign = if is_nan { sign & self.nan_sign } else { sign };
        ((sign << self.sign_shift) | encoded) << self.padding_bits
    }

    /// The magnitude in least steps of the format, rounded; meaningful below 2^22 steps.
    #[inline(always)]
    fn count_steps(&self, magnitude: u32) -> u32 {
        let steps = f32::from_bits(magnitude) * self.steps_per_one;
        let shifted = steps + TWO_TO_23;
        let rest = steps - (shifted - TWO_TO_23);
        let tie_went_down = u32::from(rest == 0.5) & (1 - self.even);
        (shifted.to_bits() & 0x007F_FFFF) + tie_went_down
    }
}

/// From here on every f32 is an integer.
const TWO_TO_23: f32 = 8_388_608.0;

fn steps_per_one(format: MiniFloat) -> f32 {
    let exponent = format.mantissa_bits.cast_signed() - format.min_exponent();
    if format.bias == F32_BIAS { 1.0 } else { f32::from_bits((exponent + F32_BIAS).unsigned_abs() << 23) }
}
