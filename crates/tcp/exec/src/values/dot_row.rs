//! The dot product of two rows of i8, element by element.

/// One product after the other; the compiler makes vectors of it.
#[inline(always)]
pub(super) fn row_sum(a: &[u8], b: &[u8]) -> i32 {
    let product = |(a, b): (&u8, &u8)| i32::from(a.cast_signed()) * i32::from(b.cast_signed());
    a.iter().zip(b).map(product).fold(0, i32::wrapping_add)
}
