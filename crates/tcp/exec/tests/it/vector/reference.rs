//! The reference: one element at a time, written from the description of the hardware without the loops of
//! the engine.

use std::collections::BTreeMap;

use tilewright_num::Function;
use tilewright_tcp_isa::program::Count;
use tilewright_tcp_isa::program::exec::Loop;
use tilewright_tcp_isa::program::vector::{
    InterSliceReduce, Op, OpKind, OperandChoice, OperandSource, Reduce, ReduceOp, ReduceOutput, Relation,
    Vector, Word,
};

use crate::vector::build::RULES;

/// An element of a flit, and what travels with it.
#[derive(Clone, Copy, Default)]
struct Element {
    word: u32,
    tag: u8,
    stash: u32,
}

type Flit = Vec<Element>;

fn number(count: Count) -> u64 {
    match count {
        Count::Fixed(value) => value,
        Count::Register(_) => panic!("resolve first"),
    }
}

/// Digits of a number in mixed radix, outermost first.
fn digits(mut number: u64, sizes: &[u64]) -> Vec<u64> {
    let mut digits: Vec<u64> = sizes
        .iter()
        .rev()
        .map(|size| {
            let digit = number % size;
            number /= size;
            digit
        })
        .collect();
    digits.reverse();
    digits
}

fn flush(word: u32) -> f32 {
    let value = f32::from_bits(word);
    if value.is_nan() {
        f32::from_bits(0x7FC0_0000)
    } else if value.is_subnormal() {
        0.0_f32.copysign(value)
    } else {
        value
    }
}

fn out(value: f32) -> u32 {
    flush(value.to_bits()).to_bits()
}

fn clamp(value: i128) -> u32 {
    i32::try_from(value.clamp(i128::from(i32::MIN), i128::from(i32::MAX))).expect("fits").cast_unsigned()
}

fn greater(a: f32, b: f32) -> f32 {
    match (a.is_nan(), b.is_nan()) {
        (_, true) => a,
        (true, _) => b,
        _ => match a.total_cmp(&b) {
            std::cmp::Ordering::Less => b,
            _ => a,
        },
    }
}

fn lesser(a: f32, b: f32) -> f32 {
    if b.is_nan() {
        a
    } else if a.is_nan() {
        b
    } else {
        -greater(-a, -b)
    }
}

/// One operation on one element.
fn operate(op: &Op, word: Word, element: u32, operands: &[u32]) -> u32 {
    let first = operands.first().copied().unwrap_or(0);
    let second = operands.get(1).copied().unwrap_or(0);
    let (a, b) = if op.reversed { (first, element) } else { (element, first) };
    let (x, y) = (i128::from(a.cast_signed()), i128::from(b.cast_signed()));
    let (f, g) = (flush(a), flush(b));
    let power = |exponent: u32| 2_i128.pow(exponent.min(60));
    let function = |function: Function| function.apply(RULES, f).to_bits();
    let wrap = |value: i128| u32::try_from(value.rem_euclid(1 << 32)).expect("fits");
    match (&op.kind, word) {
        (OpKind::And, _) => a & b,
        (OpKind::Or, _) => a | b,
        (OpKind::Xor, _) => a ^ b,
        (OpKind::Shl, _) => wrap(i128::from(a) * power(b)),
        (OpKind::Shr | OpKind::ShrLogic, _) => wrap(i128::from(a) / power(b)),
        (OpKind::Add, _) | (OpKind::ClipAdd, Word::I32) => wrap(x + y),
        (OpKind::AddSat, _) => clamp(x + y),
        (OpKind::Sub, _) => wrap(x - y),
        (OpKind::SubSat, _) => clamp(x - y),
        (OpKind::ShlSat, _) => clamp(x * power(b)),
        (OpKind::Mul, _) => wrap(x * y),
        (OpKind::MulQ31, _) => clamp((x * y + (1 << 30)).div_euclid(1 << 31)),
        (OpKind::ShrArith, _) => clamp(x.div_euclid(power(b))),
        (OpKind::ShrRound, _) => clamp((2 * x + power(b)).div_euclid(2 * power(b))),
        (OpKind::ToFloat { int_width }, _) => {
            let scaled = f64::from(a.cast_signed()) * 2.0_f64.powi(int_width.cast_signed() - 31);
            #[expect(clippy::cast_possible_truncation, reason = "rounding is wanted")]
            out(scaled as f32)
        }
        (OpKind::ToFixed { int_width }, _) => {
            let value = f32::from_bits(a);
            if value.is_nan() {
                return if a >> 31 == 1 { i32::MIN.cast_unsigned() } else { i32::MAX.cast_unsigned() };
            }
            let scaled = f64::from(value) * 2.0_f64.powi(31 - int_width.cast_signed());
            #[expect(clippy::cast_possible_truncation, reason = "clamped before")]
            clamp(scaled.round().clamp(-1e12, 1e12) as i128)
        }
        (OpKind::FAdd, _) | (OpKind::ClipAdd, Word::F32) => out(f + g),
        (OpKind::FSub, _) => out(f - g),
        (OpKind::FMul | OpKind::Mul0 | OpKind::Mul1, _) => out(f * g),
        (OpKind::Fma, _) => out(f.mul_add(g, flush(second))),
        (OpKind::FpuDiv | OpKind::Div, _) => out(f / g),
        (OpKind::Sqrt, _) => out(f.sqrt()),
        (OpKind::Tanh, _) => function(Function::Tanh),
        (OpKind::Sigmoid, _) => function(Function::Sigmoid),
        (OpKind::Erf, _) => function(Function::Erf),
        (OpKind::Log, _) => function(Function::Log),
        (OpKind::Sin, _) => function(Function::Sin),
        (OpKind::Cos, _) => function(Function::Cos),
        (OpKind::Exp, _) => function(Function::Exp),
        (OpKind::ExpNeg, _) => function(Function::ExpNeg),
        (OpKind::ClipMax, Word::I32) => clamp(x.max(y)),
        (OpKind::ClipMin, Word::I32) => clamp(x.min(y)),
        (OpKind::ClipAbsMax, Word::I32) => clamp(if x.abs() > y.abs() { x } else { y }),
        (OpKind::ClipAbsMin, Word::I32) => clamp(if x.abs() < y.abs() { x } else { y }),
        (OpKind::ClipMax, Word::F32) => out(greater(f, g)),
        (OpKind::ClipMin, Word::F32) => out(lesser(f, g)),
        (OpKind::ClipAbsMax, Word::F32) => out(if f.abs() > g.abs() { f } else { g }),
        (OpKind::ClipAbsMin, Word::F32) => out(if f.abs() < g.abs() { f } else { g }),
        (OpKind::Reduce(_) | OpKind::Filter { .. }, _) => unreachable!("not of one element"),
    }
}

fn tagged(vector: &Vector, flit: usize, word: u32) -> Element {
    let mut tag = 0;
    for (bit, comparison) in vector.tags.iter().enumerate() {
        let order = match vector.input {
            Word::I32 => Some(word.cast_signed().cmp(&comparison.word.cast_signed())),
            Word::F32 => flush(word).partial_cmp(&flush(comparison.word)),
        };
        let holds = match comparison.relation {
            Relation::Eq => order.is_some_and(|order| order.is_eq()),
            Relation::Ne => !order.is_some_and(|order| order.is_eq()),
            Relation::Lt => order.is_some_and(|order| order.is_lt()),
            Relation::Le => order.is_some_and(|order| order.is_le()),
            Relation::Gt => order.is_some_and(|order| order.is_gt()),
            Relation::Ge => order.is_some_and(|order| order.is_ge()),
        };
        tag |= u8::from(holds) << bit;
    }
    if vector.pair && flit % 2 == 1 {
        tag |= 8;
    }
    Element { word, tag, stash: 0 }
}

fn read_vrf(file: &[u8], base: u64, loops: &[Loop], index: u64) -> u32 {
    let sizes: Vec<u64> = loops.iter().map(|row| number(row.size)).collect();
    let steps = digits(index, &sizes);
    let offset: i64 =
        steps.iter().zip(loops).map(|(step, row)| i64::try_from(*step).expect("fits") * row.stride).sum();
    let at = usize::try_from(i64::try_from(base).expect("fits") + 4 * offset).expect("fits");
    u32::from_le_bytes(file[at..at + 4].try_into().expect("fits"))
}

/// The operand of one element, if a guard matches.
fn operand(
    choice: &OperandChoice,
    element: &Element,
    pair: Option<u32>,
    file: &[u8],
    index: u64,
) -> Option<u32> {
    let guarded = choice.sources.iter().find(|guarded| element.tag & guarded.mask == guarded.value)?;
    Some(match &guarded.source {
        OperandSource::Immediate(word) => *word,
        OperandSource::Stash => element.stash,
        OperandSource::Pair => pair.expect("fits"),
        OperandSource::Vrf { base, loops } => read_vrf(file, *base, loops, index),
    })
}

fn combine(op: ReduceOp, word: Word, a: Option<u32>, b: Option<u32>) -> Option<u32> {
    let (Some(a), Some(b)) = (a, b) else { return a.or(b) };
    let (x, y) = (i128::from(a.cast_signed()), i128::from(b.cast_signed()));
    let (f, g) = (flush(a), flush(b));
    Some(match (word, op) {
        (Word::I32, ReduceOp::Add) => clamp(x + y),
        (Word::I32, ReduceOp::AddWrap) => a.wrapping_add(b),
        (Word::I32, ReduceOp::Max) => clamp(x.max(y)),
        (Word::I32, ReduceOp::Min) => clamp(x.min(y)),
        (Word::F32, ReduceOp::Add) => out(f + g),
        (Word::F32, ReduceOp::Max) => out(greater(f, g)),
        (Word::F32, ReduceOp::Min) => out(lesser(f, g)),
        (Word::F32, ReduceOp::Mul) => out(f * g),
        _ => unreachable!("not legal"),
    })
}

fn empty(op: ReduceOp, word: Word) -> u32 {
    match (op, word) {
        (ReduceOp::Max, Word::F32) => f32::NEG_INFINITY.to_bits(),
        (ReduceOp::Min, Word::F32) => f32::INFINITY.to_bits(),
        (ReduceOp::Max, Word::I32) => 0x8000_0000,
        (ReduceOp::Min, Word::I32) => 0x7FFF_FFFF,
        _ => 0,
    }
}

/// A reduction: results are told apart by the digits of the loops that survive.
fn reduced(reduce: &Reduce, word: Word, slice: u64, flits: &[Flit]) -> Vec<Flit> {
    let sizes: Vec<u64> = reduce.steps.iter().map(|step| number(step.size)).collect();
    let halves: Vec<&[Element]> = flits.iter().flat_map(|flit| flit.chunks(4)).collect();
    let mut results: BTreeMap<Vec<u64>, [Option<u32>; 4]> = BTreeMap::new();
    for (step, half) in halves.iter().enumerate() {
        let index = digits(step as u64, &sizes);
        let live = |element: u64| {
            reduce.limits.iter().all(|limit| {
                let slices =
                    limit.slices.iter().map(|digit| slice / digit.stride % digit.size * digit.weight);
                let steps = index.iter().zip(&limit.weights).map(|(index, weight)| index * weight);
                slices.sum::<u64>() + steps.sum::<u64>() + element * limit.element < number(limit.extent)
            })
        };
        let enter = |word_: u32| if word == Word::F32 { flush(word_).to_bits() } else { word_ };
        let mut parts: [Option<u32>; 4] =
            std::array::from_fn(|element| live(element as u64).then(|| enter(half[element].word)));
        if reduce.tree {
            let low = combine(reduce.op, word, parts[0], parts[1]);
            let high = combine(reduce.op, word, parts[2], parts[3]);
            parts = [combine(reduce.op, word, low, high), None, None, None];
        }
        let key = index.iter().zip(&reduce.steps).filter(|(_, step)| !step.summed).map(|(index, _)| *index);
        let sum = results.entry(key.collect()).or_insert([None; 4]);
        *sum = std::array::from_fn(|element| combine(reduce.op, word, sum[element], parts[element]));
    }
    let valid = if reduce.tree { 1 } else { 4 };
    let half = |sum: &[Option<u32>; 4]| -> Flit {
        let fill = |(index, word_): (usize, &Option<u32>)| Element {
            word: if index < valid { word_.unwrap_or(empty(reduce.op, word)) } else { 0 },
            ..Element::default()
        };
        sum.iter().enumerate().map(fill).collect()
    };
    let results: Vec<Flit> = results.values().map(half).collect();
    let innermost = reduce.steps.iter().rev().find(|step| number(step.size) > 1);
    let untrimmed = flits.first().is_some_and(|flit| flit.len() == 8);
    if !reduce.tree && untrimmed && innermost.is_some_and(|step| !step.summed) {
        return results.chunks(2).map(<[Flit]>::concat).collect();
    }
    results
}

fn narrow(op: &Op) -> bool {
    use OpKind::{
        Cos, Div, Erf, Exp, ExpNeg, FAdd, FMul, FSub, Fma, FpuDiv, Log, Mul0, Mul1, Sigmoid, Sin, Sqrt, Tanh,
    };
    matches!(op.kind, OpKind::Reduce(_) | Cos | Div | Erf | Exp | ExpNeg | FAdd | FMul | FSub | Fma)
        || matches!(op.kind, FpuDiv | Log | Mul0 | Mul1 | Sigmoid | Sin | Sqrt | Tanh)
}

fn widen(flits: &mut [Flit]) {
    flits.iter_mut().for_each(|flit| flit.resize(8, Element::default()));
}

fn step(vector: &Vector, op: &Op, word: Word, slice: u64, file: &[u8], mut flits: Vec<Flit>) -> Vec<Flit> {
    if op.stash {
        flits.iter_mut().flatten().for_each(|element| element.stash = element.word);
    }
    let pairs =
        op.operands.iter().flat_map(|choice| &choice.sources).any(|one| one.source == OperandSource::Pair);
    let mut others: Vec<Option<u32>> = vec![];
    if pairs {
        assert!(vector.pair);
        others = flits.iter().skip(1).step_by(2).flatten().map(|element| Some(element.word)).collect();
        flits = flits.into_iter().step_by(2).collect();
    }
    match &op.kind {
        OpKind::Reduce(reduce) => reduced(reduce, word, slice, &flits),
        OpKind::Filter { mask, value } => {
            for flit in &mut flits {
                flit.retain(|element| element.tag & mask == *value);
            }
            widen(&mut flits);
            flits
        }
        _ => {
            for (index, element) in flits.iter_mut().flatten().enumerate() {
                let pair = others.get(index).copied().flatten();
                let operands = op.operands.iter().map(|one| operand(one, element, pair, file, index as u64));
                if let Some(operands) = operands.collect::<Option<Vec<u32>>>() {
                    element.word = operate(op, word, element.word, &operands);
                }
            }
            flits
        }
    }
}

fn between(rule: InterSliceReduce, word: Word, slices: &[Vec<u32>]) -> Vec<Vec<u32>> {
    let size = usize::try_from(rule.slices).expect("fits");
    let results = slices.chunks(size).flat_map(|group| {
        let sum: Vec<u32> = (0..group[0].len())
            .map(|index| {
                let enter = |word_: u32| if word == Word::F32 { flush(word_).to_bits() } else { word_ };
                let words = group.iter().map(|slice| Some(enter(slice[index])));
                words.fold(None, |sum, one| combine(rule.op, word, sum, one)).expect("fits")
            })
            .collect();
        (0..size).map(move |slice| match rule.gives {
            ReduceOutput::First if slice > 0 => vec![0; sum.len()],
            ReduceOutput::First | ReduceOutput::Broadcast => sum.clone(),
            ReduceOutput::Scatter { inner } => {
                let inner = usize::try_from(inner).expect("fits");
                let mine = |index: &usize| index / 8 / inner % size == slice;
                (0..sum.len()).filter(mine).map(|index| sum[index]).collect()
            }
        })
    });
    results.collect()
}

/// All slices through the whole engine.
pub(crate) fn reference(vector: &Vector, mut slices: Vec<Vec<u32>>, files: &[&[u8]]) -> Vec<Vec<u32>> {
    if let (Some(rule), true) = (vector.between, vector.between_first) {
        slices = between(rule, vector.input, &slices);
    }
    let mut word = vector.input;
    for (slice, words) in slices.iter_mut().enumerate() {
        let tag =
            |(flit, words): (usize, &[u32])| words.iter().map(|word| tagged(vector, flit, *word)).collect();
        let mut flits: Vec<Flit> = words.chunks(8).enumerate().map(tag).collect();
        word = vector.input;
        for (at, op) in vector.ops.iter().enumerate() {
            let first_narrow = narrow(op) && !vector.ops[..at].iter().any(narrow);
            if first_narrow && vector.trim {
                flits.iter_mut().for_each(|flit| flit.truncate(4));
            }
            if !narrow(op) {
                widen(&mut flits);
            }
            flits = step(vector, op, word, slice as u64, files[slice], flits);
            word = match op.kind {
                OpKind::ToFloat { .. } => Word::F32,
                OpKind::ToFixed { .. } => Word::I32,
                _ => word,
            };
        }
        widen(&mut flits);
        *words = flits.iter().flatten().map(|element| element.word).collect();
    }
    match (vector.between, vector.between_first) {
        (Some(rule), false) => between(rule, word, &slices),
        _ => slices,
    }
}
