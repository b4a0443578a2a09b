//! The f64 evaluation: a relative error below 2^-48, no branches that hinder vectorisation, NaN where it does
//! not apply.
//!
//! Polynomials are Taylor series: longer than best approximations, but their error is seen at a glance. The
//! pieces of erf come from the long evaluation, once in a process.

use std::sync::OnceLock;

use super::precise;
use super::reduction::{ReducedArgument, reduce};

/// Adding and subtracting it rounds to an integer: 1.5 * 2^52.
const ROUND: f64 = 6_755_399_441_055_744.0;
/// ln 2 in parts; the first has 40 bits, so that its multiples are exact.
const LN_2: [f64; 2] = [0.693_147_180_559_208_2, 7.371_002_565_167_799e-13];
/// pi / 2 in parts; the first two have 33 bits, so that multiples up to 2^20 are exact.
const HALF_PI: [f64; 3] = [1.570_796_326_734_125_6, 6.077_100_506_303_966e-11, 2.022_266_248_795_950_6e-21];
/// Right angles up to which arguments are reduced here.
const MOST_RIGHT_ANGLES: f64 = 1_048_576.0;

/// `1 / n!` from 1/2! on.
const INVERSE_FACTORIALS: [f64; 18] = inverse_factorials();

const fn inverse_factorials() -> [f64; 18] {
    let mut table = [0.0; 18];
    let (mut factorial, mut n) = (1.0, 2);
    while n < 20 {
        factorial *= n as f64;
        table[n - 2] = 1.0 / factorial;
        n += 1;
    }
    table
}

/// `1 / (n + 2)!` over every second n from `first` on, with alternating signs: what sine and cosine need.
const fn alternating<const N: usize>(first: usize) -> [f64; N] {
    let mut table = [0.0; N];
    let mut n = 0;
    while n < N {
        table[n] = INVERSE_FACTORIALS[first + 2 * n] * if n % 2 == 0 { -1.0 } else { 1.0 };
        n += 1;
    }
    table
}

const SIN: [f64; 8] = alternating(1);
const COS: [f64; 9] = alternating(0);

#[inline(always)]
fn polynomial(coefficients: &[f64], x: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, coefficient| sum * x + coefficient)
}

/// `2^k` for an integer k that was rounded by adding [`ROUND`].
#[inline(always)]
fn power_of_two(k: f64) -> f64 {
    f64::from_bits((k + (ROUND + 1023.0)).to_bits() << 52)
}

/// `(2^k, e^r - 1)` with `a = k ln 2 + r`, for magnitudes up to 400.
#[inline(always)]
fn exp_parts(a: f64) -> (f64, f64) {
    let k = (a * std::f64::consts::LOG2_E + ROUND) - ROUND;
    let r = (a - k * LN_2[0]) - k * LN_2[1];
    (power_of_two(k), r * (1.0 + r * polynomial(&INVERSE_FACTORIALS[..13], r)))
}

#[inline(always)]
pub(super) fn exp(a: f64) -> f64 {
    let (power, part) = exp_parts(a.clamp(-200.0, 200.0));
    power + power * part
}

#[inline(always)]
pub(super) fn sigmoid(a: f64) -> f64 {
    1.0 / (1.0 + exp(-a))
}

#[inline(always)]
pub(super) fn tanh(a: f64) -> f64 {
    let (power, part) = exp_parts(2.0 * a.abs().clamp(0.0, 20.0));
    let grown = (power - 1.0) + power * part;
    (grown / (grown + 2.0)).copysign(a)
}

/// A finite number above zero as `m 2^e` with m between the square roots of 1/2 and 2.
#[inline(always)]
pub(super) fn split(a: f64) -> (f64, f64) {
    const ROOT_HALF: u64 = 0x3FE6_A09E_667F_3BCD;
    let offset = a.to_bits().wrapping_sub(ROOT_HALF);
    // The exponent's field, moved so that it counts from zero and stays positive; small enough to become a
    // double by its bits.
    let exponent = f64::from_bits(((offset >> 52) ^ 0x800) & 0xFFF | 0x4330_0000_0000_0000)
        - (4_503_599_627_370_496.0 + 2048.0);
    (f64::from_bits((offset & 0x000F_FFFF_FFFF_FFFF).wrapping_add(ROOT_HALF)), exponent)
}

#[inline(always)]
pub(super) fn log(a: f64) -> f64 {
    const ODD: [f64; 12] = [
        2.0 / 3.0,
        2.0 / 5.0,
        2.0 / 7.0,
        2.0 / 9.0,
        2.0 / 11.0,
        2.0 / 13.0,
        2.0 / 15.0,
        2.0 / 17.0,
        2.0 / 19.0,
        2.0 / 21.0,
        2.0 / 23.0,
        2.0 / 25.0,
    ];
    let (mantissa, exponent) = split(a);
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let value = exponent * LN_2[0] + (exponent * LN_2[1] + s * (2.0 + square * polynomial(&ODD, square)));
    if a > 0.0 && a < f64::INFINITY { value } else { f64::NAN }
}

/// Sine of `r` plus so many right angles.
#[inline(always)]
fn sin_reduced(r: f64, quadrant: u64) -> f64 {
    let square = r * r;
    let sine = r * (1.0 + square * polynomial(&SIN, square));
    let cosine = 1.0 + square * polynomial(&COS, square);
    let value = if quadrant & 1 == 0 { sine } else { cosine };
    f64::from_bits(value.to_bits() ^ ((quadrant & 2) << 62))
}

/// Sine of `a`, not negative, plus so many right angles.
#[inline(always)]
fn sin_in_quadrant(a: f64, more: u64) -> f64 {
    let biased = a * std::f64::consts::FRAC_2_PI + ROUND;
    let n = biased - ROUND;
    let r = ((a - n * HALF_PI[0]) - n * HALF_PI[1]) - n * HALF_PI[2];
    let value = sin_reduced(r, biased.to_bits().wrapping_add(more));
    if n <= MOST_RIGHT_ANGLES { value } else { f64::NAN }
}

#[inline(always)]
pub(super) fn sin(a: f64) -> f64 {
    let value = sin_in_quadrant(a.abs(), 0);
    f64::from_bits(value.to_bits() ^ (a.to_bits() & (1 << 63)))
}

#[inline(always)]
pub(super) fn cos(a: f64) -> f64 {
    sin_in_quadrant(a.abs(), 1)
}

/// Sine of any finite `a` plus so many right angles, by the long reduction.
pub(super) fn sin_far(a: f32, more: u32) -> f64 {
    let ReducedArgument { quadrant, r } = reduce(a.abs());
    sin_reduced(r.hi, u64::from(quadrant + more))
}

/// Coefficients of a piece of erf.
const ERF_TERMS: usize = 15;
/// Pieces around multiples of 1/8, up to 4.
pub(super) type ErfTable = [[f64; ERF_TERMS]; 33];

/// Taylor series of erf around multiples of 1/8.
///
/// The derivative g = 2 / sqrt(pi) e^-(c + t)^2 satisfies g' = -2 (c + t) g, which gives its series term by
/// term.
pub(super) fn erf_table() -> &'static ErfTable {
    static TABLE: OnceLock<ErfTable> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table = [[0.0; ERF_TERMS]; 33];
        for (piece, center) in table.iter_mut().zip((0_u8..).map(|index| f32::from(index) / 8.0)) {
            *piece = erf_piece(center);
        }
        table
    })
}

fn erf_piece(center: f32) -> [f64; ERF_TERMS] {
    let c = f64::from(center);
    let mut piece = [precise::erf(center).hi; ERF_TERMS];
    let (mut before, mut slope) = (0.0, std::f64::consts::FRAC_2_SQRT_PI * exp(-c * c));
    for (coefficient, n) in piece.iter_mut().skip(1).zip((1_u8..).map(f64::from)) {
        *coefficient = slope / n;
        (before, slope) = (slope, -2.0 * (c * slope + before) / n);
    }
    piece
}

#[inline(always)]
pub(super) fn erf(table: &ErfTable, a: f64) -> f64 {
    let size = a.abs().clamp(0.0, 4.0);
    let biased = size * 8.0 + ROUND;
    let index = (biased.to_bits() & 0x3F) as usize;
    let t = size - (biased - ROUND) / 8.0;
    let piece = table.get(index).unwrap_or(&table[32]);
    let value = piece[0] + t * polynomial(&piece[1..], t);
    if a.is_nan() { a } else { value.copysign(a) }
}
