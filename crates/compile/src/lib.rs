//! Stages 2 to 5 of the compiler (paper sections V-B and V-C): from graphs to command programs.
//!
//! - [`compiled`]: all stages in order;
//! - [`check`]: the independent checker of schedules;
//! - [`reference`]: what a chip must give, from kernels alone;
//! - [`kernel`]: the kernel level, clusters of operators with their text;
//! - [`kernel_text`]: the reader of that text, and its verifier;
//! - [`mod@recognise`]: patterns of primitives to rich operators;
//! - [`quantise`]: contractions of a graph of primitives in int8;
//! - [`mod@divide`]: a graph of primitives as equal parts along its batch, for several chips;
//! - [`cluster`]: stage 2, graphs to kernels;
//! - [`general`]: any other graph, kernel by kernel;
//! - [`tcp`]: stages 3 to 5 for the TCP;
//! - [`lowered`]: kernels with lowered shapes, tactics, exchanges and costs; their text, and its reader;
//! - [`schedule_text`]: the text of a schedule, its reader and its checker;
//! - [`weights`]: constants of a graph as numbers.

pub mod check;
pub mod cluster;
pub mod compiled;
pub mod divide;
pub mod general;
pub mod kernel;
pub mod kernel_text;
mod lookup;
pub mod lowered;
pub mod quantise;
pub mod recognise;
pub mod reference;
mod scan;
pub mod schedule_text;
pub mod tcp;
pub mod types;
pub mod weights;

pub use compiled::{Compiled, Inputs, compile, compile_chosen, compile_kernels};
pub use recognise::recognise;
pub use tcp::choices::{Choices, ChoicesError};
pub use tcp::mixed::{Mixed, Named};
pub use tcp::plan::Options;

use thiserror::Error;

/// Why a model is not compiled.
#[derive(Debug, Error)]
pub enum CompileError {
    /// A node that no kernel takes.
    #[error(
        "`{node}`: {why}\n  = allowed: {allowed}\n  = instead: `run --interp` takes any graph from tokens to \
         logits or to an embedding"
    )]
    Node {
        /// Its result.
        node: String,
        /// Why.
        why: String,
        /// What is taken.
        allowed: &'static str,
    },
    /// Sizes that no template has.
    #[error("{what} is {found}\n  = allowed: {allowed}")]
    Size {
        /// Of what.
        what: &'static str,
        /// What it is.
        found: u64,
        /// What it may be.
        allowed: String,
    },
    /// Choices of a solver that is not part of this build.
    #[error(
        "commands are put in order by `{0}`, which is not part of this build\n  = instead: build with \
         --features {0}, or choose --solver microlp"
    )]
    Solver(&'static str),
    /// A memory that is too small.
    #[error(
        "the model takes {needed} B of HBM, the chip has {capacity} B\n  = instead: more chips, narrower \
         weights, a shorter context or a smaller batch"
    )]
    Hbm {
        /// Bytes needed.
        needed: u64,
        /// Bytes that there are.
        capacity: u64,
    },
    /// Data memory that is too small.
    #[error(
        "{what}: {needed} B of a slice's data memory, which has {capacity} B\n  = instead: more processing \
         elements, or a shorter context"
    )]
    Dm {
        /// For what.
        what: &'static str,
        /// Bytes needed.
        needed: u64,
        /// Bytes that there are.
        capacity: u64,
    },
    /// A constant that cannot be had.
    #[error("weight `{name}`: {why}")]
    Weight {
        /// Which.
        name: String,
        /// Why.
        why: String,
    },
}

impl CompileError {
    /// Whether it is about what was asked for, not about the model or the machine: another number of chips
    /// or PEs, a batch, a context or a text that there cannot be.
    pub fn is_of_request(&self) -> bool {
        let CompileError::Size { what, .. } = self else { return false };
        what.starts_with("the number of chips")
            || what.starts_with("the number of PEs")
            || what.starts_with("the number of tokens")
            || ["the batch", "the context"].contains(what)
    }
}
