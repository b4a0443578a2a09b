//! Kernels for x86-64 with AVX2 and FMA: eight columns, integers as pairs of i16.

#![expect(unsafe_code, reason = "vector instructions are entered only after the host was asked for them")]

use std::arch::x86_64::*;

use super::path::{Kernel, Run, Tile};
use super::shape::Reduce;
use super::tile_float::{self, Lanes};
use super::tile_int::{self, IntLanes};
use super::words::Form;

const FLOAT_ROWS: usize = 2;
const INT_ROWS: usize = 4;
const COLUMNS: usize = 8;

/// The kernel for floats, where the host has the instructions.
pub(super) fn float(reduce: Reduce) -> Option<Kernel<f32>> {
    // SAFETY: the kernel leaves this function only on a host with the features it enables.
    let run: Run<f32> = match reduce {
        Reduce::Add => |tile, sums| unsafe { float_add(tile, sums) },
        Reduce::Max => |tile, sums| unsafe { float_max(tile, sums) },
    };
    let kernel = Kernel { rows: FLOAT_ROWS, columns: COLUMNS, form_a: Form::Float, form_b: Form::Float, run };
    detected().then_some(kernel)
}

/// The kernel for integers, where the host has the instructions.
pub(super) fn int(reduce: Reduce) -> Option<Kernel<i32>> {
    // SAFETY: the kernel leaves this function only on a host with the features it enables.
    let run: Run<i32> = match reduce {
        Reduce::Add => |tile, sums| unsafe { int_add(tile, sums) },
        Reduce::Max => |tile, sums| unsafe { int_max(tile, sums) },
    };
    let kernel =
        Kernel { rows: INT_ROWS, columns: COLUMNS, form_a: Form::PairI16, form_b: Form::PairI16, run };
    detected().then_some(kernel)
}

fn detected() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

#[target_feature(enable = "avx2,fma")]
fn float_add(tile: &Tile<'_, f32>, sums: &mut [f32]) {
    tile_float::add::<Floats, FLOAT_ROWS>(tile, sums);
}

#[target_feature(enable = "avx2,fma")]
fn float_max(tile: &Tile<'_, f32>, sums: &mut [f32]) {
    tile_float::max::<COLUMNS>(tile, sums);
}

#[target_feature(enable = "avx2,fma")]
fn int_add(tile: &Tile<'_, i32>, sums: &mut [i32]) {
    tile_int::add::<Pairs, INT_ROWS>(tile, sums);
}

#[target_feature(enable = "avx2,fma")]
fn int_max(tile: &Tile<'_, i32>, sums: &mut [i32]) {
    tile_int::max::<COLUMNS>(tile, sums);
}

// SAFETY of every block below: the two types are private, and used only by the functions above, which have the
// features. Loads and stores are unaligned, within slices whose length is checked just before.

#[derive(Clone, Copy)]
struct Floats(__m256);

impl Lanes for Floats {
    const LANES: usize = COLUMNS;

    #[inline(always)]
    fn splat(value: f32) -> Self {
        unsafe { Self(_mm256_set1_ps(value)) }
    }

    #[inline(always)]
    fn load(values: &[f32]) -> Self {
        let values = &values[..COLUMNS];
        unsafe { Self(_mm256_loadu_ps(values.as_ptr())) }
    }

    #[inline(always)]
    fn store(self, values: &mut [f32]) {
        let values = &mut values[..COLUMNS];
        unsafe { _mm256_storeu_ps(values.as_mut_ptr(), self.0) }
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        unsafe { Self(_mm256_add_ps(self.0, other.0)) }
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        unsafe { Self(_mm256_mul_ps(self.0, other.0)) }
    }

    #[inline(always)]
    fn mul_add(self, other: Self, addend: Self) -> Self {
        unsafe { Self(_mm256_fmadd_ps(self.0, other.0, addend.0)) }
    }

    #[inline(always)]
    fn flush(self) -> Self {
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
        unsafe { Self(_mm256_set1_epi32(word)) }
    }

    #[inline(always)]
    fn load(words: &[i32]) -> Self {
        let words = &words[..COLUMNS];
        unsafe { Self(_mm256_loadu_si256(words.as_ptr().cast())) }
    }

    #[inline(always)]
    fn store(self, words: &mut [i32]) {
        let words = &mut words[..COLUMNS];
        unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), self.0) }
    }

    #[inline(always)]
    fn add_products(self, a: Self, b: Self) -> Self {
        unsafe { Self(_mm256_add_epi32(self.0, _mm256_madd_epi16(a.0, b.0))) }
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        unsafe { Self(_mm256_add_epi32(self.0, other.0)) }
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        unsafe { Self(_mm256_sub_epi32(self.0, other.0)) }
    }
}
