//! Stage 2: a graph of operators to kernels (paper section V-C).
//!
//! Follows the residual of a model: norms, projections, what becomes of them, and the combination that is
//! added back. Projections of one value are one kernel; their heads, rotations, cache, softmax and gates are
//! fused behind them.
//!
//! - [`decoder`]: the Llama family, a norm before each part, logits at the end;
//! - [`encoder`]: the BERT family, a norm behind each part, one vector at the end;
//! - [`attention`]: what both have in their blocks;
//! - [`walk`]: what both ask of a graph.

mod attention;
mod clusterer;
mod decoder;
mod encoder;

use tilewright_graph::rich::RichOp;
use tilewright_graph::{Graph, Op};

use crate::CompileError;
use crate::kernel::Kernels;
use clusterer::Clusterer;

/// Clusters a graph.
///
/// # Errors
/// A node that no kernel takes.
pub fn cluster(graph: &Graph) -> Result<Kernels, CompileError> {
    let centred = graph.nodes.iter().any(|node| matches!(node.op, Op::Rich(RichOp::LayerNorm, _)));
    let mut walk = Clusterer::new(graph, if centred { encoder::ALLOWED } else { decoder::ALLOWED });
    let done = if centred { walk.encoder() } else { walk.decoder() };
    match done {
        Ok(()) => Ok(walk.out),
        Err(CompileError::Node { node, why, allowed }) => {
            let near: Vec<String> = crate::recognise::near(graph).into_iter().take(MOST_NEAR).collect();
            let near: String = near.iter().map(|near| format!("\n  = near: {near}")).collect();
            Err(CompileError::Node { node, why: why + &near, allowed })
        }
        Err(other) => Err(other),
    }
}

/// Patterns that did not fit, said in a complaint.
const MOST_NEAR: usize = 3;
