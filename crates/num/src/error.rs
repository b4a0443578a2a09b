//! Why a number cannot be represented.

use std::error::Error;
use std::fmt;

use crate::Dtype;

/// A value or a pair of types that the rules exclude.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumError {
    /// An integer lies outside a type that must not lose bits.
    OutOfRange {
        /// The integer.
        value: i64,
        /// The type it should have had.
        dtype: Dtype,
    },
    /// A zero point lies outside the type it is subtracted from.
    ZeroPointOutOfRange {
        /// The zero point.
        zero_point: i32,
        /// The type of the elements.
        from: Dtype,
    },
    /// No zero point can be subtracted between these types.
    NoZeroPoint {
        /// The type of the elements.
        from: Dtype,
        /// The type of the differences.
        to: Dtype,
    },
    /// An integer type was needed.
    NotInteger {
        /// The type given.
        dtype: Dtype,
    },
}

impl fmt::Display for NumError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::OutOfRange { value, dtype } => {
                write!(f, "{value} does not fit {dtype}, which holds ")?;
                write_range(f, dtype)?;
                f.write_str("; scale or clamp it first, or choose a wider type")
            }
            Self::ZeroPointOutOfRange { zero_point, from } => {
                write!(f, "zero point {zero_point} lies outside its source type {from}, which holds ")?;
                write_range(f, from)?;
                f.write_str("; choose a zero point in that range")
            }
            Self::NoZeroPoint { from, to } => write!(
                f,
                "a zero point cannot be subtracted from {from} into {to}; the pairs are i4 -> i5, i4 -> i9, \
                 i8 -> i9 and i16 -> i9"
            ),
            Self::NotInteger { dtype } => {
                write!(f, "{dtype} is a float; integers are packed into integer types only, so convert first")
            }
        }
    }
}

fn write_range(f: &mut fmt::Formatter<'_>, dtype: Dtype) -> fmt::Result {
    match dtype.int_range() {
        Some((least, largest)) => write!(f, "{least}..={largest}"),
        None => f.write_str("floats"),
    }
}

impl Error for NumError {}
