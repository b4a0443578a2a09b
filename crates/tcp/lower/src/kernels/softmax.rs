//! Softmax over an axis that is spread over slices, in three passes (paper section VI, worked example E8).
//!
//! Pass 1 takes each row's maximum, pass 2 sums `exp(x - max)`, pass 3 computes `exp(x - max)` again and
//! divides: a command has one output stream, and the scores are read faster than they could be kept. The
//! reducer between slices gives every slice the maxima and sums of all of its group; they go to data memory
//! and from there to the vector register file.

use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;
use tilewright_tcp_isa::capped::Capped;
use tilewright_tcp_isa::program::Program;
use tilewright_tcp_isa::program::exec::Exec;
use tilewright_tcp_isa::program::tensor::TensorData;
use tilewright_tcp_isa::program::vector::{Op, OpKind, ReduceOp, ReduceOutput, Word};
use tilewright_tcp_isa::vector::{FLIT_WORDS, HALF_WORDS};

use super::builder::{KernelBuilder, TensorSpec, bytes};
use super::chain::{chain, float, op, reduce_rows, to_i8, vrf, with};
use super::pass::{ElementRun, ElementTarget, load_vrf, map, reduce};
use super::{KernelError, multiple};

/// Integers that stand for probability 1.
pub const UNIT: i8 = i8::MAX;

/// What each slice holds of the scores, row-major.
#[derive(Clone, Copy)]
pub(super) struct ScoreLayout {
    /// Type in data memory, f32 or bf16.
    pub(super) dtype: Dtype,
    /// First byte.
    pub(super) base: u64,
    /// Rows, the same in all slices of a group.
    pub(super) rows: u64,
    /// Columns of this slice.
    pub(super) columns: u64,
    /// Neighbouring slices that share a row.
    pub(super) slices: u64,
}

impl ScoreLayout {
    fn run(&self) -> ElementRun {
        let elements = self.rows.capped_mul(self.columns);
        ElementRun { dtype: self.dtype, base: self.base, elements }
    }

    /// A word for each row, from the register file.
    fn by_row(&self, base: u64) -> tilewright_tcp_isa::program::vector::OperandSource {
        vrf(base, &[(self.rows, 1), (self.columns, 0)])
    }

    /// `exp(x - max)`.
    fn shifted(&self, maxima: u64) -> [Op; 2] {
        [with(OpKind::FSub, self.by_row(maxima)), op(OpKind::Exp)]
    }

    fn reduced(&self, op: ReduceOp) -> Op {
        reduce_rows(op, self.rows, self.columns / HALF_WORDS)
    }
}

/// The three passes, result as bf16 or as i8 in units of 1/[`UNIT`]. `sub_exec` runs in the sub context
/// during the first pass.
pub(super) fn passes(
    builder: &mut KernelBuilder<'_>,
    scores: &ScoreLayout,
    to: ElementTarget,
    sub_exec: Option<Exec>,
) -> Result<(), KernelError> {
    multiple("rows", scores.rows, 2, "an even number")?;
    multiple("columns of a slice", scores.columns, FLIT_WORDS, "a multiple of 8")?;
    let words = bytes(Dtype::F32, scores.rows);
    let (most, sum) = (builder.room(words)?, builder.room(words)?);
    // Where they are in the register file.
    let (maxima, sums) = (0, words);
    let all = |chain: tilewright_tcp_isa::program::vector::Vector, op| {
        chain.then_between(op, scores.slices, ReduceOutput::Broadcast)
    };

    let chain_max = all(chain(Word::F32, vec![scores.reduced(ReduceOp::Max)]), ReduceOp::Max);
    let id = builder.start(reduce("row_max", scores.run(), chain_max, scores.rows, most))?;
    if let Some(exec) = sub_exec {
        builder.start(exec)?;
    }
    builder.wait(id);
    let id = builder.start(load_vrf("load_max", most, scores.rows, maxima))?;
    builder.wait(id);

    let mut ops = scores.shifted(maxima).to_vec();
    ops.push(scores.reduced(ReduceOp::Add));
    let chain_sum = all(chain(Word::F32, ops), ReduceOp::Add);
    let id = builder.start(reduce("row_sum", scores.run(), chain_sum, scores.rows, sum))?;
    builder.wait(id);
    let id = builder.start(load_vrf("load_sum", sum, scores.rows, sums))?;
    builder.wait(id);

    let mut ops = scores.shifted(maxima).to_vec();
    let quotient = with(OpKind::Div, scores.by_row(sums));
    if to.dtype == Dtype::I8 {
        ops.extend([with(OpKind::Mul0, float(UNIT.into())), quotient]);
        ops.extend(to_i8());
    } else {
        ops.push(quotient);
    }
    builder.start(map("normalise", scores.run(), chain(Word::F32, ops), to))?;
    Ok(())
}

/// Softmax of bf16 scores over the keys, for `heads` heads side by side, keys of a head over all its slices.
///
/// # Errors
/// Sizes that the slices cannot share.
pub fn softmax(machine: &Tcp, heads: u64, queries: u64, keys: u64) -> Result<Program, KernelError> {
    multiple("slices of a PE", machine.pe.slices, heads, "a multiple of the heads")?;
    let slices = machine.pe.slices / heads;
    multiple("keys", keys, slices, "a multiple of the slices of a head")?;
    let columns = keys / slices;
    let mut builder = KernelBuilder::new(machine);
    let axes = [("H", heads), ("Q", queries), ("K", keys)];
    let shape = format!("H^1[{heads}] K^{{{columns}}}[{slices}] | Q^1[{queries}] K^1[{columns}]");
    let mut named = TensorSpec { name: "x", dtype: Dtype::Bf16, axes: &axes, shape: &shape };
    let base = builder.input(&named, TensorData::Random(1))?;
    named.name = "y";
    let to = ElementTarget { dtype: Dtype::Bf16, base: builder.output(&named)? };
    let scores = ScoreLayout { dtype: Dtype::Bf16, base, rows: queries, columns, slices };
    passes(&mut builder, &scores, to, None)?;
    Ok(builder.finish())
}
