//! Strided copies. Transposing, stretching, slicing and windows all read one tensor by another set of
//! strides.

use std::sync::Arc;

use crate::error::EvalError;
use crate::tensor::{Elements, Tensor, count};

/// Elements between neighbours along each axis of a row-major tensor.
pub fn strides(dims: &[usize]) -> Vec<isize> {
    let mut stride = 1_isize;
    let mut all: Vec<isize> = dims
        .iter()
        .rev()
        .map(|dim| {
            let this = stride;
            stride = stride.saturating_mul(isize::try_from(*dim).unwrap_or(isize::MAX));
            this
        })
        .collect();
    all.reverse();
    all
}

/// Strides with which a tensor is read under a larger shape: sizes of 1 and missing axes do not move.
pub fn stretched(dims: &[usize], to: &[usize]) -> Option<Vec<isize>> {
    let skip = to.len().checked_sub(dims.len())?;
    let own = strides(dims);
    let mut all = vec![0; to.len()];
    for (axis, (dim, stride)) in dims.iter().zip(own).enumerate() {
        let wanted = *to.get(skip + axis)?;
        if *dim == wanted {
            *all.get_mut(skip + axis)? = stride;
        } else if *dim != 1 {
            return None;
        }
    }
    Some(all)
}

/// A tensor read from `start` by `strides` under `dims`.
pub fn copy(x: &Tensor, dims: &[usize], start: isize, strides: &[isize]) -> Result<Tensor, EvalError> {
    let elements = match &x.elements {
        Elements::Floats(elements) => Elements::Floats(Arc::new(gathered(elements, dims, start, strides)?)),
        Elements::Ints(elements) => Elements::Ints(Arc::new(gathered(elements, dims, start, strides)?)),
    };
    Ok(Tensor { dtype: x.dtype, dims: dims.to_vec(), elements })
}

/// The elements read from `start` by `strides` under `dims`.
pub fn gathered<T: Copy>(
    from: &[T],
    dims: &[usize],
    start: isize,
    strides: &[isize],
) -> Result<Vec<T>, EvalError> {
    let mut out = Vec::with_capacity(count(dims)?);
    rows(dims, &[strides], &[start], |size, [at], [stride]| {
        let outside = EvalError::Operands("view");
        let mut at = *at;
        if *stride == 1 {
            let first = usize::try_from(at).map_err(|_| outside.clone())?;
            out.extend_from_slice(from.get(first..first + size).ok_or(outside)?);
            return Ok(());
        }
        for _ in 0..size {
            let place = usize::try_from(at).ok().and_then(|at| from.get(at));
            out.push(*place.ok_or_else(|| outside.clone())?);
            at += stride;
        }
        Ok(())
    })?;
    Ok(out)
}

/// Goes through the rows (along the last axis) of a shape, with the offset of each operand and its stride
/// there.
pub fn rows<const N: usize>(
    dims: &[usize],
    strides: &[&[isize]; N],
    start: &[isize; N],
    mut row: impl FnMut(usize, &[isize; N], &[isize; N]) -> Result<(), EvalError>,
) -> Result<(), EvalError> {
    if dims.contains(&0) {
        return Ok(());
    }
    let Some((last, outer)) = dims.split_last() else {
        return row(1, start, &[1; N]);
    };
    let inner: [isize; N] = std::array::from_fn(|n| strides[n].last().copied().unwrap_or(0));
    let mut at = vec![0_usize; outer.len()];
    let mut offsets = *start;
    loop {
        row(*last, &offsets, &inner)?;
        let mut axis = outer.len();
        loop {
            let Some(next) = axis.checked_sub(1) else { return Ok(()) };
            axis = next;
            at[axis] += 1;
            for n in 0..N {
                offsets[n] += strides[n][axis];
            }
            if at[axis] < outer[axis] {
                break;
            }
            let back = isize::try_from(at[axis]).unwrap_or(0);
            for n in 0..N {
                offsets[n] -= back * strides[n][axis];
            }
            at[axis] = 0;
        }
    }
}

/// Axes in another order.
pub fn transpose(x: &Tensor, order: &[usize]) -> Result<Tensor, EvalError> {
    let own = strides(&x.dims);
    let wrong = EvalError::Operands("transpose");
    let dims: Option<Vec<usize>> = order.iter().map(|axis| x.dims.get(*axis).copied()).collect();
    let moved: Option<Vec<isize>> = order.iter().map(|axis| own.get(*axis).copied()).collect();
    let (Some(dims), Some(moved)) = (dims, moved) else { return Err(wrong) };
    if order.is_sorted() {
        return Ok(x.clone());
    }
    copy(x, &dims, 0, &moved)
}

/// Sizes of 1 stretched.
pub fn broadcast(x: &Tensor, dims: &[usize]) -> Result<Tensor, EvalError> {
    if x.dims == dims {
        return Ok(x.clone());
    }
    let strides = stretched(&x.dims, dims).ok_or(EvalError::Operands("broadcast"))?;
    copy(x, dims, 0, &strides)
}

/// Part of an axis.
pub fn slice(x: &Tensor, axis: usize, start: i64, size: usize, step: i64) -> Result<Tensor, EvalError> {
    let wrong = || EvalError::Operands("slice");
    let mut own = strides(&x.dims);
    let mut dims = x.dims.clone();
    let stride = own.get_mut(axis).ok_or_else(wrong)?;
    let whole = dims.get_mut(axis).ok_or_else(wrong)?;
    let last = i64::try_from(size).ok().and_then(|size| (size - 1).checked_mul(step)?.checked_add(start));
    let inside = |at: i64| usize::try_from(at).is_ok_and(|at| at < *whole);
    if size > 0 && !(inside(start) && last.is_some_and(inside)) {
        return Err(wrong());
    }
    let start = isize::try_from(start).map_err(|_| wrong())? * *stride;
    *stride *= isize::try_from(step).map_err(|_| wrong())?;
    *whole = size;
    copy(x, &dims, start, &own)
}

/// Windows along an axis.
pub fn window(
    x: &Tensor,
    axis: usize,
    (size, stride, dilation): (usize, usize, usize),
) -> Result<Tensor, EvalError> {
    let wrong = || EvalError::Operands("window");
    let mut own = strides(&x.dims);
    let mut dims = x.dims.clone();
    let whole = *dims.get(axis).ok_or_else(wrong)?;
    let step = *own.get(axis).ok_or_else(wrong)?;
    let reach = size.checked_sub(1).and_then(|n| n.checked_mul(dilation)).ok_or_else(wrong)?;
    let rest = whole.checked_sub(reach + 1).ok_or_else(wrong)?;
    let windows = rest.checked_div(stride).ok_or_else(wrong)? + 1;
    let by = |n: usize| isize::try_from(n).map_err(|_| wrong());
    dims.splice(axis..=axis, [windows, size]);
    own.splice(axis..=axis, [step * by(stride)?, step * by(dilation)?]);
    copy(x, &dims, 0, &own)
}
