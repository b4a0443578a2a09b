//! Model files to graphs: bytes in, a graph and a store of tensors out. Nothing here opens a file.
//!
//! Files are hostile until read: every length is checked before memory is taken, and a refusal names the file
//! and the tensor.
//!
//! - [`llama`]: the graph of the Llama family, from a configuration and whoever knows where the weights are;
//! - [`llama2c`]: checkpoints of llama2.c;
//! - [`configs`]: built-in configurations without weights;
//! - [`gguf`]: GGUF files;
//! - [`hf`]: Hugging Face folders;
//! - [`onnx`]: ONNX models;
//! - [`tokenizer`]: texts to tokens and back.

pub mod configs;
pub mod error;
mod finite;
pub mod gguf;
pub mod hf;
pub mod llama;
pub mod llama2c;
pub mod onnx;
pub mod tokenizer;

use tilewright_graph::{Graph, TensorStore};

pub use error::{ImportError, ImportResult};

/// A model as read.
#[derive(Clone, Debug)]
pub struct Model {
    /// What it computes.
    pub graph: Graph,
    /// Its tensors.
    pub store: TensorStore,
}
