//! Root-mean-square norm of rows that are spread over all slices of a PE: `x * gain / sqrt(mean(x^2) +
//! epsilon)`.
//!
//! Pass 1 sums squares within slices; a short pass over one word a row sums between slices and takes the
//! root; pass 2 scales.

use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;
use tilewright_tcp_isa::capped::Capped;
use tilewright_tcp_isa::program::Program;
use tilewright_tcp_isa::program::tensor::TensorData;
use tilewright_tcp_isa::program::vector::{OpKind, OperandSource, ReduceOp, ReduceOutput, Word};
use tilewright_tcp_isa::vector::{FLIT_WORDS, HALF_WORDS};

use super::builder::{KernelBuilder, TensorSpec, bytes};
use super::chain::{chain, fma, op, reduce_rows, vrf, with};
use super::pass::{ElementRun, ElementTarget, load_vrf, map, reduce};
use super::{KernelError, multiple};

/// What keeps the root away from zero.
pub const EPSILON: f32 = 1e-5;

/// The norm of `tokens` rows of `width` bf16, with an f32 gain for each column.
///
/// # Errors
/// Sizes that the slices cannot share.
pub fn rmsnorm(machine: &Tcp, tokens: u64, width: u64) -> Result<Program, KernelError> {
    let slices = machine.pe.slices;
    multiple("tokens", tokens, FLIT_WORDS, "a multiple of 8")?;
    multiple("width", width, slices.capped_mul(FLIT_WORDS), "a multiple of 8 a slice")?;
    let columns = width / slices;
    let mut builder = KernelBuilder::new(machine);
    let axes = [("T", tokens), ("E", width)];
    let shape = format!("E^{{{columns}}}[{slices}] | T^1[{tokens}] E^1[{columns}]");
    let mut named = TensorSpec { name: "x", dtype: Dtype::Bf16, axes: &axes, shape: &shape };
    let base = builder.input(&named, TensorData::Random(1))?;
    let x = ElementRun { dtype: Dtype::Bf16, base, elements: tokens.capped_mul(columns) };
    named.name = "y";
    let to = ElementTarget { dtype: Dtype::Bf16, base: builder.output(&named)? };
    let shape = format!("E^{{{columns}}}[{slices}] | E^1[{columns}]");
    let gain = TensorSpec { name: "gain", dtype: Dtype::F32, axes: &[("E", width)], shape: &shape };
    let gain = builder.input(&gain, TensorData::Random(2))?;
    let words = bytes(Dtype::F32, tokens);
    let (squares, roots) = (builder.room(words)?, builder.room(words)?);
    let (gain_at, roots_at) = (0, bytes(Dtype::F32, columns));

    let square = with(OpKind::Mul0, OperandSource::Stash).keep();
    let sum = reduce_rows(ReduceOp::Add, tokens, columns / HALF_WORDS);
    builder.start(reduce("squares", x, chain(Word::F32, vec![square, sum]), tokens, squares))?;
    builder.start(load_vrf("load_gain", gain, columns, gain_at))?;
    let root = chain(Word::F32, vec![fma(inverse(width), EPSILON), op(OpKind::Sqrt)]);
    let root = root.after_between(ReduceOp::Add, slices, ReduceOutput::Broadcast);
    let sums = ElementRun { dtype: Dtype::F32, base: squares, elements: tokens };
    let id = builder.start(map("root", sums, root, ElementTarget { dtype: Dtype::F32, base: roots }))?;
    builder.wait(id);
    let id = builder.start(load_vrf("load_root", roots, tokens, roots_at))?;
    builder.wait(id);
    let scaled = with(OpKind::Mul0, vrf(gain_at, &[(tokens, 0), (columns, 1)]));
    let normal = with(OpKind::Div, vrf(roots_at, &[(tokens, 1), (columns, 0)]));
    builder.start(map("scale", x, chain(Word::F32, vec![scaled, normal]), to))?;
    Ok(builder.finish())
}

#[expect(clippy::cast_precision_loss, reason = "a factor; its rounding is far below that of bf16")]
fn inverse(width: u64) -> f32 {
    1.0 / width as f32
}
