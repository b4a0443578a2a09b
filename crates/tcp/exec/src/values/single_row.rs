//! One row of the stream with many rows of the register files, taken as they lie there: with one token each
//! of their bytes is used once, so that packing them first would take longer than the products.
//!
//! Rows follow each other, and so do the steps of a row; the tree's part of one step is a unit. Sixteen units
//! are summed side by side: neighbours become pairs as they are multiplied, pairs are folded level by level
//! in the order of the tree. Floats go this way only while nothing can be subnormal (see `range`); integers
//! wrap, so that every order gives the same.

use std::borrow::Cow;

use tilewright_base::invariant::Exact;
use tilewright_num::Dtype;

use super::kernel_portable;
use super::range::FloatRange;
use super::simd_path::SimdPath;
#[cfg(target_arch = "x86_64")]
use super::{kernel_avx2, kernel_avx512};

/// Words side by side.
pub(super) const WORDS: usize = 16;
/// Elements of as many words.
pub(super) const ELEMENTS: usize = 2 * WORDS;
/// Most neighbours that are folded.
const MAX_TREE: usize = ELEMENTS;

/// Sixteen words, in four quarters of four.
pub(super) trait WideVector: Copy {
    /// Part of the row that stays.
    type Part;
    /// An accumulator.
    type Sum: Copy + Default;
    /// Bytes of the elements that meet a part.
    const BYTES: usize;
    /// Sums of the products of neighbours.
    fn pairs(part: &Self::Part, bytes: &[u8]) -> Self;
    /// Neighbours added: in each quarter two sums of this, then two of the other.
    fn fold(self, other: Self) -> Self;
    /// Neighbouring quarters added: two of this, then two of the other.
    fn fold_quarters(self, other: Self) -> Self;
    /// All words.
    fn words(self) -> [Self::Sum; WORDS];
    /// A step onto an accumulator.
    fn add(sum: Self::Sum, step: Self::Sum) -> Self::Sum;
    /// An accumulator as a word.
    fn word(sum: Self::Sum) -> u32;
}

/// Elements 0, 2, 4, ... and 1, 3, 5, ... of a row.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct FloatPart {
    pub(super) even: [f32; WORDS],
    pub(super) odd: [f32; WORDS],
}

/// Elements of a row, one after the other.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct IntPart(pub(super) [i16; ELEMENTS]);

/// What a kernel takes: the row, rows to meet, the tree and the steps of a row.
pub(super) struct SingleRowTask<'a, P> {
    pub(super) parts: &'a [P],
    pub(super) rows: &'a [u8],
    pub(super) tree: usize,
    pub(super) steps: usize,
}

/// A row of the stream, ready to meet others.
#[derive(Clone, Debug)]
pub struct SingleRow {
    path: SimdPath,
    tree: usize,
    steps: usize,
    row_bytes: usize,
    form: RowForm,
}

#[derive(Clone, Debug)]
enum RowForm {
    /// All zeros, which only infinities make anything else of.
    Zeros,
    Floats(Vec<FloatPart>, FloatRange),
    Ints(Vec<IntPart>),
}

impl SingleRow {
    /// Takes a row of bf16 or i8; `None` where rows are no whole parts, or where floats may be subnormal.
    pub fn new(path: SimdPath, dtype: Dtype, tree: usize, row: &[u8]) -> Option<SingleRow> {
        let elements = match dtype {
            Dtype::Bf16 => row.len() / 2,
            Dtype::I8 => row.len(),
            _ => return None,
        };
        // The order of integers does not matter.
        let tree = if dtype == Dtype::I8 { elements.min(MAX_TREE) } else { tree };
        let parts = elements.is_multiple_of(ELEMENTS) || (elements > 0 && ELEMENTS.is_multiple_of(elements));
        if !parts || !matches!(tree, 8 | 16 | MAX_TREE) || !elements.is_multiple_of(tree) {
            return None;
        }
        let repeated = match ELEMENTS / elements {
            0 | 1 => Cow::Borrowed(row),
            times => Cow::Owned(row.repeat(times)),
        };
        let form = if dtype == Dtype::I8 {
            if row.iter().all(|byte| *byte == 0) {
                RowForm::Zeros
            } else {
                RowForm::Ints(int_parts(&repeated))
            }
        } else {
            let range = path.bf16_range(row)?;
            let zeros = row.as_chunks::<2>().0.iter().all(|word| u16::from_le_bytes(*word) << 1 == 0);
            if zeros { RowForm::Zeros } else { RowForm::Floats(float_parts(&repeated), range) }
        };
        Some(SingleRow { path, tree, steps: elements / tree, row_bytes: row.len(), form })
    }

    /// A word for each of the rows, which are as long as this one; false, and nothing of use is written,
    /// where floats may be subnormal.
    pub fn sums(&self, dtype: Dtype, rows: &[u8], out: &mut [u32]) -> bool {
        if rows.len() != out.len().exact_mul(self.row_bytes) {
            return false;
        }
        let SingleRow { path, tree, steps, .. } = *self;
        match &self.form {
            RowForm::Zeros => {
                let finite = dtype == Dtype::I8 || self.path.bf16_range(rows).is_some();
                if finite {
                    out.fill(0);
                }
                finite
            }
            RowForm::Floats(parts, range) => {
                let exact = path.bf16_range(rows).is_some_and(|rows| range.exact_products(rows));
                if exact {
                    path.single_floats(&SingleRowTask { parts, rows, tree, steps }, out);
                }
                exact
            }
            RowForm::Ints(parts) => {
                path.single_ints(&SingleRowTask { parts, rows, tree, steps }, out);
                true
            }
        }
    }
}

impl SimdPath {
    fn bf16_range(self, rows: &[u8]) -> Option<FloatRange> {
        match self {
            #[cfg(target_arch = "x86_64")]
            SimdPath::Avx512 => kernel_avx512::bf16_range(rows),
            #[cfg(target_arch = "x86_64")]
            SimdPath::Avx2 => kernel_avx2::bf16_range(rows),
            _ => FloatRange::of_bf16(rows),
        }
    }

    fn single_floats(self, task: &SingleRowTask<'_, FloatPart>, out: &mut [u32]) {
        match self {
            #[cfg(target_arch = "x86_64")]
            SimdPath::Avx512 => kernel_avx512::single_floats(task, out),
            #[cfg(target_arch = "x86_64")]
            SimdPath::Avx2 => kernel_avx2::single_floats(task, out),
            _ => kernel_portable::single_floats(task, out),
        }
    }

    fn single_ints(self, task: &SingleRowTask<'_, IntPart>, out: &mut [u32]) {
        match self {
            #[cfg(target_arch = "x86_64")]
            SimdPath::Avx512 => kernel_avx512::single_ints(task, out),
            #[cfg(target_arch = "x86_64")]
            SimdPath::Avx2 => kernel_avx2::single_ints(task, out),
            _ => kernel_portable::single_ints(task, out),
        }
    }
}

fn float_parts(row: &[u8]) -> Vec<FloatPart> {
    let value = |low: u8, high: u8| f32::from_bits(u32::from(u16::from_le_bytes([low, high])) << 16);
    let part = |bytes: &[[u8; 4]; WORDS]| FloatPart {
        even: bytes.map(|[low, high, ..]| value(low, high)),
        odd: bytes.map(|[.., low, high]| value(low, high)),
    };
    row.as_chunks::<4>().0.as_chunks().0.iter().map(part).collect()
}

fn int_parts(row: &[u8]) -> Vec<IntPart> {
    let part = |bytes: &[u8; ELEMENTS]| IntPart(bytes.map(|byte| i16::from(byte.cast_signed())));
    row.as_chunks().0.iter().map(part).collect()
}

/// A word for each row.
#[inline(always)]
pub(super) fn run<V: WideVector>(task: &SingleRowTask<'_, V::Part>, out: &mut [u32]) {
    match task.tree {
        8 => by_tree::<V, 4>(task, out),
        16 => by_tree::<V, 8>(task, out),
        _ => by_tree::<V, 16>(task, out),
    }
}

/// [`run`] with so many parts to sixteen units.
#[inline(always)]
fn by_tree<V: WideVector, const PARTS: usize>(task: &SingleRowTask<'_, V::Part>, out: &mut [u32]) {
    let mut rows = OutputRows { out: out.iter_mut(), steps: task.steps, step: 0, sum: V::Sum::default() };
    let mut parts = CyclicParts { parts: task.parts, at: 0 };
    let group = PARTS * V::BYTES;
    let mut groups = task.rows.chunks_exact(group);
    for bytes in groups.by_ref() {
        rows.take::<V>(&units::<V, PARTS>(&mut parts, bytes));
    }
    let rest = groups.remainder();
    if !rest.is_empty() {
        let mut padded = [0_u8; MAX_TREE * 64];
        padded[..rest.len()].copy_from_slice(rest);
        let count = rest.len() * WORDS / group;
        rows.take::<V>(&units::<V, PARTS>(&mut parts, &padded[..group])[..count]);
    }
}

/// Sums of sixteen units.
#[inline(always)]
fn units<V: WideVector, const PARTS: usize>(
    parts: &mut CyclicParts<'_, V::Part>,
    bytes: &[u8],
) -> [V::Sum; WORDS] {
    let first = four::<V>(parts, bytes, 0);
    let mut sums = [V::Sum::default(); WORDS];
    match PARTS {
        4 => {
            let found = first.words();
            for (unit, sum) in sums.iter_mut().enumerate() {
                *sum = found[unit % 4 * 4 + unit / 4];
            }
        }
        8 => {
            let found = first.fold_quarters(four::<V>(parts, bytes, 4)).words();
            for (unit, sum) in sums.iter_mut().enumerate() {
                *sum = found[(unit / 8 * 2 + unit % 2) * 4 + unit % 8 / 2];
            }
        }
        _ => {
            let low = first.fold_quarters(four::<V>(parts, bytes, 4));
            let third = four::<V>(parts, bytes, 8);
            sums = low.fold_quarters(third.fold_quarters(four::<V>(parts, bytes, 12))).words();
        }
    }
    sums
}

/// Four parts of the row with four parts of bytes, folded twice.
#[inline(always)]
fn four<V: WideVector>(parts: &mut CyclicParts<'_, V::Part>, bytes: &[u8], first: usize) -> V {
    let bytes = &bytes[first * V::BYTES..(first + 4) * V::BYTES];
    let a = V::pairs(parts.next(), bytes);
    let b = V::pairs(parts.next(), &bytes[V::BYTES..]);
    let c = V::pairs(parts.next(), &bytes[2 * V::BYTES..]);
    let d = V::pairs(parts.next(), &bytes[3 * V::BYTES..]);
    a.fold(b).fold(c.fold(d))
}

/// Parts of a row again and again.
struct CyclicParts<'p, P> {
    parts: &'p [P],
    at: usize,
}

impl<'p, P> CyclicParts<'p, P> {
    #[inline(always)]
    fn next(&mut self) -> &'p P {
        let part = &self.parts[self.at];
        self.at = if self.at + 1 == self.parts.len() { 0 } else { self.at + 1 };
        part
    }
}

/// Where units go: step after step onto the sum of a row, row after row.
struct OutputRows<'o, S> {
    out: std::slice::IterMut<'o, u32>,
    steps: usize,
    step: usize,
    sum: S,
}

impl<S: Copy + Default> OutputRows<'_, S> {
    #[inline(always)]
    fn take<V: WideVector<Sum = S>>(&mut self, units: &[S]) {
        if self.steps == 1 {
            // Units first: the last of them must not take a word with it.
            for (unit, word) in units.iter().zip(self.out.by_ref()) {
                *word = V::word(V::add(S::default(), *unit));
            }
            return;
        }
        for unit in units {
            self.sum = V::add(self.sum, *unit);
            self.step += 1;
            if self.step == self.steps {
                if let Some(word) = self.out.next() {
                    *word = V::word(self.sum);
                }
                (self.step, self.sum) = (0, S::default());
            }
        }
    }
}

/// The word of a float accumulator.
#[inline(always)]
pub(super) fn float_word(sum: f32) -> u32 {
    if sum.is_nan() { super::tile_float::QUIET_NAN } else { sum.to_bits() }
}
