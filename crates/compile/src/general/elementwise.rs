//! Elementwise primitives of the graph as steps on words.
//!
//! What the vector engine has no unit for is put together from what it has: rounding by adding and taking
//! away 2^23, comparisons of two streams by the saturated difference of integers in the same order, a
//! choice by the bits of a mask. Truth is all ones or all zeros.

use tilewright_graph::{Binary, Dtype, Unary};
use tilewright_num::Function;
use tilewright_tcp_isa::program::vector::{Comparison, Relation, Word};

use super::words::{Arith, Line, MAGNITUDE, Other, SIGN, Step};

/// An operand: the same word everywhere, or a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arg {
    /// A constant.
    Word(u32),
    /// A stream of the chain.
    Stream(usize),
}

/// What is known of elements that another type is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// They are whole numbers, or are to be rounded, ties away from zero: nothing is cut off.
    pub rounds: bool,
    /// They are in the range of the other type.
    pub fits: bool,
}

/// Why a primitive has no steps.
pub type Refused = String;

/// Adding it to a size and taking it away rounds one below it to the nearest whole number, ties to even;
/// floats from it on are whole anyway.
const ROUNDER: f32 = 8_388_608.0;
/// Factors of a power that are multiplied one by one.
const FACTORS_IN_TURN: f32 = 8.0;
/// Factors beyond which a power comes by way of its logarithm.
const MOST_FACTORS: f32 = 64.0;
/// What is said of integers of 64 bits.
pub(super) const LONG_INTEGERS: &str =
    "arithmetic of i64: the vector engine has words of 32 bits, and nothing says that results fit them";
/// Truth.
pub const TRUE: u32 = u32::MAX;

/// Steps in the making.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    /// Streams that enter.
    pub inputs: usize,
    /// Steps so far.
    pub lines: Vec<Line>,
}

impl Writer {
    /// Steps on so many streams.
    pub fn new(inputs: usize) -> Writer {
        Writer { inputs, lines: Vec::new() }
    }

    fn push(&mut self, input: usize, step: Step) -> usize {
        self.lines.push(Line { input, step });
        self.inputs + self.lines.len() - 1
    }

    fn apply(&mut self, x: usize, function: Function) -> usize {
        self.push(x, Step::Apply(function))
    }

    fn word(&mut self, x: usize, arith: Arith, word: u32) -> usize {
        self.push(x, Step::With { arith, other: Other::Word(word), reversed: false })
    }

    fn float(&mut self, x: usize, arith: Arith, value: f32) -> usize {
        self.word(x, arith, value.to_bits())
    }

    fn both(&mut self, arith: Arith, x: usize, y: usize) -> usize {
        self.push(x, Step::With { arith, other: Other::Stream(y), reversed: false })
    }

    fn word_first(&mut self, word: u32, arith: Arith, x: usize) -> usize {
        self.push(x, Step::With { arith, other: Other::Word(word), reversed: true })
    }

    fn pick(
        &mut self,
        x: usize,
        word: Word,
        relation: Relation,
        constant: u32,
        (yes, no): (u32, u32),
    ) -> usize {
        let when = vec![Comparison { relation, word: constant }];
        self.push(x, Step::Pick { word, when, mask: 1, value: 1, yes, no })
    }

    fn is_nan(&mut self, x: usize, yes: u32) -> usize {
        let compare = |relation| Comparison { relation, word: 0 };
        let when = vec![compare(Relation::Ge), compare(Relation::Lt)];
        self.push(x, Step::Pick { word: Word::F32, when, mask: 3, value: 0, yes, no: 0 })
    }

    /// `x` where bits of the mask are set, `y` elsewhere.
    fn blend(&mut self, mask: usize, x: usize, y: usize) -> usize {
        let differ = self.both(Arith::Xor, x, y);
        let taken = self.both(Arith::And, differ, mask);
        self.both(Arith::Xor, taken, y)
    }

    /// An operand as a stream: a constant fills one.
    pub fn stream(&mut self, arg: Arg, like: usize) -> usize {
        match arg {
            Arg::Stream(stream) => stream,
            Arg::Word(word) => {
                let empty = self.word(like, Arith::And, 0);
                self.word(empty, Arith::Or, word)
            }
        }
    }

    /// Two operands; at least one is a stream.
    fn pair(&mut self, arith: Arith, x: Arg, y: Arg) -> usize {
        match (x, y) {
            (Arg::Stream(x), Arg::Stream(y)) => self.both(arith, x, y),
            (Arg::Stream(x), Arg::Word(word)) => self.word(x, arith, word),
            (Arg::Word(word), Arg::Stream(y)) if arith.commutes() => self.word(y, arith, word),
            (Arg::Word(word), Arg::Stream(y))
                if matches!(arith, Arith::FSub | Arith::FDiv | Arith::Sub | Arith::SubSat) =>
            {
                self.word_first(word, arith, y)
            }
            (x @ Arg::Word(_), Arg::Stream(y)) => {
                let x = self.stream(x, y);
                self.both(arith, x, y)
            }
            (Arg::Word(_), Arg::Word(_)) => 0,
        }
    }

    /// Brings a result back into the range of a narrow integer type.
    fn wrapped(&mut self, x: usize, dtype: Dtype) -> usize {
        match dtype {
            Dtype::U8 => self.word(x, Arith::And, 0xFF),
            Dtype::U4 => self.word(x, Arith::And, 0xF),
            Dtype::I8 | Dtype::I4 => {
                let bits = if dtype == Dtype::I8 { 24 } else { 28 };
                let up = self.word(x, Arith::Shl, bits);
                self.word(up, Arith::ShrArith, bits)
            }
            _ => x,
        }
    }

    /// The nearest whole number, ties to even, of a float that is not below zero; and where the two may
    /// differ.
    fn rounded_size(&mut self, size: usize) -> (usize, usize) {
        let moved = self.float(size, Arith::FAdd, ROUNDER);
        let near = self.float(moved, Arith::FAdd, -ROUNDER);
        let small = self.pick(size, Word::F32, Relation::Lt, ROUNDER.to_bits(), (TRUE, 0));
        (near, small)
    }

    /// The same of any float.
    fn rounded(&mut self, x: usize) -> (usize, usize) {
        let sign = self.word(x, Arith::And, SIGN);
        let rounder = self.word(sign, Arith::Or, ROUNDER.to_bits());
        let moved = self.both(Arith::FAdd, x, rounder);
        let near = self.both(Arith::FSub, moved, rounder);
        (near, self.is_between(x, (-ROUNDER, ROUNDER)))
    }

    fn floor(&mut self, x: usize) -> usize {
        let rounded = self.rounded(x);
        self.floor_of(x, rounded)
    }

    /// The whole number below a float that has been rounded.
    fn floor_of(&mut self, x: usize, (near, small): (usize, usize)) -> usize {
        let over = self.both(Arith::FSub, near, x);
        let one = self.pick(over, Word::F32, Relation::Gt, 0, (1.0_f32.to_bits(), 0));
        let below = self.both(Arith::FSub, near, one);
        self.blend(small, below, x)
    }

    /// Cut towards zero.
    fn cut(&mut self, x: usize) -> usize {
        let size = self.word(x, Arith::And, MAGNITUDE);
        let rounded = self.rounded_size(size);
        let whole = self.floor_of(size, rounded);
        let sign = self.word(x, Arith::And, SIGN);
        self.both(Arith::Or, whole, sign)
    }

    /// One operand.
    ///
    /// # Errors
    /// Types whose arithmetic the chip has not.
    pub fn unary(&mut self, op: Unary, dtype: Dtype, x: usize) -> Result<usize, Refused> {
        if dtype == Dtype::Bool {
            return match op {
                Unary::Not => Ok(self.word(x, Arith::Xor, TRUE)),
                _ => Err(format!("`{}` of truth values", op.name())),
            };
        }
        if dtype.is_float() {
            return self.unary_float(op, dtype, x);
        }
        computes(dtype)?;
        match op {
            Unary::Neg => {
                let turned = self.word_first(0, Arith::Sub, x);
                Ok(self.wrapped(turned, dtype))
            }
            Unary::Abs => {
                let turned = self.word_first(0, Arith::Sub, x);
                let size = self.both(Arith::Max, turned, x);
                Ok(self.wrapped(size, dtype))
            }
            Unary::Sign => {
                let low = self.word(x, Arith::Max, u32::MAX);
                Ok(self.word(low, Arith::Min, 1))
            }
            _ => Err(format!("`{}` of {dtype}", op.name())),
        }
    }

    fn unary_float(&mut self, op: Unary, dtype: Dtype, x: usize) -> Result<usize, Refused> {
        match op {
            Unary::Neg => return Ok(self.word(x, Arith::Xor, SIGN)),
            Unary::Abs => return Ok(self.word(x, Arith::And, MAGNITUDE)),
            Unary::IsNan => return Ok(self.is_nan(x, TRUE)),
            Unary::IsInf => {
                let size = self.word(x, Arith::And, MAGNITUDE);
                return Ok(self.pick(size, Word::F32, Relation::Eq, f32::INFINITY.to_bits(), (TRUE, 0)));
            }
            _ => computes(dtype)?,
        }
        let one = 1.0_f32.to_bits();
        Ok(match op {
            Unary::Exp => self.apply(x, Function::Exp),
            Unary::Ln => self.apply(x, Function::Log),
            Unary::Sqrt => self.apply(x, Function::Sqrt),
            Unary::Rsqrt => {
                let root = self.apply(x, Function::Sqrt);
                self.word_first(one, Arith::FDiv, root)
            }
            Unary::Recip => self.word_first(one, Arith::FDiv, x),
            Unary::Sin => self.apply(x, Function::Sin),
            Unary::Cos => self.apply(x, Function::Cos),
            Unary::Tanh => self.apply(x, Function::Tanh),
            Unary::Sigmoid => self.apply(x, Function::Sigmoid),
            Unary::Erf => self.apply(x, Function::Erf),
            Unary::Floor => self.floor(x),
            Unary::Ceil => {
                let turned = self.word(x, Arith::Xor, SIGN);
                let below = self.floor(turned);
                self.word(below, Arith::Xor, SIGN)
            }
            Unary::Round => {
                let (near, small) = self.rounded(x);
                self.blend(small, near, x)
            }
            Unary::RoundAway => {
                let whole = self.push(x, Step::ToInt);
                let near = self.push(whole, Step::ToFloat);
                let small = self.is_between(x, (-ROUNDER, ROUNDER));
                self.blend(small, near, x)
            }
            Unary::Sign => {
                let above = self.pick(x, Word::F32, Relation::Gt, 0, (one, 0));
                let below = self.pick(x, Word::F32, Relation::Lt, 0, ((-1.0_f32).to_bits(), 0));
                let known = self.both(Arith::Or, above, below);
                let nan = self.is_nan(x, f32::NAN.to_bits());
                self.both(Arith::Or, known, nan)
            }
            _ => return Err(format!("`{}` of {dtype}", op.name())),
        })
    }

    /// Two operands of one type.
    ///
    /// # Errors
    /// Operators and types that the chip has not.
    pub fn binary(&mut self, op: Binary, dtype: Dtype, x: Arg, y: Arg) -> Result<usize, Refused> {
        if op.compares() {
            return Ok(self.compared(op, dtype, x, y));
        }
        if op.is_logic() || dtype == Dtype::Bool {
            let arith = match op {
                Binary::And | Binary::Mul | Binary::Min => Arith::And,
                Binary::Or | Binary::Max => Arith::Or,
                Binary::Xor => Arith::Xor,
                _ => return Err(format!("`{}` of truth values", op.name())),
            };
            return Ok(self.pair(arith, x, y));
        }
        let float = dtype.is_float();
        match op {
            Binary::Max if !float => return Ok(self.pair(Arith::Max, x, y)),
            Binary::Min if !float => return Ok(self.pair(Arith::Min, x, y)),
            _ => computes(dtype)?,
        }
        if float {
            let arith = match op {
                Binary::Add => Arith::FAdd,
                Binary::Sub => Arith::FSub,
                Binary::Mul => Arith::FMul,
                Binary::Div => Arith::FDiv,
                Binary::Max => Arith::FMax,
                Binary::Min => Arith::FMin,
                Binary::Pow => return Ok(self.power(x, y)),
                _ => return Err(format!("`{}`: the vector engine has no remainder", op.name())),
            };
            return Ok(self.pair(arith, x, y));
        }
        let arith = match op {
            Binary::Add => Arith::Add,
            Binary::Sub => Arith::Sub,
            Binary::Mul => Arith::Mul,
            _ => return Err(divided(op.name())),
        };
        let result = self.pair(arith, x, y);
        Ok(self.wrapped(result, dtype))
    }

    /// Powers: by multiplications and roots where a constant exponent says so, else by the exponential of a
    /// logarithm.
    fn power(&mut self, x: Arg, y: Arg) -> usize {
        let (x, exponent) = match (x, y) {
            (Arg::Stream(x), Arg::Word(word)) => (x, f32::from_bits(word)),
            (x, Arg::Stream(y)) => {
                let x = self.stream(x, y);
                return self.any_power(x, y);
            }
            (Arg::Word(_), Arg::Word(_)) => return 0,
        };
        let size = exponent.abs();
        let positive = if size.to_bits() == 0.5_f32.to_bits() {
            self.apply(x, Function::Sqrt)
        } else if size.fract() == 0.0 && size <= MOST_FACTORS {
            self.product_of(x, size)
        } else if size.fract() == 0.0 || !size.is_finite() {
            let y = self.stream(Arg::Word(exponent.to_bits()), x);
            return self.any_power(x, y);
        } else {
            // Of negative numbers there is no logarithm, and no such power.
            let log = self.apply(x, Function::Log);
            let more = self.float(log, Arith::FMul, exponent);
            return self.apply(more, Function::Exp);
        };
        if exponent < 0.0 { self.word_first(1.0_f32.to_bits(), Arith::FDiv, positive) } else { positive }
    }

    /// A whole number of equal factors: few in turn, of many the squares of squares.
    fn product_of(&mut self, x: usize, factors: f32) -> usize {
        if factors == 0.0 {
            return self.stream(Arg::Word(1.0_f32.to_bits()), x);
        }
        let (mut product, mut done) = (x, 1.0);
        while 2.0 * done <= factors && factors > FACTORS_IN_TURN {
            product = self.both(Arith::FMul, product, product);
            done *= 2.0;
        }
        while done < factors {
            product = self.both(Arith::FMul, product, x);
            done += 1.0;
        }
        product
    }

    /// A power of two streams: of negative numbers by whole exponents only.
    fn any_power(&mut self, x: usize, y: usize) -> usize {
        let one = 1.0_f32.to_bits();
        let size = self.word(x, Arith::And, MAGNITUDE);
        let log = self.apply(size, Function::Log);
        // The logarithm of one is zero, which times infinity is no number: the largest float will do.
        let near = self.float(y, Arith::FMin, f32::MAX);
        let near = self.float(near, Arith::FMax, f32::MIN);
        let more = self.both(Arith::FMul, log, near);
        let power = self.apply(more, Function::Exp);
        // Infinity less itself is not above zero: infinities are even.
        let broken = |writer: &mut Writer, y: usize| {
            let whole = writer.floor(y);
            let rest = writer.both(Arith::FSub, y, whole);
            writer.pick(rest, Word::F32, Relation::Gt, 0, (TRUE, 0))
        };
        let half = self.float(y, Arith::FMul, 0.5);
        let (part, rest) = (broken(self, y), broken(self, half));
        // Half of an odd number is none, and half of what is none is none either.
        let odd = self.both(Arith::Xor, rest, part);
        let turned = self.both(Arith::And, odd, x);
        let sign = self.word(turned, Arith::And, SIGN);
        let signed = self.both(Arith::Xor, power, sign);
        let below = self.is_between(x, (f32::NEG_INFINITY, 0.0));
        let none = self.both(Arith::And, part, below);
        // Of a number and NaN the engine takes the number, so that the bounds of `near` hide it.
        let unknown = self.is_nan(y, TRUE);
        let none = self.both(Arith::Or, none, unknown);
        let none = self.word(none, Arith::And, f32::NAN.to_bits());
        let signed = self.both(Arith::Or, signed, none);
        let zero = self.pick(y, Word::F32, Relation::Eq, 0, (TRUE, 0));
        let same = self.pick(x, Word::F32, Relation::Eq, one, (TRUE, 0));
        let ones = self.both(Arith::Or, zero, same);
        let one = self.stream(Arg::Word(one), x);
        self.blend(ones, one, signed)
    }

    /// Where a float lies between two others.
    fn is_between(&mut self, x: usize, (low, high): (f32, f32)) -> usize {
        let compare = |relation, word: f32| Comparison { relation, word: word.to_bits() };
        let when = vec![compare(Relation::Gt, low), compare(Relation::Lt, high)];
        self.push(x, Step::Pick { word: Word::F32, when, mask: 3, value: 3, yes: TRUE, no: 0 })
    }

    fn compared(&mut self, op: Binary, dtype: Dtype, x: Arg, y: Arg) -> usize {
        let relation = relation(op);
        let word = if dtype.is_float() { Word::F32 } else { Word::I32 };
        match (x, y) {
            (Arg::Stream(x), Arg::Word(constant)) => {
                return self.pick(x, word, relation, constant, (TRUE, 0));
            }
            (Arg::Word(constant), Arg::Stream(y)) => {
                return self.pick(y, word, mirrored(relation), constant, (TRUE, 0));
            }
            _ => {}
        }
        let (Arg::Stream(x), Arg::Stream(y)) = (x, y) else { return 0 };
        if word == Word::I32 {
            let apart = self.both(Arith::SubSat, x, y);
            return self.pick(apart, Word::I32, relation, 0, (TRUE, 0));
        }
        // Minus zero becomes zero; then patterns are ordered as integers.
        let [a, b] = [x, y].map(|x| {
            let plain = self.float(x, Arith::FAdd, 0.0);
            self.push(plain, Step::Order)
        });
        let apart = self.both(Arith::SubSat, a, b);
        let holds = self.pick(apart, Word::I32, relation, 0, (TRUE, 0));
        let [a, b] = [x, y].map(|x| self.is_nan(x, TRUE));
        let nan = self.both(Arith::Or, a, b);
        if relation == Relation::Ne {
            return self.both(Arith::Or, holds, nan);
        }
        let number = self.word(nan, Arith::Xor, TRUE);
        self.both(Arith::And, holds, number)
    }

    /// `yes` where the condition holds, else `no`.
    pub fn select(&mut self, condition: usize, yes: Arg, no: Arg) -> usize {
        if let (Arg::Word(yes), Arg::Word(no)) = (yes, no) {
            return self.pick(condition, Word::I32, Relation::Ne, 0, (yes, no));
        }
        let (yes, no) = (self.stream(yes, condition), self.stream(no, condition));
        self.blend(condition, yes, no)
    }

    /// Byte offsets of rows: numbers below 0 count from the end, all are clamped to the first and the last.
    pub fn row_offsets(&mut self, x: usize, size: u32, last: u32, row_bytes: u32) -> usize {
        let more = self.pick(x, Word::I32, Relation::Lt, 0, (size, 0));
        let from_front = self.both(Arith::Add, x, more);
        let low = self.word(from_front, Arith::Max, 0);
        let inside = self.word(low, Arith::Min, last);
        self.word(inside, Arith::Mul, row_bytes)
    }

    /// Another type.
    ///
    /// # Errors
    /// Types that the chip has not.
    pub fn convert(&mut self, from: Dtype, to: Dtype, x: usize, known: Known) -> Result<usize, Refused> {
        if from == to {
            return Ok(x);
        }
        match (from, to) {
            (from, to) if from.is_float() && to.is_integer() && known.rounds => {
                let whole = self.push(x, Step::ToInt);
                Ok(if known.fits { whole } else { self.wrapped(whole, to) })
            }
            (from, to) if from.is_integer() && to.is_integer() && known.fits => Ok(x),
            (Dtype::Bool, to) if to.is_float() => Ok(self.word(x, Arith::And, 1.0_f32.to_bits())),
            (Dtype::Bool, _) => Ok(self.word(x, Arith::And, 1)),
            (from, Dtype::Bool) => {
                let word = if from.is_float() { Word::F32 } else { Word::I32 };
                Ok(self.pick(x, word, Relation::Ne, 0, (TRUE, 0)))
            }
            (from, Dtype::F32) if from.is_float() => Ok(x),
            (_, Dtype::F16 | Dtype::Bf16) => {
                Err(format!("values of {to} are not rounded by the vector engine"))
            }
            (from, to) if from.is_float() => {
                let whole = self.cut(x);
                let whole = self.push(whole, Step::ToInt);
                Ok(self.wrapped(whole, to))
            }
            (_, Dtype::F32) => Ok(self.push(x, Step::ToFloat)),
            (_, to) => Ok(self.wrapped(x, to)),
        }
    }
}

/// Refuses types whose results are not those of 32-bit words.
fn computes(dtype: Dtype) -> Result<(), Refused> {
    match dtype {
        Dtype::F16 | Dtype::Bf16 | Dtype::F8E4M3 => {
            Err(format!("arithmetic of {dtype}: the vector engine computes in f32"))
        }
        Dtype::I64 => Err(LONG_INTEGERS.to_string()),
        _ => Ok(()),
    }
}

/// What is said of a quotient of integers.
pub(super) fn divided(op: &str) -> String {
    format!("`{op}` of integers: the vector engine divides floats only")
}

fn relation(op: Binary) -> Relation {
    match op {
        Binary::Eq => Relation::Eq,
        Binary::Ne => Relation::Ne,
        Binary::Lt => Relation::Lt,
        Binary::Le => Relation::Le,
        Binary::Gt => Relation::Gt,
        _ => Relation::Ge,
    }
}

/// The relation with its sides exchanged.
fn mirrored(relation: Relation) -> Relation {
    match relation {
        Relation::Lt => Relation::Gt,
        Relation::Le => Relation::Ge,
        Relation::Gt => Relation::Lt,
        Relation::Ge => Relation::Le,
        other => other,
    }
}
