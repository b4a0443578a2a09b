//! What the vector engine does to single words: the steps that elementwise primitives become (vISA book,
//! vector engine).
//!
//! Every value of a general graph is words of 32 bits on the chip: floats as f32, integers as i32, truth as
//! all ones or all zeros. A chain is a list of steps, each on the result of an earlier one; how many of them
//! a command takes is decided in `passes`.

use tilewright_base::invariant::OrBroken;
use tilewright_num::{self as num, Function, RuleSet};
use tilewright_tcp_isa::program::vector::{Comparison, OpKind, Relation, Word};

/// An operation on two words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the units")]
pub enum Arith {
    FAdd,
    FSub,
    FMul,
    FDiv,
    FMax,
    FMin,
    Add,
    Sub,
    SubSat,
    Mul,
    Max,
    Min,
    And,
    Or,
    Xor,
    Shl,
    ShrArith,
}

impl Arith {
    /// Units that do it, the one to be tried first in front.
    pub fn units(self) -> &'static [OpKind] {
        match self {
            Arith::FAdd => &[OpKind::FAdd, OpKind::ClipAdd],
            Arith::FSub => &[OpKind::FSub],
            Arith::FMul => &[OpKind::Mul0, OpKind::Mul1, OpKind::FMul],
            Arith::FDiv => &[OpKind::Div, OpKind::FpuDiv],
            Arith::Add => &[OpKind::Add, OpKind::ClipAdd],
            Arith::Sub => &[OpKind::Sub],
            Arith::SubSat => &[OpKind::SubSat],
            Arith::Mul => &[OpKind::Mul],
            Arith::FMax | Arith::Max => &[OpKind::ClipMax],
            Arith::FMin | Arith::Min => &[OpKind::ClipMin],
            Arith::And => &[OpKind::And],
            Arith::Or => &[OpKind::Or],
            Arith::Xor => &[OpKind::Xor],
            Arith::Shl => &[OpKind::Shl],
            Arith::ShrArith => &[OpKind::ShrArith],
        }
    }

    /// Type of the words; none for bits.
    pub fn word(self) -> Option<Word> {
        match self {
            Arith::FAdd | Arith::FSub | Arith::FMul | Arith::FDiv | Arith::FMax | Arith::FMin => {
                Some(Word::F32)
            }
            Arith::And | Arith::Or | Arith::Xor => None,
            _ => Some(Word::I32),
        }
    }

    /// Whether operands may change places.
    pub fn commutes(self) -> bool {
        !matches!(self, Arith::FSub | Arith::FDiv | Arith::Sub | Arith::SubSat | Arith::Shl | Arith::ShrArith)
    }

    fn apply(self, rules: &RuleSet, a: u32, b: u32) -> u32 {
        let (x, y) = (f32::from_bits(a), f32::from_bits(b));
        let (i, j) = (a.cast_signed(), b.cast_signed());
        match self {
            Arith::FAdd => num::add_f32(rules, x, y).to_bits(),
            Arith::FSub => num::sub_f32(rules, x, y).to_bits(),
            Arith::FMul => num::mul_f32(rules, x, y).to_bits(),
            Arith::FDiv => num::div_f32(rules, x, y).to_bits(),
            Arith::FMax => num::max_f32(rules, x, y).to_bits(),
            Arith::FMin => num::min_f32(rules, x, y).to_bits(),
            Arith::Add => a.wrapping_add(b),
            Arith::Sub => a.wrapping_sub(b),
            Arith::SubSat => num::sub_sat(i, j).cast_unsigned(),
            Arith::Mul => a.wrapping_mul(b),
            Arith::Max => i.max(j).cast_unsigned(),
            Arith::Min => i.min(j).cast_unsigned(),
            Arith::And => a & b,
            Arith::Or => a | b,
            Arith::Xor => a ^ b,
            Arith::Shl => a.checked_shl(b).unwrap_or(0),
            Arith::ShrArith => (i >> b.min(31)).cast_unsigned(),
        }
    }
}

/// The other operand of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Other {
    /// The same word for all elements.
    Word(u32),
    /// The element of another stream of the chain, at the same place.
    Stream(usize),
}

/// What a step does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A function of floats.
    Apply(Function),
    /// Two operands; `reversed` has the other one in front.
    With {
        /// What.
        arith: Arith,
        /// With what.
        other: Other,
        /// The other one is the first.
        reversed: bool,
    },
    /// i32 to f32.
    ToFloat,
    /// f32 to the nearest i32, ties away from zero, clamped.
    ToInt,
    /// One of two words, by comparisons of the element with constants: `yes` where the bits of `mask` are
    /// those of `value`.
    Pick {
        /// Type of the element.
        word: Word,
        /// Bit 0 first.
        when: Vec<Comparison>,
        /// Bits that count.
        mask: u8,
        /// What they must be.
        value: u8,
        /// Where they are.
        yes: u32,
        /// Elsewhere.
        no: u32,
    },
    /// The pattern of a float that is no NaN as an integer in the same order.
    Order,
}

/// A step on the result of an earlier one: streams are the inputs of the chain, then the results of its
/// lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The stream that it takes.
    pub input: usize,
    /// What it does.
    pub step: Step,
}

/// All bits but the sign.
pub const MAGNITUDE: u32 = 0x7FFF_FFFF;
/// The sign.
pub const SIGN: u32 = 0x8000_0000;

/// Runs lines on one element of each input; gives all streams.
pub fn evaluate(rules: &RuleSet, inputs: &[u32], lines: &[Line]) -> Vec<u32> {
    let mut streams = inputs.to_vec();
    for line in lines {
        let at = |stream: usize| streams.get(stream).copied().or_broken("lines read streams before them");
        let x = at(line.input);
        streams.push(match &line.step {
            Step::Apply(function) => {
                let mut word = [x];
                function.apply_slice(rules, &mut word);
                word[0]
            }
            Step::With { arith, other, reversed } => {
                let y = match other {
                    Other::Word(word) => *word,
                    Other::Stream(stream) => at(*stream),
                };
                if *reversed { arith.apply(rules, y, x) } else { arith.apply(rules, x, y) }
            }
            Step::ToFloat => num::fxp_to_f32(x.cast_signed(), 31).to_bits(),
            Step::ToInt => num::f32_to_fxp(f32::from_bits(x), 31).cast_unsigned(),
            Step::Pick { word, when, mask, value, yes, no } => {
                let bits = when.iter().enumerate().fold(0_u8, |bits, (bit, comparison)| {
                    bits | u8::from(holds(rules, *word, *comparison, x)) << bit
                });
                if bits & mask == *value { *yes } else { *no }
            }
            Step::Order => {
                if x.cast_signed() < 0 {
                    x ^ MAGNITUDE
                } else {
                    x
                }
            }
        });
    }
    streams
}

fn holds(rules: &RuleSet, word: Word, comparison: Comparison, x: u32) -> bool {
    let order = match word {
        Word::I32 => Some(x.cast_signed().cmp(&comparison.word.cast_signed())),
        Word::F32 => {
            let settled = |pattern: u32| f32::from_bits(rules.settle_f32(pattern));
            settled(x).partial_cmp(&settled(comparison.word))
        }
    };
    match comparison.relation {
        Relation::Eq => order.is_some_and(std::cmp::Ordering::is_eq),
        Relation::Ne => order.is_none_or(std::cmp::Ordering::is_ne),
        Relation::Lt => order.is_some_and(std::cmp::Ordering::is_lt),
        Relation::Le => order.is_some_and(std::cmp::Ordering::is_le),
        Relation::Gt => order.is_some_and(std::cmp::Ordering::is_gt),
        Relation::Ge => order.is_some_and(std::cmp::Ordering::is_ge),
    }
}
