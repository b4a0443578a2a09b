//! Sums of words side by side: results of several slices, as the reducer between them adds them, and rows
//! times a factor. Floats by the rules of the chip: every product and every sum is rounded and flushed.

use tilewright_num::{RuleSet, add_f32, mul_f32};

use super::kernel_portable;
use super::simd_path::SimdPath;
use super::tile_float::{FloatLanes, QUIET_NAN};
#[cfg(target_arch = "x86_64")]
use super::{kernel_avx2, kernel_avx512};

/// Adds words to sums that are settled.
pub(crate) fn add_words(path: SimdPath, sums: &mut [f32], words: &[u32]) {
    match path {
        #[cfg(target_arch = "x86_64")]
        SimdPath::Avx512 => kernel_avx512::add_words(sums, words),
        #[cfg(target_arch = "x86_64")]
        SimdPath::Avx2 => kernel_avx2::add_words(sums, words),
        _ => kernel_portable::add_words(sums, words),
    }
}

/// Adds a row times a factor to sums; all are settled, and so are the sums again but for the word of NaN.
pub(crate) fn add_scaled(path: SimdPath, sums: &mut [f32], row: &[f32], factor: f32) {
    match path {
        #[cfg(target_arch = "x86_64")]
        SimdPath::Avx512 => kernel_avx512::add_scaled(sums, row, factor),
        #[cfg(target_arch = "x86_64")]
        SimdPath::Avx2 => kernel_avx2::add_scaled(sums, row, factor),
        _ => kernel_portable::add_scaled(sums, row, factor),
    }
}

/// The word of a settled sum.
pub(crate) fn sum_word(sum: f32) -> u32 {
    if sum.is_nan() { QUIET_NAN } else { sum.to_bits() }
}

/// [`add_words`] a vector at a time.
#[inline(always)]
pub(super) fn words<V: FloatLanes>(sums: &mut [f32], words: &[u32]) {
    let mut row = [0.0; MOST_LANES];
    let whole = sums.len().min(words.len()) / V::LANES * V::LANES;
    let (sums, sums_rest) = sums.split_at_mut(whole);
    let (words, words_rest) = words.split_at(whole);
    for (sums, words) in sums.chunks_exact_mut(V::LANES).zip(words.chunks_exact(V::LANES)) {
        for (value, word) in row.iter_mut().zip(words) {
            *value = f32::from_bits(*word);
        }
        V::load(sums).add(V::load(&row).flush()).flush().store(sums);
    }
    for (sum, word) in sums_rest.iter_mut().zip(words_rest) {
        *sum = add_f32(&RuleSet::TCP, *sum, f32::from_bits(*word));
    }
}

/// [`add_scaled`] a vector at a time.
#[inline(always)]
pub(super) fn scaled<V: FloatLanes>(sums: &mut [f32], row: &[f32], factor: f32) {
    let whole = sums.len().min(row.len()) / V::LANES * V::LANES;
    let (sums, sums_rest) = sums.split_at_mut(whole);
    let (row, row_rest) = row.split_at(whole);
    for (sums, row) in sums.chunks_exact_mut(V::LANES).zip(row.chunks_exact(V::LANES)) {
        V::load(sums).add(V::load(row).mul(V::splat(factor)).flush()).flush().store(sums);
    }
    for (sum, value) in sums_rest.iter_mut().zip(row_rest) {
        *sum = add_f32(&RuleSet::TCP, *sum, mul_f32(&RuleSet::TCP, *value, factor));
    }
}

/// Most lanes of a vector.
const MOST_LANES: usize = 16;
