//! Operators that work element by element. Functions are computed in float64 and rounded to float32.

use tilewright_graph::{Binary, Dtype, Unary};

use crate::error::EvalError;
use crate::tensor::{Elements, Tensor, count};
use crate::view::{broadcast, rows, stretched};

/// One operand.
pub fn unary(op: Unary, x: &Tensor) -> Result<Tensor, EvalError> {
    match &x.elements {
        Elements::Floats(elements) if matches!(op, Unary::IsNan | Unary::IsInf) => {
            let test = |x: &f32| i64::from(if op == Unary::IsNan { x.is_nan() } else { x.is_infinite() });
            Ok(Tensor::bools(&x.dims, elements.iter().map(test).collect()))
        }
        Elements::Floats(elements) => {
            let function = float_function(op).ok_or(EvalError::Operands(op.name()))?;
            Ok(Tensor::floats(x.dtype, &x.dims, elements.iter().map(|x| function(*x)).collect()))
        }
        Elements::Ints(elements) => {
            let function: fn(i64) -> i64 = match op {
                Unary::Neg => i64::wrapping_neg,
                Unary::Abs => i64::wrapping_abs,
                Unary::Sign => i64::signum,
                Unary::Not => |x| i64::from(x == 0),
                _ => return Err(EvalError::Operands(op.name())),
            };
            Ok(Tensor::ints(x.dtype, &x.dims, elements.iter().map(|x| function(*x)).collect()))
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "rounds a float64 result to float32")]
fn float_function(op: Unary) -> Option<fn(f32) -> f32> {
    Some(match op {
        Unary::Neg => |x| -x,
        Unary::Abs => f32::abs,
        Unary::Exp => |x| libm::exp(f64::from(x)) as f32,
        Unary::Ln => |x| libm::log(f64::from(x)) as f32,
        Unary::Sqrt => f32::sqrt,
        Unary::Rsqrt => |x| (1.0 / f64::from(x).sqrt()) as f32,
        Unary::Recip => |x| 1.0 / x,
        Unary::Sin => |x| libm::sin(f64::from(x)) as f32,
        Unary::Cos => |x| libm::cos(f64::from(x)) as f32,
        Unary::Tanh => |x| libm::tanh(f64::from(x)) as f32,
        Unary::Sigmoid => |x| (1.0 / (1.0 + libm::exp(-f64::from(x)))) as f32,
        Unary::Erf => |x| libm::erf(f64::from(x)) as f32,
        Unary::Floor => f32::floor,
        Unary::Ceil => f32::ceil,
        Unary::Round => f32::round_ties_even,
        Unary::RoundAway => f32::round,
        Unary::Sign => |x| {
            if x > 0.0 {
                1.0
            } else if x < 0.0 {
                -1.0
            } else {
                x
            }
        },
        Unary::Not | Unary::IsNan | Unary::IsInf => return None,
    })
}

/// Two operands; sizes of 1 stretch.
pub fn binary(op: Binary, x: &Tensor, y: &Tensor) -> Result<Tensor, EvalError> {
    let wrong = EvalError::Operands(op.name());
    let dims = common(&x.dims, &y.dims).ok_or_else(|| wrong.clone())?;
    match (&x.elements, &y.elements) {
        (Elements::Floats(a), Elements::Floats(b)) => {
            let (a, b) = ((&a[..], &x.dims[..]), (&b[..], &y.dims[..]));
            if op.compares() {
                let test: fn(f32, f32) -> bool = match op {
                    Binary::Eq => |x, y| x == y,
                    Binary::Ne => |x, y| x != y,
                    Binary::Lt => |x, y| x < y,
                    Binary::Le => |x, y| x <= y,
                    Binary::Gt => |x, y| x > y,
                    _ => |x, y| x >= y,
                };
                return Ok(Tensor::bools(&dims, zip(&dims, a, b, |x, y| i64::from(test(x, y)))?));
            }
            Ok(Tensor::floats(x.dtype, &dims, float_pairs(op, &dims, a, b)?))
        }
        (Elements::Ints(a), Elements::Ints(b)) => {
            let function = int_function(op);
            let elements = zip(&dims, (&a[..], &x.dims), (&b[..], &y.dims), function)?;
            let dtype = if op.compares() { Dtype::Bool } else { x.dtype };
            Ok(Tensor::ints(dtype, &dims, elements))
        }
        _ => Err(wrong),
    }
}

/// Elements with their sizes.
type Operand<'o, T> = (&'o [T], &'o [usize]);

fn float_pairs(
    op: Binary,
    dims: &[usize],
    a: Operand<'_, f32>,
    b: Operand<'_, f32>,
) -> Result<Vec<f32>, EvalError> {
    match op {
        Binary::Add => zip(dims, a, b, |x, y| x + y),
        Binary::Sub => zip(dims, a, b, |x, y| x - y),
        Binary::Mul => zip(dims, a, b, |x, y| x * y),
        Binary::Div => zip(dims, a, b, |x, y| x / y),
        #[expect(clippy::cast_possible_truncation, reason = "rounds a float64 result to float32")]
        Binary::Pow => zip(dims, a, b, |x, y| libm::pow(f64::from(x), f64::from(y)) as f32),
        Binary::Mod => zip(dims, a, b, |x, y| {
            let rest = x % y;
            if rest != 0.0 && (rest < 0.0) != (y < 0.0) { rest + y } else { rest }
        }),
        Binary::Rem => zip(dims, a, b, |x, y| x % y),
        Binary::Max => zip(dims, a, b, larger),
        Binary::Min => zip(dims, a, b, smaller),
        _ => Err(EvalError::Operands(op.name())),
    }
}

/// The larger; NaN if one is.
pub fn larger(x: f32, y: f32) -> f32 {
    if x.is_nan() || x > y { x } else { y }
}

/// The smaller; NaN if one is.
pub fn smaller(x: f32, y: f32) -> f32 {
    if x.is_nan() || x < y { x } else { y }
}

fn int_function(op: Binary) -> fn(i64, i64) -> i64 {
    match op {
        Binary::Add => i64::wrapping_add,
        Binary::Sub => i64::wrapping_sub,
        Binary::Mul => i64::wrapping_mul,
        Binary::Div => |x, y| if y == 0 { 0 } else { x.wrapping_div(y) },
        Binary::Pow => |x, y| u32::try_from(y).map_or(i64::from(x == 1), |y| x.wrapping_pow(y)),
        Binary::Mod => |x, y| {
            let rest = if y == 0 { 0 } else { x.wrapping_rem(y) };
            if rest != 0 && (rest < 0) != (y < 0) { rest + y } else { rest }
        },
        Binary::Rem => |x, y| if y == 0 { 0 } else { x.wrapping_rem(y) },
        Binary::Max => i64::max,
        Binary::Min => i64::min,
        Binary::And => |x, y| i64::from(x != 0 && y != 0),
        Binary::Or => |x, y| i64::from(x != 0 || y != 0),
        Binary::Xor => |x, y| i64::from((x != 0) != (y != 0)),
        Binary::Eq => |x, y| i64::from(x == y),
        Binary::Ne => |x, y| i64::from(x != y),
        Binary::Lt => |x, y| i64::from(x < y),
        Binary::Le => |x, y| i64::from(x <= y),
        Binary::Gt => |x, y| i64::from(x > y),
        Binary::Ge => |x, y| i64::from(x >= y),
    }
}

/// The shape that two shapes stretch to.
fn common(x: &[usize], y: &[usize]) -> Option<Vec<usize>> {
    let rank = x.len().max(y.len());
    let at = |dims: &[usize], axis: usize| {
        (axis + dims.len()).checked_sub(rank).and_then(|axis| dims.get(axis).copied()).unwrap_or(1)
    };
    (0..rank)
        .map(|axis| match (at(x, axis), at(y, axis)) {
            (a, b) if a == b || b == 1 => Some(a),
            (1, b) => Some(b),
            _ => None,
        })
        .collect()
}

fn zip<T: Copy, U>(
    dims: &[usize],
    (a, a_dims): Operand<'_, T>,
    (b, b_dims): Operand<'_, T>,
    function: impl Fn(T, T) -> U,
) -> Result<Vec<U>, EvalError> {
    if a_dims == b_dims {
        return Ok(a.iter().zip(b).map(|(x, y)| function(*x, *y)).collect());
    }
    let wrong = EvalError::Operands("elementwise");
    let (Some(a_strides), Some(b_strides)) = (stretched(a_dims, dims), stretched(b_dims, dims)) else {
        return Err(wrong);
    };
    let mut out = Vec::with_capacity(count(dims)?);
    rows(dims, &[&a_strides, &b_strides], &[0, 0], |size, at, strides| {
        let (Some(a), Some(b)) = (row(a, at[0], strides[0], size), row(b, at[1], strides[1], size)) else {
            return Err(wrong.clone());
        };
        match (strides[0], strides[1]) {
            (0, _) => out.extend(b.iter().map(|y| function(a[0], *y))),
            (_, 0) => out.extend(a.iter().map(|x| function(*x, b[0]))),
            _ => out.extend(a.iter().zip(b).map(|(x, y)| function(*x, *y))),
        }
        Ok(())
    })?;
    Ok(out)
}

/// A row whose stride is 1 or 0; of the latter, its one element as often.
fn row<T>(from: &[T], at: isize, stride: isize, size: usize) -> Option<&[T]> {
    let at = usize::try_from(at).ok()?;
    from.get(at..at + if stride == 0 { 1 } else { size })
}

/// One or the other.
pub fn select(condition: &Tensor, x: &Tensor, y: &Tensor) -> Result<Tensor, EvalError> {
    let wrong = || EvalError::Operands("select");
    let dims = common(&x.dims, &y.dims).and_then(|dims| common(&dims, &condition.dims)).ok_or_else(wrong)?;
    let (c, x, y) = (broadcast(condition, &dims)?, broadcast(x, &dims)?, broadcast(y, &dims)?);
    match (&x.elements, &y.elements) {
        (Elements::Floats(a), Elements::Floats(b)) => {
            let pairs = a.iter().zip(&**b).zip(c.as_ints());
            Ok(Tensor::floats(
                x.dtype,
                &dims,
                pairs.map(|((x, y), c)| if *c == 0 { *y } else { *x }).collect(),
            ))
        }
        (Elements::Ints(a), Elements::Ints(b)) => {
            let pairs = a.iter().zip(&**b).zip(c.as_ints());
            Ok(Tensor::ints(x.dtype, &dims, pairs.map(|((x, y), c)| if *c == 0 { *y } else { *x }).collect()))
        }
        _ => Err(wrong()),
    }
}

/// Another type. Floats are cut towards zero and clamped to the range of i64, then wrapped; integers are
/// wrapped.
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "this is the conversion")]
pub fn convert(x: &Tensor, dtype: Dtype) -> Tensor {
    match (&x.elements, dtype.is_float()) {
        (Elements::Floats(elements), true) => Tensor::floats(dtype, &x.dims, elements.to_vec()),
        (Elements::Floats(elements), false) if dtype == Dtype::Bool => {
            Tensor::bools(&x.dims, elements.iter().map(|x| i64::from(*x != 0.0)).collect())
        }
        (Elements::Floats(elements), false) => {
            Tensor::ints(dtype, &x.dims, elements.iter().map(|x| *x as i64).collect())
        }
        (Elements::Ints(elements), true) => {
            Tensor::floats(dtype, &x.dims, elements.iter().map(|x| *x as f32).collect())
        }
        (Elements::Ints(elements), false) => Tensor::ints(dtype, &x.dims, elements.to_vec()),
    }
}
