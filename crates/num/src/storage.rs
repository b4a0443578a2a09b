//! How elements lie in memory: little-endian, two to a byte for the 4-bit types with the low nibble first.
//!
//! i5 and i9 never reach the chip's memory; here they take a whole byte or two, sign-extended.

#![expect(clippy::cast_possible_truncation, reason = "elements are split into bytes")]

use crate::Dtype;
use crate::int::int_value;

impl Dtype {
    /// Bytes that `elements` elements take, the last one filled up.
    #[must_use]
    pub const fn size_bytes(self, elements: usize) -> usize {
        (elements * self.storage_bits() as usize).div_ceil(8)
    }
}

/// The pattern of element `index`.
///
/// # Panics
/// If the element lies outside `bytes`.
#[must_use]
pub fn load(dtype: Dtype, bytes: &[u8], index: usize) -> u32 {
    match dtype.storage_bits() {
        4 => (u32::from(bytes[index / 2]) >> (4 * (index % 2))) & 0xF,
        8 => u32::from(bytes[index]) & mask(dtype),
        16 => u32::from(u16::from_le_bytes([bytes[2 * index], bytes[2 * index + 1]])) & mask(dtype),
        _ => {
            let at = 4 * index;
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        }
    }
}

/// Writes the pattern of element `index`; neighbours in the same byte are untouched.
///
/// # Panics
/// If the element lies outside `bytes`.
pub fn store(dtype: Dtype, bytes: &mut [u8], index: usize, pattern: u32) {
    let pattern = if dtype.is_float() { pattern } else { int_value(dtype, pattern).cast_unsigned() as u32 };
    match dtype.storage_bits() {
        4 => {
            let shift = 4 * (index % 2);
            let kept = bytes[index / 2] & !(0xF << shift);
            bytes[index / 2] = kept | (((pattern & 0xF) as u8) << shift);
        }
        8 => bytes[index] = pattern as u8,
        16 => bytes[2 * index..2 * index + 2].copy_from_slice(&(pattern as u16).to_le_bytes()),
        _ => bytes[4 * index..4 * index + 4].copy_from_slice(&pattern.to_le_bytes()),
    }
}

/// Bits of an element read from a whole number of bytes.
const fn mask(dtype: Dtype) -> u32 {
    u32::MAX >> (32 - dtype.bits())
}
