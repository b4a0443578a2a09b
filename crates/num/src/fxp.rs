//! Fixed-point operations of the TCP's vector engine on 32-bit words.
//!
//! Rules follow the vendor's public host model. Where that model is silent (the rounding right shift) or
//! depends on overflow of its own arithmetic (a saturating shift by 31), the mathematical reading is taken.

#![expect(clippy::cast_possible_truncation, reason = "results are clamped or proven to fit before the cast")]

/// Product of two Q31 fractions, ties towards plus infinity; `MIN * MIN`, which is 1, saturates.
#[inline]
#[must_use]
pub const fn mul_q31(a: i32, b: i32) -> i32 {
    if a == i32::MIN && b == i32::MIN {
        return i32::MAX;
    }
    let product = a as i64 * b as i64;
    (((product >> 30) + 1) >> 1) as i32
}

/// Saturating sum.
#[inline]
#[must_use]
pub const fn add_sat(a: i32, b: i32) -> i32 {
    a.saturating_add(b)
}

/// Saturating difference.
#[inline]
#[must_use]
pub const fn sub_sat(a: i32, b: i32) -> i32 {
    a.saturating_sub(b)
}

/// `a * 2^shift`, saturating. Assumption: so for every shift, 31 and above included.
#[inline]
#[must_use]
pub const fn shift_left_sat(a: i32, shift: u32) -> i32 {
    let places = if shift > 31 { 31 + (a != 0) as u32 } else { shift };
    let wide = (a as i64) << places;
    if wide > i32::MAX as i64 {
        i32::MAX
    } else if wide < i32::MIN as i64 {
        i32::MIN
    } else {
        wide as i32
    }
}

/// `a / 2^shift` to the nearest integer. Assumption: ties go towards plus infinity, as in [`mul_q31`], and
/// shifts above 31 follow the same arithmetic.
#[inline]
#[must_use]
pub const fn shift_right_round(a: i32, shift: u32) -> i32 {
    if shift == 0 {
        return a;
    }
    let places = if shift > 33 { 33 } else { shift };
    (((a as i64 >> (places - 1)) + 1) >> 1) as i32
}

/// A fixed-point word with `int_width` bits above the point (0 to 31) as f32: `a * 2^(int_width - 31)`,
/// nearest even.
#[inline]
#[must_use]
pub fn fxp_to_f32(a: i32, int_width: u32) -> f32 {
    a as f32 * power_of_two(int_width.cast_signed() - 31)
}

/// An f32 as a fixed-point word with `int_width` bits above the point (0 to 31): `a * 2^(31 - int_width)`,
/// ties away from zero, clamped; NaN is the largest word, or the least if its sign is set.
#[inline]
#[must_use]
pub fn f32_to_fxp(a: f32, int_width: u32) -> i32 {
    if a.is_nan() {
        return if a.is_sign_negative() { i32::MIN } else { i32::MAX };
    }
    // Exact in f64, half a step more or less too; the cast drops what is behind the point and clamps.
    let scaled = f64::from(a) * f64::from(power_of_two(31 - int_width.cast_signed()));
    (scaled + 0.5_f64.copysign(scaled)) as i32
}

/// `2^exponent` for exponents of normal f32 values.
#[inline]
const fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits((exponent + 127).cast_unsigned() << 23)
}
