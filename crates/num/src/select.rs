//! Choosing between operands: the clip unit's absmin and absmax and the commit unit's ReLU.
//!
//! Rules follow the vendor's public host model of the TCP. Float operands are settled first (subnormals, NaN
//! words), as every f32 that enters a unit is.

use crate::RuleSet;

/// The operand of smaller magnitude with its sign; the second on ties.
#[inline]
#[must_use]
pub const fn absmin_i32(a: i32, b: i32) -> i32 {
    if a.unsigned_abs() < b.unsigned_abs() { a } else { b }
}

/// The operand of larger magnitude with its sign; the second on ties.
#[inline]
#[must_use]
pub const fn absmax_i32(a: i32, b: i32) -> i32 {
    if a.unsigned_abs() > b.unsigned_abs() { a } else { b }
}

/// The operand of smaller magnitude with its sign; the second on ties and where either is NaN.
#[inline]
#[must_use]
pub fn absmin_f32(rules: &RuleSet, a: f32, b: f32) -> f32 {
    let (a, b) = (settle(rules, a), settle(rules, b));
    if a.abs() < b.abs() { a } else { b }
}

/// The operand of larger magnitude with its sign; the second on ties and where either is NaN.
#[inline]
#[must_use]
pub fn absmax_f32(rules: &RuleSet, a: f32, b: f32) -> f32 {
    let (a, b) = (settle(rules, a), settle(rules, b));
    if a.abs() > b.abs() { a } else { b }
}

/// The greater; plus zero is above minus zero, and NaN gives way to the other operand.
#[inline]
#[must_use]
pub fn max_f32(rules: &RuleSet, a: f32, b: f32) -> f32 {
    let (a, b) = (settle(rules, a), settle(rules, b));
    if b.is_nan() || a > b || (a == b && b.is_sign_negative()) { a } else { b }
}

/// The lesser; minus zero is below plus zero, and NaN gives way to the other operand.
#[inline]
#[must_use]
pub fn min_f32(rules: &RuleSet, a: f32, b: f32) -> f32 {
    let (a, b) = (settle(rules, a), settle(rules, b));
    if b.is_nan() || a < b || (a == b && a.is_sign_negative()) { a } else { b }
}

/// The ReLU fused into the commit unit's f32 to bf16 conversion: NaN first becomes the quiet word with a
/// clear sign, then any set sign gives plus zero.
#[inline]
#[must_use]
pub fn commit_relu(rules: &RuleSet, a: f32) -> f32 {
    let a = if a.is_nan() { f32::from_bits(crate::minifloat::F32_QUIET_NAN) } else { settle(rules, a) };
    if a.is_sign_negative() { 0.0 } else { a }
}

#[inline]
const fn settle(rules: &RuleSet, a: f32) -> f32 {
    f32::from_bits(rules.settle_f32(a.to_bits()))
}
