//! Functions of the TCP's vector engine on f32: square root, tanh, sigmoid, erf, logarithm, sine, cosine,
//! exponentials.
//!
//! The accuracy of the hardware is not published. Ours is a definition: the f32 nearest to the value of the
//! real function, ties to even, the same on every host. Operands and results are settled as every f32 of a
//! rule set is. No function of the host's mathematics library is called; only sums, products, quotients and
//! square roots, which IEEE 754 fixes.
//!
//! How: an f64 evaluation with a relative error below 2^-48 ([`fast`]) is taken if everything within 2^-46 of
//! it rounds to one f32; otherwise, about once in a million words, some 100 bits are computed ([`precise`]).
//! A result that close to the middle of two neighbours does not exist except where the function is exact, and
//! there both evaluations are exact too.
//!
//! What is known: the example `function_margins` walks over all 2^32 words and tells how near the undecided
//! ones come to a middle. The nearest is sigmoid(-2^-24), 2^-76.6 of its value away; each step of the long
//! evaluation errs by about 2^-104. The error of the f64 evaluation is measured against the long one on
//! samples, that of the long one is estimated from its steps; neither is proven. Both are compared with an
//! independent library on 120,000 words of each function (`python/tests`).

mod double;
mod fast;
mod precise;
mod reduction;

use crate::RuleSet;
use crate::arith::{settle, settle_result};
use double::DoubleDouble;
pub(crate) use double::add_to_odd;

/// A function of one f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Function {
    /// Square root; of negatives, NaN.
    Sqrt,
    /// Hyperbolic tangent.
    Tanh,
    /// `1 / (1 + e^-x)`.
    Sigmoid,
    /// Error function.
    Erf,
    /// Natural logarithm; of zeros minus infinity, of negatives NaN.
    Log,
    /// Sine; of infinities NaN.
    Sin,
    /// Cosine; of infinities NaN.
    Cos,
    /// `e^x`.
    Exp,
    /// `e^-x`.
    ExpNeg,
}

/// Relative distance within which the f64 evaluation must not meet the middle of two neighbours: 2^-46.
const DOUBT: f64 = 1.0 / (1_u64 << 46) as f64;

/// Words evaluated together.
const BLOCK: usize = 64;

impl Function {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Sqrt,
        Self::Tanh,
        Self::Sigmoid,
        Self::Erf,
        Self::Log,
        Self::Sin,
        Self::Cos,
        Self::Exp,
        Self::ExpNeg,
    ];

    /// The function of one value under a rule set.
    #[must_use]
    pub fn apply(self, rules: &RuleSet, a: f32) -> f32 {
        settle_result(rules, self.nearest(settle(rules, a)))
    }

    /// The function of many f32 patterns, each as [`Function::apply`] gives it.
    pub fn apply_slice(self, rules: &RuleSet, patterns: &mut [u32]) {
        match self {
            Self::Sqrt => patterns.iter_mut().for_each(|pattern| {
                *pattern = self.apply(rules, f32::from_bits(*pattern)).to_bits();
            }),
            Self::Tanh => self.each_block(rules, patterns, fast::tanh),
            Self::Sigmoid => self.each_block(rules, patterns, fast::sigmoid),
            Self::Erf => {
                let table = fast::erf_table();
                self.each_block(rules, patterns, |a| fast::erf(table, a));
            }
            Self::Log => self.each_block(rules, patterns, fast::log),
            Self::Sin => self.each_block(rules, patterns, fast::sin),
            Self::Cos => self.each_block(rules, patterns, fast::cos),
            Self::Exp => self.each_block(rules, patterns, fast::exp),
            Self::ExpNeg => self.each_block(rules, patterns, |a| fast::exp(-a)),
        }
    }

    /// The nearest f32, subnormals kept.
    #[must_use]
    pub fn nearest(self, a: f32) -> f32 {
        if self == Self::Sqrt {
            return a.sqrt();
        }
        decided(self.fast(f64::from(a))).unwrap_or_else(|| self.far_nearest(a))
    }

    /// How near the value of the function at `a` comes to the middle of two neighbouring f32, relative to the
    /// value, where the f64 evaluation leaves that open; `None` where it decides. For those who check the
    /// claims of this module.
    #[must_use]
    pub fn margin(self, a: f32) -> Option<f64> {
        let is_decided =
            decided(self.fast(f64::from(a))).is_some() || self.far(a).and_then(decided).is_some();
        if self == Self::Sqrt || a.is_nan() || is_decided {
            return None;
        }
        self.precise(a).map(DoubleDouble::distance_to_middle)
    }

    /// Relative difference between the f64 evaluation and the long one, where both exist. For those who
    /// check.
    #[must_use]
    pub fn fast_error(self, a: f32) -> Option<f64> {
        let near = self.fast(f64::from(a));
        let fast = if near.is_nan() { self.far(a)? } else { near };
        let exact = self.precise(a)?;
        let known = fast.is_finite() && exact.hi.is_finite() && exact.hi != 0.0;
        known.then(|| (((exact.hi - fast) + exact.lo) / exact.hi).abs())
    }

    /// Forced through the long evaluation. For those who check.
    #[must_use]
    pub fn precise_nearest(self, a: f32) -> f32 {
        match (self, a) {
            _ if a.is_nan() => a,
            (Self::Sqrt, _) => a.sqrt(),
            (Self::Log, _) if a == 0.0 => f32::NEG_INFINITY,
            (Self::Log, f32::INFINITY) => a,
            _ => self.precise(a).map_or(f32::NAN, DoubleDouble::to_f32),
        }
    }

    /// Sine and cosine in f64 after the long reduction, for arguments that the short one does not reach.
    fn far(self, a: f32) -> Option<f64> {
        match self {
            Self::Sin if a.is_finite() => {
                let value = fast::sin_far(a, 0);
                Some(if a.is_sign_negative() { -value } else { value })
            }
            Self::Cos if a.is_finite() => Some(fast::sin_far(a, 1)),
            _ => None,
        }
    }

    /// Where the f64 evaluation left it open.
    fn far_nearest(self, a: f32) -> f32 {
        self.far(a).and_then(decided).unwrap_or_else(|| self.precise_nearest(a))
    }

    /// Block after block, each in loops of a fixed length that compilers turn into vector instructions.
    fn each_block(self, rules: &RuleSet, patterns: &mut [u32], fast: impl Fn(f64) -> f64) {
        for block in patterns.chunks_mut(BLOCK) {
            let mut values = [0.0_f64; BLOCK];
            for (value, pattern) in values.iter_mut().zip(block.iter_mut()) {
                *pattern = rules.settle_f32(*pattern);
                *value = f64::from(f32::from_bits(*pattern));
            }
            let mut low = [0.0_f32; BLOCK];
            let mut open = [false; BLOCK];
            for ((value, low), open) in values.iter().zip(&mut low).zip(&mut open) {
                let (down, up) = bounds(fast(*value));
                *low = down;
                *open = down != up;
            }
            if open.iter().fold(false, |any, open| any | open) {
                for ((pattern, low), open) in block.iter().zip(&mut low).zip(open) {
                    *low = if open { self.far_nearest(f32::from_bits(*pattern)) } else { *low };
                }
            }
            for (pattern, low) in block.iter_mut().zip(low) {
                *pattern = settle_result(rules, low).to_bits();
            }
        }
    }

    fn fast(self, a: f64) -> f64 {
        match self {
            Self::Sqrt => a.sqrt(),
            Self::Tanh => fast::tanh(a),
            Self::Sigmoid => fast::sigmoid(a),
            Self::Erf => fast::erf(fast::erf_table(), a),
            Self::Log => fast::log(a),
            Self::Sin => fast::sin(a),
            Self::Cos => fast::cos(a),
            Self::Exp => fast::exp(a),
            Self::ExpNeg => fast::exp(-a),
        }
    }

    /// The long evaluation; `None` where there is no finite value to evaluate.
    fn precise(self, a: f32) -> Option<DoubleDouble> {
        match self {
            Self::Sqrt => None,
            Self::Tanh => Some(precise::tanh(a)),
            Self::Sigmoid => Some(precise::sigmoid(a)),
            Self::Erf => Some(precise::erf(a)),
            Self::Log => (a > 0.0 && a.is_finite()).then(|| precise::log(a)),
            Self::Sin => a.is_finite().then(|| precise::sin(a)),
            Self::Cos => a.is_finite().then(|| precise::cos(a)),
            Self::Exp => Some(precise::exp(a)),
            Self::ExpNeg => Some(precise::exp(-a)),
        }
    }
}

/// The f32 nearest to either end of what an f64 evaluation leaves open.
#[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is what is wanted")]
fn bounds(value: f64) -> (f32, f32) {
    ((value * (1.0 - DOUBT)) as f32, (value * (1.0 + DOUBT)) as f32)
}

fn decided(value: f64) -> Option<f32> {
    let (low, high) = bounds(value);
    (low == high).then_some(low)
}
