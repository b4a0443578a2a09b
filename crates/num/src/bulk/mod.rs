//! Slices: the same results as one element at a time, in loops the compiler turns into vector code.
//!
//! Each loop body is straight-line integer and f32 arithmetic with constants taken out of the rules
//! beforehand. Bytes are laid out as [`storage`](crate::load) says; a slice of bytes must have exactly the
//! size of its elements.

mod decode;
mod encode;
mod ints;

pub use decode::decode_slice;
pub use encode::encode_slice;
pub use ints::{pack_ints, unpack_ints};

use crate::Dtype;

/// Both sides are sized by the caller from the same shape, so a mismatch is a mistake in code, not in input.
fn assert_sizes(dtype: Dtype, elements: usize, size_bytes: usize) {
    assert_eq!(size_bytes, dtype.size_bytes(elements), "bytes of {elements} elements of {dtype}");
}

/// `a < b` for patterns without their sign bit: signed comparison, which vector units have.
#[inline(always)]
const fn below(a: u32, b: u32) -> bool {
    a.cast_signed() < b.cast_signed()
}
