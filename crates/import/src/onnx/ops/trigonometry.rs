//! Trigonometric and hyperbolic functions that are no primitives, in f32: by polynomials near zero, where
//! differences of exponentials and logarithms of nearly one would lose digits. The polynomials are those of
//! Cephes (S. Moshier, single precision), good to two units in the last place of f32.

use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, LN_2, PI};

use tilewright_graph::{Binary, BuildResult, Builder, Dtype, Unary, ValueId};

use crate::onnx::node::Call;
use crate::onnx::ops::Outputs;

pub(super) fn function(call: &mut Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let op = call.node.op.clone();
    let dtype = call.reader.b.dtype(x);
    if !dtype.is_float() {
        return Err(call.refuse(format!("{op} of {dtype}")).allowed("a float type"));
    }
    Ok(vec![call.build(|b| {
        let wide = b.convert(x, Dtype::F32)?;
        let y = match op.as_str() {
            "Tan" => {
                let (sine, cosine) = (b.unary(Unary::Sin, wide)?, b.unary(Unary::Cos, wide)?);
                b.div(sine, cosine)?
            }
            "Sinh" => sinh(b, wide)?,
            "Cosh" => {
                let (rising, falling) = half_exponentials(b, wide)?;
                b.add(rising, falling)?
            }
            "Asin" => asin(b, wide)?,
            "Acos" => acos(b, wide)?,
            "Atan" => atan(b, wide)?,
            "Asinh" => asinh(b, wide)?,
            "Acosh" => acosh(b, wide)?,
            _ => atanh(b, wide)?,
        };
        b.convert(y, dtype)
    })?])
}

/// A polynomial, its highest coefficient first.
fn polynomial(b: &mut Builder, x: ValueId, coefficients: &[f64]) -> BuildResult<ValueId> {
    let (first, rest) = coefficients.split_first().unwrap_or((&0.0, &[]));
    let mut sum = b.scalar(b.dtype(x), *first)?;
    for coefficient in rest {
        let product = b.mul(sum, x)?;
        sum = b.with(Binary::Add, product, *coefficient)?;
    }
    Ok(sum)
}

/// x + x^3 p(x^2).
fn odd(b: &mut Builder, x: ValueId, coefficients: &[f64]) -> BuildResult<ValueId> {
    let square = b.mul(x, x)?;
    let sum = polynomial(b, square, coefficients)?;
    let sum = b.mul(sum, square)?;
    let sum = b.mul(sum, x)?;
    b.add(sum, x)
}

/// What has the magnitude of `y` and the sign of `x`.
fn signed(b: &mut Builder, x: ValueId, y: ValueId) -> BuildResult<ValueId> {
    let negative = b.with(Binary::Lt, x, 0.0)?;
    let minus = b.unary(Unary::Neg, y)?;
    b.select(negative, minus, y)
}

/// exp(x) / 2 and exp(-x) / 2, which overflow no earlier than their sum.
fn half_exponentials(b: &mut Builder, x: ValueId) -> BuildResult<(ValueId, ValueId)> {
    let minus = b.unary(Unary::Neg, x)?;
    let (rising, falling) = (b.with(Binary::Sub, x, LN_2)?, b.with(Binary::Sub, minus, LN_2)?);
    Ok((b.unary(Unary::Exp, rising)?, b.unary(Unary::Exp, falling)?))
}

fn sinh(b: &mut Builder, x: ValueId) -> BuildResult<ValueId> {
    let near = odd(b, x, &[2.037_219_129_45E-4, 8.330_283_762_39E-3, 1.666_671_602_11E-1])?;
    let (rising, falling) = half_exponentials(b, x)?;
    let far = b.sub(rising, falling)?;
    let size = b.unary(Unary::Abs, x)?;
    let is_near = b.with(Binary::Le, size, 1.0)?;
    b.select(is_near, near, far)
}

const ASIN: [f64; 5] =
    [4.216_319_904_8E-2, 2.418_131_104_9E-2, 4.547_002_599_8E-2, 7.495_300_268_6E-2, 1.666_675_242_2E-1];

/// The arc sine of square roots of half of `1 - size`: half the arc cosine of `size`.
fn half_acos(b: &mut Builder, size: ValueId) -> BuildResult<ValueId> {
    let one = b.scalar(Dtype::F32, 1.0)?;
    let rest = b.sub(one, size)?;
    let rest = b.with(Binary::Mul, rest, 0.5)?;
    let root = b.unary(Unary::Sqrt, rest)?;
    odd(b, root, &ASIN)
}

fn asin(b: &mut Builder, x: ValueId) -> BuildResult<ValueId> {
    let size = b.unary(Unary::Abs, x)?;
    let near = odd(b, size, &ASIN)?;
    let half = half_acos(b, size)?;
    let twice = b.add(half, half)?;
    let quarter = b.scalar(Dtype::F32, FRAC_PI_2)?;
    let far = b.sub(quarter, twice)?;
    let is_near = b.with(Binary::Le, size, 0.5)?;
    let y = b.select(is_near, near, far)?;
    signed(b, x, y)
}

fn acos(b: &mut Builder, x: ValueId) -> BuildResult<ValueId> {
    let size = b.unary(Unary::Abs, x)?;
    let near = odd(b, x, &ASIN)?;
    let quarter = b.scalar(Dtype::F32, FRAC_PI_2)?;
    let near = b.sub(quarter, near)?;
    let half = half_acos(b, size)?;
    let twice = b.add(half, half)?;
    let whole = b.scalar(Dtype::F32, PI)?;
    let turned = b.sub(whole, twice)?;
    let negative = b.with(Binary::Lt, x, 0.0)?;
    let far = b.select(negative, turned, twice)?;
    let is_near = b.with(Binary::Le, size, 0.5)?;
    b.select(is_near, near, far)
}

/// By way of angles from an eighth of a turn or a quarter of one.
fn atan(b: &mut Builder, x: ValueId) -> BuildResult<ValueId> {
    let size = b.unary(Unary::Abs, x)?;
    let is_far = b.with(Binary::Gt, size, 2.414_213_562_373_095)?;
    let is_near = b.with(Binary::Le, size, 0.414_213_562_373_095)?;
    let inverse = b.unary(Unary::Recip, size)?;
    let far = b.unary(Unary::Neg, inverse)?;
    let (below, above) = (b.with(Binary::Sub, size, 1.0)?, b.with(Binary::Add, size, 1.0)?);
    let between = b.div(below, above)?;
    let rest = b.select(is_far, far, between)?;
    let rest = b.select(is_near, size, rest)?;
    let (none, eighth, quarter) =
        (b.scalar(Dtype::F32, 0.0)?, b.scalar(Dtype::F32, FRAC_PI_4)?, b.scalar(Dtype::F32, FRAC_PI_2)?);
    let start = b.select(is_far, quarter, eighth)?;
    let start = b.select(is_near, none, start)?;
    let angle = odd(
        b,
        rest,
        &[8.053_744_495_38E-2, -1.387_768_560_32E-1, 1.997_771_064_78E-1, -3.333_294_915_39E-1],
    )?;
    let y = b.add(start, angle)?;
    signed(b, x, y)
}

/// ln(x + sqrt(x^2 + 1)); where the square would overflow, ln(2 x).
fn asinh(b: &mut Builder, x: ValueId) -> BuildResult<ValueId> {
    let size = b.unary(Unary::Abs, x)?;
    let near =
        odd(b, size, &[2.012_200_330_9E-2, -4.269_934_097_2E-2, 7.484_758_608_8E-2, -1.666_628_813_4E-1])?;
    let square = b.mul(size, size)?;
    let square = b.with(Binary::Add, square, 1.0)?;
    let root = b.unary(Unary::Sqrt, square)?;
    let sum = b.add(size, root)?;
    let far = logarithm(b, size, sum)?;
    let is_near = b.with(Binary::Lt, size, 0.5)?;
    let y = b.select(is_near, near, far)?;
    signed(b, x, y)
}

/// ln(sum), or ln(2 x) where x is so large that it is the same.
fn logarithm(b: &mut Builder, x: ValueId, sum: ValueId) -> BuildResult<ValueId> {
    let large = b.unary(Unary::Ln, x)?;
    let large = b.with(Binary::Add, large, LN_2)?;
    let small = b.unary(Unary::Ln, sum)?;
    let is_large = b.with(Binary::Gt, x, 1e6)?;
    b.select(is_large, large, small)
}

fn acosh(b: &mut Builder, x: ValueId) -> BuildResult<ValueId> {
    let above = b.with(Binary::Sub, x, 1.0)?;
    let sum = polynomial(
        b,
        above,
        &[
            1.759_688_107_1E-3,
            -7.527_288_671_3E-3,
            2.645_490_501_9E-2,
            -1.178_474_170_3E-1,
            1.414_213_526_3E0,
        ],
    )?;
    let root = b.unary(Unary::Sqrt, above)?;
    let near = b.mul(root, sum)?;
    let more = b.with(Binary::Add, x, 1.0)?;
    let product = b.mul(above, more)?;
    let root = b.unary(Unary::Sqrt, product)?;
    let sum = b.add(x, root)?;
    let far = logarithm(b, x, sum)?;
    let is_near = b.with(Binary::Lt, x, 1.5)?;
    b.select(is_near, near, far)
}

fn atanh(b: &mut Builder, x: ValueId) -> BuildResult<ValueId> {
    let near = odd(
        b,
        x,
        &[
            1.817_400_783_49E-1,
            8.243_703_010_58E-2,
            1.466_914_317_30E-1,
            1.997_821_645_00E-1,
            3.333_373_003_03E-1,
        ],
    )?;
    let one = b.scalar(Dtype::F32, 1.0)?;
    let (more, less) = (b.add(one, x)?, b.sub(one, x)?);
    let ratio = b.div(more, less)?;
    let far = b.unary(Unary::Ln, ratio)?;
    let far = b.with(Binary::Mul, far, 0.5)?;
    let size = b.unary(Unary::Abs, x)?;
    let is_near = b.with(Binary::Lt, size, 0.5)?;
    b.select(is_near, near, far)
}
