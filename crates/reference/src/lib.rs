//! The meaning of the graph level, written plainly: the reference of importers, of stage 1 and of what chips
//! compute.
//!
//! Floats are computed in float32 and rounded to their type, integers in 64 bits and wrapped to theirs. It
//! knows no chip, no schedule and no cost. Sums have one fixed order, so the bits of a result do not depend
//! on threads or on the host.
//!
//! - [`tensor`]: elements with their sizes;
//! - [`view`]: strided copies, which transposing, stretching, slicing and windows are;
//! - [`elementwise`], [`reduce`], [`einsum`], [`index`]: the primitives, a file a family;
//! - [`float8`]: floats of eight bits;
//! - `budget`: how much an evaluation may hold;
//! - [`outside`]: indices outside of their axes, without a run;
//! - [`run`]: a graph with its constants, evaluated node by node;
//! - [`session`]: a language model run step by step.

mod budget;
pub mod einsum;
pub mod elementwise;
pub mod error;
pub mod float8;
pub mod index;
pub mod outside;
pub mod reduce;
pub mod run;
pub mod session;
pub mod tensor;
pub mod view;

pub use error::EvalError;
pub use outside::{OutsideIndex, index_inputs, outside_indices};
pub use run::Interpreter;
pub use session::{Session, best};
pub use tensor::{Elements, Tensor};
