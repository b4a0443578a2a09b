//! Numbers of about 106 bits as unevaluated sums of two f64 (Dekker 1971, Knuth), without fused operations.

use std::ops::{Add, Div, Mul, Neg, Sub};

/// `hi + lo`, where `hi` is the f64 nearest to the sum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct DoubleDouble {
    pub(super) hi: f64,
    pub(super) lo: f64,
}

/// Splits a mantissa of 53 bits into halves: 2^27 + 1.
const SPLIT: f64 = 134_217_729.0;

/// `a + b` exactly.
fn two_sum(a: f64, b: f64) -> DoubleDouble {
    let hi = a + b;
    let b_part = hi - a;
    DoubleDouble { hi, lo: (a - (hi - b_part)) + (b - b_part) }
}

/// `a + b` exactly, for `a` no smaller than `b`.
fn quick_two_sum(a: f64, b: f64) -> DoubleDouble {
    let hi = a + b;
    DoubleDouble { hi, lo: b - (hi - a) }
}

/// `a * b` exactly, for factors below 2^990.
fn two_product(a: f64, b: f64) -> DoubleDouble {
    let halves = |a: f64| {
        let scaled = SPLIT * a;
        let high = scaled - (scaled - a);
        (high, a - high)
    };
    let hi = a * b;
    let ((a_high, a_low), (b_high, b_low)) = (halves(a), halves(b));
    DoubleDouble { hi, lo: ((a_high * b_high - hi) + a_high * b_low + a_low * b_high) + a_low * b_low }
}

impl DoubleDouble {
    pub(super) const ONE: Self = Self { hi: 1.0, lo: 0.0 };
    pub(super) const LN_2: Self = Self { hi: std::f64::consts::LN_2, lo: 2.319_046_813_846_299_6e-17 };
    pub(super) const HALF_PI: Self = Self { hi: std::f64::consts::FRAC_PI_2, lo: 6.123_233_995_736_766e-17 };
    pub(super) const TWO_OVER_ROOT_PI: Self =
        Self { hi: std::f64::consts::FRAC_2_SQRT_PI, lo: 1.533_545_961_316_588e-17 };

    pub(super) const fn from(hi: f64) -> Self {
        Self { hi, lo: 0.0 }
    }

    /// Times a power of two.
    pub(super) fn scaled(self, power: f64) -> Self {
        Self { hi: self.hi * power, lo: self.lo * power }
    }

    /// The nearest f32, ties to even: through an f64 that is rounded to odd, so that the second rounding sees
    /// what the first lost.
    #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is what is wanted")]
    pub(super) fn to_f32(self) -> f32 {
        to_odd(self.hi, self.lo) as f32
    }

    /// Distance to the nearest middle between two f32 neighbours, relative to the value.
    #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is what is wanted")]
    pub(super) fn distance_to_middle(self) -> f64 {
        let near = self.hi as f32;
        let middles =
            [near.next_down(), near.next_up()].map(|other| f64::midpoint(f64::from(near), f64::from(other)));
        let distances = middles.map(|middle| ((self.hi - middle) + self.lo).abs());
        distances[0].min(distances[1]) / self.hi.abs()
    }
}

/// The f64 that `hi` and a remainder `lo` smaller than half its last place round to, to odd.
pub(crate) fn to_odd(hi: f64, lo: f64) -> f64 {
    let bits = hi.to_bits();
    if lo == 0.0 || lo.is_nan() || !hi.is_finite() || bits & 1 == 1 {
        return hi;
    }
    let away = (lo > 0.0) == (hi > 0.0);
    f64::from_bits(if away { bits + 1 } else { bits - 1 })
}

/// `a + b` to odd.
pub(crate) fn add_to_odd(a: f64, b: f64) -> f64 {
    let sum = two_sum(a, b);
    to_odd(sum.hi, sum.lo)
}

impl Add for DoubleDouble {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        let high = two_sum(self.hi, other.hi);
        let low = two_sum(self.lo, other.lo);
        let sum = quick_two_sum(high.hi, high.lo + low.hi);
        quick_two_sum(sum.hi, sum.lo + low.lo)
    }
}

impl Neg for DoubleDouble {
    type Output = Self;
    fn neg(self) -> Self {
        Self { hi: -self.hi, lo: -self.lo }
    }
}

impl Sub for DoubleDouble {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Mul for DoubleDouble {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        let product = two_product(self.hi, other.hi);
        quick_two_sum(product.hi, product.lo + (self.hi * other.lo + self.lo * other.hi))
    }
}

impl Mul<f64> for DoubleDouble {
    type Output = Self;
    fn mul(self, other: f64) -> Self {
        self * Self::from(other)
    }
}

impl Div for DoubleDouble {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        let first = self.hi / other.hi;
        let rest = self - other * first;
        let second = rest.hi / other.hi;
        let third = (rest - other * second).hi / other.hi;
        quick_two_sum(first, second) + Self::from(third)
    }
}

impl Div<f64> for DoubleDouble {
    type Output = Self;
    fn div(self, other: f64) -> Self {
        self / Self::from(other)
    }
}
