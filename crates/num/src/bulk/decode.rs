//! Slices of any type to f32.
//!
//! The magnitude bits moved to the f32 mantissa are the value short of a factor `2^(127 - bias)`, also for
//! subnormals; one exact multiplication supplies it.

use super::{assert_sizes, below};
use crate::minifloat::{F32_BIAS, F32_INFINITY, F32_QUIET_NAN};
use crate::{Dtype, MiniFloat, RuleSet, decode, widest};

/// Reads `out.len()` elements as f32, each as [`decode`] does.
///
/// # Panics
/// If `bytes` has not the size of `out.len()` elements.
pub fn decode_slice(rules: &RuleSet, dtype: Dtype, bytes: &[u8], out: &mut [f32]) {
    assert_sizes(dtype, out.len(), bytes.len());
    let Some(format) = MiniFloat::of(dtype) else {
        return decode_ints(rules, dtype, bytes, out);
    };
    if format.bias == F32_BIAS {
        return decode_f32_exponent(rules, dtype, bytes, out);
    }
    let lane = Decoder::new(rules, format);
    match dtype.storage_bits() {
        4 => decode_nibbles(&lane, bytes, out),
        8 => decode_bytes(&lane, bytes, out),
        _ => decode_halves(&lane, bytes, out),
    }
}

widest! {
    fn decode_bytes(lane: &Decoder, bytes: &[u8], out: &mut [f32]) {
        for (value, &byte) in out.iter_mut().zip(bytes) {
            *value = lane.decode(u32::from(byte));
        }
    }
}

widest! {
    fn decode_halves(lane: &Decoder, bytes: &[u8], out: &mut [f32]) {
        for (value, word) in out.iter_mut().zip(bytes.as_chunks().0) {
            *value = lane.decode(u32::from(u16::from_le_bytes(*word)));
        }
    }
}

widest! {
    /// Formats with the exponent of f32 are its upper bits, so they only need settling.
    fn decode_f32_exponent(rules: &RuleSet, dtype: Dtype, bytes: &[u8], out: &mut [f32]) {
        if dtype == Dtype::Bf16 {
            for (value, word) in out.iter_mut().zip(bytes.as_chunks().0) {
                let pattern = u32::from(u16::from_le_bytes(*word)) << 16;
                *value = f32::from_bits(rules.settle_f32(pattern));
            }
            return;
        }
        let used = if dtype == Dtype::Tf32 { u32::MAX << MiniFloat::TF32.padding_bits } else { u32::MAX };
        for (value, word) in out.iter_mut().zip(bytes.as_chunks().0) {
            *value = f32::from_bits(rules.settle_f32(u32::from_le_bytes(*word) & used));
        }
    }
}

fn decode_nibbles(lane: &Decoder, bytes: &[u8], out: &mut [f32]) {
    let (pairs, last) = out.as_chunks_mut::<2>();
    for (pair, &byte) in pairs.iter_mut().zip(bytes) {
        *pair = [lane.decode(u32::from(byte & 0xF)), lane.decode(u32::from(byte >> 4))];
    }
    if let ([value], Some(&byte)) = (last, bytes.last()) {
        *value = lane.decode(u32::from(byte & 0xF));
    }
}

fn decode_ints(rules: &RuleSet, dtype: Dtype, bytes: &[u8], out: &mut [f32]) {
    if dtype == Dtype::I8 {
        for (value, &byte) in out.iter_mut().zip(bytes) {
            *value = f32::from(byte.cast_signed());
        }
        return;
    }
    for (index, value) in out.iter_mut().enumerate() {
        *value = decode(rules, dtype, crate::load(dtype, bytes, index));
    }
}

/// The constants of one format under one rule set, for formats with fewer exponents than f32; their values
/// are never f32 subnormals, so nothing is flushed.
struct Decoder {
    sign_shift: u32,
    mantissa_shift: u32,
    scale: f32,
    max_finite: u32,
    /// Above every magnitude where there is no infinity.
    infinity: u32,
    nan_sign: u32,
}

impl Decoder {
    fn new(rules: &RuleSet, format: MiniFloat) -> Self {
        Self {
            sign_shift: format.sign_shift(),
            mantissa_shift: 23 - format.mantissa_bits,
            scale: f32::from_bits((2 * F32_BIAS - format.bias).unsigned_abs() << 23),
            max_finite: format.max_finite(),
            infinity: format.infinity().unwrap_or(u32::MAX),
            nan_sign: rules.nan_sign_mask(),
        }
    }

    #[inline(always)]
    fn decode(&self, pattern: u32) -> f32 {
        let sign = (pattern >> self.sign_shift) << 31;
        let magnitude = pattern & ((1 << self.sign_shift) - 1);
        let finite = (f32::from_bits(magnitude << self.mantissa_shift) * self.scale).to_bits();
        let special = if magnitude == self.infinity { F32_INFINITY } else { F32_QUIET_NAN };
        let is_finite = !below(self.max_finite, magnitude);
        let is_nan = !is_finite & (magnitude != self.infinity);
        let sign = if is_nan { sign & self.nan_sign } else { sign };
        f32::from_bits(sign | if is_finite { finite } else { special })
    }
}
