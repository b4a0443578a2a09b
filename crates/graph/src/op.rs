//! Operators: the primitives of stage 1, and rich operators that decompose into them.
//!
//! Section V-B of the TCP paper: every operator becomes elementwise operators, reductions, einsum, reshape
//! and indexing, conversions and comparisons. Windows of convolution and pooling are an indexing primitive,
//! so that a convolution is an einsum over windows and a pooling a reduction over them.

use crate::dim::Dim;
use crate::dtype::Dtype;
use crate::rich::{Attrs, RichOp};

macro_rules! words {
    ($(#[$doc:meta])* $kind:ident { $($(#[$note:meta])* $name:ident $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $kind { $($(#[$note])* $name),* }

        impl $kind {
            /// Every one.
            pub const ALL: &[$kind] = &[$($kind::$name),*];

            /// As written.
            pub const fn name(self) -> &'static str {
                match self { $($kind::$name => $text),* }
            }

            /// The one of this name.
            pub fn by_name(name: &str) -> Option<$kind> {
                $kind::ALL.iter().copied().find(|one| one.name() == name)
            }
        }
    };
}

words! {
    /// Elementwise operators of one operand.
    Unary {
        /// Minus.
        Neg "neg",
        /// Magnitude.
        Abs "abs",
        /// e to the power.
        Exp "exp",
        /// Natural logarithm.
        Ln "ln",
        /// Square root.
        Sqrt "sqrt",
        /// One over the square root.
        Rsqrt "rsqrt",
        /// One over it.
        Recip "recip",
        /// Sine of radians.
        Sin "sin",
        /// Cosine of radians.
        Cos "cos",
        /// Hyperbolic tangent.
        Tanh "tanh",
        /// 1 / (1 + exp(-x)).
        Sigmoid "sigmoid",
        /// Error function.
        Erf "erf",
        /// Next integer below.
        Floor "floor",
        /// Next integer above.
        Ceil "ceil",
        /// Nearest integer, ties to even.
        Round "round",
        /// Nearest integer, ties away from zero.
        RoundAway "round_away",
        /// -1, 0 or 1.
        Sign "sign",
        /// Logical negation.
        Not "not",
        /// Whether it is no number.
        IsNan "isnan",
        /// Whether it is infinite.
        IsInf "isinf",
    }
}

words! {
    /// Elementwise operators of two operands of the same type; a size of 1 stretches to the other's.
    Binary {
        /// Sum.
        Add "add",
        /// Difference.
        Sub "sub",
        /// Product.
        Mul "mul",
        /// Quotient; of integers, cut towards zero.
        Div "div",
        /// Power.
        Pow "pow",
        /// Rest of a division, with the sign of the divisor.
        Mod "mod",
        /// Rest of a division, with the sign of the dividend.
        Rem "rem",
        /// The larger; NaN if one is.
        Max "max",
        /// The smaller; NaN if one is.
        Min "min",
        /// Both true.
        And "and",
        /// One true.
        Or "or",
        /// Exactly one true.
        Xor "xor",
        /// Equal, as bool.
        Eq "eq",
        /// Not equal, as bool.
        Ne "ne",
        /// Less, as bool.
        Lt "lt",
        /// Less or equal, as bool.
        Le "le",
        /// Greater, as bool.
        Gt "gt",
        /// Greater or equal, as bool.
        Ge "ge",
    }
}

impl Binary {
    /// Whether the result is a bool.
    pub const fn compares(self) -> bool {
        matches!(self, Binary::Eq | Binary::Ne | Binary::Lt | Binary::Le | Binary::Gt | Binary::Ge)
    }

    /// Whether operands are bools.
    pub const fn is_logic(self) -> bool {
        matches!(self, Binary::And | Binary::Or | Binary::Xor)
    }
}

words! {
    /// What a reduction or a scatter does with elements that meet.
    Fold {
        /// Their sum.
        Sum "sum",
        /// Their product.
        Prod "prod",
        /// The largest; NaN if one is.
        Max "max",
        /// The smallest; NaN if one is.
        Min "min",
    }
}

/// What a node does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// One operand, element by element.
    Unary(Unary),
    /// Two operands, element by element.
    Binary(Binary),
    /// `select(condition, yes, no)`, element by element.
    Select,
    /// Another type, element by element.
    Convert(Dtype),
    /// Folds axes; a kept axis has size 1 afterwards.
    Reduce {
        /// How.
        fold: Fold,
        /// Which, ascending.
        axes: Vec<usize>,
        /// Whether they stay with size 1.
        keep: bool,
    },
    /// Sum of products: `bse,fe->bsf`. Labels are letters, one an axis.
    Einsum(String),
    /// The same elements in row-major order under other sizes.
    Reshape(Vec<Dim>),
    /// Sizes of 1 stretched, and new axes in front.
    Broadcast(Vec<Dim>),
    /// Axes in another order: axis `i` of the result is axis `order[i]` of the operand.
    Transpose(Vec<usize>),
    /// Elements `start + i * step` of an axis, for `i` below `size`.
    Slice {
        /// Which axis.
        axis: usize,
        /// First element taken.
        start: Dim,
        /// How many.
        size: Dim,
        /// Distance between them, perhaps negative, not zero.
        step: i64,
    },
    /// Operands one behind the other along an axis.
    Concat {
        /// Which axis.
        axis: usize,
    },
    /// `pad(x, value)`: elements equal to a scalar before and behind an axis.
    Pad {
        /// Which axis.
        axis: usize,
        /// How many before.
        low: Dim,
        /// How many behind.
        high: Dim,
    },
    /// `gather(x, indices)`: slices of an axis by number; the axis is replaced by those of the indices.
    /// Negative numbers count from the end.
    Gather {
        /// Which axis.
        axis: usize,
    },
    /// `scatter(x, indices, updates)`: `x` with rows (along axis 0) replaced by, or folded with, those of
    /// `updates`; indices have one axis. Without a fold, the last of equal indices wins.
    Scatter {
        /// What is done with the row that is there; nothing replaces it.
        fold: Option<Fold>,
    },
    /// The coordinate along an axis.
    Iota {
        /// Type of the elements.
        dtype: Dtype,
        /// Sizes.
        dims: Vec<Dim>,
        /// Which axis.
        axis: usize,
    },
    /// A size as an i64 scalar.
    Size(Dim),
    /// Windows along an axis of size L, which becomes two: `out[o][k] = in[o * stride + k * dilation]`.
    Window {
        /// Which axis.
        axis: usize,
        /// Elements of a window.
        size: u64,
        /// Distance between the first elements of windows.
        stride: u64,
        /// Distance between elements of a window.
        dilation: u64,
    },
    /// An operator that decomposes.
    Rich(RichOp, Attrs),
}

impl Op {
    /// Whether it is one of those that stage 1 leaves.
    pub fn is_primitive(&self) -> bool {
        !matches!(self, Op::Rich(..))
    }

    /// Its name in texts.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Unary(unary) => unary.name(),
            Op::Binary(binary) => binary.name(),
            Op::Select => "select",
            Op::Convert(_) => "convert",
            Op::Reduce { .. } => "reduce",
            Op::Einsum(_) => "einsum",
            Op::Reshape(_) => "reshape",
            Op::Broadcast(_) => "broadcast",
            Op::Transpose(_) => "transpose",
            Op::Slice { .. } => "slice",
            Op::Concat { .. } => "concat",
            Op::Pad { .. } => "pad",
            Op::Gather { .. } => "gather",
            Op::Scatter { .. } => "scatter",
            Op::Iota { .. } => "iota",
            Op::Size(_) => "size",
            Op::Window { .. } => "window",
            Op::Rich(rich, _) => rich.name(),
        }
    }
}
