//! Rules of a chain that need no figures: order of stages, word types, operands and guards, stash, pair mode,
//! reducers (vISA book, vector engine).

use super::fault::VectorFault;
use super::shape::{joins, sources};
use super::steps::{fixed, rewiden};
use super::unit::{gives, operand_count, reversible, stage, takes, unit};
use crate::program::vector::{
    InterSliceReduce, Op, OpKind, OperandSource, Reduce, ReduceOp, ReduceOutput, Vector, Word,
};

/// Everything that is wrong with a chain on any machine.
pub fn structure(vector: &Vector) -> Vec<VectorFault> {
    let mut faults = Vec::new();
    order(vector, &mut faults);
    let words = words(vector, &mut faults);
    for (at, op) in vector.ops.iter().enumerate() {
        operands(at, op, &mut faults);
    }
    stash(vector, &words, &mut faults);
    pair(vector, &mut faults);
    tags(vector, &mut faults);
    for (at, (op, word)) in vector.ops.iter().zip(&words).enumerate() {
        if let OpKind::Reduce(inner) = &op.kind {
            reduce(at, inner, *word, vector.trim, &mut faults);
        }
    }
    between(vector, words.last().copied().unwrap_or(vector.input), &mut faults);
    faults
}

fn order(vector: &Vector, faults: &mut Vec<VectorFault>) {
    for (at, op) in vector.ops.iter().enumerate() {
        let before = vector.ops.get(..at).unwrap_or(&[]);
        if before.last().is_some_and(|last| stage(&last.kind) > stage(&op.kind)) {
            faults.push(VectorFault::StageOrder { at });
        }
        if before.iter().any(|other| unit(&other.kind) == unit(&op.kind)) {
            faults.push(VectorFault::UnitTwice { at, unit: unit(&op.kind) });
        }
    }
}

/// The word type in front of every operation, and of what leaves.
fn words(vector: &Vector, faults: &mut Vec<VectorFault>) -> Vec<Word> {
    let mut words = vec![vector.input];
    let mut word = vector.input;
    for (at, op) in vector.ops.iter().enumerate() {
        if takes(&op.kind).is_some_and(|needed| needed != word) {
            faults.push(VectorFault::WordType { at, found: word });
        }
        word = gives(&op.kind, word);
        words.push(word);
    }
    words
}

fn operands(at: usize, op: &Op, faults: &mut Vec<VectorFault>) {
    let (needed, found) = (operand_count(&op.kind), op.operands.len());
    if needed != found {
        faults.push(VectorFault::OperandCount { at, needed, found });
    }
    if op.operands.iter().any(|choice| choice.sources.is_empty()) {
        faults.push(VectorFault::NoSource { at });
    }
    if op.reversed && !reversible(&op.kind) {
        faults.push(VectorFault::Reversed { at });
    }
    let ports = sources(op)
        .filter(|source| matches!(source, OperandSource::Vrf { .. } | OperandSource::Stash))
        .count();
    if ports > 1 {
        faults.push(VectorFault::Ports { at, found: ports });
    }
    if let OpKind::ToFloat { int_width } | OpKind::ToFixed { int_width } = op.kind
        && int_width > 31
    {
        faults.push(VectorFault::IntWidth { at, int_width });
    }
    for source in sources(op) {
        if let OperandSource::Vrf { base, loops } = source {
            if !base.is_multiple_of(4) {
                faults.push(VectorFault::VrfAlignment { at, base: *base });
            }
            if loops.iter().any(|row| fixed(row.size) == Some(0)) {
                faults.push(VectorFault::LoopEmpty { at });
            }
        }
    }
}

fn stash(vector: &Vector, words: &[Word], faults: &mut Vec<VectorFault>) {
    let mut kept: Option<(usize, Word)> = None;
    let mut read = false;
    for (at, (op, word)) in vector.ops.iter().zip(words).enumerate() {
        if op.stash {
            match kept {
                Some(_) => faults.push(VectorFault::StashTwice { at }),
                None => kept = Some((at, *word)),
            }
        }
        for _ in sources(op).filter(|source| matches!(source, OperandSource::Stash)) {
            if std::mem::replace(&mut read, true) {
                faults.push(VectorFault::StashReadTwice { at });
            }
            match kept {
                None => faults.push(VectorFault::StashMissing { at }),
                Some((from, kept)) => {
                    if kept != *word {
                        faults.push(VectorFault::StashWord { at, kept });
                    }
                    let between = vector.ops.get(from..=at).unwrap_or(&[]);
                    if between.iter().any(|op| joins(op) || matches!(op.kind, OpKind::Reduce(_))) {
                        faults.push(VectorFault::StashShape { at });
                    }
                }
            }
        }
    }
    if let (Some((at, _)), false) = (kept, read) {
        faults.push(VectorFault::StashUnread { at });
    }
}

fn pair(vector: &Vector, faults: &mut Vec<VectorFault>) {
    let mut joined = false;
    for (at, op) in vector.ops.iter().enumerate() {
        if joins(op) && !vector.pair {
            faults.push(VectorFault::PairOutside { at });
        } else if joins(op) && std::mem::replace(&mut joined, true) {
            faults.push(VectorFault::PairTwice { at });
        }
        let pairs = sources(op).filter(|source| matches!(source, OperandSource::Pair)).count();
        if pairs > 1 {
            faults.push(VectorFault::PairTwice { at });
        }
        if matches!(op.kind, OpKind::Reduce(_)) && vector.pair && !joined {
            faults.push(VectorFault::ReduceBeforePair { at });
        }
    }
    if vector.pair && !vector.ops.iter().any(joins) {
        faults.push(VectorFault::PairMissing);
    }
}

fn tags(vector: &Vector, faults: &mut Vec<VectorFault>) {
    let mut lost = false;
    for (at, op) in vector.ops.iter().enumerate() {
        let guards = op.operands.iter().flat_map(|choice| &choice.sources);
        let guards = guards.map(|guarded| (guarded.mask, guarded.value));
        let filter = match op.kind {
            OpKind::Filter { mask, value } => Some((mask, value)),
            _ => None,
        };
        for (mask, value) in guards.chain(filter) {
            if mask >> super::GROUP_TAG.trailing_zeros() > 1 || value & !mask != 0 {
                faults.push(VectorFault::Guard { at, mask, value });
            } else if lost && mask != 0 {
                faults.push(VectorFault::TagsLost { at });
            }
        }
        lost |= matches!(op.kind, OpKind::Reduce(_));
    }
}

fn reduce(at: usize, reduce: &Reduce, word: Word, trim: bool, faults: &mut Vec<VectorFault>) {
    if matches!(reduce.op, ReduceOp::AddWrap | ReduceOp::Mul) {
        faults.push(VectorFault::ReduceOp { at, op: reduce.op, word });
    }
    if reduce.steps.iter().any(|step| fixed(step.size) == Some(0)) {
        faults.push(VectorFault::LoopEmpty { at });
    }
    if rewiden(reduce, trim).is_none() {
        faults.push(VectorFault::Halves { at });
    }
    for (limit, rule) in reduce.limits.iter().enumerate() {
        let sizes = rule.slices.iter().any(|digit| digit.stride == 0 || digit.size == 0);
        if rule.weights.len() != reduce.steps.len() || sizes {
            faults.push(VectorFault::LimitWeights { at, limit });
        }
    }
}

fn between(vector: &Vector, leaving: Word, faults: &mut Vec<VectorFault>) {
    let Some(InterSliceReduce { op, slices, gives }) = vector.between else { return };
    let word = if vector.between_first { vector.input } else { leaving };
    if matches!((op, word), (ReduceOp::AddWrap, Word::F32) | (ReduceOp::Mul, Word::I32)) {
        faults.push(VectorFault::BetweenOp { op, word });
    }
    if !slices.is_power_of_two() {
        faults.push(VectorFault::BetweenSlices { slices });
    }
    if gives == (ReduceOutput::Scatter { inner: 0 }) {
        faults.push(VectorFault::ScatterEmpty);
    }
}
