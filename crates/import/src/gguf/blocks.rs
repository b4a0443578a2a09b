//! Weights quantised in blocks of 32: integers, a scale and perhaps a smallest value a block (ggml's Q8_0,
//! Q4_0, Q4_1).
//!
//! At the graph level they stay integers with scales, so that a compiler may keep them so: `w` is
//! `w.q * w.d + w.m`, with the integers as `[rows, blocks, 32]` and the scales as `[rows, blocks, 1]`.
//! Elements 0 to 15 of a block of 4 bits are the low halves of its bytes, 16 to 31 the high halves.

use tilewright_graph::{BuildResult, Builder, Dim, Dtype, StoredTensor, TensorStore, ValueId};

use crate::error::{ImportError, ImportResult};
use crate::finite;
use crate::gguf::file::Gguf;

/// Elements of a block.
const BLOCK: u64 = 32;

/// Puts a tensor of a file into a store under a role; a quantised one as its parts.
///
/// # Errors
/// If it is missing or has other sizes.
pub fn load(
    file: &Gguf<'_>,
    tensor: &str,
    role: &str,
    dims: &[u64],
    store: &mut TensorStore,
) -> ImportResult<()> {
    let wrong = |what: String| ImportError::about(file.name, format!("tensor `{tensor}`"), what);
    let plain = file.plain(tensor)?;
    let found = file.tensors.get(tensor).ok_or_else(|| wrong("is missing".to_string()))?;
    if found.dims != dims {
        return Err(wrong(format!("has sizes {:?}", found.dims)).allowed(format!("{dims:?}")));
    }
    if let Some(plain) = plain {
        finite::check(file.name, tensor, &plain)?;
        store.tensors.insert(role.to_string(), plain);
        return Ok(());
    }
    let bytes = file.bytes.get(found.start..found.end).unwrap_or(&[]);
    let (rows, blocks) = shape(dims);
    let (size, scales) = match found.kind {
        8 => (34, 1),
        2 => (18, 1),
        _ => (20, 2),
    };
    let mut integers = Vec::with_capacity(bytes.len());
    let mut factors: [Vec<u8>; 2] = [Vec::new(), Vec::new()];
    for block in bytes.chunks_exact(size) {
        for (scale, part) in factors.iter_mut().zip(block.chunks_exact(2)).take(scales) {
            scale.extend_from_slice(part);
        }
        let body = block.get(2 * scales..).unwrap_or(&[]);
        match found.kind {
            8 => integers.extend_from_slice(body),
            kind => {
                // 8 is subtracted by turning the upper bit round.
                let turn = if kind == 2 { 8 } else { 0 };
                let halves = |high: bool| {
                    body.iter().map(move |byte| (if high { byte >> 4 } else { byte & 15 }) ^ turn)
                };
                let all: Vec<u8> = halves(false).chain(halves(true)).collect();
                integers.extend(all.chunks_exact(2).map(|pair| pair[0] | pair[1] << 4));
            }
        }
    }
    let dtype = match found.kind {
        8 => Dtype::I8,
        2 => Dtype::I4,
        _ => Dtype::U4,
    };
    let mut put = |part: &str, stored: Option<StoredTensor>| -> ImportResult<()> {
        let stored = stored.ok_or_else(|| wrong("its blocks are not whole".to_string()))?;
        finite::check(file.name, &format!("{tensor}.{part}"), &stored)?;
        store.tensors.insert(format!("{role}.{part}"), stored);
        Ok(())
    };
    put("q", StoredTensor::owned(dtype, &[rows, blocks, BLOCK], integers))?;
    let [scale, smallest] = factors;
    put("d", StoredTensor::owned(Dtype::F16, &[rows, blocks, 1], scale))?;
    if scales == 2 {
        put("m", StoredTensor::owned(Dtype::F16, &[rows, blocks, 1], smallest))?;
    }
    Ok(())
}

fn shape(dims: &[u64]) -> (u64, u64) {
    match dims {
        [rows, width] => (*rows, width / BLOCK),
        _ => (1, dims.iter().product::<u64>() / BLOCK),
    }
}

/// The value of a weight in f32, from what [`load`] put into the store.
///
/// # Errors
/// If the graph refuses it.
pub fn weight(b: &mut Builder, store: &TensorStore, role: &str) -> BuildResult<ValueId> {
    let part = |b: &mut Builder, name: &str| -> BuildResult<Option<ValueId>> {
        let Some(stored) = store.tensors.get(name) else { return Ok(None) };
        let value = b.stored(name, stored.dtype, &stored.dims)?;
        b.convert(value, Dtype::F32).map(Some)
    };
    if let Some(plain) = part(b, role)? {
        return Ok(plain);
    }
    let missing =
        || tilewright_graph::infer::shape_error(format!("no weight `{role}`"), "a weight of the model");
    let (q, d) = (part(b, &format!("{role}.q"))?, part(b, &format!("{role}.d"))?);
    let (q, d) = (q.ok_or_else(missing)?, d.ok_or_else(missing)?);
    let mut w = b.mul(q, d)?;
    if let Some(m) = part(b, &format!("{role}.m"))? {
        w = b.add(w, m)?;
    }
    let rows = b.dim(w, 0)?;
    let width = b.dim(w, 1)?.times(&Dim::fixed(32)).ok_or_else(missing)?;
    b.called(role).reshape(w, &[rows, width])
}
