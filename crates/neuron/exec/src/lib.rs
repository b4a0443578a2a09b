//! What the NeuronCore's instructions give: tensors with real bytes, and the instructions of `nki.isa`, each
//! in the file of its engine.
//!
//! - [`storage`], [`access_pattern`], `deferred_copy`: tensors with real bytes, patterns over them, and
//!   copies that wait for a sum;
//! - [`convert`]: operands as FP32 values or integers, results rounded; [`matmul`], [`buffer_pool`]:
//!   products, and their memory;
//! - [`engine`]: instructions by engine: each checks its operands, computes, and says what was done.

pub mod access_pattern;
pub mod buffer_pool;
pub mod convert;
mod deferred_copy;
pub mod engine;
pub mod matmul;
pub mod storage;

use tilewright_neuron_isa::{TensorAccess, TensorDecl, TensorView};

pub use storage::Storage;

/// An operand: a tensor and the part of it that is meant.
#[derive(Clone, Debug)]
pub struct Tile {
    /// The bytes.
    pub storage: std::sync::Arc<Storage>,
    /// The part.
    pub view: TensorView,
}

impl TensorAccess for Tile {
    fn tensor(&self) -> &TensorDecl {
        &self.storage.tensor
    }

    fn view(&self) -> &TensorView {
        &self.view
    }
}
