//! Rules of a chain that need no figures: order of stages, word types, operands and guards, stash, pair mode, reducers
//! (vISA book, vector engine).

use super::fault::Fault;
use super::shape::{joins, sources};
use super::steps::{fixed, rewiden};
use super::unit::{gives, operand_count, reversible, stage, takes, unit};
use crate::program::vector::{Between, Gives, Op, OpKind, Reduce, ReduceOp, Source, Vector, Word};

/// Everything that is wrong with a chain on any machine.
pub fn structure(vector: &Vector) -> Vec<Fault> {
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

fn order(vector: &Vector, faults: &mut Vec<Fault>) {
    for (at, op) in vector.ops.iter().enumerate() {
        let before = vector.ops.get(..at).unwrap_or(&[]);
        if before.last().is_some_and(|last| stage(&last.kind) > stage(&op.kind)) {
            faults.push(Fault::StageOrder { at });
        }
        if before.iter().any(|other| unit(&other.kind) == unit(&op.kind)) {
            faults.push(Fault::UnitTwice { at, unit: unit(&op.kind) });
        }
    }
}

/// The word type in front of every operation, and of what leaves.
fn words(vector: &Vector, faults: &mut Vec<Fault>) -> Vec<Word> {
    let mut words = vec![vector.input];
    let mut word = vector.input;
    for (at, op) in vector.ops.iter().enumerate() {
        if takes(&op.kind).is_some_and(|needed| needed != word) {
            faults.push(Fault::WordType { at, found: word });
        }
        word = gives(&op.kind, word);
        words.push(word);
    }
    words
}

fn operands(at: usize, op: &Op, faults: &mut Vec<Fault>) {
    let (needed, found) = (operand_count(&op.kind), op.operands.len());
    if needed != found {
        faults.push(Fault::OperandCount { at, needed, found });
    }
    if op.operands.iter().any(|choice| choice.sources.is_empty()) {
        faults.push(Fault::NoSource { at });
    }
    if op.reversed && !reversible(&op.kind) {
        faults.push(Fault::Reversed { at });
    }
    let ports = sources(op).filter(|source| matches!(source, Source::Vrf { .. } | Source::Stash)).count();
    if ports > 1 {
        faults.push(Fault::Ports { at, found: ports });
    }
    if let OpKind::ToFloat { int_width } | OpKind::ToFixed { int_width } = op.kind
        && int_width > 31
    {
        faults.push(Fault::IntWidth { at, int_width });
    }
    for source in sources(op) {
        if let Source::Vrf { base, loops } = source {
            if !base.is_multiple_of(4) {
                faults.push(Fault::VrfAlignment { at, base: *base });
            }
            if loops.iter().any(|row| fixed(row.size) == Some(0)) {
                faults.push(Fault::LoopEmpty { at });
            }
        }
    }
}

fn stash(vector: &Vector, words: &[Word], faults: &mut Vec<Fault>) {
    let mut kept: Option<(usize, Word)> = None;
    let mut read = false;
    for (at, (op, word)) in vector.ops.iter().zip(words).enumerate() {
        if op.stash {
            match kept {
                Some(_) => faults.push(Fault::StashTwice { at }),
                None => kept = Some((at, *word)),
            }
        }
        for _ in sources(op).filter(|source| matches!(source, Source::Stash)) {
            if std::mem::replace(&mut read, true) {
                faults.push(Fault::StashReadTwice { at });
            }
            match kept {
                None => faults.push(Fault::StashMissing { at }),
                Some((from, kept)) => {
                    if kept != *word {
                        faults.push(Fault::StashWord { at, kept });
                    }
                    let between = vector.ops.get(from..=at).unwrap_or(&[]);
                    if between.iter().any(|op| joins(op) || matches!(op.kind, OpKind::Reduce(_))) {
                        faults.push(Fault::StashShape { at });
                    }
                }
            }
        }
    }
    if let (Some((at, _)), false) = (kept, read) {
        faults.push(Fault::StashUnread { at });
    }
}

fn pair(vector: &Vector, faults: &mut Vec<Fault>) {
    let mut joined = false;
    for (at, op) in vector.ops.iter().enumerate() {
        if joins(op) && !vector.pair {
            faults.push(Fault::PairOutside { at });
        } else if joins(op) && std::mem::replace(&mut joined, true) {
            faults.push(Fault::PairTwice { at });
        }
        let pairs = sources(op).filter(|source| matches!(source, Source::Pair)).count();
        if pairs > 1 {
            faults.push(Fault::PairTwice { at });
        }
        if matches!(op.kind, OpKind::Reduce(_)) && vector.pair && !joined {
            faults.push(Fault::ReduceBeforePair { at });
        }
    }
    if vector.pair && !vector.ops.iter().any(joins) {
        faults.push(Fault::PairMissing);
    }
}

fn tags(vector: &Vector, faults: &mut Vec<Fault>) {
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
                faults.push(Fault::Guard { at, mask, value });
            } else if lost && mask != 0 {
                faults.push(Fault::TagsLost { at });
            }
        }
        lost |= matches!(op.kind, OpKind::Reduce(_));
    }
}

fn reduce(at: usize, reduce: &Reduce, word: Word, trim: bool, faults: &mut Vec<Fault>) {
    if matches!(reduce.op, ReduceOp::AddWrap | ReduceOp::Mul) {
        faults.push(Fault::ReduceOp { at, op: reduce.op, word });
    }
    if reduce.steps.iter().any(|step| fixed(step.size) == Some(0)) {
        faults.push(Fault::LoopEmpty { at });
    }
    if rewiden(reduce, trim).is_none() {
        faults.push(Fault::Halves { at });
    }
    for (limit, rule) in reduce.limits.iter().enumerate() {
        let sizes = rule.slices.iter().any(|digit| digit.stride == 0 || digit.size == 0);
        if rule.weights.len() != reduce.steps.len() || sizes {
            faults.push(Fault::LimitWeights { at, limit });
        }
    }
}

fn between(vector: &Vector, leaving: Word, faults: &mut Vec<Fault>) {
    let Some(Between { op, slices, gives }) = vector.between else { return };
    let word = if vector.between_first { vector.input } else { leaving };
    if matches!((op, word), (ReduceOp::AddWrap, Word::F32) | (ReduceOp::Mul, Word::I32)) {
        faults.push(Fault::BetweenOp { op, word });
    }
    if !slices.is_power_of_two() {
        faults.push(Fault::BetweenSlices { slices });
    }
    if gives == (Gives::Scatter { inner: 0 }) {
        faults.push(Fault::ScatterEmpty);
    }
}
