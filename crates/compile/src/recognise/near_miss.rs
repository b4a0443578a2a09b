//! Why a pattern that began well did not end so.

/// Why a node is not the end of a pattern that it looks like.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NearMiss {
    /// The weight of a projection is no matrix.
    #[error("the weight has {axes} axes, not two")]
    WeightAxes {
        /// How many it has.
        axes: usize,
    },
    /// What is projected has other axes.
    #[error("what is projected has {axes} axes, not batch, tokens and width")]
    ProjectedAxes {
        /// How many it has.
        axes: usize,
    },
    /// A GELU with something else in its error function.
    #[error("the error function is not of `x / sqrt 2`")]
    ErfOperand,
    /// A GELU with other factors.
    #[error("the factors are not `x`, a half, and one more than the error function")]
    GeluFactors,
    /// A layer norm that takes off something else.
    #[error("what is taken off is not the mean")]
    Centre,
    /// A norm without a sum under its root.
    #[error("nothing is added under the root")]
    NoEpsilon,
    /// A norm whose addend is computed.
    #[error("what is added under the root is no number")]
    EpsilonComputed,
    /// A norm with something else than a mean under its root.
    #[error("{0} under the root")]
    Mean(#[from] MeanMiss),
    /// A norm over something else than the squares of what it scales.
    #[error("what is summed are not squares of what is scaled{}", named(.of))]
    Squares {
        /// What they are of, if that has a name.
        of: Option<String>,
    },
    /// A rotation whose difference is of something else.
    #[error("the difference is not of products of parts of a head")]
    RotatedDifference,
    /// A rotation whose sum is of something else.
    #[error("the sum is not of the same parts with cosine and sine exchanged")]
    RotatedSum,
    /// A rotation of something else than slices.
    #[error("what is rotated are no parts of a head")]
    RotatedParts,
    /// A rotation of other parts.
    #[error("the parts are not {} of one head", if *.interleaved { "every second \
        element" } else { "halves" })]
    HeadParts {
        /// Whether pairs are neighbours.
        interleaved: bool,
    },
    /// Attention whose weights are no softmax.
    #[error("what weighs the values is no softmax")]
    NoSoftmax,
    /// Attention whose scores are something else.
    #[error("scores are no product of scaled queries and keys")]
    NoScores,
    /// Attention with another fault of its own.
    #[error("{0}")]
    Attention(&'static str),
}

/// Why a value is not the mean over the last axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum MeanMiss {
    /// Nothing is divided.
    #[error("there is no mean")]
    NoQuotient,
    /// What is divided is no sum.
    #[error("there is no mean of a sum")]
    NoSum,
    /// The sum has no operand.
    #[error("there is no mean of anything")]
    NoOperand,
    /// It is divided by another number.
    #[error("there is no sum that is divided by the width")]
    OtherDivisor,
    /// The sum is over other axes.
    #[error("there is no mean over the last axis")]
    OtherAxes,
}

fn named(name: &Option<String>) -> String {
    name.as_ref().map_or(String::new(), |name| format!(" (they are of `{name}`)"))
}
