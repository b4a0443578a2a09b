//! Programs with their data: what stands between files and simulators.
//!
//! - [`array`]: a tensor's elements as patterns, drawn from a seed or converted from numbers;
//! - [`einsum`]: a contraction by its definition, to check others against;
//! - [`npy`], [`tensors`]: NumPy and safetensors files, from bytes and to bytes; whoever calls reads the
//!   file;
//! - [`value_dependence`]: programs that cannot be timed or checked without their values;
//! - [`readings`]: values, timeline, energy and findings of one run, told by `listener`;
//! - [`prepared`], [`device`]: programs verified once, on memories that stay;
//! - [`executable`], [`graph`]: programs of general graphs, without and with their kernels;
//! - [`session`]: language models as such programs;
//! - [`model`]: a compiled model with its weights and caches;
//! - [`generate`], [`batch`], [`usage`]: text from it, token by token, or several texts at once, and what all
//!   runs took.

pub mod array;
pub mod batch;
mod chips;
pub mod device;
pub mod einsum;
pub mod executable;
pub mod generate;
pub mod graph;
mod listener;
pub mod model;
pub mod npy;
pub mod prepared;
pub mod readings;
pub mod session;
pub mod tensors;
pub mod usage;
pub mod value_dependence;

pub use array::{Array, ArrayError};
pub use device::Device;
pub use prepared::Prepared;
pub use readings::{Reading, ReadingError, ReadingOptions, read};
