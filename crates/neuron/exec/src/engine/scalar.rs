//! Scalar engine: activation functions with scale, bias and a running sum (NKI architecture guide, scalar
//! engine; docs/hardware-rules.md#scalar-engine).

use rayon::prelude::*;
use tilewright_neuron_isa::alu::AluOp;
use tilewright_neuron_isa::cost::scalar as cost;
use tilewright_neuron_isa::function::ActivationFunction;
use tilewright_neuron_isa::limits::{self, same_shape};
use tilewright_neuron_isa::program::{EngineKind, Instruction};
use tilewright_neuron_isa::refusal::{Refusal, rule};
use tilewright_neuron_isa::{Chip, Generation};

use super::{AluStep, ScalarOperand};
use crate::Tile;
use crate::buffer_pool::recycle_floats;

/// Elements from which on several threads apply a function.
const SHARED_ELEMENTS: usize = 1 << 14;

/// The operands of an activation besides its data.
#[derive(Clone, Debug)]
pub struct Activation {
    /// Function.
    pub function: ActivationFunction,
    /// Added after scaling.
    pub bias: Option<ScalarOperand>,
    /// Multiplied with the data.
    pub scale: ScalarOperand,
    /// The sums of the results.
    pub sums: RowReduction,
}

/// Running values of lanes: the results of each partition made one.
#[derive(Clone, Debug)]
pub struct RowReduction {
    /// Where they go, one for each partition; nowhere if they are not wanted.
    pub tile: Option<Tile>,
    /// Operator.
    pub reduce: AluOp,
    /// They start from what the tile holds rather than from nothing.
    pub accumulate: bool,
}

/// dst = function(data * scale + bias), and optionally the sums of dst.
///
/// # Errors
/// If an operand breaks a rule of the scalar engine.
pub fn activation(chip: &Chip, dst: &Tile, data: &Tile, how: &Activation) -> Result<Instruction, Refusal> {
    let name = if how.sums.tile.is_some() { "activation_reduce" } else { "activation" };
    limits::operand(chip, EngineKind::Scalar, name, "data", data)?;
    limits::operand(chip, EngineKind::Scalar, name, "the result", dst)?;
    same_shape(name, dst, data)?;
    if let Some(ScalarOperand::Constant(value)) = &how.bias {
        rule(*value == 0.0 || chip.generation() >= Generation::V3, || {
            Refusal::new(
                "neuron/generation",
                format!("{name} with the constant bias {value} on {}", chip.name),
                "a bias of shape [P, 1], or a constant on NeuronCore-v3 or later",
                "memset a [P, 1] tile and pass it as bias",
            )
        })?;
    }
    rule(how.sums.reduce == AluOp::Add || chip.generation() >= Generation::V4, || {
        Refusal::new(
            "neuron/operator",
            format!("{name} reducing with {}", how.sums.reduce.name()),
            "add",
            "use tensor_reduce",
        )
    })?;
    let (partitions, columns) = (data.view.partitions(), data.view.free_elements());
    let (scale, mut uninitialised) = how.scale.values(&chip.rules, partitions)?;
    let bias = match &how.bias {
        Some(bias) => bias.values(&chip.rules, partitions)?,
        None => (vec![0.0; partitions], false),
    };
    uninitialised |= bias.1;
    let read = data.read(&chip.rules);
    uninitialised |= read.uninitialised;
    let mut values = read.values;
    if dst.storage.valueless {
        values.clear();
    }
    let of_row = |((row, scale), bias): ((&mut [f32], &f32), &f32)| {
        if *scale != 1.0 || *bias != 0.0 {
            row.iter_mut().for_each(|value| *value = *value * scale + bias);
        }
        let outside = how.function.leaves_table(row);
        how.function.apply_slice(row);
        outside
    };
    let outside_table = if values.len() < SHARED_ELEMENTS || how.function.table().is_none() {
        let rows = values.chunks_mut(columns.max(1)).zip(&scale).zip(&bias.0);
        rows.map(of_row).fold(false, |any, one| any | one)
    } else {
        let rows = values.par_chunks_mut(columns.max(1)).zip(&scale).zip(&bias.0);
        rows.with_min_len(SHARED_ELEMENTS / 4 / columns.max(1) + 1).map(of_row).reduce(|| false, |a, b| a | b)
    };
    let mut reads = vec![data];
    reads.extend(how.scale.tile());
    reads.extend(how.bias.as_ref().and_then(ScalarOperand::tile));
    let done = finish(chip, name, (dst, data), &values, &how.sums, &reads)?;
    recycle_floats(values);
    let done = Instruction { table: how.function.table(), outside_table, ..done }.reading(uninitialised);
    if how.sums.tile.is_some() {
        return Ok(done);
    }
    let word = |operand: &ScalarOperand| match operand {
        ScalarOperand::Constant(value) => value.to_bits(),
        ScalarOperand::PerPartition(_) => u64::MAX,
    };
    let words = [how.function as u64, word(&how.scale), how.bias.as_ref().map_or(1 << 40, word)];
    Ok(done.computing(tilewright_neuron_isa::program::ComputeForm::Map, &[dst, data], &words))
}

/// Writes results and their sums.
fn finish(
    chip: &Chip,
    name: &'static str,
    (dst, data): (&Tile, &Tile),
    values: &[f32],
    sums: &RowReduction,
    reads: &[&Tile],
) -> Result<Instruction, Refusal> {
    dst.write(&chip.rules, values);
    let mut writes = vec![dst];
    if let Some(tile) = &sums.tile {
        let rows = values.chunks(data.view.free_elements().max(1)).map(|row| sums.reduce.reduce(row));
        let mut rows: Vec<f32> = rows.collect();
        if dst.storage.valueless {
            rows.resize(data.view.partitions(), 0.0);
        }
        write_sums(chip, tile, rows, sums.reduce, sums.accumulate)?;
        writes.push(tile);
    }
    let cost = cost::activation(chip, dst, data, sums.tile.is_some());
    Ok(Instruction::new(name, EngineKind::Scalar, cost, &writes, reads))
}

/// The operands of `activate2` besides its data.
#[derive(Clone, Debug)]
pub struct Activate2 {
    /// Function.
    pub function: ActivationFunction,
    /// One or two operators before it.
    pub steps: Vec<AluStep>,
    /// Slope of `relu` for negative inputs.
    pub slope: f32,
    /// The reductions of the results.
    pub sums: RowReduction,
}

/// dst = function((data op0 imm0) op1 imm1), and optionally the reductions of dst.
///
/// # Errors
/// If the generation lacks it, or an operand breaks a rule of the scalar engine.
pub fn activate2(chip: &Chip, dst: &Tile, data: &Tile, how: &Activate2) -> Result<Instruction, Refusal> {
    const NAME: &str = "activate2";
    chip.needs(NAME, Generation::V4)?;
    limits::operand(chip, EngineKind::Scalar, NAME, "data", data)?;
    limits::operand(chip, EngineKind::Scalar, NAME, "the result", dst)?;
    same_shape(NAME, dst, data)?;
    let ops: Vec<AluOp> = how.steps.iter().map(|step| step.op).collect();
    let has = matches!(
        ops[..],
        [AluOp::Multiply, AluOp::Add | AluOp::Subtract]
            | [AluOp::Multiply | AluOp::Add | AluOp::Subtract]
            | []
    );
    let reduces =
        [AluOp::Add, AluOp::Maximum, AluOp::Minimum, AluOp::AbsMax, AluOp::AbsMin].contains(&how.sums.reduce);
    rule(has && reduces, || {
        let names: Vec<&str> = ops.iter().map(|op| op.name()).collect();
        Refusal::new(
            "neuron/operator",
            format!("activate2 with ({}), reducing with {}", names.join(", "), how.sums.reduce.name()),
            "multiply then add or subtract, or one of them; add, maximum, minimum, abs_max or abs_min to \
             reduce",
            "use tensor_scalar for the other operators",
        )
    })?;
    let read = data.read(&chip.rules);
    let (mut values, columns) = (read.values, data.view.free_elements());
    let missing = super::vector::apply_steps(chip, &mut values, data, &how.steps)?;
    for row in values.chunks_mut(columns.max(1)) {
        if how.function == ActivationFunction::Relu && how.slope != 0.0 {
            row.iter_mut().filter(|value| **value < 0.0).for_each(|value| *value *= how.slope);
        } else {
            how.function.apply_slice(row);
        }
    }
    let mut reads = vec![data];
    reads.extend(how.steps.iter().filter_map(|step| step.operand.tile()));
    let done = finish(chip, NAME, (dst, data), &values, &how.sums, &reads)?;
    Ok(Instruction { table: how.function.table(), ..done }.reading(read.uninitialised | missing))
}

fn write_sums(
    chip: &Chip,
    tile: &Tile,
    mut sums: Vec<f32>,
    reduce: AluOp,
    accumulate: bool,
) -> Result<(), Refusal> {
    limits::operand(chip, EngineKind::Scalar, "activation", "reduce_res", tile)?;
    rule(tile.elements() == sums.len(), || {
        Refusal::new(
            "neuron/shape",
            format!("sums of {} partitions into {:?}", sums.len(), tile.view.shape()),
            "one element for each partition",
            "give reduce_res the shape [P, 1]",
        )
    })?;
    if accumulate {
        let before = tile.read(&chip.rules);
        reduce.combine(&mut sums, &before.values, true);
    }
    tile.write(&chip.rules, &sums);
    Ok(())
}
