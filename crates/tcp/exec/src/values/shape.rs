//! Sizes of a contraction, what is checked of them, and why one is refused.

use std::error::Error;
use std::fmt;

use tilewright_num::Dtype;

/// How many rows, how long, and how they are reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContractionShape {
    /// Rows of `a`, and of the output.
    pub rows_a: usize,
    /// Rows of `b`, and columns of the output.
    pub rows_b: usize,
    /// Elements of a row, all of them reduced.
    pub k: usize,
    /// Neighbours that the tree reduces in one step, a power of two; changes float sums only.
    pub tree_elements: usize,
    /// What tree and accumulators do.
    pub reduce: TreeReduce,
}

/// The operation of tree and accumulators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeReduce {
    /// Sums.
    Add,
    /// Largest values.
    Max,
}

/// Rows of an operand, one after the other, each from a byte boundary on.
#[derive(Clone, Copy, Debug)]
pub struct OperandRows<'a> {
    /// Their elements. i5 takes a byte and i9 two, sign-extended, as after the zero point.
    pub dtype: Dtype,
    /// The elements as memory holds them, i4 two to a byte.
    pub bytes: &'a [u8],
}

/// The accumulators, row by row: one row for each of `a`, one column for each row of `b`.
#[derive(Debug)]
pub enum AccumulatorRows<'a> {
    /// Of an integer contraction.
    I32(&'a mut [i32]),
    /// Of a float contraction.
    F32(&'a mut [f32]),
}

/// Why a contraction cannot be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContractError {
    /// The engine does not multiply these types.
    Dtypes {
        /// Of `a`.
        a: Dtype,
        /// Of `b`.
        b: Dtype,
    },
    /// The tree cannot reduce so many neighbours.
    Tree {
        /// Neighbours that were asked for.
        asked_elements: usize,
        /// The largest power of two for the type.
        largest_elements: usize,
    },
    /// A slice has not the size that the shape implies.
    Size {
        /// Which: `a`, `b` or `out`.
        what: &'static str,
        /// Bytes or, of `out`, elements given.
        given: usize,
        /// Bytes or, of `out`, elements implied.
        implied: usize,
    },
    /// Integer rows with float sums, or float rows with integer sums.
    SumsDtype {
        /// The type that the sums have.
        needed: Dtype,
    },
    /// The shape implies more than an address space holds.
    TooLarge,
    /// This host lacks the instructions.
    NoPath,
}

impl ContractionShape {
    /// Checks what does not depend on slices.
    pub(super) fn check(&self, a: Dtype, b: Dtype) -> Result<(), ContractError> {
        use Dtype::{Bf16, F8E4M3Fn, F8E5M2, I4, I5, I8, I9};
        let largest_elements = match (a, b) {
            (I4 | I5, I4 | I5) => 128,
            (I8 | I9, I8 | I9) | (F8E4M3Fn, F8E4M3Fn) | (F8E5M2, F8E5M2) => 64,
            (Bf16, Bf16) => 32,
            _ => return Err(ContractError::Dtypes { a, b }),
        };
        if !self.tree_elements.is_power_of_two() || self.tree_elements > largest_elements {
            return Err(ContractError::Tree { asked_elements: self.tree_elements, largest_elements });
        }
        Ok(())
    }
}

/// Bytes of a row of `k` elements.
pub(super) fn row_bytes(dtype: Dtype, k: usize) -> Result<usize, ContractError> {
    let bits = k.checked_mul(dtype.storage_bits() as usize).ok_or(ContractError::TooLarge)?;
    Ok(bits.div_ceil(8))
}

/// Checks that a slice holds `rows` times `row` items.
pub(super) fn check_size(
    what: &'static str,
    given: usize,
    rows: usize,
    row: usize,
) -> Result<(), ContractError> {
    let implied = rows.checked_mul(row).ok_or(ContractError::TooLarge)?;
    if given == implied { Ok(()) } else { Err(ContractError::Size { what, given, implied }) }
}

impl fmt::Display for ContractError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Dtypes { a, b } => write!(
                f,
                "{a} times {b} is not contracted; pairs are of i4 and i5, of i8 and i9, or of one of \
                 f8e4m3fn, \
                 f8e5m2 and bf16 with itself; convert first"
            ),
            Self::Tree { asked_elements, largest_elements } => write!(
                f,
                "the tree cannot reduce {asked_elements} neighbours; use a power of two up to \
                 {largest_elements}"
            ),
            Self::Size { what, given, implied } => {
                write!(f, "{what} has size {given}, but the shape implies {implied}; give exactly that")
            }
            Self::SumsDtype { needed } => {
                write!(f, "sums of these rows are {needed}; give a slice of {needed}")
            }
            Self::TooLarge => {
                f.write_str("the shape exceeds the address space; contract fewer rows at a time")
            }
            Self::NoPath => f.write_str("this host lacks the instructions of the path; use Path::best()"),
        }
    }
}

impl Error for ContractError {}
