//! f32 sums and products under a rule set, and the order in which a contraction adds.
//!
//! Operands are settled, the operation rounds to nearest even, the result is settled again. A result counts
//! as subnormal after rounding. NaN from arithmetic is always 0x7FC00000, because hosts differ in the sign
//! they give it. Rounding at every node of the tree is an assumption; its order is the TCP's packet reducer.

use crate::RuleSet;
use crate::functions::add_to_odd;
use crate::minifloat::F32_QUIET_NAN;

/// Sum of two f32, with the chip's rules for subnormals and NaN.
#[inline]
#[must_use]
pub fn add_f32(rules: &RuleSet, a: f32, b: f32) -> f32 {
    settle_result(rules, settle(rules, a) + settle(rules, b))
}

/// Product of two f32, with the chip's rules for subnormals and NaN.
#[inline]
#[must_use]
pub fn mul_f32(rules: &RuleSet, a: f32, b: f32) -> f32 {
    settle_result(rules, settle(rules, a) * settle(rules, b))
}

/// Difference of two f32, with the chip's rules for subnormals and NaN.
#[inline]
#[must_use]
pub fn sub_f32(rules: &RuleSet, a: f32, b: f32) -> f32 {
    settle_result(rules, settle(rules, a) - settle(rules, b))
}

/// Quotient.
#[inline]
#[must_use]
pub fn div_f32(rules: &RuleSet, a: f32, b: f32) -> f32 {
    settle_result(rules, settle(rules, a) / settle(rules, b))
}

/// `a * b + c` with one rounding (an assumption: the vendor's host model leaves it open).
///
/// The product is exact in f64, the sum is rounded to odd there, so that the rounding to f32 is the only one
/// that counts.
#[inline]
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is what is wanted")]
pub fn fma_f32(rules: &RuleSet, a: f32, b: f32, c: f32) -> f32 {
    let [a, b, c] = [a, b, c].map(|a| f64::from(settle(rules, a)));
    settle_result(rules, add_to_odd(a * b, c) as f32)
}

/// Reduces one packet with an adder tree: neighbours in pairs, level by level. A packet that is no power of
/// two is filled with +0, as inactive columns are. The slice is used as scratch; an empty one gives +0.
pub fn tree_add(rules: &RuleSet, packet: &mut [f32]) -> f32 {
    let mut width = packet.len();
    if width == 0 {
        return 0.0;
    }
    for _ in 0..packet.len().next_power_of_two().ilog2() {
        for pair in 0..width / 2 {
            packet[pair] = add_f32(rules, packet[2 * pair], packet[2 * pair + 1]);
        }
        if width % 2 == 1 {
            packet[width / 2] = add_f32(rules, packet[width - 1], 0.0);
        }
        width = width.div_ceil(2);
    }
    settle(rules, packet[0])
}

/// Adds to `start`, one after the other, the tree sums of consecutive packets of `packet_elements`.
///
/// # Panics
/// If `packet_elements` is zero.
#[must_use]
pub fn tree_sum(rules: &RuleSet, start: f32, values: &[f32], packet_elements: usize) -> f32 {
    let mut scratch = vec![0.0; packet_elements];
    values.chunks(packet_elements).fold(start, |sum, packet| {
        scratch[..packet.len()].copy_from_slice(packet);
        scratch[packet.len()..].fill(0.0);
        add_f32(rules, sum, tree_add(rules, &mut scratch))
    })
}

#[inline]
pub(crate) const fn settle(rules: &RuleSet, a: f32) -> f32 {
    f32::from_bits(rules.settle_f32(a.to_bits()))
}

#[inline]
pub(crate) fn settle_result(rules: &RuleSet, a: f32) -> f32 {
    if a.is_nan() { f32::from_bits(F32_QUIET_NAN) } else { settle(rules, a) }
}
