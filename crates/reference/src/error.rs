//! Why a graph cannot be evaluated.

use thiserror::Error;

/// Why a graph cannot be evaluated.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EvalError {
    /// An input was not given.
    #[error("input `{0}` is not given")]
    Missing(String),
    /// An input has another type or other sizes.
    #[error("input `{name}` is {found}; the graph wants {wanted}")]
    Input {
        /// Which.
        name: String,
        /// What was given.
        found: String,
        /// What the graph says.
        wanted: String,
    },
    /// An axis has a size outside its bounds.
    #[error("axis `{name}` has size {size}; the graph allows {least} to {most}")]
    Bounds {
        /// Which.
        name: String,
        /// As the inputs have it.
        size: u64,
        /// Smallest.
        least: u64,
        /// Largest.
        most: u64,
    },
    /// No input gives this axis a size.
    #[error("no input gives axis `{0}` a size")]
    OpenAxis(String),
    /// A tensor has too many elements.
    #[error("a tensor would have {0} elements; at most {1} are evaluated")]
    Size(u128, u64),
    /// All values together have too many elements for what was given.
    #[error(
        "values of {held} elements would be held at once; with these inputs and constants at most {most} are"
    )]
    Held {
        /// Elements that would be held.
        held: u64,
        /// As many as may be.
        most: u64,
    },
    /// An index is outside its axis.
    #[error("index {index} is outside an axis of {size}")]
    Index {
        /// As given.
        index: i64,
        /// Elements of the axis.
        size: usize,
    },
    /// A constant has no data, or data of another size.
    #[error("constant `{0}` has no data of its type and size")]
    Constant(String),
    /// An operator that is no primitive.
    #[error("`{0}` is not a primitive; decompose the graph first")]
    Rich(&'static str),
    /// Operands do not fit; the verifier would have said so.
    #[error("`{0}` on operands that do not fit")]
    Operands(&'static str),
    /// A graph that generates no text.
    #[error("the graph is no language model: {0}")]
    NoLanguage(#[from] tilewright_graph::NoLanguage),
    /// A node failed.
    #[error("in `{name}`: {why}")]
    Node {
        /// The value that it defines.
        name: String,
        /// Why.
        why: Box<EvalError>,
    },
}
