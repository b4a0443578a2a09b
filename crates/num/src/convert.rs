//! The one entry for converting a single element between any two types.
//!
//! Floats meet in f32, integers in i64; an integer goes to a float through f32, so a large one may round
//! twice. A conversion to the same type is a move and changes nothing, not even a subnormal or a NaN.

#![expect(clippy::cast_possible_truncation, reason = "floats are clamped to the range before the cast")]

use crate::encode::encode;
use crate::fxp::f32_to_fxp;
use crate::int::{int_pattern, int_value, narrow_int};
use crate::{Dtype, FloatToInt, MiniFloat, NumError, RuleSet};

/// The pattern of type `to` for a pattern of type `from`. Patterns sit in the low bits; bits of `pattern`
/// above the width of `from` are ignored.
///
/// # Errors
/// Only an integer outside i5 or i9 under wrapping rules.
pub fn convert(rules: &RuleSet, from: Dtype, to: Dtype, pattern: u32) -> Result<u32, NumError> {
    if from == to {
        return Ok(pattern);
    }
    match (from.is_float(), rules.float_rule(to)) {
        (_, Some(rule)) => Ok(encode(rules, rule, decode(rules, from, pattern).to_bits())),
        // An f32 that is NaN still has its own sign here, which decides in some rule sets.
        (true, None) if from == Dtype::F32 => float_to_int(rules, to, f32::from_bits(pattern)),
        (true, None) => float_to_int(rules, to, decode(rules, from, pattern)),
        (false, None) => narrow_int(rules, to, int_value(from, pattern)).map(|value| int_pattern(to, value)),
    }
}

/// The f32 value of a pattern as the chip reads it. Exact for floats, nearest even for large integers.
#[must_use]
pub fn decode(rules: &RuleSet, from: Dtype, pattern: u32) -> f32 {
    match MiniFloat::of(from) {
        Some(format) => f32::from_bits(rules.settle_f32(format.decode(pattern))),
        None => int_value(from, pattern) as f32,
    }
}

fn float_to_int(rules: &RuleSet, to: Dtype, value: f32) -> Result<u32, NumError> {
    let integer = match rules.float_to_int {
        // The cast saturates to i64 and takes NaN to zero.
        FloatToInt::NearestEvenSaturate => {
            let (least, largest) = to.int_range().ok_or(NumError::NotInteger { dtype: to })?;
            (value.round_ties_even() as i64).clamp(least, largest)
        }
        FloatToInt::NearestAwayThroughI32 => narrow_int(rules, to, i64::from(f32_to_fxp(value, 31)))?,
    };
    Ok(int_pattern(to, integer))
}
