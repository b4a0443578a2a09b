//! Slices of any type to f32.
//!
//! The magnitude bits moved to the f32 mantissa are the value short of a factor `2^(127 - bias)`, also for
//! subnormals; one exact multiplication supplies it.

use super::assert_sizes;
use crate::minifloat::{F32_BIAS, F32_INFINITY, F32_MIN_NORMAL, F32_QUIET_NAN};
use crate::{Dtype, MiniFloat, RuleSet, Subnormals, decode};

/// Reads `out.len()` elements as f32, each as [`decode`] does.
///
/// # Panics
/// If `bytes` has not the size of `out.len()` elements.
pub fn decode_slice(rules: &RuleSet, dtype: Dtype, bytes: &[u8], out: &mut [f32]) {
    assert_sizes(dtype, out.len(), bytes.len());
    let Some(format) = MiniFloat::of(dtype) else {
        return decode_ints(rules, dtype, bytes, out);
    };
    let lane = Decoder::new(rules, format);
    match dtype.storage_bits() {
        4 => decode_nibbles(&lane, bytes, out),
        8 => {
            for (value, &byte) in out.iter_mut().zip(bytes) {
                *value = lane.decode(u32::from(byte));
            }
        }
        16 => {
            for (value, word) in out.iter_mut().zip(bytes.as_chunks().0) {
                *value = lane.decode(u32::from(u16::from_le_bytes(*word)));
            }
        }
        _ => {
            for (value, word) in out.iter_mut().zip(bytes.as_chunks().0) {
                *value = lane.decode(u32::from_le_bytes(*word));
            }
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

/// The constants of one format under one rule set.
struct Decoder {
    padding_bits: u32,
    sign_shift: u32,
    mantissa_shift: u32,
    scale: f32,
    max_finite: u32,
    /// Above every magnitude where there is no infinity.
    infinity: u32,
    nan_sign: u32,
    /// f32 magnitudes below this are flushed.
    flush_below: u32,
}

impl Decoder {
    fn new(rules: &RuleSet, format: MiniFloat) -> Self {
        let flush = matches!(rules.f32_subnormals, Subnormals::Flush);
        Self {
            padding_bits: format.padding_bits,
            sign_shift: format.sign_shift(),
            mantissa_shift: 23 - format.mantissa_bits,
            scale: f32::from_bits((2 * F32_BIAS - format.bias).unsigned_abs() << 23),
            max_finite: format.max_finite(),
            infinity: format.infinity().unwrap_or(u32::MAX),
            nan_sign: rules.nan_sign_mask(),
            flush_below: if flush { F32_MIN_NORMAL } else { 0 },
        }
    }

    #[inline(always)]
    fn decode(&self, word: u32) -> f32 {
        let pattern = word >> self.padding_bits;
        let sign = (pattern >> self.sign_shift) << 31;
        let magnitude = pattern & ((1 << self.sign_shift) - 1);
        let finite = (f32::from_bits(magnitude << self.mantissa_shift) * self.scale).to_bits();
        let flushed = if finite < self.flush_below { 0 } else { finite };
        let special = if magnitude == self.infinity { F32_INFINITY } else { F32_QUIET_NAN };
        let is_finite = magnitude <= self.max_finite;
        let is_nan = !is_finite & (magnitude != self.infinity);
        let sign = if is_nan { sign & self.nan_sign } else { sign };
        f32::from_bits(sign | if is_finite { flushed } else { special })
    }
}
