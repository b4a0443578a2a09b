//! The long evaluation: some 100 bits, by plain series. Slow, and seldom needed.

use super::double::DoubleDouble;
use super::reduction::{ReducedArgument, reduce};

/// Terms below this part of a sum are left out: 2^-110.
const NEGLIGIBLE: f64 = 1.0 / (1_u128 << 110) as f64;

/// Beyond this magnitude exponentials of f32 results are zero or infinite.
const EXP_LIMIT: f64 = 200.0;

/// Sums `first`, then terms each made from the one before, until they no longer matter.
fn series(first: DoubleDouble, next: impl Fn(DoubleDouble, f64) -> DoubleDouble) -> DoubleDouble {
    let (mut sum, mut term) = (first, first);
    for count in 1..=400_u16 {
        term = next(term, f64::from(count));
        sum = sum + term;
        if term.hi.abs() <= sum.hi.abs() * NEGLIGIBLE {
            break;
        }
    }
    sum
}

fn power_of_two(exponent: f64) -> f64 {
    #[expect(clippy::cast_possible_truncation, reason = "exponents stay below 2^10")]
    let biased = (exponent as i64 + 1023).cast_unsigned();
    f64::from_bits(biased << 52)
}

/// `e^a - 1` as `(2^k, e^r - 1)` with `a = k ln 2 + r`.
fn exp_parts(a: DoubleDouble) -> (f64, DoubleDouble) {
    let k = (a.hi / DoubleDouble::LN_2.hi).round();
    let r = a - DoubleDouble::LN_2 * k;
    if r.hi == 0.0 {
        return (power_of_two(k), r);
    }
    (power_of_two(k), series(r, |term, count| term * r / (count + 1.0)))
}

fn exp_double(a: DoubleDouble) -> DoubleDouble {
    let (power, part) = exp_parts(a);
    (DoubleDouble::ONE + part).scaled(power)
}

fn clamped(a: f32, limit: f64) -> f64 {
    f64::from(a).clamp(-limit, limit)
}

pub(super) fn exp(a: f32) -> DoubleDouble {
    exp_double(DoubleDouble::from(clamped(a, EXP_LIMIT)))
}

pub(super) fn sigmoid(a: f32) -> DoubleDouble {
    DoubleDouble::ONE / (DoubleDouble::ONE + exp_double(DoubleDouble::from(-clamped(a, EXP_LIMIT))))
}

/// `(e^2a - 1) / (e^2a + 1)`; 1 to more than f32 from 20 on.
pub(super) fn tanh(a: f32) -> DoubleDouble {
    let (power, part) = exp_parts(DoubleDouble::from(2.0 * clamped(a, 20.0)));
    if part.hi == 0.0 {
        return DoubleDouble::from(f64::from(a));
    }
    let grown = part.scaled(power) + DoubleDouble::from(power - 1.0);
    grown / (grown + DoubleDouble::from(2.0))
}

/// `e ln 2 + 2 atanh((m - 1) / (m + 1))` for `a = m 2^e`, m around 1; `a` is finite and above zero.
pub(super) fn log(a: f32) -> DoubleDouble {
    let (mantissa, exponent) = super::fast::split(f64::from(a));
    let s = DoubleDouble::from(mantissa - 1.0) / DoubleDouble::from(mantissa + 1.0);
    let scale = DoubleDouble::LN_2 * exponent;
    if s.hi == 0.0 {
        return scale;
    }
    let square = s * s;
    let (mut sum, mut power) = (s, s);
    for count in 1..=40_u8 {
        power = power * square;
        sum = sum + power / (2.0 * f64::from(count) + 1.0);
    }
    scale + sum.scaled(2.0)
}

/// `2 / sqrt(pi) e^-a^2 (a + 2 a^3 / 3 + 4 a^5 / 15 + ...)`: every term has the sign of `a`. 1 to more than
/// f32 from 5 on.
pub(super) fn erf(a: f32) -> DoubleDouble {
    let a = clamped(a, 5.0);
    if a == 0.0 {
        return DoubleDouble::from(a);
    }
    let square = DoubleDouble::from(a) * DoubleDouble::from(a);
    let sum = series(DoubleDouble::from(a), |term, count| term * square.scaled(2.0) / (2.0 * count + 1.0));
    DoubleDouble::TWO_OVER_ROOT_PI * exp_double(-square) * sum
}

fn sin_series(r: DoubleDouble) -> DoubleDouble {
    if r.hi == 0.0 {
        return r;
    }
    let square = r * r;
    series(r, |term, count| -(term * square) / (2.0 * count * (2.0 * count + 1.0)))
}

fn cos_series(r: DoubleDouble) -> DoubleDouble {
    let square = r * r;
    series(DoubleDouble::ONE, |term, count| -(term * square) / (2.0 * count * (2.0 * count - 1.0)))
}

/// Sine of `r` plus so many right angles.
fn sin_in_quadrant(r: DoubleDouble, quadrant: u32) -> DoubleDouble {
    match quadrant & 3 {
        0 => sin_series(r),
        1 => cos_series(r),
        2 => -sin_series(r),
        _ => -cos_series(r),
    }
}

/// `a` is finite.
pub(super) fn sin(a: f32) -> DoubleDouble {
    let ReducedArgument { quadrant, r } = reduce(a.abs());
    let value = sin_in_quadrant(r, quadrant);
    if a.is_sign_negative() { -value } else { value }
}

/// `a` is finite.
pub(super) fn cos(a: f32) -> DoubleDouble {
    let ReducedArgument { quadrant, r } = reduce(a.abs());
    sin_in_quadrant(r, quadrant + 1)
}
