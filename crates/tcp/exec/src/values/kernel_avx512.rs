//! Kernels for x86-64 with AVX-512 F, BW, DQ and VNNI: sixteen columns, integers of 8 bits four to a word.
//!
//! VNNI multiplies unsigned with signed bytes, so `a` is given plus 128, and 128 times the sums of `b` are
//! taken off again. All of it wraps, and so is exact.

#![expect(unsafe_code, reason = "vector instructions are entered only after the host was asked for them")]

use std::arch::x86_64::*;

use super::add;
use super::range::FloatRange;
use super::shape::TreeReduce;
use super::simd_path::{KernelTile, TileKernel, TileKernelFn};
use super::single_row::{self, FloatPart, IntPart, SingleRowTask, WORDS, WideVector, float_word};
use super::tile_float::{self, FloatLanes};
use super::tile_int::{self, IntLanes, PairLanes};
use super::words::{QUAD_OFFSET, WordForm};

const FLOAT_ROWS: usize = 4;
const INT_ROWS: usize = 8;
const COLUMNS: usize = 16;

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

/// The kernel for integers, of 8 bits at most if `narrow`, where the host has the instructions.
pub(super) fn int(reduce: TreeReduce, narrow: bool) -> Option<TileKernel<i32>> {
    // SAFETY: the kernel leaves this function only on a host with the features it enables.
    let (form_a, form_b, run): (WordForm, WordForm, TileKernelFn<i32>) = match (reduce, narrow) {
        (TreeReduce::Add, true) => {
            (WordForm::QuadU8, WordForm::QuadI8, |tile, sums| unsafe { add_quads(tile, sums) })
        }
        (TreeReduce::Add, false) => {
            (WordForm::PairI16, WordForm::PairI16, |tile, sums| unsafe { add_pairs(tile, sums) })
        }
        (TreeReduce::Max, _) => {
            (WordForm::PairI16, WordForm::PairI16, |tile, sums| unsafe { int_max(tile, sums) })
        }
    };
    detected().then_some(TileKernel { rows: INT_ROWS, columns: COLUMNS, form_a, form_b, run })
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
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vnni")
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vnni")]
fn wide_words(sums: &mut [f32], words: &[u32]) {
    add::words::<Floats>(sums, words);
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vnni")]
fn wide_scaled(sums: &mut [f32], row: &[f32], factor: f32) {
    add::scaled::<Floats>(sums, row, factor);
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vnni")]
fn wide_floats(task: &SingleRowTask<'_, FloatPart>, out: &mut [u32]) {
    single_row::run::<WideFloats>(task, out);
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vnni")]
fn wide_ints(task: &SingleRowTask<'_, IntPart>, out: &mut [u32]) {
    single_row::run::<WideInts>(task, out);
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vnni")]
fn range(bytes: &[u8]) -> Option<FloatRange> {
    FloatRange::of_bf16(bytes)
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vnni")]
fn float_add(tile: &KernelTile<'_, f32>, sums: &mut [f32]) {
    tile_float::add::<Floats, FLOAT_ROWS>(tile, sums);
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vnni")]
fn float_max(tile: &KernelTile<'_, f32>, sums: &mut [f32]) {
    tile_float::max::<COLUMNS>(tile, sums);
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vnni")]
fn add_quads(tile: &KernelTile<'_, i32>, sums: &mut [i32]) {
    tile_int::add::<Quads, INT_ROWS>(tile, sums);
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vnni")]
fn add_pairs(tile: &KernelTile<'_, i32>, sums: &mut [i32]) {
    tile_int::add::<Pairs, INT_ROWS>(tile, sums);
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vnni")]
fn int_max(tile: &KernelTile<'_, i32>, sums: &mut [i32]) {
    tile_int::max_pairs::<Pairs, INT_ROWS>(tile, sums);
}

// SAFETY of every block below: the types are private, and used only by the functions above, which have the
// features. Loads and stores are unaligned, within slices whose length is checked just before.

#[derive(Clone, Copy)]
struct Floats(__m512);

impl FloatLanes for Floats {
    const LANES: usize = COLUMNS;

    #[inline(always)]
    fn splat(value: f32) -> Self {
        // SAFETY: registers only; values of this type are made where the host has the features.
        unsafe { Self(_mm512_set1_ps(value)) }
    }

    #[inline(always)]
    fn load(values: &[f32]) -> Self {
        let values = &values[..COLUMNS];
        // SAFETY: slices were cut to the lanes that are touched; the host was asked for the features.
        unsafe { Self(_mm512_loadu_ps(values.as_ptr())) }
    }

    #[inline(always)]
    fn store(self, values: &mut [f32]) {
        let values = &mut values[..COLUMNS];
        // SAFETY: slices were cut to the lanes that are touched; the host was asked for the features.
        unsafe { _mm512_storeu_ps(values.as_mut_ptr(), self.0) }
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: registers only; values of this type are made where the host has the features.
        unsafe { Self(_mm512_add_ps(self.0, other.0)) }
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: registers only; values of this type are made where the host has the features.
        unsafe { Self(_mm512_mul_ps(self.0, other.0)) }
    }

    #[inline(always)]
    fn mul_add(self, other: Self, addend: Self) -> Self {
        // SAFETY: registers only; values of this type are made where the host has the features.
        unsafe { Self(_mm512_fmadd_ps(self.0, other.0, addend.0)) }
    }

    #[inline(always)]
    fn flush(self) -> Self {
        // SAFETY: registers only; values of this type are made where the host has the features.
        unsafe {
            let subnormal = _mm512_fpclass_ps_mask::<SUBNORMAL>(self.0);
            Self(_mm512_mask_and_ps(self.0, subnormal, self.0, _mm512_set1_ps(-0.0)))
        }
    }
}

/// The class of VFPCLASSPS.
const SUBNORMAL: i32 = 0x20;

/// Words, or accumulators, of all columns.
macro_rules! int_lanes {
    ($name:ident, $offset:expr, $add_products:ident) => {
        #[derive(Clone, Copy)]
        struct $name(__m512i);

        impl IntLanes for $name {
            const LANES: usize = COLUMNS;
            const OFFSET_A: i32 = $offset;

            #[inline(always)]
            fn splat(word: i32) -> Self {
                // SAFETY: registers only; values of this type are made where the host has the features.
                unsafe { Self(_mm512_set1_epi32(word)) }
            }

            #[inline(always)]
            fn load(words: &[i32]) -> Self {
                let words = &words[..COLUMNS];
                // SAFETY: slices were cut to the lanes that are touched; the host was asked for the features.
                unsafe { Self(_mm512_loadu_si512(words.as_ptr().cast())) }
            }

            #[inline(always)]
            fn store(self, words: &mut [i32]) {
                let words = &mut words[..COLUMNS];
                // SAFETY: slices were cut to the lanes that are touched; the host was asked for the features.
                unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), self.0) }
            }

            #[inline(always)]
            fn add_products(self, a: Self, b: Self) -> Self {
                // SAFETY: registers only; values of this type are made where the host has the features.
                unsafe { Self($add_products(self.0, a.0, b.0)) }
            }

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                // SAFETY: registers only; values of this type are made where the host has the features.
                unsafe { Self(_mm512_add_epi32(self.0, other.0)) }
            }

            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                // SAFETY: registers only; values of this type are made where the host has the features.
                unsafe { Self(_mm512_sub_epi32(self.0, other.0)) }
            }
        }
    };
}

int_lanes!(Quads, QUAD_OFFSET, _mm512_dpbusd_epi32);
int_lanes!(Pairs, 0, _mm512_dpwssd_epi32);

impl PairLanes for Pairs {
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        // SAFETY: registers only; values of this type are made where the host has the features.
        unsafe { Self(_mm512_max_epi32(self.0, other.0)) }
    }
}

#[derive(Clone, Copy)]
struct WideFloats(__m512);

impl WideVector for WideFloats {
    type Part = FloatPart;
    type Sum = f32;
    const BYTES: usize = 64;

    #[inline(always)]
    fn pairs(part: &FloatPart, bytes: &[u8]) -> Self {
        let bytes = &bytes[..Self::BYTES];
        // SAFETY: slices were cut to the lanes that are touched; the host was asked for the features.
        unsafe {
            let words = _mm512_loadu_si512(bytes.as_ptr().cast());
            let even = _mm512_castsi512_ps(_mm512_slli_epi32::<16>(words));
            let odd = _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32(-0x1_0000)));
            let odd = _mm512_mul_ps(_mm512_loadu_ps(part.odd.as_ptr()), odd);
            Self(_mm512_fmadd_ps(_mm512_loadu_ps(part.even.as_ptr()), even, odd))
        }
    }

    #[inline(always)]
    fn fold(self, other: Self) -> Self {
        // SAFETY: registers only; values of this type are made where the host has the features.
        unsafe {
            let even = _mm512_shuffle_ps::<0x88>(self.0, other.0);
            Self(_mm512_add_ps(even, _mm512_shuffle_ps::<0xDD>(self.0, other.0)))
        }
    }

    #[inline(always)]
    fn fold_quarters(self, other: Self) -> Self {
        // SAFETY: registers only; values of this type are made where the host has the features.
        unsafe {
            let even = _mm512_shuffle_f32x4::<0x88>(self.0, other.0);
            Self(_mm512_add_ps(even, _mm512_shuffle_f32x4::<0xDD>(self.0, other.0)))
        }
    }

    #[inline(always)]
    fn words(self) -> [f32; WORDS] {
        let mut words = [0.0; WORDS];
        // SAFETY: slices were cut to the lanes that are touched; the host was asked for the features.
        unsafe { _mm512_storeu_ps(words.as_mut_ptr(), self.0) }
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
struct WideInts(__m512i);

impl WideVector for WideInts {
    type Part = IntPart;
    type Sum = i32;
    const BYTES: usize = 32;

    #[inline(always)]
    fn pairs(part: &IntPart, bytes: &[u8]) -> Self {
        let bytes = &bytes[..Self::BYTES];
        // SAFETY: slices were cut to the lanes that are touched; the host was asked for the features.
        unsafe {
            let row = _mm512_loadu_si512(part.0.as_ptr().cast());
            let halves = _mm512_cvtepi8_epi16(_mm256_loadu_si256(bytes.as_ptr().cast()));
            Self(_mm512_madd_epi16(row, halves))
        }
    }

    #[inline(always)]
    fn fold(self, other: Self) -> Self {
        // SAFETY: registers only; values of this type are made where the host has the features.
        unsafe {
            let (a, b) = (_mm512_castsi512_ps(self.0), _mm512_castsi512_ps(other.0));
            let even = _mm512_castps_si512(_mm512_shuffle_ps::<0x88>(a, b));
            Self(_mm512_add_epi32(even, _mm512_castps_si512(_mm512_shuffle_ps::<0xDD>(a, b))))
        }
    }

    #[inline(always)]
    fn fold_quarters(self, other: Self) -> Self {
        // SAFETY: registers only; values of this type are made where the host has the features.
        unsafe {
            let even = _mm512_shuffle_i32x4::<0x88>(self.0, other.0);
            Self(_mm512_add_epi32(even, _mm512_shuffle_i32x4::<0xDD>(self.0, other.0)))
        }
    }

    #[inline(always)]
    fn words(self) -> [i32; WORDS] {
        let mut words = [0; WORDS];
        // SAFETY: slices were cut to the lanes that are touched; the host was asked for the features.
        unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), self.0) }
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
