//! Arithmetic of the chip's numbers, and the orders in which it adds.

use tilewright_base::invariant::OrBroken;
use tilewright_num::{
    Dtype, Function, RuleSet, add_f32, convert, div_f32, f32_to_fxp, fma_f32, fxp_to_f32, mul_f32, sub_f32,
};

const RULES: &RuleSet = &RuleSet::TCP;

/// Largest integer of eight bits.
pub(super) const UNIT: f32 = 127.0;

pub(super) fn add(a: f32, b: f32) -> f32 {
    add_f32(RULES, a, b)
}

pub(super) fn sub(a: f32, b: f32) -> f32 {
    sub_f32(RULES, a, b)
}

pub(super) fn mul(a: f32, b: f32) -> f32 {
    mul_f32(RULES, a, b)
}

pub(super) fn div(a: f32, b: f32) -> f32 {
    div_f32(RULES, a, b)
}

pub(super) fn fma(a: f32, b: f32, c: f32) -> f32 {
    fma_f32(RULES, a, b, c)
}

pub(super) fn function(which: Function, a: f32) -> f32 {
    which.apply(RULES, a)
}

/// Rounded to bf16.
pub(super) fn bf16(value: f32) -> f32 {
    let pattern =
        convert(RULES, Dtype::F32, Dtype::Bf16, value.to_bits()).or_broken("f32 is converted to bf16");
    f32::from_bits(pattern << 16)
}

/// The nearest whole number within those of i8.
pub(super) fn to_i8(value: f32) -> i32 {
    f32_to_fxp(value, 31).clamp(i8::MIN.into(), i8::MAX.into())
}

/// A whole number as a float.
pub(super) fn whole(value: i32) -> f32 {
    fxp_to_f32(value, 31)
}

/// A float that is a whole number.
pub(super) fn as_whole(value: f32) -> i32 {
    f32_to_fxp(value, 31)
}

/// Neighbours in pairs, level by level; missing ones are zero.
pub(super) fn tree(mut values: Vec<f32>) -> f32 {
    values.resize(values.len().next_power_of_two(), 0.0);
    while values.len() > 1 {
        values = values.chunks(2).map(|pair| add(pair[0], pair[1])).collect();
    }
    values.first().copied().unwrap_or(0.0)
}

/// One after the other, from the first on.
pub(super) fn in_order(values: impl IntoIterator<Item = f32>) -> f32 {
    values.into_iter().reduce(add).unwrap_or(0.0)
}

/// In fours: each four as a tree, then one four after the other; what is missing takes no part.
pub(super) fn in_fours(values: &[Option<f32>]) -> Option<f32> {
    let both = |a: Option<f32>, b: Option<f32>| match (a, b) {
        (Some(a), Some(b)) => Some(add(a, b)),
        (a, b) => a.or(b),
    };
    values.chunks(4).fold(None, |sum, four| {
        let at = |index: usize| four.get(index).copied().flatten();
        both(sum, both(both(at(0), at(1)), both(at(2), at(3))))
    })
}
