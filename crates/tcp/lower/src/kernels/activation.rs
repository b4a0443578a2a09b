//! Activations of one pass each: `SiLU` by the stash, gated `SiLU` by interleaved fetch and pair mode, `GELU`
//! by the error function.

use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;
use tilewright_tcp_isa::program::Program;
use tilewright_tcp_isa::program::vector::{OpKind, OperandSource, Vector, Word};
use tilewright_tcp_isa::vector::{FLIT_WORDS, GROUP_TAG};

use super::KernelError;
use super::builder::KernelBuilder;
use super::chain::{chain, float, fma, guarded, int, op, to_i8, with};
use super::pass::{ElementTarget, fetch_pairs, map, pass};
use super::rows::RowLayout;

/// `x * sigmoid(x)`.
fn silu_chain() -> Vector {
    chain(Word::F32, vec![op(OpKind::Sigmoid).keep(), with(OpKind::Mul0, OperandSource::Stash)])
}

/// `a * sigmoid(a) * b` for flits of `a` and `b` alternating.
///
/// Functions have no guards, so both groups pass the sigmoid: those of `b` as zeros, which give 1/2. Both are
/// then multiplied by what they were, and the quotient by 1/2 at the end is exact. With a unit, the nearest
/// i8 of so much each: the quotient is by half of it.
pub fn gated_chain(unit: Option<f32>) -> Vector {
    let mut ops = vec![
        guarded(OpKind::And, GROUP_TAG, GROUP_TAG, int(0)).keep(),
        op(OpKind::Sigmoid),
        with(OpKind::Mul0, OperandSource::Stash),
        with(OpKind::FMul, OperandSource::Pair),
        with(OpKind::Div, float(0.5 * unit.unwrap_or(1.0))),
    ];
    ops.extend(unit.into_iter().flat_map(|_| to_i8()));
    chain(Word::F32, ops).paired()
}

/// `x * (erf(x / sqrt 2) + 1) / 2`, or, with a unit, the nearest i8 of so much each.
pub fn gelu_chain(unit: Option<f32>) -> Vector {
    let half = 0.5 / unit.unwrap_or(1.0);
    let mut ops = vec![
        with(OpKind::Mul0, float(std::f32::consts::FRAC_1_SQRT_2)).keep(),
        op(OpKind::Erf),
        fma(half, half),
        with(OpKind::Mul1, OperandSource::Stash),
    ];
    ops.extend(unit.into_iter().flat_map(|_| to_i8()));
    chain(Word::F32, ops)
}

/// `y = silu(x)` and `z = silu(gate) * up` on bf16, rows over the slices.
///
/// # Errors
/// Sizes that the slices cannot share.
pub fn silu(machine: &Tcp, tokens: u64, width: u64) -> Result<Program, KernelError> {
    let rows = RowLayout::new(machine, tokens, width)?;
    let mut builder = KernelBuilder::new(machine);
    let x = rows.input(&mut builder, "x", Dtype::Bf16, 1)?;
    let gate = rows.input(&mut builder, "gate", Dtype::Bf16, 2)?;
    let up = rows.input(&mut builder, "up", Dtype::Bf16, 3)?;
    let y = ElementTarget { dtype: Dtype::Bf16, base: rows.output(&mut builder, "y", Dtype::Bf16)? };
    let z = ElementTarget { dtype: Dtype::Bf16, base: rows.output(&mut builder, "z", Dtype::Bf16)? };
    builder.start(map("silu", x, silu_chain(), y))?;
    let pairs = fetch_pairs(gate, up.base);
    builder.start(pass("gated_silu", pairs, gated_chain(None), gate.elements / FLIT_WORDS, z))?;
    Ok(builder.finish())
}

/// `y = gelu(x)` on bf16, rows over the slices.
///
/// # Errors
/// Sizes that the slices cannot share.
pub fn gelu(machine: &Tcp, tokens: u64, width: u64) -> Result<Program, KernelError> {
    let rows = RowLayout::new(machine, tokens, width)?;
    let mut builder = KernelBuilder::new(machine);
    let x = rows.input(&mut builder, "x", Dtype::Bf16, 1)?;
    let y = ElementTarget { dtype: Dtype::Bf16, base: rows.output(&mut builder, "y", Dtype::Bf16)? };
    builder.start(map("gelu", x, gelu_chain(None), y))?;
    Ok(builder.finish())
}
