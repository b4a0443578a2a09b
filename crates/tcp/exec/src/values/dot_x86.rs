//! [`super::dot`] with vector instructions of x86-64.
//!
//! VNNI multiplies unsigned with signed bytes: `a` is taken plus 128, and 128 times the sum of `b` is taken
//! off again. All of it wraps, and so is exact.

#![expect(unsafe_code, reason = "vector instructions are entered only after the host was asked for them")]

use std::arch::x86_64::*;

use super::dot_row::row_sum;

/// Rows of `a` that meet a part of `b` while it is in registers.
const ROWS: usize = 4;

/// The dot products, if the host has AVX-512 with VNNI.
pub(super) fn avx512(a: &[u8], b: &[u8], sums: &mut [i32]) -> bool {
    let has = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vnni");
    if has {
        for (a, sums) in a.chunks(ROWS * b.len()).zip(sums.chunks_mut(ROWS)) {
            // SAFETY: the features were asked for.
            match sums.len() {
                1 => unsafe { quads::<1>(a, b, sums) },
                2 => unsafe { quads::<2>(a, b, sums) },
                3 => unsafe { quads::<3>(a, b, sums) },
                _ => unsafe { quads::<ROWS>(a, b, sums) },
            }
        }
    }
    has
}

/// The dot products, if the host has AVX2.
pub(super) fn avx2(a: &[u8], b: &[u8], sums: &mut [i32]) -> bool {
    let has = is_x86_feature_detected!("avx2");
    if has {
        for (a, sum) in a.chunks_exact(b.len()).zip(sums) {
            // SAFETY: the feature was asked for.
            *sum = sum.wrapping_add(unsafe { pairs(a, b) });
        }
    }
    has
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn quads<const N: usize>(a: &[u8], b: &[u8], sums: &mut [i32]) {
    const BYTES: usize = 64;
    let mut rows: [&[u8]; N] = [&[]; N];
    for (row, part) in rows.iter_mut().zip(a.chunks_exact(b.len())) {
        *row = part;
    }
    let offset = _mm512_set1_epi8(i8::MIN);
    let mut totals = [_mm512_setzero_si512(); N];
    let mut taken = _mm512_setzero_si512();
    let whole = b.len() / BYTES * BYTES;
    for at in (0..whole).step_by(BYTES) {
        let part = load512(&b[at..]);
        taken = _mm512_dpbusd_epi32(taken, offset, part);
        for (total, row) in totals.iter_mut().zip(rows) {
            let shifted = _mm512_xor_si512(load512(&row[at..]), offset);
            *total = _mm512_dpbusd_epi32(*total, shifted, part);
        }
    }
    for ((sum, total), row) in sums.iter_mut().zip(totals).zip(rows) {
        let exact = _mm512_reduce_add_epi32(_mm512_sub_epi32(total, taken));
        *sum = sum.wrapping_add(exact).wrapping_add(row_sum(&row[whole..], &b[whole..]));
    }
}

#[target_feature(enable = "avx2")]
fn pairs(a: &[u8], b: &[u8]) -> i32 {
    row_sum(a, b)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load512(bytes: &[u8]) -> __m512i {
    let bytes = &bytes[..64];
    // SAFETY: as many bytes as are loaded, from any address.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}
