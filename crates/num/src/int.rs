//! Integers: patterns and values, narrowing, and the subtraction of a zero point.
//!
//! The TCP's fetch adapter subtracts a zero point while it widens i4 to i5 and i8 to i9 (a later generation
//! adds i4 and i16 to i9); its cast engine narrows i32 by dropping high bits.

#![expect(clippy::cast_possible_truncation, reason = "patterns are the low bits of values")]

use crate::{Dtype, IntNarrowing, NumError, RuleSet};

/// The value of an integer pattern; bits above the type's width are ignored. Zero for floats.
#[inline]
#[must_use]
pub const fn int_value(dtype: Dtype, pattern: u32) -> i64 {
    let unused = 32 - dtype.bits();
    match dtype.int_range() {
        Some((least, _)) if least < 0 => ((pattern << unused).cast_signed() >> unused) as i64,
        Some(_) => ((pattern << unused) >> unused) as i64,
        None => 0,
    }
}

/// The pattern of an integer, its low bits; the bits above the type's width are zero.
#[inline]
#[must_use]
pub const fn int_pattern(dtype: Dtype, value: i64) -> u32 {
    (value.cast_unsigned() as u32) & (u32::MAX >> (32 - dtype.bits()))
}

/// The value an integer takes in `to`: wrapped or saturated as the rule set says.
///
/// # Errors
/// Under wrapping, a value outside i5 or i9; and any float `to`.
pub fn narrow_int(rules: &RuleSet, to: Dtype, value: i64) -> Result<i64, NumError> {
    let (least, largest) = to.int_range().ok_or(NumError::NotInteger { dtype: to })?;
    match rules.int_narrowing {
        IntNarrowing::Saturate => Ok(value.clamp(least, largest)),
        IntNarrowing::Wrap if matches!(to, Dtype::I5 | Dtype::I9) => check_range(to, value),
        IntNarrowing::Wrap => Ok(int_value(to, int_pattern(to, value))),
    }
}

/// `value - zero_point` for an element of type `from`, as type `to`.
///
/// # Errors
/// A pair of types without this step, a zero point or a value outside `from`, a difference outside `to`
/// (possible only from i16).
pub fn subtract_zero_point(from: Dtype, to: Dtype, value: i32, zero_point: i32) -> Result<i32, NumError> {
    use Dtype::{I4, I5, I8, I9, I16};
    if !matches!((from, to), (I4, I5 | I9) | (I8 | I16, I9)) {
        return Err(NumError::NoZeroPoint { from, to });
    }
    if check_range(from, i64::from(zero_point)).is_err() {
        return Err(NumError::ZeroPointOutOfRange { zero_point, from });
    }
    check_range(from, i64::from(value))?;
    let difference = value - zero_point;
    check_range(to, i64::from(difference)).map(|_| difference)
}

fn check_range(dtype: Dtype, value: i64) -> Result<i64, NumError> {
    match dtype.int_range() {
        Some((least, largest)) if (least..=largest).contains(&value) => Ok(value),
        _ => Err(NumError::OutOfRange { value, dtype }),
    }
}
