//! What padding of an axis holds, as far as it is known.
//!
//! What is known holds where elements of the same row are finite. Where they are not, what a fold gives is
//! not finite either, with padding or without it.

use crate::graph::{Data, ValueId};
use crate::op::{Binary, Fold, Op, Unary};

/// What lies behind the elements of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Anything.
    Unknown,
    /// Zero, of either sign.
    Zero,
    /// Minus infinity.
    Least,
}

/// What an operand of an elementwise operator has along an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Side {
    /// Padding.
    Padded(Content),
    /// The same elements along all of the axis: a number that is known, if it is one for the whole operand.
    Stretched(Option<f32>),
}

/// The content that changes no result of a fold of floats, if it is one of those that are followed.
pub(super) fn neutral(fold: Fold) -> Option<Content> {
    match fold {
        Fold::Sum => Some(Content::Zero),
        Fold::Max => Some(Content::Least),
        Fold::Min | Fold::Prod => None,
    }
}

/// The number that a constant of one element is.
pub(super) fn number(data: Option<&Data>, is_one: bool, is_float: bool) -> Option<f32> {
    match data {
        Some(Data::Floats(bits)) if is_one && is_float => bits.first().map(|bits| f32::from_bits(*bits)),
        _ => None,
    }
}

/// What the result of an elementwise operator has behind its elements.
pub(super) fn of_elementwise(op: &Op, sides: &[Side]) -> Content {
    use Content::{Least, Unknown, Zero};
    use Side::{Padded, Stretched};
    match (op, sides) {
        (Op::Convert(_), [Padded(content)]) => *content,
        (Op::Unary(Unary::Exp), [Padded(Least)]) => Zero,
        (Op::Unary(unary), [Padded(Zero)]) if keeps_zero(*unary) => Zero,
        (Op::Binary(Binary::Add), [Padded(Least), Padded(Zero | Least) | Stretched(_)])
        | (Op::Binary(Binary::Add), [Padded(Zero) | Stretched(_), Padded(Least)])
        | (Op::Binary(Binary::Sub), [Padded(Least), Padded(Zero) | Stretched(_)]) => Least,
        (
            Op::Binary(Binary::Add | Binary::Sub | Binary::Mul | Binary::Max | Binary::Min),
            [Padded(Zero), Padded(Zero)],
        ) => Zero,
        (Op::Binary(Binary::Mul), [Padded(Zero), Stretched(_)] | [Stretched(_), Padded(Zero)]) => Zero,
        (Op::Binary(Binary::Div), [Padded(Zero), Stretched(_)]) => Zero,
        (
            Op::Binary(Binary::Mul),
            [Padded(Least), Stretched(Some(factor))] | [Stretched(Some(factor)), Padded(Least)],
        )
        | (Op::Binary(Binary::Div), [Padded(Least), Stretched(Some(factor))])
            if *factor > 0.0 && factor.is_finite() =>
        {
            Least
        }
        (Op::Select, [_, Padded(yes), Padded(no)]) if yes == no => *yes,
        _ => Unknown,
    }
}

/// What a contraction has behind the elements of a letter that it keeps.
pub(super) fn of_products(operands: &[Content]) -> Content {
    if operands.contains(&Content::Zero) && !operands.contains(&Content::Least) {
        Content::Zero
    } else {
        Content::Unknown
    }
}

/// Whether zero, of either sign, gives zero.
fn keeps_zero(unary: Unary) -> bool {
    matches!(
        unary,
        Unary::Neg
            | Unary::Abs
            | Unary::Sqrt
            | Unary::Sin
            | Unary::Tanh
            | Unary::Erf
            | Unary::Floor
            | Unary::Ceil
            | Unary::Round
            | Unary::RoundAway
            | Unary::Sign
    )
}

/// A value with what its axes have behind their elements; none of those that are as they were.
#[derive(Clone, Debug)]
pub(super) struct PaddedValue {
    pub(super) id: ValueId,
    pub(super) axes: Vec<Option<Content>>,
}

impl PaddedValue {
    /// A value of so many axes that are as they were.
    pub(super) fn exact(id: ValueId, rank: usize) -> PaddedValue {
        PaddedValue { id, axes: vec![None; rank] }
    }
}
