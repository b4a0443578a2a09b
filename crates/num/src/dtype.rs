//! The element types: their names, widths and, for integers, their ranges.
//!
//! The set is the union of what the TCP's fetch adapter, contraction engine, vector engine and cast engine
//! move (i4, i5, i8, i9, i16, i32, f4e2m1, both 8-bit floats, bf16, f32) and what the Neuron kernel language
//! declares (unsigned integers, f16, tf32 and the IEEE-like f8e4m3 besides).
//!
//! `f8e4m3` is not one format: the TCP's word means the finite-only one, Neuron's `float8_e4m3` the one with
//! infinities. [`Dtype::from_name`] is neutral (`fn` in the name or not decides); a machine's own vocabulary
//! goes through [`RuleSet::dtype`](crate::RuleSet::dtype).

use std::fmt;

/// A scalar element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dtype {
    /// IEEE binary32.
    F32,
    /// The f32 exponent with 10 mantissa bits, in the upper 19 bits of a 32-bit word.
    Tf32,
    /// The upper half of an f32.
    Bf16,
    /// IEEE binary16.
    F16,
    /// Finite-only 8-bit float: largest value 448, NaN 0x7F and 0xFF, no infinities.
    F8E4M3Fn,
    /// IEEE-like 8-bit float: largest value 240, with infinities.
    F8E4M3,
    /// IEEE-like 8-bit float: largest value 57344, with infinities.
    F8E5M2,
    /// 4-bit float: 0, 0.5, 1, 1.5, 2, 3, 4, 6 with a sign; neither infinity nor NaN.
    F4E2M1,
    /// 4-bit integer, two to a byte.
    I4,
    /// What an i4 becomes when a zero point is subtracted; exists only on the way to a contraction.
    I5,
    /// 8-bit integer.
    I8,
    /// What an i8 becomes when a zero point is subtracted; exists only on the way to a contraction.
    I9,
    /// 16-bit integer.
    I16,
    /// 32-bit integer.
    I32,
    /// Unsigned 8-bit integer.
    U8,
    /// Unsigned 16-bit integer.
    U16,
    /// Unsigned 32-bit integer.
    U32,
}

impl Dtype {
    /// Every type, floats first, each family from wide to narrow or narrow to wide as declared.
    pub const ALL: [Self; 17] = [
        Self::F32,
        Self::Tf32,
        Self::Bf16,
        Self::F16,
        Self::F8E4M3Fn,
        Self::F8E4M3,
        Self::F8E5M2,
        Self::F4E2M1,
        Self::I4,
        Self::I5,
        Self::I8,
        Self::I9,
        Self::I16,
        Self::I32,
        Self::U8,
        Self::U16,
        Self::U32,
    ];

    /// The canonical short name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Tf32 => "tf32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
            Self::F8E4M3Fn => "f8e4m3fn",
            Self::F8E4M3 => "f8e4m3",
            Self::F8E5M2 => "f8e5m2",
            Self::F4E2M1 => "f4e2m1",
            Self::I4 => "i4",
            Self::I5 => "i5",
            Self::I8 => "i8",
            Self::I9 => "i9",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
        }
    }

    /// The type a name stands for, canonical or one of the common longer spellings; case is ignored.
    ///
    /// A bare `fp8` is the finite-only f8e4m3fn.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        Self::ALL
            .into_iter()
            .find(|dtype| dtype.name() == name)
            .or_else(|| SPELLINGS.iter().find(|(spelling, _)| *spelling == name).map(|&(_, dtype)| dtype))
    }

    /// Bits that carry meaning. A tf32 has 19, though its word has 32.
    #[must_use]
    pub const fn bits(self) -> u32 {
        match self {
            Self::F32 | Self::I32 | Self::U32 => 32,
            Self::Tf32 => 19,
            Self::Bf16 | Self::F16 | Self::I16 | Self::U16 => 16,
            Self::I9 => 9,
            Self::F8E4M3Fn | Self::F8E4M3 | Self::F8E5M2 | Self::I8 | Self::U8 => 8,
            Self::I5 => 5,
            Self::F4E2M1 | Self::I4 => 4,
        }
    }

    /// Bits one element takes in memory: 4 for the packed types, otherwise whole bytes.
    #[must_use]
    pub const fn storage_bits(self) -> u32 {
        match self {
            Self::Tf32 => 32,
            Self::I9 => 16,
            Self::I5 => 8,
            _ => self.bits(),
        }
    }

    /// Whether the type is a float.
    #[must_use]
    pub const fn is_float(self) -> bool {
        self.int_range().is_none()
    }

    /// Least and largest value of an integer type; `None` for floats.
    #[must_use]
    pub const fn int_range(self) -> Option<(i64, i64)> {
        match self {
            Self::I4 | Self::I5 | Self::I8 | Self::I9 | Self::I16 | Self::I32 => {
                let half = 1_i64 << (self.bits() - 1);
                Some((-half, half - 1))
            }
            Self::U8 | Self::U16 | Self::U32 => Some((0, (1_i64 << self.bits()) - 1)),
            _ => None,
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Longer spellings met in kernels and model files.
const SPELLINGS: [(&str, Dtype); 36] = [
    ("float32", Dtype::F32),
    ("fp32", Dtype::F32),
    ("float", Dtype::F32),
    ("tfloat32", Dtype::Tf32),
    ("bfloat16", Dtype::Bf16),
    ("float16", Dtype::F16),
    ("fp16", Dtype::F16),
    ("half", Dtype::F16),
    ("fp8", Dtype::F8E4M3Fn),
    ("float8_e4m3fn", Dtype::F8E4M3Fn),
    ("f8_e4m3fn", Dtype::F8E4M3Fn),
    ("fp8_e4m3fn", Dtype::F8E4M3Fn),
    ("e4m3fn", Dtype::F8E4M3Fn),
    ("float8_e4m3", Dtype::F8E4M3),
    ("f8_e4m3", Dtype::F8E4M3),
    ("fp8_e4m3", Dtype::F8E4M3),
    ("e4m3", Dtype::F8E4M3),
    ("float8_e5m2", Dtype::F8E5M2),
    ("f8_e5m2", Dtype::F8E5M2),
    ("fp8_e5m2", Dtype::F8E5M2),
    ("e5m2", Dtype::F8E5M2),
    ("fp4", Dtype::F4E2M1),
    ("float4_e2m1fn", Dtype::F4E2M1),
    ("float4_e2m1", Dtype::F4E2M1),
    ("f4_e2m1", Dtype::F4E2M1),
    ("e2m1", Dtype::F4E2M1),
    ("int4", Dtype::I4),
    ("int5", Dtype::I5),
    ("int8", Dtype::I8),
    ("int9", Dtype::I9),
    ("int16", Dtype::I16),
    ("int32", Dtype::I32),
    ("int", Dtype::I32),
    ("uint8", Dtype::U8),
    ("uint16", Dtype::U16),
    ("uint32", Dtype::U32),
];
