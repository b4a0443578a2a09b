//! The types that leave the engines of a stream, one after the other.

use tilewright_num::Dtype;

use crate::program::exec::Stream;
use crate::program::vector::{OpKind, Vector, Word};

/// The type behind the contraction engine, used or not.
pub(super) fn leaves_contract(stream: &Stream) -> Dtype {
    match &stream.contract {
        Some(contract) if contract.dtype.is_float() => Dtype::F32,
        Some(_) => Dtype::I32,
        None => stream.fetch.leaves(),
    }
}

/// The type behind the vector engine, used or not.
pub(super) fn leaves_vector(stream: &Stream) -> Dtype {
    stream.vector.as_ref().map_or(leaves_contract(stream), chain_leaves)
}

/// The type behind cast and transpose engine, used or not.
pub(super) fn leaves_transpose(stream: &Stream) -> Dtype {
    stream.cast.unwrap_or(leaves_vector(stream))
}

/// The type that leaves: the last conversion decides.
fn chain_leaves(vector: &Vector) -> Dtype {
    let converted = vector.ops.iter().rev().find_map(|op| match op.kind {
        OpKind::ToFloat { .. } => Some(Dtype::F32),
        OpKind::ToFixed { .. } => Some(Dtype::I32),
        _ => None,
    });
    converted.unwrap_or(dtype_of(vector.input))
}

/// The type of a word.
pub(super) fn dtype_of(word: Word) -> Dtype {
    match word {
        Word::I32 => Dtype::I32,
        Word::F32 => Dtype::F32,
    }
}
