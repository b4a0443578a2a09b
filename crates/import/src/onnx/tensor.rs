//! Tensors of ONNX files as stored tensors.

use std::sync::Arc;

use prost::Message as _;
use tilewright_graph::{Dtype, StoredTensor};

use crate::error::{ImportError, ImportResult};
use crate::onnx::proto;

/// Numbers of element types.
const TYPES: [(i32, Dtype); 11] = [
    (1, Dtype::F32),
    (2, Dtype::U8),
    (3, Dtype::I8),
    (6, Dtype::I32),
    (7, Dtype::I64),
    (9, Dtype::Bool),
    (10, Dtype::F16),
    (16, Dtype::Bf16),
    (17, Dtype::F8E4M3),
    (21, Dtype::U4),
    (22, Dtype::I4),
];

/// Names of other numbers of element types (onnx.proto, `TensorProto.DataType`), for complaints.
const OTHER_TYPES: [(i32, &str); 14] = [
    (4, "uint16"),
    (5, "int16"),
    (8, "string"),
    (11, "double"),
    (12, "uint32"),
    (13, "uint64"),
    (14, "complex64"),
    (15, "complex128"),
    (18, "float8e4m3fnuz"),
    (19, "float8e5m2"),
    (20, "float8e5m2fnuz"),
    (23, "float4e2m1"),
    (24, "float8e8m0"),
    (25, "uint2"),
];

/// The element type of a number, or what to say of one that is not read.
pub(super) fn known_type(number: i64) -> Result<Dtype, String> {
    let known = i32::try_from(number).ok().and_then(dtype);
    let other = OTHER_TYPES.iter().find(|(known, _)| i64::from(*known) == number);
    known.ok_or_else(|| match other {
        Some((_, name)) => format!("element type {name} is not known here"),
        None => format!("element type {number} is not known here"),
    })
}

/// Types that are read, for complaints.
pub(super) fn types_text() -> String {
    TYPES.map(|(_, dtype)| dtype.name()).join(", ")
}

/// The element type of a number.
pub(super) fn dtype(number: i32) -> Option<Dtype> {
    TYPES.iter().find(|(known, _)| *known == number).map(|(_, dtype)| *dtype)
}

/// Elements of a float type of 16 or 32 bits as f32.
pub(super) fn floats(stored: &StoredTensor) -> Option<Vec<f32>> {
    let words = stored.bytes().as_chunks::<2>().0.iter().map(|word| u16::from_le_bytes(*word));
    match stored.dtype {
        Dtype::F32 => {
            Some(stored.bytes().as_chunks::<4>().0.iter().map(|word| f32::from_le_bytes(*word)).collect())
        }
        Dtype::Bf16 => Some(words.map(|word| f32::from_bits(u32::from(word) << 16)).collect()),
        Dtype::F16 => Some(words.map(half).collect()),
        _ => None,
    }
}

/// The number that a pattern of binary16 is.
fn half(word: u16) -> f32 {
    let (exponent, fraction) = (u32::from(word >> 10 & 31), u32::from(word & 1023));
    let size = match exponent {
        // Without the leading one: a multiple of the least.
        #[expect(clippy::cast_precision_loss, reason = "ten bits")]
        0 => fraction as f32 * f32::from_bits(0x3380_0000),
        31 => f32::from_bits(0x7F80_0000 | fraction << 13),
        _ => f32::from_bits((exponent + 112) << 23 | fraction << 13),
    };
    if word & 0x8000 == 0 { size } else { -size }
}

/// Gives the bytes of a file beside the model, or says why not.
pub type ExternalData<'f> = dyn Fn(&str) -> Result<Arc<Vec<u8>>, String> + 'f;

/// What [`ExternalData`] says where there are no other files.
pub(super) fn no_external_data(_: &str) -> Result<Arc<Vec<u8>>, String> {
    Err("cannot be read: only the model itself is at hand".to_string())
}

/// Reads a file that holds one tensor, as the node tests do.
///
/// # Errors
/// If it does not.
pub fn read(file: &str, bytes: &[u8]) -> ImportResult<StoredTensor> {
    let tensor = proto::TensorProto::decode(bytes)
        .map_err(|error| ImportError::new(file, format!("not a tensor of ONNX: {error}")))?;
    stored(file, tensor, &no_external_data)
}

/// A tensor with its elements in bytes.
pub(super) fn stored(
    file: &str,
    tensor: proto::TensorProto,
    beside: &ExternalData<'_>,
) -> ImportResult<StoredTensor> {
    let name =
        if tensor.name.is_empty() { "tensor".to_string() } else { format!("tensor `{}`", tensor.name) };
    let about = |what: String| ImportError::about(file, name.clone(), what);
    let dtype = known_type(tensor.data_type.into()).map_err(|what| about(what).allowed(types_text()))?;
    let dims: Option<Vec<u64>> = tensor.dims.iter().map(|dim| u64::try_from(*dim).ok()).collect();
    let dims = dims.ok_or_else(|| about(format!("sizes {:?}", tensor.dims)).allowed("sizes from 0"))?;
    let count = dims.iter().try_fold(1_u64, |count, dim| count.checked_mul(*dim));
    let size = count.and_then(|count| dtype.size_bytes(count)).and_then(|size| usize::try_from(size).ok());
    let wrong = |held: usize| {
        let asked = size.map_or("more than 2^64".to_string(), |size| size.to_string());
        let what = format!("sizes {dims:?} of {dtype} ask for {asked} bytes, the file has {held}");
        about(what).instead("the whole file")
    };
    if tensor.data_location == 1 {
        return external(&tensor, dtype, &dims, beside, &about);
    }
    let bytes = if tensor.raw_data.is_empty() { spelled(&tensor, dtype) } else { tensor.raw_data };
    let held = bytes.len();
    StoredTensor::owned(dtype, &dims, bytes).ok_or_else(|| wrong(held))
}

/// Elements that are spelled out in fields.
fn spelled(tensor: &proto::TensorProto, dtype: Dtype) -> Vec<u8> {
    match dtype {
        Dtype::F32 => tensor.float_data.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Dtype::I64 => tensor.int64_data.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Dtype::I32 => tensor.int32_data.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Dtype::F16 | Dtype::Bf16 => {
            tensor.int32_data.iter().flat_map(|x| [x.to_le_bytes()[0], x.to_le_bytes()[1]]).collect()
        }
        _ => tensor.int32_data.iter().map(|x| x.to_le_bytes()[0]).collect(),
    }
}

fn external(
    tensor: &proto::TensorProto,
    dtype: Dtype,
    dims: &[u64],
    beside: &ExternalData<'_>,
    about: &dyn Fn(String) -> Box<ImportError>,
) -> ImportResult<StoredTensor> {
    let entry = |key: &str| {
        tensor.external_data.iter().find(|entry| entry.key == key).map(|entry| entry.value.as_str())
    };
    let location = entry("location").unwrap_or("");
    let inside = !location.is_empty()
        && !location.starts_with(['/', '\\'])
        && !location.contains(':')
        && location.split(['/', '\\']).all(|part| !part.is_empty() && part != "..");
    if !inside {
        let what = format!("its elements are in `{location}`, outside the model's folder");
        return Err(about(what).allowed("a file in the same folder or below"));
    }
    let bytes = beside(location).map_err(|why| {
        about(format!("its elements are in `{location}`, which {why}"))
            .allowed("a file in the model's folder or below, links followed")
            .instead("the file itself in that folder")
    })?;
    let number = |key: &str| match entry(key) {
        None => Ok(None),
        Some(text) => text.parse::<usize>().map(Some).map_err(|_| {
            about(format!("`{key}` of its elements in `{location}` is `{text}`"))
                .allowed("a whole number of bytes from 0")
        }),
    };
    let start = number("offset")?.unwrap_or(0);
    let rest = bytes.len().saturating_sub(start);
    let end = start.saturating_add(number("length")?.unwrap_or(rest));
    StoredTensor::new(dtype, dims, &bytes, start, end)
        .ok_or_else(|| about(format!("bytes {start} to {end} of `{location}` are not its elements")))
}

#[cfg(test)]
mod tests {
    use super::half;

    #[test]
    fn halves_are_their_numbers() {
        let all =
            [(0x3C00, 1.0), (0x0001, 5.960_464_5e-8), (0x83FF, -6.097_555e-5), (0x0400, 6.103_515_6e-5)];
        for (pattern, number) in all.into_iter().chain([(0x7BFF, 65504.0), (0xFC00, f32::NEG_INFINITY)]) {
            assert_eq!(half(pattern).to_bits(), f32::to_bits(number), "{pattern:x}");
        }
        assert!(half(0x7E00).is_nan());
    }
}
