//! Tensors as the chip has them: words of 32 bits, truth as all ones.

use tilewright_graph::Dtype;
use tilewright_reference::{Elements, Tensor};

use super::elementwise::TRUE;

/// Elements as words; `None` if an integer is beyond 32 bits.
pub fn words(tensor: &Tensor) -> Option<Vec<u32>> {
    let word = |value: &i64| match (tensor.dtype, value) {
        (Dtype::Bool, 0) => Some(0),
        (Dtype::Bool, _) => Some(TRUE),
        (_, value) => i32::try_from(*value).ok().map(i32::cast_unsigned),
    };
    match &tensor.elements {
        Elements::Floats(values) => Some(values.iter().map(|value| value.to_bits()).collect()),
        Elements::Ints(values) => values.iter().map(word).collect(),
    }
}

/// Words as elements of a type.
pub fn tensor(dtype: Dtype, dims: &[u64], words: &[u32]) -> Tensor {
    let dims: Vec<usize> = dims.iter().map(|dim| usize::try_from(*dim).unwrap_or(usize::MAX)).collect();
    if dtype.is_float() {
        return Tensor::floats(dtype, &dims, words.iter().map(|word| f32::from_bits(*word)).collect());
    }
    let whole = |word: &u32| match dtype {
        Dtype::Bool => i64::from(*word != 0),
        _ => i64::from(word.cast_signed()),
    };
    Tensor::ints(dtype, &dims, words.iter().map(whole).collect())
}
