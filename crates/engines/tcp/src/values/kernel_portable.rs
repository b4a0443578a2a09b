//! Kernels without instructions of a particular host; the twin that the others are compared with.

use super::path::{Kernel, Tile};
use super::shape::Reduce;
use super::tile_float::{self, Lanes};
use super::tile_int::{self, IntLanes, high, low};
use super::words::Form;

const ROWS: usize = 2;
const COLUMNS: usize = 4;

/// The kernel for floats.
pub(super) fn float(reduce: Reduce) -> Kernel<f32> {
    let run = match reduce {
        Reduce::Add => |tile: &Tile<'_, f32>, sums: &mut [f32]| tile_float::add::<Floats, ROWS>(tile, sums),
        Reduce::Max => |tile: &Tile<'_, f32>, sums: &mut [f32]| tile_float::max::<COLUMNS>(tile, sums),
    };
    Kernel { rows: ROWS, columns: COLUMNS, form_a: Form::Float, form_b: Form::Float, run }
}

/// The kernel for integers.
pub(super) fn int(reduce: Reduce) -> Kernel<i32> {
    let run = match reduce {
        Reduce::Add => |tile: &Tile<'_, i32>, sums: &mut [i32]| tile_int::add::<Ints, ROWS>(tile, sums),
        Reduce::Max => |tile: &Tile<'_, i32>, sums: &mut [i32]| tile_int::max::<COLUMNS>(tile, sums),
    };
    Kernel { rows: ROWS, columns: COLUMNS, form_a: Form::PairI16, form_b: Form::PairI16, run }
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

impl Lanes for Floats {
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
