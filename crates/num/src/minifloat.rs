//! One description for every float format, and the exact way from its bits to an f32.
//!
//! A format is a sign, an exponent and a mantissa with a bias and a rule for its top patterns. All values of
//! all formats here are f32 values, so decoding never rounds. The layouts are those of IEEE 754 (f16, f32),
//! of the OCP 8-bit and microscaling float specifications (f8e4m3fn, f8e5m2, f4e2m1), and of the vendors'
//! type lists (bf16, tf32, Neuron's f8e4m3).

use crate::Dtype;

/// What the patterns with the largest exponent field mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopPatterns {
    /// The whole top exponent is infinity (mantissa zero) and NaN.
    InfAndNan,
    /// Only the pattern of all ones is NaN; there is no infinity.
    NanOnly,
    /// All patterns are finite.
    Finite,
}

/// A binary float format of at most 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MiniFloat {
    /// Width of the exponent field.
    pub exponent_bits: u32,
    /// Width of the mantissa field.
    pub mantissa_bits: u32,
    /// What is subtracted from the exponent field.
    pub bias: i32,
    /// Infinity and NaN.
    pub top_patterns: TopPatterns,
    /// Unused bits below the mantissa in the stored word; ignored when read, zero when written.
    pub padding_bits: u32,
}

impl MiniFloat {
    /// IEEE binary32.
    pub const F32: Self = Self::new(8, 23, TopPatterns::InfAndNan);
    /// The f32 exponent with 10 mantissa bits, kept in place within an f32 word.
    pub const TF32: Self = Self { padding_bits: 13, ..Self::new(8, 10, TopPatterns::InfAndNan) };
    /// The upper half of an f32.
    pub const BF16: Self = Self::new(8, 7, TopPatterns::InfAndNan);
    /// IEEE binary16.
    pub const F16: Self = Self::new(5, 10, TopPatterns::InfAndNan);
    /// Finite-only e4m3 (OCP).
    pub const F8E4M3FN: Self = Self::new(4, 3, TopPatterns::NanOnly);
    /// IEEE-like e4m3.
    pub const F8E4M3: Self = Self::new(4, 3, TopPatterns::InfAndNan);
    /// IEEE-like e5m2 (OCP).
    pub const F8E5M2: Self = Self::new(5, 2, TopPatterns::InfAndNan);
    /// e2m1 (OCP microscaling).
    pub const F4E2M1: Self = Self::new(2, 1, TopPatterns::Finite);

    /// A format with the usual bias, half the exponent range.
    #[must_use]
    pub const fn new(exponent_bits: u32, mantissa_bits: u32, top_patterns: TopPatterns) -> Self {
        Self {
            exponent_bits,
            mantissa_bits,
            bias: (1 << (exponent_bits - 1)) - 1,
            top_patterns,
            padding_bits: 0,
        }
    }

    /// The format of a float type; `None` for integers.
    #[must_use]
    pub const fn of(dtype: Dtype) -> Option<Self> {
        match dtype {
            Dtype::F32 => Some(Self::F32),
            Dtype::Tf32 => Some(Self::TF32),
            Dtype::Bf16 => Some(Self::BF16),
            Dtype::F16 => Some(Self::F16),
            Dtype::F8E4M3Fn => Some(Self::F8E4M3FN),
            Dtype::F8E4M3 => Some(Self::F8E4M3),
            Dtype::F8E5M2 => Some(Self::F8E5M2),
            Dtype::F4E2M1 => Some(Self::F4E2M1),
            _ => None,
        }
    }

    /// Exponent of the least normal value.
    #[must_use]
    pub const fn min_exponent(self) -> i32 {
        1 - self.bias
    }

    /// Position of the sign, not counting padding.
    #[must_use]
    pub const fn sign_shift(self) -> u32 {
        self.exponent_bits + self.mantissa_bits
    }

    /// Magnitude pattern of the largest finite value.
    #[must_use]
    pub const fn max_finite(self) -> u32 {
        let all_ones = (1_u32 << self.sign_shift()) - 1;
        match self.top_patterns {
            TopPatterns::InfAndNan => all_ones - (1 << self.mantissa_bits),
            TopPatterns::NanOnly => all_ones - 1,
            TopPatterns::Finite => all_ones,
        }
    }

    /// Magnitude pattern of infinity, where there is one.
    #[must_use]
    pub const fn infinity(self) -> Option<u32> {
        match self.top_patterns {
            TopPatterns::InfAndNan => Some(self.max_finite() + 1),
            _ => None,
        }
    }

    /// Magnitude pattern of the quiet NaN, where there is one.
    #[must_use]
    pub const fn quiet_nan(self) -> Option<u32> {
        match self.top_patterns {
            TopPatterns::InfAndNan => Some((self.max_finite() + 1) | (1 << (self.mantissa_bits - 1))),
            TopPatterns::NanOnly => Some(self.max_finite() + 1),
            TopPatterns::Finite => None,
        }
    }

    /// The f32 pattern of a stored word. NaN keeps its sign and becomes quiet; its payload is dropped.
    #[must_use]
    pub const fn decode(self, word: u32) -> u32 {
        let pattern = word >> self.padding_bits;
        let sign = ((pattern >> self.sign_shift()) & 1) << 31;
        let magnitude = pattern & ((1 << self.sign_shift()) - 1);
        sign | self.decode_magnitude(magnitude)
    }

    const fn decode_magnitude(self, magnitude: u32) -> u32 {
        if magnitude > self.max_finite() {
            return match self.infinity() {
                Some(infinity) if magnitude == infinity => F32_INFINITY,
                _ => F32_QUIET_NAN,
            };
        }
        let to_f32_mantissa = 23 - self.mantissa_bits;
        if self.bias == F32_BIAS {
            return magnitude << to_f32_mantissa;
        }
        if magnitude >> self.mantissa_bits != 0 {
            let rebias = (F32_BIAS - self.bias).unsigned_abs() << 23;
            return (magnitude << to_f32_mantissa) + rebias;
        }
        if magnitude == 0 { 0 } else { self.normalise(magnitude) }
    }

    /// A subnormal of a format with fewer exponents than f32 is a normal f32.
    const fn normalise(self, magnitude: u32) -> u32 {
        let leading = magnitude.ilog2();
        let quantum_exponent = self.min_exponent() - self.mantissa_bits.cast_signed();
        let exponent = leading.cast_signed() + quantum_exponent + F32_BIAS;
        (exponent.unsigned_abs() << 23) | ((magnitude << (23 - leading)) & 0x007F_FFFF)
    }
}

/// Exponent bias of f32.
pub(crate) const F32_BIAS: i32 = 127;
/// Magnitude pattern of the f32 infinity; larger magnitudes are NaN.
pub(crate) const F32_INFINITY: u32 = 0x7F80_0000;
/// The quiet f32 NaN without payload.
pub(crate) const F32_QUIET_NAN: u32 = 0x7FC0_0000;
/// Magnitude pattern of the least normal f32; smaller magnitudes are subnormal or zero.
pub(crate) const F32_MIN_NORMAL: u32 = 0x0080_0000;
/// Mask of the f32 magnitude.
pub(crate) const F32_MAGNITUDE: u32 = 0x7FFF_FFFF;
