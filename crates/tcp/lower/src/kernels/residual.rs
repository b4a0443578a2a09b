//! Residual sum: two tensors meet in the vector engine by interleaved fetch and pair mode.

use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;
use tilewright_tcp_isa::program::Program;
use tilewright_tcp_isa::program::vector::{OpKind, OperandSource, Word};
use tilewright_tcp_isa::vector::FLIT_WORDS;

use super::KernelError;
use super::builder::KernelBuilder;
use super::chain::{chain, with};
use super::pass::{ElementTarget, fetch_pairs, pass};
use super::rows::RowLayout;

/// `z = x + y` on bf16, rows over the slices.
///
/// # Errors
/// Sizes that the slices cannot share.
pub fn residual(machine: &Tcp, tokens: u64, width: u64) -> Result<Program, KernelError> {
    let rows = RowLayout::new(machine, tokens, width)?;
    let mut builder = KernelBuilder::new(machine);
    let x = rows.input(&mut builder, "x", Dtype::Bf16, 1)?;
    let y = rows.input(&mut builder, "y", Dtype::Bf16, 2)?;
    let z = ElementTarget { dtype: Dtype::Bf16, base: rows.output(&mut builder, "z", Dtype::Bf16)? };
    let sum = chain(Word::F32, vec![with(OpKind::FAdd, OperandSource::Pair)]).paired();
    builder.start(pass("residual", fetch_pairs(x, y.base), sum, x.elements / FLIT_WORDS, z))?;
    Ok(builder.finish())
}
