//! Moving elements by number: joining, padding, gathering, scattering, counting.

use std::sync::Arc;

use tilewright_graph::{Dtype, Fold};

use crate::elementwise::{larger, smaller};
use crate::error::EvalError;
use crate::tensor::{Elements, Tensor, count};

/// Elements before an axis, of it, and behind it.
fn around(dims: &[usize], axis: usize) -> Option<(usize, usize, usize)> {
    let (outer, rest) = dims.split_at_checked(axis)?;
    let (size, inner) = rest.split_first()?;
    Some((outer.iter().product(), *size, inner.iter().product()))
}

fn with_axis(dims: &[usize], axis: usize, size: &[usize]) -> Vec<usize> {
    let mut dims = dims.to_vec();
    dims.splice(axis..=axis, size.iter().copied());
    dims
}

/// Operands one behind the other.
pub fn concat(axis: usize, inputs: &[&Tensor]) -> Result<Tensor, EvalError> {
    let wrong = || EvalError::Operands("concat");
    let first = inputs.first().ok_or_else(wrong)?;
    let mut sizes = Vec::new();
    for x in inputs {
        sizes.push(around(&x.dims, axis).ok_or_else(wrong)?);
    }
    let (outer, _, inner) = *sizes.first().ok_or_else(wrong)?;
    if sizes.iter().any(|size| (size.0, size.2) != (outer, inner)) {
        return Err(wrong());
    }
    let total = sizes.iter().map(|size| size.1).sum();
    let dims = with_axis(&first.dims, axis, &[total]);
    count(&dims)?;
    macro_rules! joined {
        ($get:ident) => {{
            let mut out = Vec::with_capacity(outer * total * inner);
            for row in 0..outer {
                for (x, (_, size, _)) in inputs.iter().zip(&sizes) {
                    let width = size * inner;
                    out.extend_from_slice(x.$get().get(row * width..(row + 1) * width).ok_or_else(wrong)?);
                }
            }
            Arc::new(out)
        }};
    }
    let elements = match &first.elements {
        Elements::Floats(_) => Elements::Floats(joined!(as_floats)),
        Elements::Ints(_) => Elements::Ints(joined!(as_ints)),
    };
    Ok(Tensor { dtype: first.dtype, dims, elements })
}

/// Elements equal to a scalar before and behind an axis.
pub fn pad(x: &Tensor, axis: usize, low: usize, high: usize, value: &Tensor) -> Result<Tensor, EvalError> {
    let part = |size: usize| -> Result<Tensor, EvalError> {
        crate::view::broadcast(value, &with_axis(&x.dims, axis, &[size]))
    };
    around(&x.dims, axis).ok_or(EvalError::Operands("pad"))?;
    concat(axis, &[&part(low)?, x, &part(high)?])
}

/// An index that may count from the end, as a place.
fn place(index: i64, size: usize) -> Result<usize, EvalError> {
    let outside = EvalError::Index { index, size };
    let from_front = if index < 0 { index.saturating_add_unsigned(size as u64) } else { index };
    usize::try_from(from_front).ok().filter(|at| *at < size).ok_or(outside)
}

/// Slices of an axis by number.
pub fn gather(x: &Tensor, axis: usize, indices: &Tensor) -> Result<Tensor, EvalError> {
    let wrong = || EvalError::Operands("gather");
    let (outer, size, inner) = around(&x.dims, axis).ok_or_else(wrong)?;
    let places: Vec<usize> =
        indices.as_ints().iter().map(|index| place(*index, size)).collect::<Result<_, _>>()?;
    let dims = with_axis(&x.dims, axis, &indices.dims);
    let total = count(&dims)?;
    macro_rules! taken {
        ($from:expr) => {{
            let mut out = Vec::with_capacity(total);
            for row in 0..outer {
                for at in &places {
                    let start = (row * size + at) * inner;
                    out.extend_from_slice($from.get(start..start + inner).ok_or_else(wrong)?);
                }
            }
            Arc::new(out)
        }};
    }
    let elements = match &x.elements {
        Elements::Floats(from) => Elements::Floats(taken!(from)),
        Elements::Ints(from) => Elements::Ints(taken!(from)),
    };
    Ok(Tensor { dtype: x.dtype, dims, elements })
}

/// Rows replaced by, or folded with, others.
pub fn scatter(
    fold: Option<Fold>,
    x: &Tensor,
    indices: &Tensor,
    updates: &Tensor,
) -> Result<Tensor, EvalError> {
    let wrong = || EvalError::Operands("scatter");
    let (_, size, inner) = around(&x.dims, 0).ok_or_else(wrong)?;
    macro_rules! written {
        ($from:expr, $new:expr, $fold:expr) => {{
            let mut out = $from.to_vec();
            for (row, index) in indices.as_ints().iter().enumerate() {
                let at = place(*index, size)? * inner;
                let new = $new.get(row * inner..(row + 1) * inner).ok_or_else(wrong)?;
                let old = out.get_mut(at..at + inner).ok_or_else(wrong)?;
                old.iter_mut().zip(new).for_each(|(old, new)| *old = $fold(*old, *new));
            }
            out
        }};
    }
    match (&x.elements, &updates.elements) {
        (Elements::Floats(from), Elements::Floats(new)) => {
            let function: fn(f32, f32) -> f32 = match fold {
                None => |_, new| new,
                Some(Fold::Sum) => |old, new| old + new,
                Some(Fold::Prod) => |old, new| old * new,
                Some(Fold::Max) => larger,
                Some(Fold::Min) => smaller,
            };
            Ok(Tensor::floats(x.dtype, &x.dims, written!(from, new, function)))
        }
        (Elements::Ints(from), Elements::Ints(new)) => {
            let function: fn(i64, i64) -> i64 = match fold {
                None => |_, new| new,
                Some(Fold::Sum) => i64::wrapping_add,
                Some(Fold::Prod) => i64::wrapping_mul,
                Some(Fold::Max) => i64::max,
                Some(Fold::Min) => i64::min,
            };
            Ok(Tensor::ints(x.dtype, &x.dims, written!(from, new, function)))
        }
        _ => Err(wrong()),
    }
}

/// The coordinate along an axis.
pub fn iota(dtype: Dtype, dims: &[usize], axis: usize) -> Result<Tensor, EvalError> {
    let (outer, size, inner) = around(dims, axis).ok_or(EvalError::Operands("iota"))?;
    count(dims)?;
    let coordinates = (0..outer).flat_map(|_| (0..size).flat_map(|at| std::iter::repeat_n(at, inner)));
    #[expect(clippy::cast_precision_loss, reason = "coordinates as floats")]
    Ok(if dtype.is_float() {
        Tensor::floats(dtype, dims, coordinates.map(|at| at as f32).collect())
    } else {
        Tensor::ints(dtype, dims, coordinates.map(|at| i64::try_from(at).unwrap_or(i64::MAX)).collect())
    })
}
