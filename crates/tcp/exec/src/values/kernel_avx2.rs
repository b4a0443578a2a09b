//! Kernels for x86-64 with AVX2 and FMA: eight columns, integers as pairs of i16.

#![expect(unsafe_code, reason = "vector instructions are entered only after the host was asked for them")]

use std::arch::x86_64::*;

use super::add;
use super::range::FloatRange;
use super::shape::TreeReduce;
use super::simd_path::{KernelTile, TileKernel, TileKernelFn};
use super::single_row::{self, FloatPart, IntPart, SingleRowTask, WORDS, WideVector, float_word};
use super::tile_float::{self, FloatLanes};
use super::tile_int::{self, IntLanes, PairLanes};
use super::words::WordForm;

const FLOAT_ROWS: usize = 2;
const INT_ROWS: usize = 4;
const COLUMNS: usize = 8;

/// The kernel for floats, where the host has the instructions.
pub(super) fn float(reduce: TreeReduce) -> Option<TileKernel<f32>> {
    // SAFETY: the kernel leaves this function only on a host with the features it enables.
    let run: TileKernelFn<f32> = match reduce {
        TreeReduce::Add => |tile, sums| unsafe { float_add(tile, sums) },
        TreeReduce::Max => |tile, sums| unsafe { float_max(tile, sums) },
    };
    let kernel = TileKernel {
        rows: FLOAT_ROWS,
        columns: COLUMNS,
        form_a: WordForm::Float,
        form_b: WordForm::Float,
        run,
    };
    detected().then_some(kernel)
}

/// The kernel for integers, where the host has the instructions.
pub(super) fn int(reduce: TreeReduce) -> Option<TileKernel<i32>> {
    // SAFETY: the kernel leaves this function only on a host with the features it enables.
    let run: TileKernelFn<i32> = match reduce {
        TreeReduce::Add => |tile, sums| unsafe { int_add(tile, sums) },
        TreeReduce::Max => |tile, sums| unsafe { int_max(tile, sums) },
    };
    let kernel = TileKernel {
        rows: INT_ROWS,
        columns: COLUMNS,
        form_a: WordForm::PairI16,
        form_b: WordForm::PairI16,
        run,
    };
    detected().then_some(kernel)
}

/// A word for each row of bf16; only for hosts with the instructions.
pub(super) fn single_floats(task: &SingleRowTask<'_, FloatPart>, out: &mut [u32]) {
    assert!(detected(), "a path of this host");
    // SAFETY: the features were asked for.
    unsafe { wide_floats(task, out) }
}

/// A word for each row of i8; only for hosts with the instructions.
pub(super) fn single_ints(task: &SingleRowTask<'_, IntPart>, out: &mut [u32]) {
    assert!(detected(), "a path of this host");
    // SAFETY: the features were asked for.
    unsafe { wide_ints(task, out) }
}

/// [`FloatRange::of_bf16`]; only for hosts with the instructions.
pub(super) fn bf16_range(bytes: &[u8]) -> Option<FloatRange> {
    assert!(detected(), "a path of this host");
    // SAFETY: the features were asked for.
    unsafe { range(bytes) }
}

/// Sums with words; only for hosts with the instructions.
pub(super) fn add_words(sums: &mut [f32], words: &[u32]) {
    assert!(detected(), "a path of this host");
    // SAFETY: the features were asked for.
    unsafe { wide_words(sums, words) }
}

/// Sums with a row times a factor; only for hosts with the instructions.
pub(super) fn add_scaled(sums: &mut [f32], row: &[f32], factor: f32) {
    assert!(detected(), "a path of this host");
    // SAFETY: the features were asked for.
    unsafe { wide_scaled(sums, row, factor) }
}

fn detected() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

#[target_feature(enable = "avx2,fma")]
fn wide_words(sums: &mut [f32], words: &[u32]) {
    add::words::<Floats>(sums, words);
}

#[target_feature(enable = "avx2,fma")]
fn wide_scaled(sums: &mut [f32], row: &[f32], factor: f32) {
    add::scaled::<Floats>(sums, row, factor);
}

#[target_feature(enable = "avx2,fma")]
fn wide_floats(task: &SingleRowTask<'_, FloatPart>, out: &mut [u32]) {
    single_row::run::<WideFloats>(task, out);
}

#[target_feature(enable = "avx2,fma")]
fn wide_ints(task: &SingleRowTask<'_, IntPart>, out: &mut [u32]) {
    single_row::run::<WideInts>(task, out);
}

#[target_feature(enable = "avx2,fma")]
fn range(bytes: &[u8]) -> Option<FloatRange> {
    FloatRange::of_bf16(bytes)
}

#[target_feature(enable = "avx2,fma")]
fn float_add(tile: &KernelTile<'_, f32>, sums: &mut [f32]) {
    tile_float::add::<Floats, FLOAT_ROWS>(tile, sums);
}

#[target_feature(enable = "avx2,fma")]
fn float_max(tile: &KernelTile<'_, f32>, sums: &mut [f32]) {
    tile_float::max::<COLUMNS>(tile, sums);
}

#[target_feature(enable = "avx2,fma")]
fn int_add(tile: &KernelTile<'_, i32>, sums: &mut [i32]) {
    tile_int::add::<Pairs, INT_ROWS>(tile, sums);
}

#[target_feature(enable = "avx2,fma")]
fn int_max(tile: &KernelTile<'_, i32>, sums: &mut [i32]) {
    tile_int::max_pairs::<Pairs, INT_ROWS>(tile, sums);
}

// SAFETY of every block below: the two types are private, and used only by the functions above, which have
// the features. Loads and stores are unaligned, within slices whose length is checked just before.

#[derive(Clone, Copy)]
struct Floats(__m256);

impl FloatLanes for Floats {
    const LANES: usize = COLUMNS;

    #[inline(always)]
    fn splat(value: f32) -> Self {
        // SAFETY: registers only; values of this type are made where the host has the features.
        unsafe { Self(_mm256_set1_ps(value)) }
    }

    #[inline(always)]
    fn load(values: &[f32]) -> Self {
        let values = &values[..COLUMNS];
        // SAFETY: slices were cut to the lanes that are touched; the host was asked for the features.
        unsafe { Self(_mm256_loadu_ps(values.as_ptr())) }
    }

    #[inline(always)]
    fn store(self, values: &mut [f32]) {
        let values = &mut values[..COLUMNS];
        // SAFETY: slices were cut to the lanes that are touched; the host was asked for the features.
        unsafe { _mm256_storeu_ps(values.as_mut_ptr(), self.0) }
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: registers only; values of this type are made where the host has the features.
        unsafe { Self(_mm256_add_ps(self.0, other.0)) }
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: registers only; values of this type are made where the host has the features.
        unsafe { Self(_mm256_mul_ps(self.0, other.0)) }
    }

    #[inline(always)]
    fn mul_add(self, other: Self, addend: Self) -> Self {
        // SAFETY: registers only; values of this type are made where the host has the features.
        unsafe { Self(_mm256_fmadd_ps(self.0, other.0, addend.0)) }
    }

    #[inline(always)]
    fn flush(self) -> Self {
        // SAFETY: registers only; values of this type are made where the host has the features.
        unsafe {
            let sign = _mm256_set1_ps(-0.0);
            let magnitude = _mm256_andnot_ps(sign, self.0);
            let kept = _mm256_cmp_ps::<_CMP_NLT_UQ>(magnitude, _mm256_set1_ps(f32::MIN_POSITIVE));
            Self(_mm256_and_ps(self.0, _mm256_or_ps(kept, sign)))
        }
    }
}

#[derive(Clone, Copy)]
struct Pairs(__m256i);

impl IntLanes for Pairs {
    const LANES: usize = COLUMNS;
    const OFFSET_A: i32 = 0;

    #[inline(always)]
    fn splat(word: i32) -> Self {
        // SAFETY: registers only; values of this type are made where the host has the features.
        unsafe { Self(_mm256_set1_epi32(word)) }
    }

    #[inline(always)]
    fn load(words: &[i32]) -> Self {
        let words = &words[..COLUMNS];
        // SAFETY: slices were cut to the lanes that are touched; the host was asked for the features.
        unsafe { Self(_mm256_loadu_si256(words.as_ptr().cast())) }
    }

    #[inline(always)]
    fn store(self, words: &mut [i32]) {
        let words = &mut words[..COLUMNS];
        // SAFETY: slices were cut to the lanes that are touched; the host was asked for the features.
        unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), self.0) }
    }

    #[inline(always)]
    fn add_products(self, a: Self, b: Self) -> Self {
        // SAFETY: registers only; values of this type are made where the host has the features.
        unsafe { Self(_mm256_add_epi32(self.0, _mm256_madd_epi16(a.0, b.0))) }
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: registers only; values of this type are made where the host has the features.
        unsafe { Self(_mm256_add_epi32(self.0, other.0)) }
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: registers only; values of this type are made where the host has the features.
        unsafe { Self(_mm256_sub_epi32(self.0, other.0)) }
    }
}

impl PairLanes for Pairs {
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        // SAFETY: registers only; values of this type are made where the host has the features.
        unsafe { Self(_mm256_max_epi32(self.0, other.0)) }
    }
}

#[derive(Clone, Copy)]
struct WideFloats(__m256, __m256);

/// Sums of products of neighbours, eight of them.
#[inline(always)]
fn float_pairs(even: &[f32], odd: &[f32], bytes: &[u8]) -> __m256 {
    let (even, odd, bytes) = (&even[..COLUMNS], &odd[..COLUMNS], &bytes[..4 * COLUMNS]);
    // SAFETY: slices were cut to the lanes that are touched; the host was asked for the features.
    unsafe {
        let words = _mm256_loadu_si256(bytes.as_ptr().cast());
        let low = _mm256_castsi256_ps(_mm256_slli_epi32::<16>(words));
        let high = _mm256_castsi256_ps(_mm256_and_si256(words, _mm256_set1_epi32(-0x1_0000)));
        let high = _mm256_mul_ps(_mm256_loadu_ps(odd.as_ptr()), high);
        _mm256_fmadd_ps(_mm256_loadu_ps(even.as_ptr()), low, high)
    }
}

#[inline(always)]
fn fold_floats(a: __m256, b: __m256) -> __m256 {
    // SAFETY: registers only; values of this type are made where the host has the features.
    unsafe { _mm256_add_ps(_mm256_shuffle_ps::<0x88>(a, b), _mm256_shuffle_ps::<0xDD>(a, b)) }
}

#[inline(always)]
fn fold_float_quarters(a: __m256, b: __m256) -> __m256 {
    // SAFETY: registers only; values of this type are made where the host has the features.
    unsafe { _mm256_add_ps(_mm256_permute2f128_ps::<0x20>(a, b), _mm256_permute2f128_ps::<0x31>(a, b)) }
}

impl WideVector for WideFloats {
    type Part = FloatPart;
    type Sum = f32;
    const BYTES: usize = 64;

    #[inline(always)]
    fn pairs(part: &FloatPart, bytes: &[u8]) -> Self {
        let low = float_pairs(&part.even, &part.odd, bytes);
        Self(low, float_pairs(&part.even[COLUMNS..], &part.odd[COLUMNS..], &bytes[4 * COLUMNS..]))
    }

    #[inline(always)]
    fn fold(self, other: Self) -> Self {
        Self(fold_floats(self.0, other.0), fold_floats(self.1, other.1))
    }

    #[inline(always)]
    fn fold_quarters(self, other: Self) -> Self {
        Self(fold_float_quarters(self.0, self.1), fold_float_quarters(other.0, other.1))
    }

    #[inline(always)]
    fn words(self) -> [f32; WORDS] {
        let mut words = [0.0; WORDS];
        let (low, high) = words.split_at_mut(COLUMNS);
        // SAFETY: slices were cut to the lanes that are touched; the host was asked for the features.
        unsafe {
            _mm256_storeu_ps(low.as_mut_ptr(), self.0);
            _mm256_storeu_ps(high.as_mut_ptr(), self.1);
        }
        words
    }

    #[inline(always)]
    fn add(sum: f32, step: f32) -> f32 {
        sum + step
    }

    #[inline(always)]
    fn word(sum: f32) -> u32 {
        float_word(sum)
    }
}

#[derive(Clone, Copy)]
struct WideInts(__m256i, __m256i);

/// Sums of products of neighbours, eight of them.
#[inline(always)]
fn int_pairs(part: &[i16], bytes: &[u8]) -> __m256i {
    let (part, bytes) = (&part[..2 * COLUMNS], &bytes[..2 * COLUMNS]);
    // SAFETY: slices were cut to the lanes that are touched; the host was asked for the features.
    unsafe {
        let halves = _mm256_cvtepi8_epi16(_mm_loadu_si128(bytes.as_ptr().cast()));
        _mm256_madd_epi16(_mm256_loadu_si256(part.as_ptr().cast()), halves)
    }
}

#[inline(always)]
fn fold_ints(a: __m256i, b: __m256i) -> __m256i {
    // SAFETY: registers only; values of this type are made where the host has the features.
    unsafe {
        let (a, b) = (_mm256_castsi256_ps(a), _mm256_castsi256_ps(b));
        let even = _mm256_castps_si256(_mm256_shuffle_ps::<0x88>(a, b));
        _mm256_add_epi32(even, _mm256_castps_si256(_mm256_shuffle_ps::<0xDD>(a, b)))
    }
}

#[inline(always)]
fn fold_int_quarters(a: __m256i, b: __m256i) -> __m256i {
    // SAFETY: registers only; values of this type are made where the host has the features.
    unsafe {
        let even = _mm256_permute2x128_si256::<0x20>(a, b);
        _mm256_add_epi32(even, _mm256_permute2x128_si256::<0x31>(a, b))
    }
}

impl WideVector for WideInts {
    type Part = IntPart;
    type Sum = i32;
    const BYTES: usize = 32;

    #[inline(always)]
    fn pairs(part: &IntPart, bytes: &[u8]) -> Self {
        Self(int_pairs(&part.0, bytes), int_pairs(&part.0[WORDS..], &bytes[WORDS..]))
    }

    #[inline(always)]
    fn fold(self, other: Self) -> Self {
        Self(fold_ints(self.0, other.0), fold_ints(self.1, other.1))
    }

    #[inline(always)]
    fn fold_quarters(self, other: Self) -> Self {
        Self(fold_int_quarters(self.0, self.1), fold_int_quarters(other.0, other.1))
    }

    #[inline(always)]
    fn words(self) -> [i32; WORDS] {
        let mut words = [0; WORDS];
        let (low, high) = words.split_at_mut(COLUMNS);
        // SAFETY: slices were cut to the lanes that are touched; the host was asked for the features.
        unsafe {
            _mm256_storeu_si256(low.as_mut_ptr().cast(), self.0);
            _mm256_storeu_si256(high.as_mut_ptr().cast(), self.1);
        }
        words
    }

    #[inline(always)]
    fn add(sum: i32, step: i32) -> i32 {
        sum.wrapping_add(step)
    }

    #[inline(always)]
    fn word(sum: i32) -> u32 {
        sum.cast_unsigned()
    }
}
