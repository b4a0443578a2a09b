//! A slice's words on their way through the chain, with their tags and the stash.

use tilewright_num::RuleSet;
use tilewright_tcp_isa::program::vector::{Comparison, Op, OpKind, Relation, Vector, Word};
use tilewright_tcp_isa::vector::GROUP_TAG;

use super::{FLIT, HALF};

/// Words between two operations.
pub(super) struct WordStream {
    /// In time order, `width` to a flit.
    pub(super) words: Vec<u32>,
    /// One for each word; empty if all are zero.
    pub(super) tags: Vec<u8>,
    /// Words of a flit that are present: all, or the low half.
    pub(super) width: usize,
    /// What was kept, one for each word.
    pub(super) stash: Option<Vec<u32>>,
}

impl WordStream {
    /// The tag stage.
    pub(super) fn new(rules: &RuleSet, vector: &Vector, words: Vec<u32>) -> WordStream {
        let mut tags = Vec::new();
        let pair = vector.pair && vector.ops.iter().any(looks_at_tags);
        if pair || !vector.tags.is_empty() {
            tags.resize(words.len(), 0);
        }
        for (bit, comparison) in vector.tags.iter().enumerate().take(8) {
            compare(rules, vector.input, *comparison, &words, &mut tags, 1 << bit);
        }
        if pair {
            let groups = tags.chunks_mut(FLIT).skip(1).step_by(2);
            groups.flatten().for_each(|tag| *tag |= GROUP_TAG);
        }
        WordStream { words, tags, width: FLIT, stash: None }
    }

    /// Leaves the upper half of every flit out.
    pub(super) fn trim(&mut self) {
        self.words = low_halves(&self.words);
        self.tags = low_halves(&self.tags);
        self.stash = self.stash.take().map(|stash| low_halves(&stash));
        self.width = HALF;
    }

    /// Fills upper halves that were left out with zeros.
    pub(super) fn widen(&mut self) {
        if self.width == HALF {
            self.words = widened(&self.words);
            self.tags = widened(&self.tags);
            self.stash = self.stash.take().map(|stash| widened(&stash));
            self.width = FLIT;
        }
    }

    /// Keeps the first group and gives the words of the second.
    pub(super) fn split_pair(&mut self) -> Vec<u32> {
        let other = every_other(self.words.chunks(self.width).skip(1), self.words.len());
        self.words = every_other(self.words.chunks(self.width), self.words.len());
        self.tags = every_other(self.tags.chunks(self.width), self.tags.len());
        other
    }
}

/// The first flit, the third, and so on.
fn every_other<'w, T: Copy + 'w>(flits: impl Iterator<Item = &'w [T]>, words: usize) -> Vec<T> {
    let mut kept = Vec::with_capacity(words / 2 + 1);
    flits.step_by(2).for_each(|flit| kept.extend_from_slice(flit));
    kept
}

/// Whether an operation does something else for other tags.
fn looks_at_tags(op: &Op) -> bool {
    let guarded = op.operands.iter().flat_map(|choice| &choice.sources).any(|guarded| guarded.mask != 0);
    guarded || matches!(op.kind, OpKind::Filter { .. })
}

fn low_halves<T: Copy>(items: &[T]) -> Vec<T> {
    items.chunks(FLIT).flat_map(|flit| flit.iter().take(HALF)).copied().collect()
}

fn widened<T: Copy + Default>(items: &[T]) -> Vec<T> {
    let mut all = vec![T::default(); 2 * items.len()];
    for (flit, half) in all.chunks_mut(FLIT).zip(items.chunks(HALF)) {
        for (to, from) in flit.iter_mut().zip(half) {
            *to = *from;
        }
    }
    all
}

fn compare(rules: &RuleSet, word: Word, comparison: Comparison, words: &[u32], tags: &mut [u8], bit: u8) {
    let Comparison { relation, word: constant } = comparison;
    match word {
        Word::I32 => mark(relation, constant.cast_signed(), words, u32::cast_signed, tags, bit),
        Word::F32 => {
            let settled = |word: u32| f32::from_bits(rules.settle_f32(word));
            mark(relation, settled(constant), words, settled, tags, bit);
        }
    }
}

fn mark<T: PartialOrd + Copy>(
    relation: Relation,
    constant: T,
    words: &[u32],
    read: impl Fn(u32) -> T,
    tags: &mut [u8],
    bit: u8,
) {
    let holds = |value: T| match relation {
        Relation::Eq => value == constant,
        Relation::Ne => value != constant,
        Relation::Lt => value < constant,
        Relation::Le => value <= constant,
        Relation::Gt => value > constant,
        Relation::Ge => value >= constant,
    };
    for (tag, word) in tags.iter_mut().zip(words) {
        *tag |= if holds(read(*word)) { bit } else { 0 };
    }
}
