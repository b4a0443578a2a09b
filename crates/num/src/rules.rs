//! Rule sets: what a chip does where formats leave a choice. Plain data, named as machine files name it.
//!
//! `tcp` follows the vendor's public host model (rounding, saturation, NaN words, flushing, wrapping).
//! `neuron` is assumption for the most part: the vendor does not publish the rounding of casts or the
//! treatment of subnormals; the fields are there to be changed. Of 8-bit floats with infinities it says that
//! FP32_MIN becomes -INF when an engine writes it (page of `nki.isa.range_select`); e4m3fn has none, and
//! saturates here.

use crate::minifloat::{F32_INFINITY, F32_MAGNITUDE, F32_MIN_NORMAL, F32_QUIET_NAN};
use crate::{Dtype, MiniFloat};

/// Everything a conversion or an f32 operation must know besides the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleSet {
    /// The name a machine gives.
    pub name: &'static str,
    /// Subnormal f32 values, at every entry and result.
    pub f32_subnormals: Subnormals,
    /// NaN at every result.
    pub nan: NanRule,
    /// From f32 to tf32.
    pub tf32: FloatRule,
    /// From f32 to bf16.
    pub bf16: FloatRule,
    /// From f32 to f16.
    pub f16: FloatRule,
    /// From f32 to f8e4m3fn.
    pub f8e4m3fn: FloatRule,
    /// From f32 to f8e4m3.
    pub f8e4m3: FloatRule,
    /// From f32 to f8e5m2.
    pub f8e5m2: FloatRule,
    /// From f32 to f4e2m1.
    pub f4e2m1: FloatRule,
    /// From a wide integer to a narrower one.
    pub int_narrowing: IntNarrowing,
    /// From f32 to an integer.
    pub float_to_int: FloatToInt,
    /// Names that mean something else here than in [`Dtype::from_name`].
    pub names: &'static [(&'static str, Dtype)],
}

/// How an f32 becomes a narrower float.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FloatRule {
    /// The format written.
    pub format: MiniFloat,
    /// Which neighbour is taken.
    pub rounding: Rounding,
    /// What a value that rounds beyond the largest finite one becomes.
    pub overflow: Overflow,
    /// What a subnormal that rounds up to the least normal value becomes.
    pub subnormal_carry: SubnormalCarry,
}

/// Which of two neighbours a value between them becomes; always the nearer, the modes differ on ties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Ties go to the even mantissa.
    NearestEven,
    /// Ties go to the larger magnitude.
    NearestAway,
}

/// What a magnitude above the largest finite one becomes, infinity included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// The largest finite value of that sign.
    Saturate,
    /// Infinity; NaN where the format has no infinity; saturation where it has neither.
    InfOrNan,
}

/// The edge between subnormal and normal results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubnormalCarry {
    /// Rounding may reach the least normal value, as in IEEE 754.
    ToNormal,
    /// Values below the least normal one stay subnormal: the mantissa stops at its largest value.
    Clamp,
}

/// Treatment of subnormal f32 values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subnormals {
    /// They are values like others.
    Keep,
    /// They are read and written as a zero of the same sign.
    Flush,
}

/// The NaN words written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NanRule {
    /// The quiet NaN with a clear sign, one word per format.
    OneWord,
    /// The quiet NaN with the sign of the source; arithmetic gives a clear sign.
    KeepSign,
}

/// What an integer outside the target's range becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntNarrowing {
    /// Its low bits. Into i5 and i9, which only hold zero-point differences, it is an error instead.
    Wrap,
    /// The nearest end of the range.
    Saturate,
}

/// How an f32 becomes an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloatToInt {
    /// Nearest even, the ends of the target's range outside it, NaN to zero.
    NearestEvenSaturate,
    /// Through i32: nearest with ties away from zero, clamped to i32, NaN to the largest or (sign set) least
    /// i32; then narrowed as integers are.
    NearestAwayThroughI32,
}

impl FloatRule {
    /// Nearest even, overflow to infinity or NaN: what IEEE 754 does.
    #[must_use]
    pub const fn ieee(format: MiniFloat) -> Self {
        Self {
            format,
            rounding: Rounding::NearestEven,
            overflow: Overflow::InfOrNan,
            subnormal_carry: SubnormalCarry::ToNormal,
        }
    }

    /// Nearest even, overflow to the largest finite value.
    #[must_use]
    pub const fn saturating(format: MiniFloat) -> Self {
        Self { overflow: Overflow::Saturate, ..Self::ieee(format) }
    }

    /// Magnitude pattern that overflow gives.
    #[must_use]
    pub const fn overflow_magnitude(self) -> u32 {
        let max_finite = self.format.max_finite();
        match (self.overflow, self.format.infinity(), self.format.quiet_nan()) {
            (Overflow::InfOrNan, Some(pattern), _) | (Overflow::InfOrNan, None, Some(pattern)) => pattern,
            _ => max_finite,
        }
    }

    /// Magnitude pattern that NaN gives; in a format without NaN, the largest value (an assumption).
    #[must_use]
    pub const fn nan_magnitude(self) -> u32 {
        match self.format.quiet_nan() {
            Some(pattern) => pattern,
            None => self.format.max_finite(),
        }
    }
}

impl RuleSet {
    /// The TCP. Formats the chip lacks (f16, tf32, f8e4m3 with infinities) follow IEEE 754.
    pub const TCP: Self = Self {
        name: "tcp",
        f32_subnormals: Subnormals::Flush,
        nan: NanRule::OneWord,
        tf32: FloatRule::ieee(MiniFloat::TF32),
        bf16: FloatRule::ieee(MiniFloat::BF16),
        f16: FloatRule::ieee(MiniFloat::F16),
        f8e4m3fn: FloatRule::saturating(MiniFloat::F8E4M3FN),
        f8e4m3: FloatRule::ieee(MiniFloat::F8E4M3),
        f8e5m2: FloatRule {
            rounding: Rounding::NearestAway,
            subnormal_carry: SubnormalCarry::Clamp,
            ..FloatRule::ieee(MiniFloat::F8E5M2)
        },
        f4e2m1: FloatRule::saturating(MiniFloat::F4E2M1),
        int_narrowing: IntNarrowing::Wrap,
        float_to_int: FloatToInt::NearestAwayThroughI32,
        names: &[
            ("f8e4m3", Dtype::F8E4M3Fn),
            ("f8_e4m3", Dtype::F8E4M3Fn),
            ("fp8_e4m3", Dtype::F8E4M3Fn),
            ("float8_e4m3", Dtype::F8E4M3Fn),
            ("e4m3", Dtype::F8E4M3Fn),
        ],
    };

    /// The Neuron cores; every choice is an assumption.
    pub const NEURON: Self = Self {
        name: "neuron",
        f32_subnormals: Subnormals::Keep,
        nan: NanRule::KeepSign,
        tf32: FloatRule::ieee(MiniFloat::TF32),
        bf16: FloatRule::ieee(MiniFloat::BF16),
        f16: FloatRule::ieee(MiniFloat::F16),
        f8e4m3fn: FloatRule::saturating(MiniFloat::F8E4M3FN),
        f8e4m3: FloatRule::ieee(MiniFloat::F8E4M3),
        f8e5m2: FloatRule::ieee(MiniFloat::F8E5M2),
        f4e2m1: FloatRule::saturating(MiniFloat::F4E2M1),
        int_narrowing: IntNarrowing::Saturate,
        float_to_int: FloatToInt::NearestEvenSaturate,
        names: &[("fp8", Dtype::F8E4M3)],
    };

    /// The rule set a machine names.
    #[must_use]
    pub fn by_name(name: &str) -> Option<&'static Self> {
        [&Self::TCP, &Self::NEURON].into_iter().find(|rules| rules.name == name)
    }

    /// The type a name stands for in this chip's vocabulary; case is ignored.
    #[must_use]
    pub fn dtype(&self, name: &str) -> Option<Dtype> {
        let own = self.names.iter().find(|(spelling, _)| spelling.eq_ignore_ascii_case(name));
        own.map(|&(_, dtype)| dtype).or_else(|| Dtype::from_name(name))
    }

    /// This rule set with another overflow of the 8-bit floats.
    #[must_use]
    pub const fn with_f8_overflow(self, overflow: Overflow) -> Self {
        Self {
            f8e4m3fn: FloatRule { overflow, ..self.f8e4m3fn },
            f8e4m3: FloatRule { overflow, ..self.f8e4m3 },
            f8e5m2: FloatRule { overflow, ..self.f8e5m2 },
            ..self
        }
    }

    /// The rule for writing a float type; `None` for integers.
    #[must_use]
    pub const fn float_rule(&self, dtype: Dtype) -> Option<FloatRule> {
        match dtype {
            Dtype::F32 => Some(FloatRule::ieee(MiniFloat::F32)),
            Dtype::Tf32 => Some(self.tf32),
            Dtype::Bf16 => Some(self.bf16),
            Dtype::F16 => Some(self.f16),
            Dtype::F8E4M3Fn => Some(self.f8e4m3fn),
            Dtype::F8E4M3 => Some(self.f8e4m3),
            Dtype::F8E5M2 => Some(self.f8e5m2),
            Dtype::F4E2M1 => Some(self.f4e2m1),
            _ => None,
        }
    }

    /// An f32 pattern as this chip reads or writes it: subnormals and NaN settled.
    #[inline]
    #[must_use]
    pub const fn settle_f32(&self, pattern: u32) -> u32 {
        let magnitude = pattern & F32_MAGNITUDE;
        let sign = pattern & !F32_MAGNITUDE;
        if magnitude.cast_signed() > F32_INFINITY.cast_signed() {
            F32_QUIET_NAN | (sign & self.nan_sign_mask())
        } else if magnitude.cast_signed() < F32_MIN_NORMAL.cast_signed()
            && matches!(self.f32_subnormals, Subnormals::Flush)
        {
            sign
        } else {
            pattern
        }
    }

    /// All ones where NaN keeps the sign of its source.
    pub(crate) const fn nan_sign_mask(&self) -> u32 {
        match self.nan {
            NanRule::OneWord => 0,
            NanRule::KeepSign => u32::MAX,
        }
    }
}
