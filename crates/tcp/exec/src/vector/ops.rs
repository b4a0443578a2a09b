//! Operations on words, each a loop over the whole stream (tcp rule set: wrapping, saturation, rounding in
//! `tilewright_num`).

use tilewright_num as num;
use tilewright_num::{Function, RuleSet};
use tilewright_tcp_isa::program::vector::{Op, OpKind, Word};

use super::operand::VectorOperand;

pub(super) fn apply(rules: &RuleSet, op: &Op, word: Word, operands: &[VectorOperand], words: &mut [u32]) {
    match (&op.kind, operands) {
        (OpKind::Fma, [factor, addend]) => fused(rules, factor, addend, words),
        (kind, [operand]) => binary(rules, kind, word, op.reversed, operand, words),
        (kind, _) => unary(rules, kind, words),
    }
}

fn unary(rules: &RuleSet, kind: &OpKind, words: &mut [u32]) {
    let function = match kind {
        OpKind::Sqrt => Function::Sqrt,
        OpKind::Tanh => Function::Tanh,
        OpKind::Sigmoid => Function::Sigmoid,
        OpKind::Erf => Function::Erf,
        OpKind::Log => Function::Log,
        OpKind::Sin => Function::Sin,
        OpKind::Cos => Function::Cos,
        OpKind::Exp => Function::Exp,
        OpKind::ExpNeg => Function::ExpNeg,
        OpKind::ToFloat { int_width } => {
            for word in words {
                *word = num::fxp_to_f32(word.cast_signed(), *int_width).to_bits();
            }
            return;
        }
        OpKind::ToFixed { int_width } => {
            for word in words {
                *word = num::f32_to_fxp(f32::from_bits(*word), *int_width).cast_unsigned();
            }
            return;
        }
        _ => return,
    };
    function.apply_slice(rules, words);
}

fn binary(
    rules: &RuleSet,
    kind: &OpKind,
    word: Word,
    reversed: bool,
    operand: &VectorOperand,
    words: &mut [u32],
) {
    match (kind, word) {
        (OpKind::And, _) => each(operand, words, |a, b| a & b),
        (OpKind::Or, _) => each(operand, words, |a, b| a | b),
        (OpKind::Xor, _) => each(operand, words, |a, b| a ^ b),
        (OpKind::Shl, _) => each(operand, words, |a, b| a.unbounded_shl(b)),
        (OpKind::Shr | OpKind::ShrLogic, _) => each(operand, words, |a, b| a.unbounded_shr(b)),
        (OpKind::ShrArith, _) => ints(operand, words, |a, b| a >> b.cast_unsigned().min(31)),
        (OpKind::ShrRound, _) => ints(operand, words, |a, b| num::shift_right_round(a, b.cast_unsigned())),
        (OpKind::ShlSat, _) => ints(operand, words, |a, b| num::shift_left_sat(a, b.cast_unsigned())),
        (OpKind::Add, _) | (OpKind::ClipAdd, Word::I32) => ints(operand, words, i32::wrapping_add),
        (OpKind::AddSat, _) => ints(operand, words, num::add_sat),
        (OpKind::Sub, _) => ordered(reversed, operand, words, |a, b| a.wrapping_sub(b)),
        (OpKind::SubSat, _) => ordered(reversed, operand, words, |a, b| {
            num::sub_sat(a.cast_signed(), b.cast_signed()).cast_unsigned()
        }),
        (OpKind::Mul, _) => ints(operand, words, i32::wrapping_mul),
        (OpKind::MulQ31, _) => ints(operand, words, num::mul_q31),
        (OpKind::FAdd, _) | (OpKind::ClipAdd, Word::F32) => {
            floats(operand, words, |a, b| num::add_f32(rules, a, b));
        }
        (OpKind::FMul | OpKind::Mul0 | OpKind::Mul1, _) => {
            floats(operand, words, |a, b| num::mul_f32(rules, a, b));
        }
        (OpKind::FSub, _) => ordered(reversed, operand, words, |a, b| {
            num::sub_f32(rules, f32::from_bits(a), f32::from_bits(b)).to_bits()
        }),
        (OpKind::FpuDiv | OpKind::Div, _) => ordered(reversed, operand, words, |a, b| {
            num::div_f32(rules, f32::from_bits(a), f32::from_bits(b)).to_bits()
        }),
        (OpKind::ClipMax, Word::I32) => ints(operand, words, i32::max),
        (OpKind::ClipMin, Word::I32) => ints(operand, words, i32::min),
        (OpKind::ClipAbsMax, Word::I32) => ints(operand, words, num::absmax_i32),
        (OpKind::ClipAbsMin, Word::I32) => ints(operand, words, num::absmin_i32),
        (OpKind::ClipMax, Word::F32) => floats(operand, words, |a, b| num::max_f32(rules, a, b)),
        (OpKind::ClipMin, Word::F32) => floats(operand, words, |a, b| num::min_f32(rules, a, b)),
        (OpKind::ClipAbsMax, Word::F32) => floats(operand, words, |a, b| num::absmax_f32(rules, a, b)),
        (OpKind::ClipAbsMin, Word::F32) => floats(operand, words, |a, b| num::absmin_f32(rules, a, b)),
        _ => {}
    }
}

fn ints(operand: &VectorOperand, words: &mut [u32], f: impl Fn(i32, i32) -> i32) {
    each(operand, words, |a, b| f(a.cast_signed(), b.cast_signed()).cast_unsigned());
}

fn floats(operand: &VectorOperand, words: &mut [u32], f: impl Fn(f32, f32) -> f32) {
    each(operand, words, |a, b| f(f32::from_bits(a), f32::from_bits(b)).to_bits());
}

fn ordered(reversed: bool, operand: &VectorOperand, words: &mut [u32], f: impl Fn(u32, u32) -> u32) {
    if reversed { each(operand, words, |a, b| f(b, a)) } else { each(operand, words, f) }
}

fn each(operand: &VectorOperand, words: &mut [u32], f: impl Fn(u32, u32) -> u32) {
    match operand {
        VectorOperand::Nothing => {}
        VectorOperand::Uniform(b) => words.iter_mut().for_each(|a| *a = f(*a, *b)),
        VectorOperand::Each(others) => words.iter_mut().zip(others).for_each(|(a, b)| *a = f(*a, *b)),
        VectorOperand::Some(others, live) => {
            for ((a, b), live) in words.iter_mut().zip(others).zip(live) {
                let result = f(*a, *b);
                *a = if *live { result } else { *a };
            }
        }
    }
}

fn fused(rules: &RuleSet, factor: &VectorOperand, addend: &VectorOperand, words: &mut [u32]) {
    let fma = |a: u32, b: u32, c: u32| {
        num::fma_f32(rules, f32::from_bits(a), f32::from_bits(b), f32::from_bits(c)).to_bits()
    };
    match (factor, addend) {
        (VectorOperand::Nothing, _) | (_, VectorOperand::Nothing) => {}
        (VectorOperand::Uniform(b), VectorOperand::Uniform(c)) => {
            words.iter_mut().for_each(|a| *a = fma(*a, *b, *c));
        }
        (VectorOperand::Each(others), VectorOperand::Uniform(c)) => {
            words.iter_mut().zip(others).for_each(|(a, b)| *a = fma(*a, *b, *c));
        }
        (VectorOperand::Uniform(b), VectorOperand::Each(others)) => {
            words.iter_mut().zip(others).for_each(|(a, c)| *a = fma(*a, *b, *c));
        }
        _ => {
            let (factors, addends) = (factor.get(), addend.get());
            for (index, a) in words.iter_mut().enumerate() {
                if let (Some(b), Some(c)) = (factors(index), addends(index)) {
                    *a = fma(*a, b, c);
                }
            }
        }
    }
}

impl VectorOperand {
    /// The operand of an element, if it has one.
    fn get(&self) -> impl Fn(usize) -> Option<u32> {
        move |index| match self {
            VectorOperand::Uniform(word) => Some(*word),
            VectorOperand::Each(words) => words.get(index).copied(),
            VectorOperand::Some(words, live) => {
                words.get(index).zip(live.get(index)).and_then(|(word, live)| live.then_some(*word))
            }
            VectorOperand::Nothing => None,
        }
    }
}
