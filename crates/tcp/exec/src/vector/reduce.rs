//! Reduction within a slice: half flits enter, results leave when their group ends (vISA book, intra-slice
//! reduce).
//!
//! The four elements combine as `op(op(a, b), op(c, d))`, then each slot takes what enters in step order.
//! Elements past a limit take no part; a result without any element is the operation's identity.

use std::ops::Range;

use tilewright_base::invariant::{Exact, OrBroken, to_index};
use tilewright_num::{self as num, RuleSet};
use tilewright_tcp_isa::capped::Capped;
use tilewright_tcp_isa::program::vector::{Reduce, ReduceLimit, ReduceOp, Word};
use tilewright_tcp_isa::vector::steps::{ReduceSteps, Rewiden, fixed, rewiden, steps};

use super::HALF;
use super::stream::WordStream;

pub(super) fn apply(
    rules: &RuleSet,
    reduce: &Reduce,
    word: Word,
    slices: Range<usize>,
    stream: &mut WordStream,
) {
    let sizes = steps(reduce).or_broken("steps were counted with the chain's shapes");
    let how = rewiden(reduce, stream.width == HALF).or_broken("halves were checked with the chain");
    if word == Word::F32 {
        stream.words.iter_mut().for_each(|word| *word = rules.settle_f32(*word));
    }
    let run = SliceReduction { reduce, sizes, slices, identity: identity(reduce.op, word) };
    let words = std::mem::take(&mut stream.words);
    let results = match (word, reduce.op) {
        (Word::I32, ReduceOp::Max) => {
            run.all(&words, |a, b| a.cast_signed().max(b.cast_signed()).cast_unsigned())
        }
        (Word::I32, ReduceOp::Min) => {
            run.all(&words, |a, b| a.cast_signed().min(b.cast_signed()).cast_unsigned())
        }
        (Word::I32, _) => {
            run.all(&words, |a, b| num::add_sat(a.cast_signed(), b.cast_signed()).cast_unsigned())
        }
        (Word::F32, ReduceOp::Max) => run.all(&words, float(|a, b| num::max_f32(rules, a, b))),
        (Word::F32, ReduceOp::Min) => run.all(&words, float(|a, b| num::min_f32(rules, a, b))),
        (Word::F32, _) => run.all(&words, float(|a, b| num::add_f32(rules, a, b))),
    };
    stream.words = results;
    stream.width = if how == Rewiden::Join { super::FLIT } else { HALF };
    stream.tags = Vec::new();
    stream.stash = None;
}

fn float(f: impl Fn(f32, f32) -> f32) -> impl Fn(u32, u32) -> u32 {
    move |a, b| f(f32::from_bits(a), f32::from_bits(b)).to_bits()
}

fn identity(op: ReduceOp, word: Word) -> u32 {
    match (op, word) {
        (ReduceOp::Max, Word::I32) => i32::MIN.cast_unsigned(),
        (ReduceOp::Min, Word::I32) => i32::MAX.cast_unsigned(),
        (ReduceOp::Max, Word::F32) => f32::NEG_INFINITY.to_bits(),
        (ReduceOp::Min, Word::F32) => f32::INFINITY.to_bits(),
        (ReduceOp::Mul, Word::F32) => 1.0_f32.to_bits(),
        _ => 0,
    }
}

/// Half a flit, where each element may be absent.
#[derive(Clone, Copy)]
struct HalfFlit {
    words: [u32; HALF],
    live: [bool; HALF],
}

impl HalfFlit {
    const ABSENT: HalfFlit = HalfFlit { words: [0; HALF], live: [false; HALF] };

    fn take(&mut self, other: &HalfFlit, f: impl Fn(u32, u32) -> u32) {
        for index in 0..HALF {
            let (a, b) = (self.words[index], other.words[index]);
            self.words[index] = match (self.live[index], other.live[index]) {
                (true, true) => f(a, b),
                (false, true) => b,
                _ => a,
            };
            self.live[index] |= other.live[index];
        }
    }

    /// The tree over the four elements, as element 0.
    fn tree(&self, f: impl Fn(u32, u32) -> u32) -> HalfFlit {
        let part = |from: usize| {
            let [a, b] = [from, from + 1].map(|index| (self.words[index], self.live[index]));
            combine(a, b, &f)
        };
        let (word, live) = combine(part(0), part(2), &f);
        let mut result = HalfFlit::ABSENT;
        (result.words[0], result.live[0]) = (word, live);
        result
    }
}

fn combine(a: (u32, bool), b: (u32, bool), f: impl Fn(u32, u32) -> u32) -> (u32, bool) {
    match (a.1, b.1) {
        (true, true) => (f(a.0, b.0), true),
        (true, false) => a,
        _ => b,
    }
}

struct SliceReduction<'a> {
    reduce: &'a Reduce,
    sizes: ReduceSteps,
    slices: Range<usize>,
    identity: u32,
}

impl SliceReduction<'_> {
    /// Results of all slices as half flits, one after the other.
    fn all(&self, words: &[u32], f: impl Fn(u32, u32) -> u32) -> Vec<u32> {
        let mut results = Vec::new();
        let each = (words.len() / self.slices.len().max(1)).max(1);
        for (slice, words) in self.slices.clone().zip(words.chunks(each)) {
            self.slice(slice as u64, words, &f, &mut results);
        }
        results
    }

    fn slice(&self, slice: u64, words: &[u32], f: &impl Fn(u32, u32) -> u32, results: &mut Vec<u32>) {
        let length = to_index;
        results.reserve(words.len().min(length(self.sizes.results).exact_mul(HALF)));
        let mut slots = vec![HalfFlit::ABSENT; length(self.sizes.slots)];
        let mut odometer = Odometer::new(self.reduce);
        let group = length(self.sizes.group).exact_mul(HALF).max(HALF);
        for group in words.chunks(group) {
            slots.fill(HalfFlit::ABSENT);
            for entering in group.chunks_exact(HALF) {
                let half = self.live(slice, entering, &odometer);
                let half = if self.reduce.tree { half.tree(f) } else { half };
                slots.get_mut(odometer.slot).or_broken("a slot for each surviving step").take(&half, f);
                odometer.step();
            }
            results.extend(slots.iter().flat_map(|slot| self.leaving(slot)));
        }
    }

    /// What enters, without the elements that a limit excludes.
    fn live(&self, slice: u64, entering: &[u32], odometer: &Odometer) -> HalfFlit {
        let mut half = HalfFlit { words: [0; HALF], live: [true; HALF] };
        half.words.copy_from_slice(entering);
        for limit in &self.reduce.limits {
            let position = slice_position(limit, slice).capped_add(odometer.position(limit));
            let extent = fixed(limit.extent).or_broken("a command runs with sizes that are numbers");
            for (element, live) in (0..).zip(&mut half.live) {
                *live &= position.capped_add(limit.element.capped_mul(element)) < extent;
            }
        }
        half
    }

    fn leaving(&self, slot: &HalfFlit) -> [u32; HALF] {
        let mut words = [0; HALF];
        let valid = if self.reduce.tree { 1 } else { HALF };
        for ((to, from), live) in words.iter_mut().zip(slot.words).zip(slot.live).take(valid) {
            *to = if live { from } else { self.identity };
        }
        words
    }
}

fn slice_position(limit: &ReduceLimit, slice: u64) -> u64 {
    limit.slices.iter().fold(0, |position: u64, digit| position.capped_add(digit.position(slice)))
}

/// Where the loops stand.
struct Odometer {
    index: Vec<u64>,
    size: Vec<u64>,
    /// Slots that an iteration of each loop is worth.
    worth: Vec<usize>,
    slot: usize,
}

impl Odometer {
    fn new(reduce: &Reduce) -> Odometer {
        let size: Vec<u64> = reduce
            .steps
            .iter()
            .map(|step| fixed(step.size).or_broken("a command runs with sizes that are numbers"))
            .collect();
        let outer = reduce.steps.iter().position(|step| step.summed).unwrap_or(size.len());
        let mut worth = vec![0; size.len()];
        let mut slots = 1_usize;
        for (at, step) in reduce.steps.iter().enumerate().skip(outer).rev().filter(|(_, step)| !step.summed) {
            worth[at] = slots;
            slots = slots.exact_mul(to_index(
                fixed(step.size).or_broken("a command runs with sizes that are numbers"),
            ));
        }
        Odometer { index: vec![0; size.len()], size, worth, slot: 0 }
    }

    fn position(&self, limit: &ReduceLimit) -> u64 {
        let parts = self.index.iter().zip(&limit.weights);
        parts.fold(0, |position: u64, (index, weight)| position.capped_add(index.capped_mul(*weight)))
    }

    fn step(&mut self) {
        for ((index, size), worth) in self.index.iter_mut().zip(&self.size).zip(&self.worth).rev() {
            *index += 1;
            self.slot += worth;
            if *index < *size {
                return;
            }
            self.slot = self.slot.exact_sub(to_index(*index).exact_mul(*worth));
            *index = 0;
        }
    }
}
