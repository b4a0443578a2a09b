//! Reductions over the free dimensions, scans, and the statistics of batch normalisation.

use tilewright_base::invariant::Exact;
use tilewright_neuron_isa::Chip;
use tilewright_neuron_isa::alu::AluOp;
use tilewright_neuron_isa::cost::vector::{VectorRate, cost, two_input_cycles};
use tilewright_neuron_isa::limits::{self, same_shape};
use tilewright_neuron_isa::pattern::as_u64;
use tilewright_neuron_isa::program::{EngineKind, Instruction};
use tilewright_neuron_isa::refusal::{Refusal, rule};

use super::elementwise::{apply_steps, integers_only};
use crate::Tile;
use crate::buffer_pool::recycle_floats;
use crate::engine::{AluStep, ScalarOperand};

/// dst = the last `axes` dimensions of data reduced.
///
/// # Errors
/// If an operand breaks a rule of the engine.
pub fn tensor_reduce(
    chip: &Chip,
    dst: &Tile,
    data: &Tile,
    op: AluOp,
    axes: usize,
    negate: bool,
) -> Result<Instruction, Refusal> {
    const NAME: &str = "tensor_reduce";
    limits::operand(chip, EngineKind::Vector, NAME, "data", data)?;
    limits::operand(chip, EngineKind::Vector, NAME, "the result", dst)?;
    rule(axes >= 1 && axes < data.view.dims.len(), || {
        Refusal::new(
            "neuron/shape",
            format!("tensor_reduce over {axes} of {} dimensions", data.view.dims.len()),
            "one or more of the last free dimensions",
            "reduce the partition dimension with nc_matmul or tensor_partition_reduce",
        )
    })?;
    let kept = data.view.dims.len() - axes;
    let count: usize = data.view.dims.iter().skip(kept).map(|dim| dim.size).product();
    let rows = dst.view.partitions() == data.view.partitions();
    rule(rows && count > 0 && dst.elements() * count == data.elements(), || {
        Refusal::new(
            "neuron/shape",
            format!(
                "tensor_reduce of {:?} over {axes} dimensions into {:?}",
                data.view.shape(),
                dst.view.shape()
            ),
            "a result with the dimensions that are left",
            "check the shape of the result",
        )
    })?;
    for tile in [data, dst] {
        integers_only(op, tile)?;
    }
    let integers = !data.view.dtype.is_float() && !dst.view.dtype.is_float();
    let uninitialised = if op.is_bitwise() || integers {
        let read = data.read_integers(&chip.rules);
        let bits = data.view.dtype.bits();
        let fold = |row: &[i64]| {
            let total = row.iter().copied().reduce(|a, b| op.apply_integer(a, b, bits)).unwrap_or_default();
            if negate { total.wrapping_neg() } else { total }
        };
        let values: Vec<i64> = read.values.chunks(count).map(fold).collect();
        dst.write_integers(&chip.rules, &values);
        read.uninitialised
    } else {
        let read = data.read(&chip.rules);
        let sign = if negate { -1.0 } else { 1.0 };
        let values: Vec<f32> = read.values.chunks(count).map(|row| sign * op.reduce(row)).collect();
        recycle_floats(read.values);
        dst.write(&chip.rules, &values);
        read.uninitialised
    };
    let half = [data, dst].iter().all(|tile| tile.view.dtype == tilewright_num::Dtype::Bf16);
    let columns = as_u64(data.view.free_elements());
    let quick = half && matches!(op, AluOp::Add | AluOp::Maximum);
    let cost =
        cost(chip, EngineKind::Vector, if quick { columns / 2 } else { columns }, &[data], VectorRate::Plain);
    let sum = op == AluOp::Add && !negate && kept == 1;
    let form = if sum {
        tilewright_neuron_isa::program::ComputeForm::Sum
    } else {
        tilewright_neuron_isa::program::ComputeForm::Other
    };
    Ok(Instruction { form, ..Instruction::new(NAME, EngineKind::Vector, cost, &[dst], &[data]) }
        .reading(uninitialised))
}

/// What happens to the running value of each lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accumulate {
    /// Starts afresh.
    Reset,
    /// Goes on from what the result tile holds.
    Continue,
}

/// dst = data op operand, and the reduction of dst over its free dimensions.
///
/// # Errors
/// If an operand breaks a rule of the engine.
pub fn tensor_scalar_reduce(
    chip: &Chip,
    dst: &Tile,
    data: &Tile,
    step: &AluStep,
    reduce: AluOp,
    result: &Tile,
    how: Accumulate,
) -> Result<Instruction, Refusal> {
    const NAME: &str = "tensor_scalar_reduce";
    limits::arithmetic(NAME, &[step.op, reduce])?;
    for (role, tile) in [("data", data), ("the result", dst), ("reduce_res", result)] {
        limits::operand(chip, EngineKind::Vector, NAME, role, tile)?;
    }
    same_shape(NAME, dst, data)?;
    let read = data.read(&chip.rules);
    let mut values = read.values;
    let missing = apply_steps(chip, &mut values, data, std::slice::from_ref(step))?;
    dst.write(&chip.rules, &values);
    let mut totals: Vec<f32> =
        values.chunks(data.view.free_elements().max(1)).map(|row| reduce.reduce(row)).collect();
    rule(totals.len() == result.elements(), || {
        Refusal::new(
            "neuron/shape",
            format!("reduce_res of shape {:?}", result.view.shape()),
            "[P, 1]",
            "one element for each partition",
        )
    })?;
    if how == Accumulate::Continue {
        reduce.combine(&mut totals, &result.read(&chip.rules).values, true);
    }
    result.write(&chip.rules, &totals);
    let cycles = as_u64(data.view.free_elements()) + chip.neuron.scalar.accumulator_read_cycles;
    let cost = cost(chip, EngineKind::Vector, cycles, &[data, dst], VectorRate::Plain);
    let mut reads = vec![data];
    reads.extend(step.operand.tile());
    Ok(Instruction::new(NAME, EngineKind::Vector, cost, &[dst, result], &reads)
        .reading(read.uninitialised | missing))
}

/// dst[i] = reduce(dst[i - 1], data[i] op operand) along the free dimensions.
///
/// # Errors
/// If an operand breaks a rule of the engine.
pub fn tensor_scalar_cumulative(
    chip: &Chip,
    dst: &Tile,
    data: &Tile,
    step: &AluStep,
    reduce: AluOp,
    initial: Option<&ScalarOperand>,
) -> Result<Instruction, Refusal> {
    const NAME: &str = "tensor_scalar_cumulative";
    limits::arithmetic(NAME, &[step.op, reduce])?;
    limits::operand(chip, EngineKind::Vector, NAME, "data", data)?;
    limits::operand(chip, EngineKind::Vector, NAME, "the result", dst)?;
    same_shape(NAME, dst, data)?;
    let (partitions, columns) = (data.view.partitions(), data.view.free_elements());
    let read = data.read(&chip.rules);
    let mut values = read.values;
    let missing = apply_steps(chip, &mut values, data, std::slice::from_ref(step))?;
    let starts = match initial {
        Some(operand) => operand.values(&chip.rules, partitions)?.0,
        None => vec![reduce.identity(); partitions],
    };
    for (row, start) in values.chunks_mut(columns.max(1)).zip(starts) {
        let mut running = start;
        for value in row {
            running = reduce.apply(*value, running);
            *value = running;
        }
    }
    dst.write(&chip.rules, &values);
    let cost = cost(chip, EngineKind::Vector, as_u64(columns), &[data, dst], VectorRate::Plain);
    let mut reads = vec![data];
    reads.extend(step.operand.tile());
    Ok(Instruction::new(NAME, EngineKind::Vector, cost, &[dst], &reads).reading(read.uninitialised | missing))
}

/// dst[i] = (a[i] op0 dst[i - 1]) op1 b[i] along the free dimensions.
///
/// # Errors
/// If an operand breaks a rule of the engine.
pub fn tensor_tensor_scan(
    chip: &Chip,
    dst: &Tile,
    a: &Tile,
    b: &Tile,
    initial: &ScalarOperand,
    ops: [(AluOp, bool); 2],
) -> Result<Instruction, Refusal> {
    const NAME: &str = "tensor_tensor_scan";
    limits::arithmetic(NAME, &ops.map(|(op, _)| op))?;
    for (role, tile) in [("the first input", a), ("the second input", b), ("the result", dst)] {
        limits::operand(chip, EngineKind::Vector, NAME, role, tile)?;
    }
    limits::not_both_psum(NAME, a, b)?;
    same_shape(NAME, a, b)?;
    same_shape(NAME, dst, a)?;
    let columns = a.view.free_elements();
    let (left, right) = (a.read(&chip.rules), b.read(&chip.rules));
    let (starts, missing) = initial.values(&chip.rules, a.view.partitions())?;
    let mut values = left.values;
    let [(op0, reverse0), (op1, reverse1)] = ops;
    let pick =
        |op: AluOp, reverse: bool, x: f32, y: f32| if reverse { op.apply(y, x) } else { op.apply(x, y) };
    let rows = values.chunks_mut(columns.max(1)).zip(right.values.chunks(columns.max(1)));
    for ((row, others), start) in rows.zip(starts) {
        let mut running = start;
        for (value, other) in row.iter_mut().zip(others) {
            running = pick(op1, reverse1, pick(op0, reverse0, *value, running), *other);
            *value = running;
        }
    }
    dst.write(&chip.rules, &values);
    let cycles = two_input_cycles(a, b).max(as_u64(columns).exact_mul(2));
    let cost = cost(chip, EngineKind::Vector, cycles, &[a, b, dst], VectorRate::Plain);
    let mut reads = vec![a, b];
    reads.extend(initial.tile());
    let uninitialised = left.uninitialised | right.uninitialised | missing;
    Ok(Instruction::new(NAME, EngineKind::Vector, cost, &[dst], &reads).reading(uninitialised))
}

/// Six numbers for each partition: count, mean and variance times count of the even elements, then of the odd
/// ones.
///
/// # Errors
/// If an operand breaks a rule of the engine.
#[expect(clippy::cast_possible_truncation, reason = "statistics are rounded to FP32")]
pub fn bn_stats(chip: &Chip, dst: &Tile, data: &Tile) -> Result<Instruction, Refusal> {
    const NAME: &str = "bn_stats";
    limits::operand(chip, EngineKind::Vector, NAME, "data", data)?;
    limits::operand(chip, EngineKind::Vector, NAME, "the result", dst)?;
    let columns = data.view.free_elements();
    let most = chip.neuron.vector.statistics_free_max;
    rule((1..=most).contains(&as_u64(columns)), || {
        Refusal::new(
            "neuron/free-size",
            format!("bn_stats of {columns} elements"),
            format!("1 to {most}"),
            "split the row and combine with bn_aggr",
        )
    })?;
    rule(dst.elements() == data.view.partitions() * 6, || {
        Refusal::new(
            "neuron/shape",
            format!("bn_stats into {:?}", dst.view.shape()),
            "[P, 6]",
            "allocate six elements for each partition",
        )
    })?;
    let read = data.read(&chip.rules);
    let mut stats = Vec::with_capacity(dst.elements());
    for row in read.values.chunks(columns) {
        for first in [0, 1] {
            let part = || row.iter().skip(first).step_by(2).map(|&value| f64::from(value));
            let count = part().count();
            let mean = if count == 0 { 0.0 } else { part().sum::<f64>() / count as f64 };
            let spread: f64 = part().map(|value| (value - mean) * (value - mean)).sum();
            stats.extend([count as f32, mean as f32, spread as f32]);
        }
    }
    dst.write(&chip.rules, &stats);
    let cost = cost(chip, EngineKind::Vector, as_u64(columns), &[data], VectorRate::Plain);
    Ok(Instruction::new(NAME, EngineKind::Vector, cost, &[dst], &[data]).reading(read.uninitialised))
}

/// Mean and variance for each partition from triples of count, mean and variance times count.
///
/// # Errors
/// If an operand breaks a rule of the engine.
#[expect(clippy::cast_possible_truncation, reason = "statistics are rounded to FP32")]
pub fn bn_aggr(chip: &Chip, dst: &Tile, data: &Tile) -> Result<Instruction, Refusal> {
    const NAME: &str = "bn_aggr";
    limits::operand(chip, EngineKind::Vector, NAME, "data", data)?;
    limits::operand(chip, EngineKind::Vector, NAME, "the result", dst)?;
    let columns = data.view.free_elements();
    rule(columns > 0 && columns.is_multiple_of(3), || {
        Refusal::new(
            "neuron/free-size",
            format!("bn_aggr of {columns} elements"),
            "a multiple of 3",
            "pass whole results of bn_stats",
        )
    })?;
    rule(dst.elements() == data.view.partitions() * 2, || {
        Refusal::new(
            "neuron/shape",
            format!("bn_aggr into {:?}", dst.view.shape()),
            "[P, 2]",
            "allocate two elements for each partition",
        )
    })?;
    let read = data.read(&chip.rules);
    let mut results = Vec::with_capacity(dst.elements());
    for row in read.values.chunks(columns) {
        let triples = || row.as_chunks::<3>().0.iter().map(|triple| triple.map(f64::from));
        let count: f64 = triples().map(|[count, ..]| count).sum();
        let mean = triples().map(|[count, mean, _]| count * mean).sum::<f64>() / count;
        let spread: f64 =
            triples().map(|[count, part, spread]| spread + count * (part - mean) * (part - mean)).sum();
        results.extend([mean as f32, (spread / count) as f32]);
    }
    dst.write(&chip.rules, &results);
    let cycles = as_u64(columns).exact_mul(13) / 3;
    let cost = cost(chip, EngineKind::Vector, cycles, &[data], VectorRate::Plain);
    Ok(Instruction::new(NAME, EngineKind::Vector, cost, &[dst], &[data]).reading(read.uninitialised))
}
