//! Reduction between neighbouring slices, in ring order from the lowest slice on (an assumption), and who
//! gets the results (vISA book, inter-slice reducer).

use std::sync::Arc;

use tilewright_base::invariant::{Exact, OrBroken, to_index};
use tilewright_num::{self as num, RuleSet};
use tilewright_tcp_isa::capped::Capped;
use tilewright_tcp_isa::program::vector::{InterSliceReduce, ReduceOp, ReduceOutput, Word};

use super::{FLIT, SharedWords, VectorError};
use crate::parallel::for_each;
use crate::values::{SimdPath, add_words, sum_word};

/// Results of slices that are wanted; others have no words then.
pub(super) fn apply(
    rules: &RuleSet,
    between: InterSliceReduce,
    word: Word,
    slices: &[SharedWords],
    wanted: &dyn Fn(usize) -> bool,
) -> Result<Vec<SharedWords>, VectorError> {
    let uneven = VectorError::Slices { found: slices.len(), group: between.slices };
    let size = usize::try_from(between.slices).map_err(|_| uneven)?;
    if size == 0 || !slices.len().is_multiple_of(size) {
        return Err(uneven);
    }
    let mut all = Vec::with_capacity(slices.len());
    for (number, group) in slices.chunks(size).enumerate() {
        let sum = combine(rules, between.op, word, group);
        give(between.gives, sum, group.len(), &|slice| wanted(number * size + slice), &mut all);
    }
    Ok(all)
}

fn combine(rules: &RuleSet, op: ReduceOp, word: Word, group: &[SharedWords]) -> Vec<u32> {
    let ints = |f: fn(i32, i32) -> i32| {
        fold(group, |a| a, move |a, b| f(a.cast_signed(), b.cast_signed()).cast_unsigned())
    };
    match (word, op) {
        (Word::I32, ReduceOp::Max) => ints(i32::max),
        (Word::I32, ReduceOp::Min) => ints(i32::min),
        (Word::I32, ReduceOp::AddWrap) => fold(&without_zeros(group), |a| a, u32::wrapping_add),
        (Word::I32, _) => ints(num::add_sat),
        (Word::F32, ReduceOp::Max) => floats(rules, group, |a, b| num::max_f32(rules, a, b)),
        (Word::F32, ReduceOp::Min) => floats(rules, group, |a, b| num::min_f32(rules, a, b)),
        (Word::F32, ReduceOp::Mul) => floats(rules, group, |a, b| num::mul_f32(rules, a, b)),
        (Word::F32, _) if rules == &RuleSet::TCP => sums(group),
        (Word::F32, _) => floats(rules, group, |a, b| num::add_f32(rules, a, b)),
    }
}

/// A group without the words that several slices share and that are all zeros; the first slice stays.
fn without_zeros(group: &[SharedWords]) -> Vec<SharedWords> {
    let mut zeros: Option<&SharedWords> = None;
    let mut kept = Vec::with_capacity(group.len());
    for words in group {
        if zeros.is_none() && Arc::strong_count(words) > 1 && words.iter().all(|word| *word == 0) {
            zeros = Some(words);
        }
        if kept.is_empty() || !zeros.is_some_and(|zeros| Arc::ptr_eq(zeros, words)) {
            kept.push(Arc::clone(words));
        }
    }
    kept
}

fn floats(rules: &RuleSet, group: &[SharedWords], f: impl Fn(f32, f32) -> f32) -> Vec<u32> {
    fold(group, |a| rules.settle_f32(a), |a, b| f(f32::from_bits(a), f32::from_bits(b)).to_bits())
}

/// Sums by the rules of the chip, some words of all slices at a time, so that they stay in the nearest cache.
fn sums(group: &[SharedWords]) -> Vec<u32> {
    let path = SimdPath::best();
    let Some((first, others)) = group.split_first() else { return Vec::new() };
    let settled = |word: &u32| f32::from_bits(RuleSet::TCP.settle_f32(*word));
    let mut sums: Vec<f32> = first.iter().map(settled).collect();
    let work = (sums.len() as u64).capped_mul(others.len() as u64) / 4;
    for_each(sums.chunks_mut(TOGETHER_WORDS).collect(), work, |part, sums| {
        let start = part * TOGETHER_WORDS;
        for words in others {
            add_words(
                path,
                sums,
                words.get(start..start + sums.len()).or_broken("as many words on each slice"),
            );
        }
    });
    sums.into_iter().map(sum_word).collect()
}

/// Words of a slice that are added together.
const TOGETHER_WORDS: usize = 1 << 10;

fn fold(group: &[SharedWords], enter: impl Fn(u32) -> u32, f: impl Fn(u32, u32) -> u32) -> Vec<u32> {
    let mut slices = group.iter();
    let first = slices.next().or_broken("a group has slices").iter().map(|word| enter(*word)).collect();
    slices.fold(first, |mut sum: Vec<u32>, words| {
        sum.iter_mut().zip(words.iter()).for_each(|(a, b)| *a = f(*a, *b));
        sum
    })
}

/// Appends the results of the slices of a group.
fn give(
    gives: ReduceOutput,
    sum: Vec<u32>,
    slices: usize,
    wanted: &dyn Fn(usize) -> bool,
    all: &mut Vec<SharedWords>,
) {
    let (none, zeros) =
        (SharedWords::default(), Arc::new(vec![0; if gives == ReduceOutput::First { sum.len() } else { 0 }]));
    let sum = Arc::new(sum);
    all.extend((0..slices).map(|slice| match gives {
        _ if !wanted(slice) => Arc::clone(&none),
        ReduceOutput::First if slice > 0 => Arc::clone(&zeros),
        ReduceOutput::First | ReduceOutput::Broadcast => Arc::clone(&sum),
        ReduceOutput::Scatter { inner } => {
            let run = to_index(inner).exact_mul(FLIT).max(1);
            Arc::new(sum.chunks(run).skip(slice).step_by(slices).flatten().copied().collect())
        }
    }));
}
