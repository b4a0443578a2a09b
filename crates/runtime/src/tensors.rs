//! safetensors files: named tensors behind one header.

use safetensors::{Dtype as Stored, SafeTensors};
use tilewright_num::{Dtype, RuleSet, load};

use crate::array::{Array, ArrayError};

/// Reads one tensor of a file as elements of `wanted`, by a chip's rules.
pub fn read(bytes: &[u8], name: &str, wanted: Dtype, rules: &RuleSet) -> Result<Array, ArrayError> {
    let file = SafeTensors::deserialize(bytes)
        .map_err(|error| ArrayError::Format(format!("not a safetensors file: {error}")))?;
    let tensor = file.tensor(name).map_err(|_| {
        let mut names: Vec<&str> = file.names();
        names.sort_unstable();
        names.truncate(8);
        ArrayError::Format(format!("the file has no tensor `{name}`; it has {}", names.join(", ")))
    })?;
    let found = || ArrayError::Type { found: format!("{:?}", tensor.dtype()), wanted: wanted.name() };
    let stored = stored_type(tensor.dtype()).ok_or_else(found)?;
    let extents: Vec<u64> = tensor.shape().iter().map(|extent| *extent as u64).collect();
    let count = Array::count(&extents);
    let count = count.ok_or_else(|| ArrayError::Format(format!("tensor `{name}` has too many elements")))?;
    let data = tensor.data();
    if data.len() < stored.size_bytes(count) {
        return Err(ArrayError::Format(format!("tensor `{name}` is cut off")));
    }
    let patterns = (0..count).map(|index| load(stored, data, index)).collect();
    Array { dtype: stored, extents, patterns }.converted(rules, wanted)
}

fn stored_type(stored: Stored) -> Option<Dtype> {
    match stored {
        Stored::I8 => Some(Dtype::I8),
        Stored::U8 => Some(Dtype::U8),
        Stored::I16 => Some(Dtype::I16),
        Stored::U16 => Some(Dtype::U16),
        Stored::I32 => Some(Dtype::I32),
        Stored::U32 => Some(Dtype::U32),
        Stored::F32 => Some(Dtype::F32),
        Stored::F16 => Some(Dtype::F16),
        Stored::BF16 => Some(Dtype::Bf16),
        Stored::F8_E4M3 => Some(Dtype::F8E4M3Fn),
        Stored::F8_E5M2 => Some(Dtype::F8E5M2),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use safetensors::tensor::TensorView;

    use super::*;

    #[test]
    fn tensors_are_found_by_name_and_converted() {
        let data: Vec<u8> = [1.5_f32, -2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        let view = TensorView::new(Stored::F32, vec![2], &data).unwrap();
        let bytes = safetensors::serialize([("w", view)], None).unwrap();
        let array = read(&bytes, "w", Dtype::Bf16, &RuleSet::TCP).unwrap();
        assert_eq!(array.patterns, [0x3FC0, 0xC000]);
        let missing = read(&bytes, "v", Dtype::Bf16, &RuleSet::TCP).unwrap_err();
        assert_eq!(missing.to_string(), "the file has no tensor `v`; it has w");
        assert!(read(&bytes[..bytes.len() - 1], "w", Dtype::F32, &RuleSet::TCP).is_err());
        assert!(read(&bytes, "w", Dtype::I8, &RuleSet::TCP).is_err());
    }
}
