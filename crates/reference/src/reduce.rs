//! Folding axes. Sums of floats run in eight lanes, then over the lanes, whatever the shape: zeros behind the
//! last element change no bit.

use tilewright_graph::Fold;

use crate::elementwise::{larger, smaller};
use crate::error::EvalError;
use crate::tensor::{Elements, Tensor};
use crate::view::transpose;

/// Folds axes.
pub fn reduce(fold: Fold, x: &Tensor, axes: &[usize], keep: bool) -> Result<Tensor, EvalError> {
    let kept: Vec<usize> = (0..x.dims.len()).filter(|axis| !axes.contains(axis)).collect();
    let order: Vec<usize> = kept.iter().chain(axes).copied().collect();
    let moved = transpose(x, &order)?;
    let size = |axes: &[usize]| axes.iter().filter_map(|axis| x.dims.get(*axis)).product::<usize>();
    let (rows, width) = (size(&kept), size(axes));
    let dims: Vec<usize> = x
        .dims
        .iter()
        .enumerate()
        .filter_map(|(axis, dim)| if axes.contains(&axis) { keep.then_some(1) } else { Some(*dim) })
        .collect();
    let row = |at: usize| at * width..(at + 1) * width;
    Ok(match &moved.elements {
        Elements::Floats(elements) => {
            let folded = (0..rows).map(|at| float_fold(fold, elements.get(row(at)).unwrap_or(&[])));
            Tensor::floats(x.dtype, &dims, folded.collect())
        }
        Elements::Ints(elements) => {
            let folded = (0..rows).map(|at| int_fold(fold, elements.get(row(at)).unwrap_or(&[]), x.dtype));
            Tensor::ints(x.dtype, &dims, folded.collect())
        }
    })
}

fn float_fold(fold: Fold, row: &[f32]) -> f32 {
    match fold {
        Fold::Sum => sum(row),
        Fold::Prod => row.iter().product(),
        Fold::Max => row.iter().copied().fold(f32::NEG_INFINITY, larger),
        Fold::Min => row.iter().copied().fold(f32::INFINITY, smaller),
    }
}

fn int_fold(fold: Fold, row: &[i64], dtype: tilewright_graph::Dtype) -> i64 {
    let (least, most) = dtype.integer_range().unwrap_or((i64::MIN, i64::MAX));
    match fold {
        Fold::Sum => row.iter().copied().fold(0, i64::wrapping_add),
        Fold::Prod => row.iter().copied().fold(1, i64::wrapping_mul),
        Fold::Max => row.iter().copied().max().unwrap_or(least),
        Fold::Min => row.iter().copied().min().unwrap_or(most),
    }
}

fn sum(row: &[f32]) -> f32 {
    let (chunks, rest) = row.as_chunks::<8>();
    let mut lanes = [0.0_f32; 8];
    for chunk in chunks {
        lanes.iter_mut().zip(chunk).for_each(|(lane, x)| *lane += x);
    }
    lanes.iter_mut().zip(rest).for_each(|(lane, x)| *lane += x);
    lanes.iter().sum()
}
