//! Scalar engine: activation functions with scale, bias and a running sum (NKI architecture guide, scalar engine;
//! neuron.md sections 2.4 and 3.2).

use super::{Operand, limits, same_shape};
use crate::alu::AluOp;
use crate::chip::cycles_ps;
use crate::function::Function;
use crate::pattern::as_u64;
use crate::program::{Cost, EngineKind, Instruction};
use crate::refusal::{Refusal, rule};
use crate::{Chip, Generation, Tile};

/// The operands of an activation besides its data.
#[derive(Clone, Debug)]
pub struct Activation {
    /// Function.
    pub function: Function,
    /// Added after scaling.
    pub bias: Option<Operand>,
    /// Multiplied with the data.
    pub scale: Operand,
    /// Sums of the results go here, one for each partition.
    pub sums: Option<Tile>,
    /// Operator of the running sums.
    pub reduce: AluOp,
    /// What the running sums start from: zero, or what `sums` holds.
    pub continue_sums: bool,
}

/// dst = function(data * scale + bias), and optionally the sums of dst.
///
/// # Errors
/// If an operand breaks a rule of the scalar engine.
pub fn activation(chip: &Chip, dst: &Tile, data: &Tile, how: &Activation) -> Result<Instruction, Refusal> {
    let name = if how.sums.is_some() { "activation_reduce" } else { "activation" };
    limits::operand(chip, EngineKind::Scalar, name, "data", data)?;
    limits::operand(chip, EngineKind::Scalar, name, "the result", dst)?;
    same_shape(name, dst, data)?;
    if let Some(Operand::Constant(value)) = &how.bias {
        rule(*value == 0.0 || chip.generation() >= Generation::V3, || {
            Refusal::new(
                "neuron/generation",
                format!("{name} with the constant bias {value} on {}", chip.name),
                "a bias of shape [P, 1], or a constant on NeuronCore-v3 or later",
                "memset a [P, 1] tile and pass it as bias",
            )
        })?;
    }
    rule(how.reduce == AluOp::Add || chip.generation() >= Generation::V4, || {
        Refusal::new(
            "neuron/operator",
            format!("{name} reducing with {}", how.reduce.name()),
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
    let mut sums = Vec::with_capacity(partitions);
    if dst.storage.valueless {
        values.clear();
        sums.resize(partitions, 0.0);
    }
    for ((row, scale), bias) in values.chunks_mut(columns.max(1)).zip(&scale).zip(&bias.0) {
        if *scale != 1.0 || *bias != 0.0 {
            row.iter_mut().for_each(|value| *value = *value * scale + bias);
        }
        how.function.apply_slice(row);
        sums.push(how.reduce.reduce(row));
    }
    dst.write(&chip.rules, &values);
    let mut writes = vec![dst];
    if let Some(tile) = &how.sums {
        write_sums(chip, tile, sums, how)?;
        writes.push(tile);
    }
    let reads: Vec<&Tile> = [Some(data), how.scale.tile(), how.bias.as_ref().and_then(Operand::tile)]
        .into_iter()
        .flatten()
        .collect();
    let mut instruction =
        Instruction::new(name, EngineKind::Scalar, cost(chip, dst, data, how), &writes, &reads)
            .reading(uninitialised);
    instruction.table = how.function.table();
    Ok(instruction)
}

fn write_sums(chip: &Chip, tile: &Tile, mut sums: Vec<f32>, how: &Activation) -> Result<(), Refusal> {
    limits::operand(chip, EngineKind::Scalar, "activation", "reduce_res", tile)?;
    rule(tile.elements() == sums.len(), || {
        Refusal::new(
            "neuron/shape",
            format!("sums of {} partitions into {:?}", sums.len(), tile.view.shape()),
            "one element for each partition",
            "give reduce_res the shape [P, 1]",
        )
    })?;
    if how.continue_sums {
        let before = tile.read(&chip.rules);
        how.reduce.combine(&mut sums, &before.values, true);
    }
    tile.write(&chip.rules, &sums);
    Ok(())
}

fn cost(chip: &Chip, dst: &Tile, data: &Tile, how: &Activation) -> Cost {
    let scalar = &chip.neuron.scalar;
    let narrow = [dst, data].iter().all(|tile| tile.view.dtype.storage_bits() <= 16);
    let rate = if narrow { scalar.fast_rate } else { 1 };
    let columns = slowed(chip, &[dst, data], as_u64(data.view.free_elements()));
    let read_sums = if how.sums.is_some() { scalar.accumulator_read_cycles } else { 0 };
    let cycles = (columns / rate).max(scalar.turnaround_cycles) + read_sums;
    Cost {
        busy_ps: cycles_ps(cycles, scalar.clock_hz),
        latency_ps: cycles_ps(scalar.pipeline_cycles + chip.neuron.access.start_cycles, scalar.clock_hz),
    }
}

/// Cycles of a pass over tiles: twice as many if one of them is read or written with a long stride.
pub(crate) fn slowed(chip: &Chip, tiles: &[&Tile], cycles: u64) -> u64 {
    let slow = |tile: &&Tile| as_u64(tile.view.inner_stride_bytes()) >= chip.neuron.access.slow_stride_bytes;
    if tiles.iter().any(slow) { cycles.saturating_mul(2) } else { cycles }
}
