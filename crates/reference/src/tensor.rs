//! Elements with their sizes. Float types are held as f32, all others as i64.

use std::sync::Arc;

use half::{bf16, f16};
use tilewright_graph::{Data, Dtype, StoredTensor};

use crate::error::EvalError;
use crate::float8;

/// Elements of one tensor, at most.
pub const MOST_ELEMENTS: u64 = 1 << 29;

/// Elements in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub enum Elements {
    /// Of a float type.
    Floats(Arc<Vec<f32>>),
    /// Of any other type.
    Ints(Arc<Vec<i64>>),
}

/// A tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Type of the elements.
    pub dtype: Dtype,
    /// Sizes, outermost first.
    pub dims: Vec<usize>,
    /// Its elements.
    pub elements: Elements,
}

/// The number of elements; an error if there are too many.
pub fn count(dims: &[usize]) -> Result<usize, EvalError> {
    let count = dims.iter().fold(1_u128, |count, dim| count.saturating_mul(*dim as u128));
    match usize::try_from(count) {
        Ok(fits) if count <= u128::from(MOST_ELEMENTS) => Ok(fits),
        _ => Err(EvalError::Size(count, MOST_ELEMENTS)),
    }
}

impl Tensor {
    /// A float tensor; elements are rounded to the type.
    pub fn floats(dtype: Dtype, dims: &[usize], mut elements: Vec<f32>) -> Tensor {
        round(dtype, &mut elements);
        Tensor { dtype, dims: dims.to_vec(), elements: Elements::Floats(Arc::new(elements)) }
    }

    /// A tensor of integers or bools; elements are wrapped to the type.
    pub fn ints(dtype: Dtype, dims: &[usize], mut elements: Vec<i64>) -> Tensor {
        if dtype != Dtype::I64 {
            elements.iter_mut().for_each(|element| *element = dtype.wrap(*element));
        }
        Tensor { dtype, dims: dims.to_vec(), elements: Elements::Ints(Arc::new(elements)) }
    }

    /// A tensor of bools.
    pub fn bools(dims: &[usize], elements: Vec<i64>) -> Tensor {
        Tensor { dtype: Dtype::Bool, dims: dims.to_vec(), elements: Elements::Ints(Arc::new(elements)) }
    }

    /// Its elements as floats; nothing if they are integers.
    pub fn as_floats(&self) -> &[f32] {
        match &self.elements {
            Elements::Floats(elements) => elements,
            Elements::Ints(_) => &[],
        }
    }

    /// Its elements as integers; nothing if they are floats.
    pub fn as_ints(&self) -> &[i64] {
        match &self.elements {
            Elements::Ints(elements) => elements,
            Elements::Floats(_) => &[],
        }
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        match &self.elements {
            Elements::Floats(elements) => elements.len(),
            Elements::Ints(elements) => elements.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As written: `f32[1, 64]`.
    pub fn ty(&self) -> String {
        format!("{}{:?}", self.dtype, self.dims)
    }

    /// The elements of a constant.
    pub fn constant(dtype: Dtype, dims: &[usize], data: &Data) -> Option<Tensor> {
        let count = count(dims).ok()?;
        match data {
            Data::Stored(_) => None,
            Data::Floats(patterns) => {
                let elements: Vec<f32> = patterns.iter().map(|pattern| f32::from_bits(*pattern)).collect();
                Some(Tensor::floats(dtype, dims, repeated(elements, count).filter(|_| dtype.is_float())?))
            }
            Data::Ints(elements) => {
                let elements = repeated(elements.clone(), count).filter(|_| !dtype.is_float())?;
                Some(Tensor::ints(dtype, dims, elements))
            }
        }
    }

    /// The elements of a stored tensor.
    pub fn stored(stored: &StoredTensor) -> Option<Tensor> {
        let dims: Option<Vec<usize>> = stored.dims.iter().map(|dim| usize::try_from(*dim).ok()).collect();
        let dims = dims?;
        let count = count(&dims).ok()?;
        let bytes = stored.bytes();
        let pairs = || bytes.as_chunks::<2>().0.iter().map(|pair| u16::from_le_bytes(*pair));
        let words = || bytes.as_chunks::<4>().0.iter();
        let floats = |elements: Vec<f32>| Tensor {
            dtype: stored.dtype,
            dims: dims.clone(),
            elements: Elements::Floats(Arc::new(elements)),
        };
        let tensor = match stored.dtype {
            Dtype::F32 => floats(words().map(|word| f32::from_le_bytes(*word)).collect()),
            Dtype::F16 => floats(pairs().map(|pair| f16::from_bits(pair).to_f32()).collect()),
            Dtype::Bf16 => floats(pairs().map(|pair| bf16::from_bits(pair).to_f32()).collect()),
            Dtype::F8E4M3 => floats(bytes.iter().map(|byte| float8::decoded(*byte)).collect()),
            dtype => {
                let elements: Vec<i64> = match dtype {
                    Dtype::I32 => words().map(|word| i64::from(i32::from_le_bytes(*word))).collect(),
                    Dtype::I64 => {
                        bytes.as_chunks::<8>().0.iter().map(|word| i64::from_le_bytes(*word)).collect()
                    }
                    Dtype::I4 | Dtype::U4 => {
                        let halves = bytes.iter().flat_map(|byte| [byte & 15, byte >> 4]);
                        halves.take(count).map(i64::from).collect()
                    }
                    _ => bytes.iter().map(|byte| i64::from(*byte)).collect(),
                };
                Tensor::ints(dtype, &dims, elements)
            }
        };
        (tensor.len() == count).then_some(tensor)
    }
}

fn repeated<T: Clone>(elements: Vec<T>, count: usize) -> Option<Vec<T>> {
    match elements.as_slice() {
        [one] => Some(vec![one.clone(); count]),
        all => (all.len() == count).then_some(elements),
    }
}

/// Rounds floats to a narrower type.
pub fn round(dtype: Dtype, elements: &mut [f32]) {
    match dtype {
        Dtype::F16 => elements.iter_mut().for_each(|x| *x = f16::from_f32(*x).to_f32()),
        Dtype::Bf16 => elements.iter_mut().for_each(|x| *x = bf16::from_f32(*x).to_f32()),
        Dtype::F8E4M3 => elements.iter_mut().for_each(|x| *x = float8::rounded(*x)),
        _ => {}
    }
}
