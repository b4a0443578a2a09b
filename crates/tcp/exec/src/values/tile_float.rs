//! Float tiles: the adder tree of the packet reducer and the accumulation of its steps, for so many rows of
//! `a` and one vector of columns, written once over the vector type.
//!
//! The tree is walked depth first, so that a pending sum for each level is all that it keeps.

use std::marker::PhantomData;

use tilewright_num::RuleSet;

use super::range::exact_accumulators;
use super::simd_path::KernelTile;

/// A vector of columns.
pub(super) trait FloatLanes: Copy {
    /// Columns.
    const LANES: usize;
    /// The same value everywhere.
    fn splat(value: f32) -> Self;
    /// The first values of a slice.
    fn load(values: &[f32]) -> Self;
    /// Writes the first values of a slice.
    fn store(self, values: &mut [f32]);
    /// Sum, rounded to nearest even.
    fn add(self, other: Self) -> Self;
    /// Product, rounded to nearest even.
    fn mul(self, other: Self) -> Self;
    /// `self * other + addend`; the product is known to be exact, so fused or not is the same.
    fn mul_add(self, other: Self, addend: Self) -> Self;
    /// Subnormals become zeros of the same sign.
    fn flush(self) -> Self;
}

/// Sums of products, in tree order, onto the accumulators.
#[inline(always)]
pub(super) fn add<V: FloatLanes, const ROWS: usize>(tile: &KernelTile<'_, f32>, sums: &mut [f32]) {
    if tile.range_a.exact_products(tile.range_b) && exact_accumulators(sums) {
        add_in_tree::<V, ExactArithmetic, ROWS>(tile, sums);
    } else {
        add_in_tree::<V, FlushedArithmetic, ROWS>(tile, sums);
    }
    for sum in sums {
        *sum = if sum.is_nan() { f32::from_bits(QUIET_NAN) } else { *sum };
    }
}

pub(super) const QUIET_NAN: u32 = 0x7FC0_0000;

#[inline(always)]
fn add_in_tree<V: FloatLanes, A: TileArithmetic, const ROWS: usize>(
    tile: &KernelTile<'_, f32>,
    sums: &mut [f32],
) {
    match tile.tree_elements {
        1 => steps::<V, A, TreeOfOne, ROWS>(tile, sums),
        2 => steps::<V, A, TreeOfTwo, ROWS>(tile, sums),
        4 => steps::<V, A, DoubledTree<TreeOfTwo>, ROWS>(tile, sums),
        8 => steps::<V, A, DoubledTree<DoubledTree<TreeOfTwo>>, ROWS>(tile, sums),
        16 => steps::<V, A, DoubledTree<DoubledTree<DoubledTree<TreeOfTwo>>>, ROWS>(tile, sums),
        32 => steps::<V, A, DoubledTree<DoubledTree<DoubledTree<DoubledTree<TreeOfTwo>>>>, ROWS>(tile, sums),
        _ => steps::<V, A, DoubledTree<DoubledTree<DoubledTree<DoubledTree<DoubledTree<TreeOfTwo>>>>>, ROWS>(
            tile, sums,
        ),
    }
}

#[inline(always)]
fn steps<V: FloatLanes, A: TileArithmetic, T: AdderTree, const ROWS: usize>(
    tile: &KernelTile<'_, f32>,
    sums: &mut [f32],
) {
    let row_words = tile.b.len() / V::LANES;
    let mut totals = [V::splat(0.0); ROWS];
    for row in 0..ROWS {
        totals[row] = A::start(V::load(&sums[row * V::LANES..]));
    }
    for (step, b) in tile.b.chunks_exact(T::ELEMENTS * V::LANES).enumerate() {
        let mut a: [&[f32]; ROWS] = [&[]; ROWS];
        for (row, a) in a.iter_mut().enumerate() {
            *a = &tile.a[row * row_words + step * T::ELEMENTS..][..T::ELEMENTS];
        }
        let trees: [V; ROWS] = T::sum::<V, A, ROWS>(a, b);
        for row in 0..ROWS {
            totals[row] = A::node(totals[row], trees[row]);
        }
    }
    for row in 0..ROWS {
        totals[row].store(&mut sums[row * V::LANES..]);
    }
}

/// A tree over a fixed number of neighbours.
trait AdderTree {
    const ELEMENTS: usize;
    /// The sums of the products of `ELEMENTS` words of each row with as many of all columns.
    fn sum<V: FloatLanes, A: TileArithmetic, const ROWS: usize>(a: [&[f32]; ROWS], b: &[f32]) -> [V; ROWS];
}

struct TreeOfOne;
struct TreeOfTwo;
struct DoubledTree<T>(PhantomData<T>);

impl AdderTree for TreeOfOne {
    const ELEMENTS: usize = 1;

    #[inline(always)]
    fn sum<V: FloatLanes, A: TileArithmetic, const ROWS: usize>(a: [&[f32]; ROWS], b: &[f32]) -> [V; ROWS] {
        let b = V::load(b);
        let mut sums = [b; ROWS];
        for row in 0..ROWS {
            sums[row] = A::product(V::splat(a[row][0]), b);
        }
        sums
    }
}

impl AdderTree for TreeOfTwo {
    const ELEMENTS: usize = 2;

    #[inline(always)]
    fn sum<V: FloatLanes, A: TileArithmetic, const ROWS: usize>(a: [&[f32]; ROWS], b: &[f32]) -> [V; ROWS] {
        let b = [V::load(b), V::load(&b[V::LANES..])];
        let mut sums = [b[0]; ROWS];
        for row in 0..ROWS {
            sums[row] = A::pair([V::splat(a[row][0]), V::splat(a[row][1])], b);
        }
        sums
    }
}

impl<T: AdderTree> AdderTree for DoubledTree<T> {
    const ELEMENTS: usize = 2 * T::ELEMENTS;

    #[inline(always)]
    fn sum<V: FloatLanes, A: TileArithmetic, const ROWS: usize>(a: [&[f32]; ROWS], b: &[f32]) -> [V; ROWS] {
        let (mut left, mut right) = (a, a);
        for row in 0..ROWS {
            (left[row], right[row]) = a[row].split_at(T::ELEMENTS);
        }
        let (b_left, b_right) = b.split_at(T::ELEMENTS * V::LANES);
        let mut sums: [V; ROWS] = T::sum::<V, A, ROWS>(left, b_left);
        let right: [V; ROWS] = T::sum::<V, A, ROWS>(right, b_right);
        for row in 0..ROWS {
            sums[row] = A::node(sums[row], right[row]);
        }
        sums
    }
}

/// What a multiplier and a node of the tree do.
trait TileArithmetic {
    fn start<V: FloatLanes>(value: V) -> V;
    fn product<V: FloatLanes>(a: V, b: V) -> V;
    fn node<V: FloatLanes>(left: V, right: V) -> V;
    /// The node above two products.
    fn pair<V: FloatLanes>(a: [V; 2], b: [V; 2]) -> V;
}

/// For operands whose products and sums are never subnormal; see `range`.
struct ExactArithmetic;
/// For all operands.
struct FlushedArithmetic;

impl TileArithmetic for ExactArithmetic {
    #[inline(always)]
    fn start<V: FloatLanes>(value: V) -> V {
        value
    }

    #[inline(always)]
    fn product<V: FloatLanes>(a: V, b: V) -> V {
        a.mul(b)
    }

    #[inline(always)]
    fn node<V: FloatLanes>(left: V, right: V) -> V {
        left.add(right)
    }

    #[inline(always)]
    fn pair<V: FloatLanes>(a: [V; 2], b: [V; 2]) -> V {
        a[0].mul_add(b[0], a[1].mul(b[1]))
    }
}

impl TileArithmetic for FlushedArithmetic {
    #[inline(always)]
    fn start<V: FloatLanes>(value: V) -> V {
        value.flush()
    }

    #[inline(always)]
    fn product<V: FloatLanes>(a: V, b: V) -> V {
        a.mul(b).flush()
    }

    #[inline(always)]
    fn node<V: FloatLanes>(left: V, right: V) -> V {
        left.add(right).flush()
    }

    #[inline(always)]
    fn pair<V: FloatLanes>(a: [V; 2], b: [V; 2]) -> V {
        Self::node(Self::product(a[0], b[0]), Self::product(a[1], b[1]))
    }
}

/// Largest of products and accumulators. Patterns are compared as integers whose order is that of the floats
/// with -0 below +0 and NaN on top, so the compiler's own vectors do.
#[inline(always)]
pub(super) fn max<const COLUMNS: usize>(tile: &KernelTile<'_, f32>, sums: &mut [f32]) {
    let row_words = tile.b.len() / COLUMNS;
    let (b, _) = tile.b.as_chunks::<COLUMNS>();
    let (sums, _) = sums.as_chunks_mut::<COLUMNS>();
    for (sums, a) in sums.iter_mut().zip(tile.a.chunks_exact(row_words)) {
        let mut largest = sums.map(order_key);
        for (a, b) in a.iter().zip(b) {
            for (largest, b) in largest.iter_mut().zip(b) {
                *largest = (*largest).max(order_key(a * b));
            }
        }
        *sums = largest.map(|key| f32::from_bits(flip_negative(key).cast_unsigned()));
    }
}

#[inline(always)]
fn order_key(value: f32) -> i32 {
    flip_negative(RuleSet::TCP.settle_f32(value.to_bits()).cast_signed())
}

/// Its own inverse.
#[inline(always)]
const fn flip_negative(pattern: i32) -> i32 {
    pattern ^ ((pattern >> 31) & i32::MAX)
}
