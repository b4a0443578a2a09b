//! Dot products of a few rows with one row, all of i8: for contractions whose rows are too few to be worth
//! packing. Sums wrap, so that every order gives the same.

use super::dot_row::row_sum;
#[cfg(target_arch = "x86_64")]
use super::dot_x86;
use super::simd_path::SimdPath;

/// Adds to each sum the products of a row of `a` with `b`; rows of `a` follow each other and are as long as
/// `b`.
pub fn dot_i8(path: SimdPath, a: &[u8], b: &[u8], sums: &mut [i32]) {
    if b.is_empty() {
        return;
    }
    match path {
        #[cfg(target_arch = "x86_64")]
        SimdPath::Avx512 if dot_x86::avx512(a, b, sums) => {}
        #[cfg(target_arch = "x86_64")]
        SimdPath::Avx512 | SimdPath::Avx2 if dot_x86::avx2(a, b, sums) => {}
        _ => portable(a, b, sums),
    }
}

fn portable(a: &[u8], b: &[u8], sums: &mut [i32]) {
    for (row, sum) in a.chunks_exact(b.len()).zip(sums) {
        *sum = sum.wrapping_add(row_sum(row, b));
    }
}
