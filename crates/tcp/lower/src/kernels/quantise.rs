//! Between floats and 8-bit integers: quantisation by a factor, its inverse, and requantisation of sums in
//! integers alone.

use tilewright_base::invariant::OrBroken;
use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;
use tilewright_tcp_isa::program::Program;
use tilewright_tcp_isa::program::vector::{Op, OpKind, Vector, Word};

use super::KernelError;
use super::builder::KernelBuilder;
use super::chain::{chain, clip_i8, float, int, op, to_i8, with};
use super::pass::{ElementTarget, map};
use super::rows::RowLayout;

/// The quantisation scale: the value of one integer step in the program of [`quantise`].
pub const STEP: f32 = 1.0 / 128.0;

/// A factor of integers: a Q31 fraction, then a right shift that rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedPointFactor {
    /// The fraction, times 2^31.
    pub fraction: i32,
    /// Places to the right.
    pub shift: i32,
}

impl FixedPointFactor {
    /// 1 / `divisor`, as near as a fraction of 1/2 to 1 comes: for divisors of at least 2.
    pub fn one_over(divisor: u32) -> FixedPointFactor {
        let divisor = divisor.max(2);
        // The largest power of two below the divisor.
        let shift = (divisor - 1).ilog2();
        let scaled = ((1_u64 << (31 + shift)) + u64::from(divisor) / 2) / u64::from(divisor);
        let fraction = i32::try_from(scaled).or_broken("a fraction of 1/2 to 1 in Q31");
        FixedPointFactor { fraction, shift: shift.cast_signed() }
    }

    /// Sums in i32, multiplied and within the numbers of i8.
    pub(super) fn to_i8(self) -> Vec<Op> {
        let mut ops = vec![with(OpKind::MulQ31, int(self.fraction)), with(OpKind::ShrRound, int(self.shift))];
        ops.extend(clip_i8());
        ops
    }
}

/// What the sums of [`quantise`] are divided by; those from a seed lie within a million, so that some are
/// clipped.
pub const SUMS_DIVISOR: u32 = 7000;

fn quantised(step: f32) -> Vector {
    let mut ops = vec![with(OpKind::FMul, float(1.0 / step))];
    ops.extend(to_i8());
    chain(Word::F32, ops)
}

fn dequantised(step: f32) -> Vector {
    chain(Word::I32, vec![op(OpKind::ToFloat { int_width: 31 }), with(OpKind::FMul, float(step))])
}

/// `q = round(x / STEP)` from bf16 to i8, `y = q * STEP` back to bf16, and `r = round(sums / SUMS_DIVISOR)`
/// from i32 to i8.
///
/// # Errors
/// Sizes that the slices cannot share.
pub fn quantise(machine: &Tcp, tokens: u64, width: u64) -> Result<Program, KernelError> {
    let rows = RowLayout::new(machine, tokens, width)?;
    let mut builder = KernelBuilder::new(machine);
    let x = rows.input(&mut builder, "x", Dtype::Bf16, 1)?;
    let sums = rows.input(&mut builder, "sums", Dtype::I32, 2)?;
    let q = ElementTarget { dtype: Dtype::I8, base: rows.output(&mut builder, "q", Dtype::I8)? };
    let y = ElementTarget { dtype: Dtype::Bf16, base: rows.output(&mut builder, "y", Dtype::Bf16)? };
    let r = ElementTarget { dtype: Dtype::I8, base: rows.output(&mut builder, "r", Dtype::I8)? };
    builder.start(map("quantise", x, quantised(STEP), q))?;
    let integers = super::pass::ElementRun { dtype: Dtype::I8, base: q.base, elements: x.elements };
    builder.start(map("dequantise", integers, dequantised(STEP), y))?;
    let requantised = chain(Word::I32, FixedPointFactor::one_over(SUMS_DIVISOR).to_i8());
    builder.start(map("requantise", sums, requantised, r))?;
    Ok(builder.finish())
}
