//! Arrays between NumPy's memory and the simulator: read from where they lie, written to where they go.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use tilewright_num::{Dtype, int_pattern, int_value};
use tilewright_runtime::Array;

/// The elements of a contiguous buffer of bytes, as patterns of a type of whole bytes.
pub(crate) fn from_buffer(
    py: Python<'_>,
    buffer: &Bound<'_, PyAny>,
    dtype: Dtype,
    extents: Vec<u64>,
) -> PyResult<Array> {
    let buffer: PyBuffer<u8> = PyBuffer::get(buffer)?;
    let width = dtype.storage_bits() as usize / 8;
    let count = Array::count(&extents).ok_or_else(|| PyBufferError::new_err("too many elements"))?;
    if width == 0 || buffer.item_count() != count * width {
        let (found, wanted) = (buffer.item_count(), count * width);
        return Err(PyBufferError::new_err(format!("a buffer of {found} bytes for {wanted}")));
    }
    let bytes = lent(py, &buffer)?;
    let pattern = |bytes: &[u8]| bytes.iter().rev().fold(0_u32, |all, byte| (all << 8) | u32::from(*byte));
    let patterns = bytes.chunks_exact(width).map(pattern).collect();
    Ok(Array { dtype, extents, patterns })
}

/// The bytes of a buffer where they lie, for as long as the lock is held.
#[expect(unsafe_code, reason = "NumPy's memory is read in place; `PyBuffer::to_vec` is the same with a copy")]
fn lent<'a>(_py: Python<'a>, buffer: &'a PyBuffer<u8>) -> PyResult<&'a [u8]> {
    let bytes = buffer.as_slice_ptr();
    let bytes = bytes.ok_or_else(|| PyBufferError::new_err("the array is not contiguous"))?;
    // SAFETY: the buffer is held, so its memory stays, and nobody runs Python while the lock is held.
    Ok(unsafe { bytes.as_ref() })
}

/// Writes the elements of an array into a writable buffer of as many bytes; four-bit integers have a byte
/// each in NumPy.
pub(crate) fn into_buffer(py: Python<'_>, array: &Array, buffer: &Bound<'_, PyAny>) -> PyResult<()> {
    let buffer: PyBuffer<u8> = PyBuffer::get(buffer)?;
    let bytes = match array.dtype {
        Dtype::I4 => {
            let widen = |pattern: &u32| int_pattern(Dtype::I8, int_value(Dtype::I4, *pattern));
            let patterns = array.patterns.iter().map(widen).collect();
            Array { dtype: Dtype::I8, extents: array.extents.clone(), patterns }.bytes()
        }
        _ => array.bytes(),
    };
    if buffer.item_count() != bytes.len() {
        let (found, wanted) = (buffer.item_count(), bytes.len());
        return Err(PyBufferError::new_err(format!("a buffer of {found} bytes for {wanted}")));
    }
    buffer.copy_from_slice(py, &bytes)
}
