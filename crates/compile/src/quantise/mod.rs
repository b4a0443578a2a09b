//! Contractions of a graph in types of eight bits, or with constants of four: a rewrite of its primitives, by
//! ranges that were measured before.
//!
//! Quantisation is symmetric. A constant has a scale for each position of the axes that the result keeps
//! (each output channel), a computed value one scale: its largest magnitude over the calibration is 127. Sums
//! are exact in i32; one multiplication by the scales makes floats of them. What is computed becomes integers
//! where it is made, before it is padded, cut into windows or transposed: scaled, rounded (ties away from
//! zero, as the vector engine does), clamped.
//!
//! f8e4m3 has the same scales with 448 instead of 127. The conversion itself rounds (ties to even) and
//! saturates, as the cast engine does, and sums are f32.
//!
//! With constants of four bits these have 7 instead of 127; computed values stay as in int8.
//!
//! | file | owns |
//! |---|---|
//! | `find` | which contractions, and where their operands are made |
//! | `calibrate` | ranges of values, by the interpreter |
//! | `types` | which contractions are in which type: a type for all, rules by class and name |
//! | `rewrite` | the graph with narrow operands |

mod calibrate;
mod find;
mod rewrite;
mod types;

use std::collections::BTreeMap;

use tilewright_graph::Graph;
use tilewright_graph::infer::BuildResult;

pub use calibrate::{Ranges, ranges, relative_error};
pub use rewrite::narrowed;
pub use types::{Class, Format, GraphTypes, TypesError};

/// A graph with contractions in other types than bf16.
#[derive(Clone, Debug)]
pub struct QuantisedGraph {
    /// The graph.
    pub graph: Graph,
    /// How many contractions are in each type.
    pub contractions: BTreeMap<Format, usize>,
    /// Contractions that the engine takes.
    pub all_contractions: usize,
    /// What is said of contractions in another type than was asked for.
    pub notes: Vec<String>,
}

/// Refuses rules that are about no contraction of a graph of primitives.
///
/// # Errors
/// The first of them.
pub fn check(graph: &Graph, types: &GraphTypes) -> Result<(), TypesError> {
    find::check(graph, types)
}

/// The same graph of primitives with contractions in these types where ranges of what they read are known.
///
/// # Errors
/// A graph whose values do not fit each other.
pub fn quantised(graph: &Graph, types: &GraphTypes, ranges: &Ranges) -> BuildResult<QuantisedGraph> {
    let found = find::contractions(graph, types);
    let (graph, contractions) = rewrite::rewritten(graph, &found.chosen, ranges)?;
    Ok(QuantisedGraph { graph, contractions, all_contractions: found.all, notes: found.notes })
}
