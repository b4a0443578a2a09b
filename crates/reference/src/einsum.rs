//! Sums of products. Pairs of operands become batches of matrix products with both matrices row by row over
//! the summed labels; a product is a dot product in sixteen lanes, in one order for every shape and number of
//! threads.

use rayon::prelude::*;
use tilewright_graph::{Dtype, Subscripts};

use crate::error::EvalError;
use crate::tensor::{Elements, Tensor, count};
use crate::view::{copy, strides};

/// Multiply-accumulates below which threads are not worth it.
const FEW: usize = 1 << 16;

/// A tensor whose axes carry labels.
#[derive(Clone)]
struct LabelledTensor {
    tensor: Tensor,
    labels: Vec<u8>,
}

/// Evaluates subscripts on operands.
pub fn einsum(spec: &str, inputs: &[&Tensor]) -> Result<Tensor, EvalError> {
    let wrong = || EvalError::Operands("einsum");
    let parts = Subscripts::parse(spec).ok_or_else(wrong)?;
    if parts.inputs.len() != inputs.len() {
        return Err(wrong());
    }
    let mut operands = Vec::new();
    for (labels, tensor) in parts.inputs.iter().zip(inputs) {
        operands.push(diagonal(tensor, labels)?);
    }
    let mut rest = operands.into_iter();
    let mut sum = rest.next().ok_or_else(wrong)?;
    while let Some(next) = rest.next() {
        let later: Vec<u8> =
            rest.clone().flat_map(|operand| operand.labels).chain(parts.output.clone()).collect();
        sum = contract(&sum, &next, &later)?;
    }
    let alone: Vec<u8> = sum.labels.iter().copied().filter(|label| !parts.output.contains(label)).collect();
    if !alone.is_empty() {
        sum = summed(&sum, &alone)?;
    }
    Ok(arranged(&sum, &parts.output)?.tensor)
}

/// Reads equal labels of one operand along their diagonal.
fn diagonal(tensor: &Tensor, labels: &[u8]) -> Result<LabelledTensor, EvalError> {
    let wrong = || EvalError::Operands("einsum");
    if labels.len() != tensor.dims.len() {
        return Err(wrong());
    }
    let mut unique: Vec<u8> = Vec::new();
    let (mut dims, mut steps) = (Vec::new(), Vec::new());
    for ((label, dim), step) in labels.iter().zip(&tensor.dims).zip(strides(&tensor.dims)) {
        match unique.iter().position(|known| known == label) {
            None => {
                unique.push(*label);
                dims.push(*dim);
                steps.push(step);
            }
            Some(at) if dims.get(at) == Some(dim) => steps[at] += step,
            Some(_) => return Err(wrong()),
        }
    }
    if unique.len() == labels.len() {
        return Ok(LabelledTensor { tensor: tensor.clone(), labels: unique });
    }
    Ok(LabelledTensor { tensor: copy(tensor, &dims, 0, &steps)?, labels: unique })
}

impl LabelledTensor {
    fn size(&self, label: u8) -> Option<usize> {
        let at = self.labels.iter().position(|known| *known == label)?;
        self.tensor.dims.get(at).copied()
    }
}

/// The same with its axes in the order of these labels, which must be its own.
fn arranged(x: &LabelledTensor, labels: &[u8]) -> Result<LabelledTensor, EvalError> {
    let order: Option<Vec<usize>> =
        labels.iter().map(|label| x.labels.iter().position(|known| known == label)).collect();
    let order = order.filter(|order| order.len() == x.labels.len()).ok_or(EvalError::Operands("einsum"))?;
    Ok(LabelledTensor { tensor: crate::view::transpose(&x.tensor, &order)?, labels: labels.to_vec() })
}

/// Sums over labels that stand nowhere else.
fn summed(x: &LabelledTensor, over: &[u8]) -> Result<LabelledTensor, EvalError> {
    let axes: Vec<usize> = (0..x.labels.len())
        .filter(|axis| x.labels.get(*axis).is_some_and(|label| over.contains(label)))
        .collect();
    let tensor = crate::reduce::reduce(tilewright_graph::Fold::Sum, &x.tensor, &axes, false)?;
    let labels = x.labels.iter().copied().filter(|label| !over.contains(label)).collect();
    Ok(LabelledTensor { tensor, labels })
}

/// Contracts two operands, keeping labels that are needed later.
fn contract(a: &LabelledTensor, b: &LabelledTensor, later: &[u8]) -> Result<LabelledTensor, EvalError> {
    let alone = |x: &LabelledTensor, y: &LabelledTensor| -> Vec<u8> {
        x.labels.iter().copied().filter(|label| !y.labels.contains(label) && !later.contains(label)).collect()
    };
    let trimmed = |x: &LabelledTensor, y: &LabelledTensor| -> Result<LabelledTensor, EvalError> {
        let over = alone(x, y);
        if over.is_empty() { Ok(x.clone()) } else { summed(x, &over) }
    };
    let (a, b) = (&trimmed(a, b)?, &trimmed(b, a)?);
    let both = |label: &u8| b.labels.contains(label);
    let batch: Vec<u8> = a.labels.iter().copied().filter(|l| both(l) && later.contains(l)).collect();
    let summed: Vec<u8> =
        b.labels.iter().copied().filter(|l| a.labels.contains(l) && !later.contains(l)).collect();
    let own = |x: &LabelledTensor, y: &LabelledTensor| -> Vec<u8> {
        x.labels.iter().copied().filter(|label| !y.labels.contains(label)).collect()
    };
    let (rows, columns) = (own(a, b), own(b, a));
    let size =
        |x: &LabelledTensor, labels: &[u8]| labels.iter().filter_map(|l| x.size(*l)).product::<usize>();
    let shape = MatmulShape {
        batch: size(a, &batch),
        rows: size(a, &rows),
        columns: size(b, &columns),
        width: size(a, &summed),
    };
    if batch.iter().chain(&summed).any(|label| a.size(*label) != b.size(*label)) {
        return Err(EvalError::Operands("einsum"));
    }
    let left = arranged(a, &[&batch[..], &rows, &summed].concat())?.tensor;
    let right = arranged(b, &[&batch[..], &columns, &summed].concat())?.tensor;
    let labels = [&batch[..], &rows, &columns].concat();
    let dims: Vec<usize> =
        labels.iter().filter_map(|label| a.size(*label).or_else(|| b.size(*label))).collect();
    count(&dims)?;
    let dtype = a.tensor.dtype;
    let tensor = match (&left.elements, &right.elements) {
        (Elements::Floats(x), Elements::Floats(y)) => Tensor::floats(dtype, &dims, shape.products(x, y, dot)),
        (Elements::Ints(x), Elements::Ints(y)) if dtype != Dtype::Bool => {
            Tensor::ints(dtype, &dims, shape.products(x, y, int_dot))
        }
        _ => return Err(EvalError::Operands("einsum")),
    };
    Ok(LabelledTensor { tensor, labels })
}

/// Batches of `[rows, width] x [columns, width]`.
struct MatmulShape {
    batch: usize,
    rows: usize,
    columns: usize,
    width: usize,
}

impl MatmulShape {
    fn products<T: Copy + Default + Send + Sync>(
        &self,
        x: &[T],
        y: &[T],
        dot: fn(&[T], &[T]) -> T,
    ) -> Vec<T> {
        let (rows, columns, width) = (self.rows, self.columns, self.width);
        let line = |from: &[T], at: usize| -> std::ops::Range<usize> {
            let start = (at * width).min(from.len());
            start..(start + width).min(from.len())
        };
        let element = |batch: usize, row: usize, column: usize| {
            dot(&x[line(x, batch * rows + row)], &y[line(y, batch * columns + column)])
        };
        let mut out = vec![T::default(); self.batch * rows * columns];
        let work = out.len().saturating_mul(width);
        if rows == 1 || self.batch > 1 || work <= FEW {
            let fill = |(index, place): (usize, &mut T)| {
                let column = index % columns.max(1);
                let row = index / columns.max(1);
                *place = element(row / rows.max(1), row % rows.max(1), column);
            };
            if work <= FEW {
                out.iter_mut().enumerate().for_each(fill);
            } else {
                out.par_iter_mut().with_min_len(64).enumerate().for_each(fill);
            }
            return out;
        }
        // One large product: a line of the right matrix is used for all rows while it is near.
        let mut transposed = vec![T::default(); rows * columns];
        transposed.par_chunks_mut(rows).with_min_len(8).enumerate().for_each(|(column, places)| {
            places.iter_mut().enumerate().for_each(|(row, place)| *place = element(0, row, column));
        });
        for (column, places) in transposed.chunks(rows).enumerate() {
            for (row, value) in places.iter().enumerate() {
                out[row * columns + column] = *value;
            }
        }
        out
    }
}

/// The dot product of two rows: sixteen lanes, then their sum two by two. Zeros behind the last element of
/// both change no bit.
fn dot(x: &[f32], y: &[f32]) -> f32 {
    let (xs, x_rest) = x.as_chunks::<16>();
    let (ys, y_rest) = y.as_chunks::<16>();
    let mut lanes = [0.0_f32; 16];
    for (x, y) in xs.iter().zip(ys) {
        for lane in 0..16 {
            lanes[lane] += x[lane] * y[lane];
        }
    }
    for (lane, (x, y)) in lanes.iter_mut().zip(x_rest.iter().zip(y_rest)) {
        *lane += x * y;
    }
    for width in [8, 4, 2, 1] {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
    }
    lanes[0]
}

fn int_dot(x: &[i64], y: &[i64]) -> i64 {
    x.iter().zip(y).fold(0, |sum, (x, y)| sum.wrapping_add(x.wrapping_mul(*y)))
}
