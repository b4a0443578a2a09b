//! From one f32 to the word of a narrower format, step by step in integers.
//!
//! This is the definition; [`bulk`](crate::encode_slice) computes the same without branches.

use crate::minifloat::{F32_BIAS, F32_INFINITY, F32_MAGNITUDE};
use crate::{FloatRule, Rounding, RuleSet, SubnormalCarry};

/// The stored word of an f32 pattern in the format of `rule`.
#[must_use]
pub fn encode(rules: &RuleSet, rule: FloatRule, f32_pattern: u32) -> u32 {
    let pattern = rules.settle_f32(f32_pattern);
    let sign = pattern >> 31;
    let magnitude = pattern & F32_MAGNITUDE;
    let (sign, encoded) = if magnitude > F32_INFINITY {
        (sign & rules.nan_sign_mask(), rule.nan_magnitude())
    } else if magnitude == F32_INFINITY {
        (sign, rule.overflow_magnitude())
    } else {
        (sign, encode_finite(rule, magnitude))
    };
    ((sign << rule.format.sign_shift()) | encoded) << rule.format.padding_bits
}

fn encode_finite(rule: FloatRule, magnitude: u32) -> u32 {
    if magnitude == 0 {
        return 0;
    }
    let format = rule.format;
    let (significand, exponent) = split(magnitude);
    let leading_exponent = significand.ilog2().cast_signed() + exponent;
    let is_normal = leading_exponent >= format.min_exponent();
    let quantum_exponent = leading_exponent.max(format.min_exponent()) - format.mantissa_bits.cast_signed();
    let steps = round_shift(significand, quantum_exponent - exponent, rule.rounding);
    let one = 1_u32 << format.mantissa_bits;
    let encoded = if is_normal {
        // A carry out of the mantissa runs into the exponent field, which is what it should do.
        ((leading_exponent + format.bias).unsigned_abs() << format.mantissa_bits) + (steps - one)
    } else {
        match rule.subnormal_carry {
            SubnormalCarry::ToNormal => steps,
            SubnormalCarry::Clamp => steps.min(one - 1),
        }
    };
    if encoded > format.max_finite() { rule.overflow_magnitude() } else { encoded }
}

/// Significand and exponent of a finite f32 magnitude: its value is `significand * 2^exponent`.
const fn split(magnitude: u32) -> (u32, i32) {
    let field = magnitude >> 23;
    let fraction = magnitude & 0x007F_FFFF;
    if field == 0 {
        (fraction, 1 - F32_BIAS - 23)
    } else {
        (fraction | 0x0080_0000, field.cast_signed() - F32_BIAS - 23)
    }
}

/// `significand / 2^shift` rounded to an integer. No format is finer than f32, so the shift is not negative.
fn round_shift(significand: u32, shift: i32, rounding: Rounding) -> u32 {
    // 25 places put the significand below one half already.
    let shift = shift.clamp(0, 25);
    if shift == 0 {
        return significand;
    }
    let kept = significand >> shift;
    let dropped = significand & ((1 << shift) - 1);
    let half = 1_u32 << (shift - 1);
    let up = match rounding {
        Rounding::NearestEven => dropped > half || (dropped == half && kept & 1 == 1),
        Rounding::NearestAway => dropped >= half,
    };
    kept + u32::from(up)
}
