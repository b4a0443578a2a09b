//! Real models, read and interpreted: what they generate must be what others measured.
//!
//! Model data lies beside the checkout (`../shared/models`); without it the tests say that they skip.

#![expect(clippy::disallowed_methods, reason = "the tests read model files")]

mod gguf;
mod hf;
mod llama2c;
mod nodes;
mod onnx;
mod shared;
mod tokenizers;
