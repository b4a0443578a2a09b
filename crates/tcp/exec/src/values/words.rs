//! Operand rows as 4-byte words: one f32, two i16 or four 8-bit integers, so that all kernels read alike.

use std::fmt::Debug;

use tilewright_num::{Dtype, RuleSet, decode_slice, unpack_ints};

use super::range::FloatRange;
use super::shape::TreeReduce;

/// Words of a row that kernels take at a time: 2 KiB of each row, a panel of 16 columns within the L1 cache.
/// A multiple of every tree.
pub(super) const BLOCK_WORDS: usize = 512;

/// What an operand row becomes on its way to a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WordForm {
    /// An element as f32.
    Float,
    /// Two elements as i16, the first in the low half.
    PairI16,
    /// Four elements as i8, the first in the lowest byte.
    QuadI8,
    /// Four elements plus 128 as u8.
    QuadU8,
}

impl WordForm {
    /// Elements of a word.
    pub(super) const fn elements(self) -> usize {
        match self {
            Self::Float => 1,
            Self::PairI16 => 2,
            Self::QuadI8 | Self::QuadU8 => 4,
        }
    }
}

/// A word, which is also the type of an accumulator.
pub(super) trait OperandWord: Copy + Default + Debug {
    /// What is remembered of all words of some rows.
    type Range: Copy + Debug;
    /// Reads `count` elements into the first words; elements missing in the last of them are zero.
    fn decode(form: WordForm, dtype: Dtype, bytes: &[u8], count: usize, words: &mut [Self]);
    /// What is remembered of these words.
    fn range(words: &[Self]) -> Self::Range;
    /// The last element of a word that has so many, in all its places; not for quads.
    fn repeat_last(self, elements: usize) -> Self;
}

/// How rows of one operand are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowReader {
    pub(super) dtype: Dtype,
    pub(super) form: WordForm,
    pub(super) k: usize,
    pub(super) reduce: TreeReduce,
}

impl RowReader {
    /// Words `first..first + words.len()` of a row. Behind element k a sum gets zeros; a maximum gets the
    /// last element again, which changes nothing.
    pub(super) fn read<W: OperandWord>(&self, row: &[u8], first: usize, words: &mut [W]) {
        let per_word = self.form.elements();
        let start = (first * per_word).min(self.k);
        let count = (self.k - start).min(words.len() * per_word);
        let bytes = &row[self.dtype.size_bytes(start)..self.dtype.size_bytes(start + count)];
        W::decode(self.form, self.dtype, bytes, count, words);
        let filled = count.div_ceil(per_word);
        let mut fill = W::default();
        if self.reduce == TreeReduce::Max && filled > 0 {
            let in_last = count - (filled - 1) * per_word;
            fill = words[filled - 1].repeat_last(in_last);
            if in_last < per_word {
                words[filled - 1] = fill;
            }
        }
        words[filled..].fill(fill);
    }
}

impl OperandWord for f32 {
    type Range = FloatRange;

    fn decode(_: WordForm, dtype: Dtype, bytes: &[u8], count: usize, words: &mut [Self]) {
        decode_slice(&RuleSet::TCP, dtype, bytes, &mut words[..count]);
    }

    fn range(words: &[Self]) -> FloatRange {
        FloatRange::of(words)
    }

    fn repeat_last(self, _: usize) -> Self {
        self
    }
}

impl OperandWord for i32 {
    type Range = ();

    fn decode(form: WordForm, dtype: Dtype, bytes: &[u8], count: usize, words: &mut [Self]) {
        match (form, dtype) {
            (WordForm::QuadI8, Dtype::I5 | Dtype::I8) | (WordForm::PairI16, Dtype::I9) => {
                copy_words(bytes, 0, words);
            }
            (WordForm::QuadU8, Dtype::I5 | Dtype::I8) => copy_words(bytes, QUAD_OFFSET, words),
            (WordForm::PairI16, Dtype::I5 | Dtype::I8) => widen_words(bytes, words),
            _ => {
                for (part, group) in words.chunks_mut(16).enumerate() {
                    let first = part * 16 * form.elements();
                    let elements = count.saturating_sub(first).min(group.len() * form.elements());
                    let bytes = &bytes[dtype.size_bytes(first.min(count))..][..dtype.size_bytes(elements)];
                    pack_words(form, dtype, bytes, elements, group);
                }
            }
        }
    }

    fn range(_: &[Self]) {}

    fn repeat_last(self, elements: usize) -> Self {
        let low = if elements == 1 { self & 0xFFFF } else { self >> 16 & 0xFFFF };
        low | low << 16
    }
}

/// 128 in each byte; as exclusive or it adds 128 to an i8.
pub(super) const QUAD_OFFSET: i32 = 0x8080_8080_u32.cast_signed();

fn copy_words(bytes: &[u8], flip: i32, words: &mut [i32]) {
    let (whole, last) = bytes.as_chunks::<4>();
    for (word, bytes) in words.iter_mut().zip(whole) {
        *word = i32::from_le_bytes(*bytes) ^ flip;
    }
    if !last.is_empty() {
        let mut padded = [0; 4];
        padded[..last.len()].copy_from_slice(last);
        words[whole.len()] = i32::from_le_bytes(padded) ^ flip;
    }
}

fn widen_words(bytes: &[u8], words: &mut [i32]) {
    let pair =
        |low: u8, high: u8| i32::from(low.cast_signed()) & 0xFFFF | i32::from(high.cast_signed()) << 16;
    let (whole, last) = bytes.as_chunks::<2>();
    for (word, &[low, high]) in words.iter_mut().zip(whole) {
        *word = pair(low, high);
    }
    if let [low] = *last {
        words[whole.len()] = pair(low, 0);
    }
}

/// At most 16 words of elements that do not lie in memory as they lie in words.
fn pack_words(form: WordForm, dtype: Dtype, bytes: &[u8], count: usize, words: &mut [i32]) {
    let mut elements = [0; 64];
    unpack_ints(dtype, bytes, &mut elements[..count]).expect("rows of integers are read as integers");
    match form {
        WordForm::PairI16 => {
            for (word, [low, high]) in words.iter_mut().zip(elements.as_chunks().0) {
                *word = low & 0xFFFF | high << 16;
            }
        }
        WordForm::Float | WordForm::QuadI8 | WordForm::QuadU8 => {
            let flip = if form == WordForm::QuadU8 { QUAD_OFFSET } else { 0 };
            for (word, quad) in words.iter_mut().zip(elements.as_chunks::<4>().0) {
                let byte = |at: usize| (quad[at] & 0xFF) << (8 * at);
                *word = (byte(0) | byte(1) | byte(2) | byte(3)) ^ flip;
            }
        }
    }
}
