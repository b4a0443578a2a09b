//! Programs with their data: what stands between files and simulators.
//!
//! - [`array`]: a tensor's elements as patterns, drawn from a seed or converted from numbers;
//! - [`einsum`]: a contraction by its definition, to judge others by;
//! - [`npy`], [`tensors`]: NumPy and safetensors files, from bytes and to bytes; whoever calls reads the file;
//! - [`decides`]: programs that cannot be timed or judged without their values;
//! - [`readings`]: values, timeline, energy and findings of one run.

pub mod array;
pub mod decides;
pub mod einsum;
pub mod npy;
pub mod readings;
pub mod tensors;

pub use array::{Array, ArrayError};
pub use readings::{Reading, ReadingError, Wanted, read};
