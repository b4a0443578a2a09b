//! Integer tiles: exact products, sums that wrap, written once over the vector type.

use super::simd_path::KernelTile;

/// A vector of columns: accumulators, or one word of each column.
pub(super) trait IntLanes: Copy {
    /// Columns.
    const LANES: usize;
    /// What every word of `a` has been given beyond its elements, to be taken off again; 0 for nothing.
    const OFFSET_A: i32;
    /// The same word everywhere.
    fn splat(word: i32) -> Self;
    /// The first words of a slice.
    fn load(words: &[i32]) -> Self;
    /// Writes the first words of a slice.
    fn store(self, words: &mut [i32]);
    /// Adds to accumulators the products of the elements of words.
    fn add_products(self, a: Self, b: Self) -> Self;
    /// Sum of accumulators, wrapping.
    fn add(self, other: Self) -> Self;
    /// Difference of accumulators, wrapping.
    fn sub(self, other: Self) -> Self;
}

/// A vector whose words are two i16 and whose accumulators can be compared.
pub(super) trait PairLanes: IntLanes {
    /// The larger of accumulators, column by column.
    fn max(self, other: Self) -> Self;
}

/// Sums of products onto the accumulators.
#[inline(always)]
pub(super) fn add<V: IntLanes, const ROWS: usize>(tile: &KernelTile<'_, i32>, sums: &mut [i32]) {
    let row_words = tile.b.len() / V::LANES;
    let mut a: [&[i32]; ROWS] = [&[]; ROWS];
    for (row, a) in a.iter_mut().enumerate() {
        *a = &tile.a[row * row_words..][..row_words];
    }
    let mut totals = [V::splat(0); ROWS];
    let mut offset = V::splat(0);
    for (word, b) in tile.b.chunks_exact(V::LANES).enumerate() {
        let b = V::load(b);
        for row in 0..ROWS {
            totals[row] = totals[row].add_products(V::splat(a[row][word]), b);
        }
        if V::OFFSET_A != 0 {
            offset = offset.add_products(V::splat(V::OFFSET_A), b);
        }
    }
    for row in 0..ROWS {
        let sums = &mut sums[row * V::LANES..];
        V::load(sums).add(totals[row]).sub(offset).store(sums);
    }
}

/// Largest of products and accumulators, for words of two i16: the sum of products with a word whose other
/// half is zero is the product of one element.
#[inline(always)]
pub(super) fn max_pairs<V: PairLanes, const ROWS: usize>(tile: &KernelTile<'_, i32>, sums: &mut [i32]) {
    let row_words = tile.b.len() / V::LANES;
    let mut a: [&[i32]; ROWS] = [&[]; ROWS];
    let mut largest = [V::splat(0); ROWS];
    for row in 0..ROWS {
        a[row] = &tile.a[row * row_words..][..row_words];
        largest[row] = V::load(&sums[row * V::LANES..]);
    }
    for (word, b) in tile.b.chunks_exact(V::LANES).enumerate() {
        let b = V::load(b);
        for row in 0..ROWS {
            for half in [a[row][word] & LOW_HALF, a[row][word] & !LOW_HALF] {
                largest[row] = largest[row].max(V::splat(0).add_products(V::splat(half), b));
            }
        }
    }
    for (row, largest) in largest.into_iter().enumerate() {
        largest.store(&mut sums[row * V::LANES..]);
    }
}

/// Bits of the first element of a pair.
const LOW_HALF: i32 = 0xFFFF;

/// The same by the compiler's own vectors: the twin of [`max_pairs`].
#[inline(always)]
pub(super) fn max<const COLUMNS: usize>(tile: &KernelTile<'_, i32>, sums: &mut [i32]) {
    let row_words = tile.b.len() / COLUMNS;
    let (b, _) = tile.b.as_chunks::<COLUMNS>();
    let (sums, _) = sums.as_chunks_mut::<COLUMNS>();
    for (sums, a) in sums.iter_mut().zip(tile.a.chunks_exact(row_words)) {
        let mut largest = *sums;
        for (&a, b) in a.iter().zip(b) {
            for (largest, &b) in largest.iter_mut().zip(b) {
                *largest = (*largest).max(low(a) * low(b)).max(high(a) * high(b));
            }
        }
        *sums = largest;
    }
}

/// The first element of a pair.
#[inline(always)]
pub(super) const fn low(word: i32) -> i32 {
    word << 16 >> 16
}

/// The second element of a pair.
#[inline(always)]
pub(super) const fn high(word: i32) -> i32 {
    word >> 16
}
