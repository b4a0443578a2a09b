//! Folds of elements at regular distances, as windows of a pooling and blocks of an axis have them, in one
//! command: the fetch sequencer takes every element of a fold behind the other, and the vector engine keeps
//! the places of a flit apart (vISA book, intra-slice reduce without its tree).

use std::collections::BTreeMap;

use tilewright_num::Dtype;
use tilewright_tcp_isa::program::Count;
use tilewright_tcp_isa::program::exec::{Context, Exec, Fetch, StepLoop, Stream, Switch};
use tilewright_tcp_isa::program::vector::{Op, OpKind, Reduce, ReduceOp, Vector, Word};
use tilewright_tcp_isa::vector::{FLIT_WORDS, HALF_WORDS};
use tilewright_tcp_lower::kernels::chain::chain;
use tilewright_tcp_lower::kernels::pass::{commit, exec, fetch_words};

use super::hull::Hull;
use super::kernel::{Kernels, Packing, Work};
use super::operands::Operand;
use super::plan::WORD_BYTES;
use super::view::{joined, signed};
use super::words::{Arith, Line, Other, Step};

/// Elements of a fold from which on that is tried.
const LEAST_TAPS: usize = 3;
/// Loops of a fetch.
const MOST_LOOPS: usize = 8;

/// A chain that begins with a fold of all that it reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TapFold {
    /// How many there are.
    pub(super) taps: usize,
    op: ReduceOp,
    word: Word,
    /// What is done with the result, the only input, and which streams of that are kept.
    pub(super) lines: Vec<Line>,
    pub(super) streams: Vec<usize>,
}

/// The same with what a share has of it in data memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoldedShare {
    pub(super) fold: TapFold,
    /// Words that are folded beside each other.
    width: u64,
    /// The walk over the share, then over the elements of a fold, then over neighbours.
    loops: Vec<(u64, i64)>,
}

/// The fold that a chain begins with, if nothing else looks at what it reads.
pub(super) fn tap_fold(all: &Kernels, number: usize) -> Option<TapFold> {
    let Work::Chain { inputs, lines, streams } = &all.kernels[number].work else { return None };
    let (taps, first) = (inputs.len(), inputs.first()?);
    let same = inputs.iter().all(|view| view.value == first.value && view.axes == first.axes);
    let joins = taps.checked_sub(1)?;
    if taps < LEAST_TAPS || !same || lines.len() < joins || all.values[first.value].packing != Packing::Words
    {
        return None;
    }
    let Step::With { arith, .. } = lines[0].step else { return None };
    let (op, word) = match arith {
        Arith::FAdd => (ReduceOp::Add, Word::F32),
        Arith::FMax => (ReduceOp::Max, Word::F32),
        Arith::FMin => (ReduceOp::Min, Word::F32),
        Arith::Max => (ReduceOp::Max, Word::I32),
        Arith::Min => (ReduceOp::Min, Word::I32),
        _ => return None,
    };
    let in_turn = |(at, line): (usize, &Line)| {
        let before = if at == 0 { 0 } else { taps + at - 1 };
        let step = Step::With { arith, other: Other::Stream(at + 1), reversed: false };
        *line == Line { input: before, step }
    };
    let skipped = taps + joins - 1;
    let behind = |stream: usize| stream.checked_sub(skipped);
    let moved = |line: &Line| {
        let step = match line.step {
            Step::With { arith, other: Other::Stream(other), reversed } => {
                Step::With { arith, other: Other::Stream(behind(other)?), reversed }
            }
            ref step => step.clone(),
        };
        Some(Line { input: behind(line.input)?, step })
    };
    let lines_behind = lines[joins..].iter().map(moved).collect::<Option<Vec<Line>>>()?;
    let streams = streams.iter().map(|stream| behind(*stream)).collect::<Option<Vec<usize>>>()?;
    let is_fold = lines[..joins].iter().enumerate().all(in_turn);
    is_fold.then_some(TapFold { taps, op, word, lines: lines_behind, streams })
}

impl FoldedShare {
    /// What a share has of a fold; `None` if its elements are not brought as one, or not in the order of the
    /// fold.
    pub(super) fn new(
        fold: TapFold,
        brought: &[(usize, Operand, Hull)],
        reads: &BTreeMap<(usize, usize), (usize, i64)>,
        number: usize,
    ) -> Option<FoldedShare> {
        let [(_, operand, hull)] = brought else { return None };
        let sizes = operand.steps.iter().map(|step| step.1);
        let taps: Vec<(u64, i64)> = sizes.zip(hull.steps.iter().copied()).collect();
        let mut places = vec![0];
        for (size, stride) in &taps {
            let more = |first: i64| (0..signed(*size)).map(move |at| first + at * stride);
            places = places.into_iter().flat_map(more).collect();
        }
        let begins: Vec<i64> =
            (0..fold.taps).map(|tap| Some(reads.get(&(number, tap))?.1)).collect::<Option<_>>()?;
        if places != begins {
            return None;
        }
        let walk: Vec<(u64, i64)> = joined(&hull.walk);
        let ((size, stride), outer) = walk.split_last()?;
        let width = [FLIT_WORDS, HALF_WORDS].into_iter().find(|width| size.is_multiple_of(*width))?;
        let mut loops = outer.to_vec();
        loops.push((size / width, stride * signed(width)));
        loops.extend(taps);
        loops.push((width, *stride));
        loops.retain(|row| row.0 > 1);
        (loops.len() <= MOST_LOOPS).then_some(FoldedShare { fold, width, loops })
    }

    /// The command, from the first element in data memory to so many words.
    pub(super) fn command(&self, from: u64, words: u64, to: u64) -> Exec {
        let TapFold { taps, op, word, .. } = self.fold;
        let step = |size: u64, summed: bool| StepLoop { size: Count::Fixed(size), summed };
        let mut steps = vec![step(words / self.width, false), step(taps as u64, true)];
        if self.width == FLIT_WORDS {
            steps.push(step(2, false));
        }
        let reduce = Reduce { op, tree: false, steps, limits: Vec::new() };
        let op = Op { kind: OpKind::Reduce(reduce), operands: Vec::new(), reversed: false, stash: false };
        let dtype = if word == Word::F32 { Dtype::F32 } else { Dtype::I32 };
        let vector = Vector { trim: self.width == HALF_WORDS, ..chain(word, vec![op]) };
        let stream = Stream {
            fetch: Fetch { packet: self.width, ..fetch_words(dtype, from, &self.loops) },
            switch: Switch::default(),
            contract: None,
            vector: Some(vector),
            cast: None,
            transpose: None,
            commit: commit(to, words / self.width, self.width * WORD_BYTES),
        };
        exec("fold", Context::Main, stream)
    }
}

/// Cycles of the vector engine for so many words: four elements a cycle, unless they are fetched one by one.
pub(super) fn fold_cycles(words: u64, taps: u64, one_by_one: bool) -> u64 {
    words * taps / if one_by_one { 1 } else { HALF_WORDS }
}
