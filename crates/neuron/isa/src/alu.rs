//! ALU operators of the Vector, Scalar and GpSimd engines as values (NKI instruction pages, ALU operators).
//!
//! Arithmetic is FP32; comparisons give 1.0 or 0.0; bit operators work on the stored words.

use tilewright_num::widest;

use crate::function;

/// An operator. Unary ones ignore their second operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names are the operators")]
pub enum AluOp {
    Add,
    Subtract,
    Multiply,
    Divide,
    Maximum,
    Minimum,
    Power,
    Mod,
    Fmod,
    AbsMax,
    AbsMin,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    LogicalAnd,
    LogicalOr,
    LogicalXor,
    BitwiseAnd,
    BitwiseOr,
    BitwiseXor,
    LeftShift,
    RightShift,
    // Unary.
    Bypass,
    Abs,
    Square,
    Relu,
    Rsqrt,
    Sqrt,
    Reciprocal,
    Negative,
    LogicalNot,
    Invert,
}

/// Operators with the names that kernels use.
pub const NAMES: &[(&str, AluOp)] = &[
    ("add", AluOp::Add),
    ("subtract", AluOp::Subtract),
    ("multiply", AluOp::Multiply),
    ("divide", AluOp::Divide),
    ("maximum", AluOp::Maximum),
    ("max", AluOp::Maximum),
    ("amax", AluOp::Maximum),
    ("minimum", AluOp::Minimum),
    ("min", AluOp::Minimum),
    ("amin", AluOp::Minimum),
    ("sum", AluOp::Add),
    ("prod", AluOp::Multiply),
    ("power", AluOp::Power),
    ("mod", AluOp::Mod),
    ("remainder", AluOp::Mod),
    ("fmod", AluOp::Fmod),
    ("abs_max", AluOp::AbsMax),
    ("abs_min", AluOp::AbsMin),
    ("equal", AluOp::Equal),
    ("not_equal", AluOp::NotEqual),
    ("less", AluOp::Less),
    ("less_equal", AluOp::LessEqual),
    ("greater", AluOp::Greater),
    ("greater_equal", AluOp::GreaterEqual),
    ("logical_and", AluOp::LogicalAnd),
    ("logical_or", AluOp::LogicalOr),
    ("logical_xor", AluOp::LogicalXor),
    ("bitwise_and", AluOp::BitwiseAnd),
    ("bitwise_or", AluOp::BitwiseOr),
    ("bitwise_xor", AluOp::BitwiseXor),
    ("left_shift", AluOp::LeftShift),
    ("right_shift", AluOp::RightShift),
    ("copy", AluOp::Bypass),
    ("bypass", AluOp::Bypass),
    ("abs", AluOp::Abs),
    ("absolute", AluOp::Abs),
    ("square", AluOp::Square),
    ("relu", AluOp::Relu),
    ("rsqrt", AluOp::Rsqrt),
    ("sqrt", AluOp::Sqrt),
    ("reciprocal", AluOp::Reciprocal),
    ("negative", AluOp::Negative),
    ("logical_not", AluOp::LogicalNot),
    ("invert", AluOp::Invert),
    ("bitwise_not", AluOp::Invert),
];

impl AluOp {
    /// The operator of that name.
    pub fn from_name(name: &str) -> Option<AluOp> {
        NAMES.iter().find(|(spelling, _)| *spelling == name).map(|&(_, op)| op)
    }

    /// The name in kernels.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, op)| *op == self).map_or("", |(name, _)| name)
    }

    /// True if it works on stored words.
    pub const fn is_bitwise(self) -> bool {
        matches!(
            self,
            AluOp::BitwiseAnd
                | AluOp::BitwiseOr
                | AluOp::BitwiseXor
                | AluOp::LeftShift
                | AluOp::RightShift
                | AluOp::Invert
        )
    }

    /// True if it has one operand.
    pub const fn is_unary(self) -> bool {
        matches!(
            self,
            AluOp::Bypass
                | AluOp::Abs
                | AluOp::Square
                | AluOp::Relu
                | AluOp::Rsqrt
                | AluOp::Sqrt
                | AluOp::Reciprocal
                | AluOp::Negative
                | AluOp::LogicalNot
                | AluOp::Invert
        )
    }

    /// True for comparisons.
    pub const fn is_comparison(self) -> bool {
        matches!(
            self,
            AluOp::Equal
                | AluOp::NotEqual
                | AluOp::Less
                | AluOp::LessEqual
                | AluOp::Greater
                | AluOp::GreaterEqual
        )
    }

    /// One FP32 result.
    #[inline(always)]
    pub fn apply(self, a: f32, b: f32) -> f32 {
        match self {
            AluOp::Add => a + b,
            AluOp::Subtract => a - b,
            AluOp::Multiply => a * b,
            AluOp::Divide => a / b,
            AluOp::Maximum => maximum(a, b),
            AluOp::Minimum => minimum(a, b),
            AluOp::Power => function::power(a, b),
            AluOp::Mod => a - b * (a / b).floor(),
            AluOp::Fmod => a % b,
            AluOp::AbsMax => maximum(a.abs(), b.abs()),
            AluOp::AbsMin => minimum(a.abs(), b.abs()),
            AluOp::Equal => flag(a == b),
            AluOp::NotEqual => flag(a != b),
            AluOp::Less => flag(a < b),
            AluOp::LessEqual => flag(a <= b),
            AluOp::Greater => flag(a > b),
            AluOp::GreaterEqual => flag(a >= b),
            AluOp::LogicalAnd => flag(a != 0.0 && b != 0.0),
            AluOp::LogicalOr => flag(a != 0.0 || b != 0.0),
            AluOp::LogicalXor => flag((a != 0.0) != (b != 0.0)),
            AluOp::Bypass | AluOp::Invert => a,
            AluOp::Abs => a.abs(),
            AluOp::Square => a * a,
            AluOp::Relu => maximum(a, 0.0),
            AluOp::Rsqrt => function::rsqrt(a),
            AluOp::Sqrt => a.sqrt(),
            AluOp::Reciprocal => 1.0 / a,
            AluOp::Negative => -a,
            AluOp::LogicalNot => flag(a == 0.0),
            AluOp::BitwiseAnd
            | AluOp::BitwiseOr
            | AluOp::BitwiseXor
            | AluOp::LeftShift
            | AluOp::RightShift => a,
        }
    }

    /// One result on integers: exact for sums, differences and products; bit operators on words of `bits`
    /// bits.
    #[expect(clippy::cast_possible_truncation, reason = "words of at most 32 bits; floats saturate")]
    pub fn apply_integer(self, a: i64, b: i64, bits: u32) -> i64 {
        let word = |value: i64| value & (((1_i128 << bits) - 1) as i64);
        let shift = u32::try_from(b.clamp(0, 64)).unwrap_or(64);
        match self {
            AluOp::Add => a.wrapping_add(b),
            AluOp::Subtract => a.wrapping_sub(b),
            AluOp::Multiply => a.saturating_mul(b),
            AluOp::Maximum => a.max(b),
            AluOp::Minimum => a.min(b),
            AluOp::BitwiseAnd => a & b,
            AluOp::BitwiseOr => a | b,
            AluOp::BitwiseXor => a ^ b,
            AluOp::LeftShift => word(a.checked_shl(shift).unwrap_or(0)),
            AluOp::RightShift => word(a).checked_shr(shift).unwrap_or(0),
            AluOp::Invert => !a,
            AluOp::Equal => i64::from(a == b),
            AluOp::NotEqual => i64::from(a != b),
            AluOp::Less => i64::from(a < b),
            AluOp::LessEqual => i64::from(a <= b),
            AluOp::Greater => i64::from(a > b),
            AluOp::GreaterEqual => i64::from(a >= b),
            AluOp::Bypass => a,
            AluOp::Abs => a.wrapping_abs(),
            AluOp::Square => a.saturating_mul(a),
            AluOp::Negative => a.wrapping_neg(),
            AluOp::Relu => a.max(0),
            AluOp::LogicalAnd => i64::from(a != 0 && b != 0),
            AluOp::LogicalOr => i64::from(a != 0 || b != 0),
            AluOp::LogicalXor => i64::from((a != 0) != (b != 0)),
            AluOp::LogicalNot => i64::from(a == 0),
            AluOp::Divide
            | AluOp::Power
            | AluOp::Mod
            | AluOp::Fmod
            | AluOp::AbsMax
            | AluOp::AbsMin
            | AluOp::Rsqrt
            | AluOp::Sqrt
            | AluOp::Reciprocal => self.apply(a as f32, b as f32).round_ties_even() as i64,
        }
    }

    /// True if integers stay exact under it on the GpSimd engine.
    pub const fn exact_on_integers(self) -> bool {
        !matches!(
            self,
            AluOp::Divide
                | AluOp::Power
                | AluOp::Mod
                | AluOp::Fmod
                | AluOp::AbsMax
                | AluOp::AbsMin
                | AluOp::Rsqrt
                | AluOp::Sqrt
                | AluOp::Reciprocal
        )
    }

    /// `a[i] = op(a[i], b[i])`, operands swapped if `reverse`.
    pub fn combine(self, a: &mut [f32], b: &[f32], reverse: bool) {
        combine_slices(self, a, b, reverse);
    }

    /// `a[i] = op(a[i], b[i])` on integers of so many bits.
    pub fn combine_integers(self, a: &mut [i64], b: &[i64], bits: u32) {
        for (a, &b) in a.iter_mut().zip(b) {
            *a = self.apply_integer(*a, b, bits);
        }
    }

    /// `a[i] = op(a[i], b)`, operands swapped if `reverse`.
    pub fn combine_scalar(self, a: &mut [f32], b: f32, reverse: bool) {
        combine_constant(self, a, b, reverse && !self.is_unary());
    }

    /// What a reduction starts from.
    pub const fn identity(self) -> f32 {
        match self {
            AluOp::Multiply | AluOp::LogicalAnd => 1.0,
            AluOp::Maximum => f32::NEG_INFINITY,
            AluOp::Minimum | AluOp::AbsMin => f32::INFINITY,
            _ => 0.0,
        }
    }

    /// The elements of a row made one, from the first to the last.
    pub fn reduce(self, row: &[f32]) -> f32 {
        match self {
            AluOp::Add => sum(row),
            AluOp::Maximum | AluOp::Minimum => extreme(self, row),
            // Where it matters which one is first, that one is not combined with anything.
            AluOp::Subtract | AluOp::Divide | AluOp::Power | AluOp::Mod | AluOp::Fmod => {
                row.iter().copied().reduce(|total, value| self.apply(total, value)).unwrap_or(self.identity())
            }
            _ => row.iter().fold(self.identity(), |total, &value| self.apply(total, value)),
        }
    }
}

/// Runs a body with the operator as a constant where loops are hot, so that the compiler can vectorise them.
macro_rules! each_op {
    ($which:expr, $op:ident => $body:block) => {
        each_op!($which, $op => $body, Add, Subtract, Multiply, Divide, Maximum, Minimum, Equal, NotEqual,
            Less, LessEqual, Greater, GreaterEqual, Bypass)
    };
    ($which:expr, $op:ident => $body:block, $($hot:ident),*) => {
        match $which {
            $(AluOp::$hot => {
                let $op = AluOp::$hot;
                $body
            })*
            $op => $body,
        }
    };
}

widest! {
    /// `a[i] = op(a[i], b[i])`, operands swapped if `reverse`.
    fn combine_slices(op: AluOp, a: &mut [f32], b: &[f32], reverse: bool) {
        each_op!(op, op => {
            if reverse {
                for (a, &b) in a.iter_mut().zip(b) {
                    *a = op.apply(b, *a);
                }
            } else {
                for (a, &b) in a.iter_mut().zip(b) {
                    *a = op.apply(*a, b);
                }
            }
        });
    }
}

widest! {
    /// `a[i] = op(a[i], b)`, operands swapped if `reverse`.
    fn combine_constant(op: AluOp, a: &mut [f32], b: f32, reverse: bool) {
        each_op!(op, op => {
            if reverse {
                for a in a.iter_mut() {
                    *a = op.apply(b, *a);
                }
            } else {
                for a in a.iter_mut() {
                    *a = op.apply(*a, b);
                }
            }
        });
    }
}

/// Partial results of a reduction that are made side by side.
const LANES: usize = 16;

widest! {
    /// A sum in sixteen interleaved parts, which are then added in pairs: fixed order on every host.
    fn sum(row: &[f32]) -> f32 {
        let mut parts = [0.0_f32; LANES];
        let (whole, rest) = row.as_chunks::<LANES>();
        for chunk in whole {
            for (part, value) in parts.iter_mut().zip(chunk) {
                *part += value;
            }
        }
        for (part, value) in parts.iter_mut().zip(rest) {
            *part += value;
        }
        let mut width = LANES / 2;
        while width > 0 {
            for lane in 0..width {
                parts[lane] += parts[lane + width];
            }
            width /= 2;
        }
        parts[0]
    }
}

/// The largest or least of a row, as if it were made from the first to the last: which of several zeros or
/// NaN that is, their order decides; among other values it does not matter.
fn extreme(op: AluOp, row: &[f32]) -> f32 {
    let found = extreme_in_lanes(op, row);
    if found == 0.0 || found.is_nan() {
        return row.iter().fold(op.identity(), |total, &value| op.apply(total, value));
    }
    found
}

widest! {
    /// The largest or least of a row in sixteen interleaved parts.
    fn extreme_in_lanes(op: AluOp, row: &[f32]) -> f32 {
        let mut parts = [op.identity(); LANES];
        let (whole, rest) = row.as_chunks::<LANES>();
        each_op!(op, op => {
            for chunk in whole {
                for (part, value) in parts.iter_mut().zip(chunk) {
                    *part = op.apply(*part, *value);
                }
            }
        });
        parts.iter().chain(rest).fold(op.identity(), |total, &value| op.apply(total, value))
    }
}

/// The larger one; NaN if either is.
#[inline(always)]
fn maximum(a: f32, b: f32) -> f32 {
    if a > b || a.is_nan() { a } else { b }
}

/// The smaller one; NaN if either is.
#[inline(always)]
fn minimum(a: f32, b: f32) -> f32 {
    if a < b || a.is_nan() { a } else { b }
}

#[inline(always)]
fn flag(holds: bool) -> f32 {
    if holds { 1.0 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows with zeros of both signs, NaN, infinities and ordinary values, longer than all lanes.
    fn rows() -> Vec<Vec<f32>> {
        let mix = |seed: u32| {
            (0..53_u32).map(move |at| match (at * 7 + seed) % 11 {
                0 => 0.0,
                1 => -0.0,
                2 if seed.is_multiple_of(3) => f32::NAN,
                3 if seed.is_multiple_of(4) => f32::INFINITY,
                place => (place as f32 - 5.0) * 0.37 * (at as f32).cos(),
            })
        };
        let zeros = |first: f32| std::iter::repeat_n(first, 20).chain([-first, -3.0, first]).collect();
        let mut rows: Vec<Vec<f32>> = (0..24).map(|seed| mix(seed).collect()).collect();
        rows.extend([zeros(0.0), zeros(-0.0), vec![], vec![-1.5]]);
        rows
    }

    fn same(a: f32, b: f32) -> bool {
        a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
    }

    #[test]
    fn slices_give_the_bits_of_single_values() {
        for (name, op) in NAMES.iter().filter(|(_, op)| !op.is_bitwise()) {
            for (row, other) in rows().iter().zip(rows().iter().rev()) {
                for reverse in [false, true] {
                    let mut found = row.clone();
                    op.combine(&mut found, other, reverse);
                    for ((found, &a), &b) in found.iter().zip(row).zip(other) {
                        let wanted = if reverse { op.apply(b, a) } else { op.apply(a, b) };
                        assert!(same(*found, wanted), "{name}({a}, {b}) = {found}, not {wanted}");
                    }
                    let mut found = row.clone();
                    op.combine_scalar(&mut found, -1.25, reverse);
                    for (found, &a) in found.iter().zip(row) {
                        let swapped = reverse && !op.is_unary();
                        let wanted = if swapped { op.apply(-1.25, a) } else { op.apply(a, -1.25) };
                        assert!(same(*found, wanted), "{name}({a}, -1.25) = {found}, not {wanted}");
                    }
                }
            }
        }
    }

    #[test]
    fn extremes_are_those_of_the_order_of_the_row() {
        for op in [AluOp::Maximum, AluOp::Minimum] {
            for row in rows() {
                let wanted = row.iter().fold(op.identity(), |total, &value| op.apply(total, value));
                assert!(same(op.reduce(&row), wanted), "{} of {row:?}", op.name());
            }
        }
    }
}
