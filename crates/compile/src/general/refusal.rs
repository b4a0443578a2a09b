//! Why a graph does not become kernels: the node, and what it asks for that the chip has not.

use thiserror::Error;

/// A node that is not lowered.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("node `{node}` ({op}) is not lowered: {why}")]
pub struct Refusal {
    /// The node, by the name of its first result.
    pub node: String,
    /// What it does.
    pub op: String,
    /// What is in the way.
    pub why: String,
}

/// Something, or why a node is in its way; who knows the node fills it in.
pub type Lowered<T> = Result<T, String>;
