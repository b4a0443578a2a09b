//! Kernels without instructions of a particular host; the twin that the others are compared with.

use super::add;
use super::shape::TreeReduce;
use super::simd_path::{KernelTile, TileKernel};
use super::single_row::{self, FloatPart, IntPart, SingleRowTask, WORDS, WideVector, float_word};
use super::tile_float::{self, FloatLanes};
use super::tile_int::{self, IntLanes, high, low};
use super::words::WordForm;

const ROWS: usize = 2;
const COLUMNS: usize = 4;

/// The kernel for floats.
pub(super) fn float(reduce: TreeReduce) -> TileKernel<f32> {
    let run = match reduce {
        TreeReduce::Add => {
            |tile: &KernelTile<'_, f32>, sums: &mut [f32]| tile_float::add::<Floats, ROWS>(tile, sums)
        }
        TreeReduce::Max => {
            |tile: &KernelTile<'_, f32>, sums: &mut [f32]| tile_float::max::<COLUMNS>(tile, sums)
        }
    };
    TileKernel { rows: ROWS, columns: COLUMNS, form_a: WordForm::Float, form_b: WordForm::Float, run }
}

/// The kernel for integers.
pub(super) fn int(reduce: TreeReduce) -> TileKernel<i32> {
    let run = match reduce {
        TreeReduce::Add => {
            |tile: &KernelTile<'_, i32>, sums: &mut [i32]| tile_int::add::<Ints, ROWS>(tile, sums)
        }
        TreeReduce::Max => {
            |tile: &KernelTile<'_, i32>, sums: &mut [i32]| tile_int::max::<COLUMNS>(tile, sums)
        }
    };
    TileKernel { rows: ROWS, columns: COLUMNS, form_a: WordForm::PairI16, form_b: WordForm::PairI16, run }
}

#[derive(Clone, Copy)]
struct Floats([f32; COLUMNS]);

impl Floats {
    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        let mut values = self.0;
        for (value, other) in values.iter_mut().zip(other.0) {
            *value = f(*value, other);
        }
        Self(values)
    }
}

impl FloatLanes for Floats {
    const LANES: usize = COLUMNS;

    #[inline(always)]
    fn splat(value: f32) -> Self {
        Self([value; COLUMNS])
    }

    #[inline(always)]
    fn load(values: &[f32]) -> Self {
        let mut loaded = [0.0; COLUMNS];
        loaded.copy_from_slice(&values[..COLUMNS]);
        Self(loaded)
    }

    #[inline(always)]
    fn store(self, values: &mut [f32]) {
        values[..COLUMNS].copy_from_slice(&self.0);
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| a + b)
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.zip(other, |a, b| a * b)
    }

    #[inline(always)]
    fn mul_add(self, other: Self, addend: Self) -> Self {
        self.mul(other).add(addend)
    }

    #[inline(always)]
    fn flush(self) -> Self {
        let sign = |value: f32| f32::from_bits(value.to_bits() & (1 << 31));
        self.zip(self, |value, _| if value.abs() < f32::MIN_POSITIVE { sign(value) } else { value })
    }
}

#[derive(Clone, Copy)]
struct Ints([i32; COLUMNS]);

impl Ints {
    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(i32, i32) -> i32) -> Self {
        let mut words = self.0;
        for (word, other) in words.iter_mut().zip(other.0) {
            *word = f(*word, other);
        }
        Self(words)
    }
}

impl IntLanes for Ints {
    const LANES: usize = COLUMNS;
    const OFFSET_A: i32 = 0;

    #[inline(always)]
    fn splat(word: i32) -> Self {
        Self([word; COLUMNS])
    }

    #[inline(always)]
    fn load(words: &[i32]) -> Self {
        let mut loaded = [0; COLUMNS];
        loaded.copy_from_slice(&words[..COLUMNS]);
        Self(loaded)
    }

    #[inline(always)]
    fn store(self, words: &mut [i32]) {
        words[..COLUMNS].copy_from_slice(&self.0);
    }

    #[inline(always)]
    fn add_products(self, a: Self, b: Self) -> Self {
        self.add(a.zip(b, |a, b| (low(a) * low(b)).wrapping_add(high(a) * high(b))))
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.zip(other, i32::wrapping_add)
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.zip(other, i32::wrapping_sub)
    }
}

/// Sums with words.
pub(super) fn add_words(sums: &mut [f32], words: &[u32]) {
    add::words::<Floats>(sums, words);
}

/// Sums with a row times a factor.
pub(super) fn add_scaled(sums: &mut [f32], row: &[f32], factor: f32) {
    add::scaled::<Floats>(sums, row, factor);
}

/// A word for each row of bf16.
pub(super) fn single_floats(task: &SingleRowTask<'_, FloatPart>, out: &mut [u32]) {
    single_row::run::<WideFloats>(task, out);
}

/// A word for each row of i8.
pub(super) fn single_ints(task: &SingleRowTask<'_, IntPart>, out: &mut [u32]) {
    single_row::run::<WideInts>(task, out);
}

#[derive(Clone, Copy)]
struct WideFloats([f32; WORDS]);

impl WideVector for WideFloats {
    type Part = FloatPart;
    type Sum = f32;
    const BYTES: usize = 64;

    #[inline(always)]
    fn pairs(part: &FloatPart, bytes: &[u8]) -> Self {
        let mut sums = [0.0; WORDS];
        for (at, word) in bytes.as_chunks().0.iter().enumerate().take(WORDS) {
            let word = u32::from_le_bytes(*word);
            let (even, odd) = (f32::from_bits(word << 16), f32::from_bits(word & 0xFFFF_0000));
            sums[at] = part.even[at] * even + part.odd[at] * odd;
        }
        Self(sums)
    }

    #[inline(always)]
    fn fold(self, other: Self) -> Self {
        Self(fold(self.0, other.0, |a, b| a + b))
    }

    #[inline(always)]
    fn fold_quarters(self, other: Self) -> Self {
        Self(fold_quarters(self.0, other.0, |a, b| a + b))
    }

    #[inline(always)]
    fn words(self) -> [f32; WORDS] {
        self.0
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
struct WideInts([i32; WORDS]);

impl WideVector for WideInts {
    type Part = IntPart;
    type Sum = i32;
    const BYTES: usize = 32;

    #[inline(always)]
    fn pairs(part: &IntPart, bytes: &[u8]) -> Self {
        let mut sums = [0; WORDS];
        for (at, [low, high]) in bytes.as_chunks().0.iter().enumerate().take(WORDS) {
            let product = |at: usize, byte: u8| i32::from(part.0[at]) * i32::from(byte.cast_signed());
            sums[at] = product(2 * at, *low) + product(2 * at + 1, *high);
        }
        Self(sums)
    }

    #[inline(always)]
    fn fold(self, other: Self) -> Self {
        Self(fold(self.0, other.0, i32::wrapping_add))
    }

    #[inline(always)]
    fn fold_quarters(self, other: Self) -> Self {
        Self(fold_quarters(self.0, other.0, i32::wrapping_add))
    }

    #[inline(always)]
    fn words(self) -> [i32; WORDS] {
        self.0
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

#[inline(always)]
fn fold<T: Copy + Default>(a: [T; WORDS], b: [T; WORDS], add: impl Fn(T, T) -> T) -> [T; WORDS] {
    let mut sums = [T::default(); WORDS];
    for quarter in (0..WORDS).step_by(4) {
        sums[quarter] = add(a[quarter], a[quarter + 1]);
        sums[quarter + 1] = add(a[quarter + 2], a[quarter + 3]);
        sums[quarter + 2] = add(b[quarter], b[quarter + 1]);
        sums[quarter + 3] = add(b[quarter + 2], b[quarter + 3]);
    }
    sums
}

#[inline(always)]
fn fold_quarters<T: Copy + Default>(a: [T; WORDS], b: [T; WORDS], add: impl Fn(T, T) -> T) -> [T; WORDS] {
    let mut sums = [T::default(); WORDS];
    for at in 0..4 {
        sums[at] = add(a[at], a[at + 4]);
        sums[at + 4] = add(a[at + 8], a[at + 12]);
        sums[at + 8] = add(b[at], b[at + 4]);
        sums[at + 12] = add(b[at + 8], b[at + 12]);
    }
    sums
}
