//! Inputs that choose from axes: what can be said of their elements without the graph.

/// An input whose elements choose from one axis as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexInput {
    /// The input.
    pub input: String,
    /// Elements of the axis.
    pub size: u64,
    /// What the operator gives.
    pub result: String,
    /// The operator.
    pub op: String,
}
