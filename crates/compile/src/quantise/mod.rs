//! Contractions of a graph in int8: a rewrite of its primitives, by ranges that were measured before.
//!
//! Quantisation is symmetric. A constant has a scale for each position of the axes that the result keeps
//! (each output channel), a computed value one scale: its largest magnitude over the calibration is 127. Sums
//! are exact in i32; one multiplication by the scales makes floats of them. What is computed becomes integers
//! where it is made, before it is padded, cut into windows or transposed: scaled, rounded (ties away from
//! zero, as the vector engine does), clamped.
//!
//! | file | owns |
//! |---|---|
//! | `find` | which contractions, and where their operands are made |
//! | `calibrate` | ranges of values, by the interpreter |
//! | `rewrite` | the graph with integers |

mod calibrate;
mod find;
mod rewrite;

use tilewright_graph::Graph;
use tilewright_graph::infer::BuildResult;

pub use calibrate::{Ranges, ranges, relative_error};
pub use rewrite::narrowed;

/// Which contractions are in int8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantised {
    /// Those with a constant: what weights are multiplied with.
    Weights,
    /// Those of two computed values too.
    All,
}

impl Quantised {
    /// By the name of types, as language models have them; none for names that a graph is not quantised by.
    pub fn find(name: &str) -> Option<Quantised> {
        match name {
            "int8" => Some(Quantised::Weights),
            "w8a8" => Some(Quantised::All),
            _ => None,
        }
    }
}

/// A graph with contractions in int8.
#[derive(Clone, Debug)]
pub struct QuantisedGraph {
    /// The graph.
    pub graph: Graph,
    /// Contractions in int8.
    pub contractions: usize,
    /// Contractions that the engine takes.
    pub all_contractions: usize,
}

/// The same graph of primitives with contractions in int8 where ranges of what they read are known.
///
/// # Errors
/// A graph whose values do not fit each other.
pub fn quantised(graph: &Graph, which: Quantised, ranges: &Ranges) -> BuildResult<QuantisedGraph> {
    let found = find::contractions(graph, which);
    let (graph, contractions) = rewrite::rewritten(graph, &found.chosen, ranges)?;
    Ok(QuantisedGraph { graph, contractions, all_contractions: found.all })
}
