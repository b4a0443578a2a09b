//! Types of elements at the graph level.

use std::fmt;

/// Type of the elements of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dtype {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary16.
    F16,
    /// The upper half of a binary32.
    Bf16,
    /// Eight bits: a sign, four of exponent, three of mantissa; no infinities, at most 448.
    F8E4M3,
    /// Two's complement, 4 bits.
    I4,
    /// Unsigned, 4 bits: GGUF's Q4_1.
    U4,
    /// Two's complement, 8 bits.
    I8,
    /// Unsigned, 8 bits.
    U8,
    /// Two's complement, 32 bits.
    I32,
    /// Two's complement, 64 bits.
    I64,
    /// True or false.
    Bool,
}

impl Dtype {
    /// Every type.
    pub const ALL: [Dtype; 11] = [
        Dtype::F32,
        Dtype::F16,
        Dtype::Bf16,
        Dtype::F8E4M3,
        Dtype::I4,
        Dtype::U4,
        Dtype::I8,
        Dtype::U8,
        Dtype::I32,
        Dtype::I64,
        Dtype::Bool,
    ];

    /// As written in texts.
    pub const fn name(self) -> &'static str {
        match self {
            Dtype::F32 => "f32",
            Dtype::F16 => "f16",
            Dtype::Bf16 => "bf16",
            Dtype::F8E4M3 => "f8e4m3",
            Dtype::I4 => "i4",
            Dtype::U4 => "u4",
            Dtype::I8 => "i8",
            Dtype::U8 => "u8",
            Dtype::I32 => "i32",
            Dtype::I64 => "i64",
            Dtype::Bool => "bool",
        }
    }

    /// The type of that name.
    pub fn by_name(name: &str) -> Option<Dtype> {
        Dtype::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// Whether it is a floating point type.
    pub const fn is_float(self) -> bool {
        matches!(self, Dtype::F32 | Dtype::F16 | Dtype::Bf16 | Dtype::F8E4M3)
    }

    /// Whether it counts: neither float nor bool.
    pub const fn is_integer(self) -> bool {
        !self.is_float() && !matches!(self, Dtype::Bool)
    }

    /// Bits of an element as stored; elements of four bits lie two to a byte, the low nibble first.
    pub const fn bits(self) -> u64 {
        match self {
            Dtype::I4 | Dtype::U4 => 4,
            Dtype::I8 | Dtype::U8 | Dtype::F8E4M3 | Dtype::Bool => 8,
            Dtype::F16 | Dtype::Bf16 => 16,
            Dtype::F32 | Dtype::I32 => 32,
            Dtype::I64 => 64,
        }
    }

    /// Bytes that this many elements take; `None` beyond 64 bits.
    pub fn size_bytes(self, elements: u64) -> Option<u64> {
        Some(elements.checked_mul(self.bits())?.div_ceil(8))
    }

    /// The smallest and largest integer of the type; of floats, none.
    pub const fn integer_range(self) -> Option<(i64, i64)> {
        match self {
            Dtype::I4 => Some((-8, 7)),
            Dtype::U4 => Some((0, 15)),
            Dtype::I8 => Some((-128, 127)),
            Dtype::U8 => Some((0, 255)),
            Dtype::I32 => Some((i32::MIN as i64, i32::MAX as i64)),
            Dtype::I64 => Some((i64::MIN, i64::MAX)),
            Dtype::Bool => Some((0, 1)),
            Dtype::F32 | Dtype::F16 | Dtype::Bf16 | Dtype::F8E4M3 => None,
        }
    }

    /// An integer brought into the range of the type by dropping upper bits; bool is whether it is not zero.
    pub const fn wrap(self, value: i64) -> i64 {
        match self {
            Dtype::I4 => (value << 60) >> 60,
            Dtype::U4 => value & 15,
            Dtype::I8 => (value << 56) >> 56,
            Dtype::U8 => value & 255,
            Dtype::I32 => (value << 32) >> 32,
            Dtype::Bool => (value != 0) as i64,
            _ => value,
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
