//! Element-wise instructions: every element by itself, or with a partner.

use smallvec::SmallVec;
use tilewright_base::invariant::Exact;
use tilewright_neuron_isa::alu::AluOp;
use tilewright_neuron_isa::cost::vector::{VectorRate, cost, cost_on, is_fast, two_input_cycles};
use tilewright_neuron_isa::limits::{self, same_shape};
use tilewright_neuron_isa::pattern::as_u64;
use tilewright_neuron_isa::program::ComputeForm;
use tilewright_neuron_isa::program::{EngineKind, Instruction};
use tilewright_neuron_isa::refusal::{Refusal, rule};
use tilewright_neuron_isa::{Chip, Generation, MemorySpace};
use tilewright_num::Dtype;

use crate::Tile;
use crate::buffer_pool::recycle_floats;
use crate::convert;
use crate::engine::{AluStep, ScalarOperand};

/// dst = a op b.
///
/// # Errors
/// If an operand breaks a rule of the engine.
pub fn tensor_tensor(
    chip: &Chip,
    dst: &Tile,
    a: &Tile,
    b: &Tile,
    op: AluOp,
    engine: Option<EngineKind>,
) -> Result<Instruction, Refusal> {
    const NAME: &str = "tensor_tensor";
    let wide = |tile: &Tile| matches!(tile.view.dtype, Dtype::I32 | Dtype::U32);
    let exact = wide(a) && wide(b) && !op.is_bitwise();
    let in_sbuf = [a, b, dst].iter().all(|tile| tile.storage.memory == MemorySpace::Sbuf);
    let preferred =
        if in_sbuf && (op == AluOp::Power || exact) { EngineKind::Gpsimd } else { EngineKind::Vector };
    let free = engine.is_none();
    let engine = engine.unwrap_or(preferred);
    limits::engine_of(NAME, engine, &[EngineKind::Vector, EngineKind::Gpsimd])?;
    for (role, tile) in [("the first input", a), ("the second input", b), ("the result", dst)] {
        limits::operand(chip, engine, NAME, role, tile)?;
    }
    limits::not_both_psum(NAME, a, b)?;
    same_shape(NAME, a, b)?;
    same_shape(NAME, dst, a)?;
    // Only GpSimd has integers; Vector computes in FP32 (docs/hardware-rules.md#integer-arithmetic).
    let on_integers = exact && op.exact_on_integers() && engine == EngineKind::Gpsimd;
    let uninitialised = if op.is_bitwise() || on_integers {
        integer_pair(chip, dst, a, b, op)?
    } else {
        let (left, right) = (a.read(&chip.rules), b.read(&chip.rules));
        let mut values = left.values;
        op.combine(&mut values, &right.values, false);
        recycle_floats(right.values);
        dst.write_last(&chip.rules, values);
        left.uninitialised | right.uninitialised
    };
    let cycles = pair_cycles(chip, dst, a, b, op);
    let instruction_cost = cost(chip, engine, cycles, &[a, b, dst], VectorRate::Pair);
    let form = match op {
        AluOp::Multiply if engine == EngineKind::Vector => ComputeForm::Product,
        AluOp::Add | AluOp::Subtract if engine == EngineKind::Vector => ComputeForm::Linear,
        _ => ComputeForm::Other,
    };
    let mut done = Instruction::new(NAME, engine, instruction_cost, &[dst], &[a, b])
        .computing(form, &[dst, a, b], &[op as u64])
        .reading(uninitialised);
    done.borrows_port = is_fast(chip, engine, &[a, b, dst], VectorRate::Pair);
    if free && form != ComputeForm::Other && in_sbuf && !chip.neuron.access.vector_gpsimd_exclusive {
        done.on_gpsimd = Some(cost(chip, EngineKind::Gpsimd, cycles, &[a, b, dst], VectorRate::Pair));
    }
    Ok(done)
}

/// Cycles of `tensor_tensor`: one pass also for sums, differences and products of BF16 that lie side by side
/// in SBUF (instruction page, nc 2; later generations have a rate of their own for them).
fn pair_cycles(chip: &Chip, dst: &Tile, a: &Tile, b: &Tile, op: AluOp) -> u64 {
    let simple = matches!(op, AluOp::Add | AluOp::Subtract | AluOp::Multiply);
    let quick = [dst, a, b].iter().all(|tile| {
        tile.view.dtype == Dtype::Bf16
            && tile.storage.memory == MemorySpace::Sbuf
            && tile.view.free_contiguous()
    });
    let cycles = two_input_cycles(a, b);
    if simple && quick && chip.generation() < Generation::V3 { cycles / 2 } else { cycles }
}

/// Integer inputs in full precision, or as words for bit operators.
fn integer_pair(chip: &Chip, dst: &Tile, a: &Tile, b: &Tile, op: AluOp) -> Result<bool, Refusal> {
    for tile in [a, b, dst] {
        integers_only(op, tile)?;
    }
    let (left, right) = (a.read_integers(&chip.rules), b.read_integers(&chip.rules));
    let bits = a.view.dtype.bits();
    let values: Vec<i64> =
        left.values.iter().zip(&right.values).map(|(&a, &b)| op.apply_integer(a, b, bits)).collect();
    write_integers(chip, dst, &values, op);
    Ok(left.uninitialised | right.uninitialised)
}

/// Writes integers; results of bit operators keep their words.
fn write_integers(chip: &Chip, dst: &Tile, values: &[i64], op: AluOp) {
    if op.is_bitwise() && !dst.view.dtype.is_float() {
        let words: Vec<u32> = values
            .iter()
            .map(|&value| tilewright_num::int_pattern(dst.view.dtype, wrap(dst.view.dtype, value)))
            .collect();
        return dst.write_words(&words);
    }
    dst.write_integers(&chip.rules, values);
}

/// The low bits of a value, as a value of that type.
fn wrap(dtype: Dtype, value: i64) -> i64 {
    let bits = dtype.bits();
    let word = value & ((1_i64 << bits) - 1);
    let negative = dtype.int_range().is_some_and(|(least, _)| least < 0) && word >> (bits - 1) != 0;
    if negative { word - (1_i64 << bits) } else { word }
}

pub(super) fn integers_only(op: AluOp, tile: &Tile) -> Result<(), Refusal> {
    rule(!op.is_bitwise() || !tile.view.dtype.is_float(), || {
        Refusal::new(
            "neuron/dtype",
            format!("{} of {}", op.name(), tile.view.dtype),
            "bit operators on integers",
            "view the tile as an integer type of the same size",
        )
    })
}

/// dst = (data op0 operand0) op1 operand1, operands constants or one value for each partition.
///
/// # Errors
/// If an operand breaks a rule of the engine.
pub fn tensor_scalar(
    chip: &Chip,
    dst: &Tile,
    data: &Tile,
    steps: &[AluStep],
    engine: Option<EngineKind>,
) -> Result<Instruction, Refusal> {
    const NAME: &str = "tensor_scalar";
    let free = engine.is_none();
    let engine = engine.unwrap_or(EngineKind::Vector);
    limits::engine_of(NAME, engine, &[EngineKind::Vector, EngineKind::Scalar, EngineKind::Gpsimd])?;
    if engine == EngineKind::Scalar {
        chip.needs("tensor_scalar on the scalar engine", Generation::V3)?;
        scalar_operators(chip, steps)?;
    }
    limits::operand(chip, engine, NAME, "data", data)?;
    limits::operand(chip, engine, NAME, "the result", dst)?;
    same_shape(NAME, dst, data)?;
    let bitwise = steps.iter().filter(|step| step.op.is_bitwise()).count();
    rule(bitwise == 0 || bitwise == steps.len(), || {
        Refusal::new(
            "neuron/operator",
            "tensor_scalar with a bit operator and an arithmetic one",
            "both operators of one class",
            "use two instructions",
        )
    })?;
    let uninitialised = if bitwise > 0 {
        integer_steps(chip, dst, data, steps)?
    } else {
        float_steps(chip, dst, data, steps)?
    };
    let columns = as_u64(data.view.free_elements());
    let cost = cost(chip, engine, columns, &[data, dst], VectorRate::Fast);
    let mut reads: SmallVec<[&Tile; 3]> = smallvec::smallvec![data];
    reads.extend(steps.iter().filter_map(|step| step.operand.tile()));
    let mut words: SmallVec<[u64; 6]> = SmallVec::new();
    for step in steps {
        let constant = match &step.operand {
            ScalarOperand::Constant(value) => value.to_bits(),
            ScalarOperand::PerPartition(_) => u64::MAX,
        };
        words.extend([step.op as u64, u64::from(step.reverse), constant]);
    }
    let multiple = matches!(steps, [one] if one.op == AluOp::Multiply && one.operand.tile().is_none());
    let form = if multiple { ComputeForm::Scaled } else { ComputeForm::Map };
    let mut done = Instruction::new(NAME, engine, cost, &[dst], &reads)
        .computing(form, &[dst, data], &words)
        .reading(uninitialised);
    done.borrows_port = is_fast(chip, engine, &[data, dst], VectorRate::Fast);
    let linear = |step: &AluStep| matches!(step.op, AluOp::Multiply | AluOp::Add);
    let wide = [data, dst].iter().all(|tile| tile.view.dtype.is_float());
    if free && wide && matches!(steps, [one] if linear(one)) {
        done.on_scalar = Some(cost_on(chip, EngineKind::Scalar, columns, &[data, dst]));
    }
    Ok(done)
}

/// NeuronCore-v3 has only multiply and add on the Scalar engine, in that order.
fn scalar_operators(chip: &Chip, steps: &[AluStep]) -> Result<(), Refusal> {
    let ops: Vec<AluOp> = steps.iter().map(|step| step.op).collect();
    let has = matches!(ops[..], [AluOp::Multiply, AluOp::Add] | [AluOp::Multiply] | [AluOp::Add]);
    rule(has || chip.generation() > Generation::V3, || {
        let names: Vec<&str> = ops.iter().map(|op| op.name()).collect();
        Refusal::new(
            "neuron/operator",
            format!("tensor_scalar with {} on the scalar engine of {}", names.join(" and "), chip.name),
            "multiply, add, or multiply and then add",
            "use the vector engine",
        )
    })
}

fn float_steps(chip: &Chip, dst: &Tile, data: &Tile, steps: &[AluStep]) -> Result<bool, Refusal> {
    let read = data.read(&chip.rules);
    let (mut values, mut uninitialised) = (read.values, read.uninitialised);
    uninitialised |= apply_steps(chip, &mut values, data, steps)?;
    dst.write_last(&chip.rules, values);
    Ok(uninitialised)
}

/// Runs the steps over rows of a tile.
#[expect(clippy::cast_possible_truncation, reason = "constants of arithmetic are FP32")]
pub(crate) fn apply_steps(
    chip: &Chip,
    values: &mut [f32],
    data: &Tile,
    steps: &[AluStep],
) -> Result<bool, Refusal> {
    let (partitions, columns) = (data.view.partitions(), data.view.free_elements());
    let mut uninitialised = false;
    for step in steps {
        if let ScalarOperand::Constant(value) = &step.operand {
            step.op.combine_scalar(values, *value as f32, step.reverse);
            continue;
        }
        let (operands, missing) = step.operand.values(&chip.rules, partitions)?;
        uninitialised |= missing;
        for (row, operand) in values.chunks_mut(columns.max(1)).zip(&operands) {
            step.op.combine_scalar(row, *operand, step.reverse);
        }
    }
    Ok(uninitialised)
}

/// Constants of bit operators are words: whole numbers of 32 bits, and no negative number of places to shift
/// by.
#[expect(clippy::cast_possible_truncation, reason = "whole numbers of 32 bits")]
fn word_constant(op: AluOp, value: f64) -> Result<i64, Refusal> {
    let shift = matches!(op, AluOp::LeftShift | AluOp::RightShift);
    let least = if shift { 0.0 } else { f64::from(i32::MIN) };
    let fits = value.fract() == 0.0 && (least..=f64::from(u32::MAX)).contains(&value);
    rule(fits, || {
        let allowed = if shift { "whole numbers of 0 or more" } else { "whole numbers of 32 bits" };
        let asked = format!("{} with {value}", op.name());
        Refusal::new("neuron/operand", asked, allowed, "check what the constant is computed from")
    })?;
    Ok(value as i64)
}

fn integer_steps(chip: &Chip, dst: &Tile, data: &Tile, steps: &[AluStep]) -> Result<bool, Refusal> {
    let (partitions, columns) = (data.view.partitions(), data.view.free_elements());
    let read = data.read_integers(&chip.rules);
    let (mut values, mut uninitialised) = (read.values, read.uninitialised);
    for step in steps {
        integers_only(step.op, data)?;
        integers_only(step.op, dst)?;
        let operands: Vec<i64> = match &step.operand {
            ScalarOperand::Constant(value) => vec![word_constant(step.op, *value)?; partitions],
            ScalarOperand::PerPartition(tile) => {
                integers_only(step.op, tile)?;
                let read = tile.read_integers(&chip.rules);
                uninitialised |= read.uninitialised;
                read.values
            }
        };
        for (row, &operand) in values.chunks_mut(columns.max(1)).zip(operands.iter().cycle()) {
            for value in row {
                let (a, b) = if step.reverse { (operand, *value) } else { (*value, operand) };
                *value = step.op.apply_integer(a, b, data.view.dtype.bits());
            }
        }
    }
    write_integers(chip, dst, &values, AluOp::BitwiseAnd);
    Ok(uninitialised)
}

/// dst = (data op0 operand0) op1 tensor.
///
/// # Errors
/// If an operand breaks a rule of the engine.
pub fn scalar_tensor_tensor(
    chip: &Chip,
    dst: &Tile,
    data: &Tile,
    first: &AluStep,
    tensor: &Tile,
    op: AluOp,
    reverse: bool,
) -> Result<Instruction, Refusal> {
    const NAME: &str = "scalar_tensor_tensor";
    limits::arithmetic(NAME, &[first.op, op])?;
    for (role, tile) in [("data", data), ("the second tensor", tensor), ("the result", dst)] {
        limits::operand(chip, EngineKind::Vector, NAME, role, tile)?;
    }
    limits::not_both_psum(NAME, data, tensor)?;
    same_shape(NAME, data, tensor)?;
    same_shape(NAME, dst, data)?;
    let read = data.read(&chip.rules);
    let mut values = read.values;
    let mut uninitialised = read.uninitialised;
    uninitialised |= apply_steps(chip, &mut values, data, std::slice::from_ref(first))?;
    let other = tensor.read(&chip.rules);
    op.combine(&mut values, &other.values, reverse);
    recycle_floats(other.values);
    dst.write_last(&chip.rules, values);
    let cost = cost(
        chip,
        EngineKind::Vector,
        two_input_cycles(data, tensor),
        &[data, tensor, dst],
        VectorRate::Plain,
    );
    let mut reads = vec![data, tensor];
    reads.extend(first.operand.tile());
    Ok(Instruction::new(NAME, EngineKind::Vector, cost, &[dst], &reads)
        .reading(uninitialised | other.uninitialised))
}

/// dst = src, cast.
///
/// # Errors
/// If an operand breaks a rule of the engine.
pub fn tensor_copy(
    chip: &Chip,
    dst: &Tile,
    src: &Tile,
    engine: Option<EngineKind>,
) -> Result<Instruction, Refusal> {
    const NAME: &str = "tensor_copy";
    let free = engine.is_none();
    let engine = engine.unwrap_or(EngineKind::Vector);
    limits::engine_of(NAME, engine, &[EngineKind::Vector, EngineKind::Scalar, EngineKind::Gpsimd])?;
    limits::operand(chip, engine, NAME, "the source", src)?;
    limits::operand(chip, engine, NAME, "the result", dst)?;
    same_shape(NAME, dst, src)?;
    limits::same_words(NAME, dst, src)?;
    let uninitialised = convert::copy(&chip.rules, dst, src);
    let cost = cost(chip, engine, as_u64(src.view.free_elements()), &[src, dst], VectorRate::Fast);
    let same = src.view.dtype == dst.view.dtype && src.view.dims == dst.view.dims;
    let form = if same { ComputeForm::Copy } else { ComputeForm::Other };
    let mut done = Instruction::new(NAME, engine, cost, &[dst], &[src])
        .computing(form, &[dst, src], &[])
        .reading(uninitialised);
    done.borrows_port = is_fast(chip, engine, &[src, dst], VectorRate::Fast);
    if free && [src, dst].iter().all(|tile| tile.view.dtype.is_float()) {
        let columns = as_u64(src.view.free_elements());
        done.on_scalar = Some(cost_on(chip, EngineKind::Scalar, columns, &[src, dst]));
    }
    Ok(done)
}

/// dst = value everywhere.
///
/// # Errors
/// If the result breaks a rule of the engine.
pub fn memset(
    chip: &Chip,
    dst: &Tile,
    value: f64,
    engine: Option<EngineKind>,
) -> Result<Instruction, Refusal> {
    const NAME: &str = "memset";
    let engine = engine.unwrap_or(EngineKind::Vector);
    limits::engine_of(NAME, engine, &[EngineKind::Vector, EngineKind::Gpsimd])?;
    limits::operand(chip, engine, NAME, "the result", dst)?;
    fill(chip, dst, value);
    let columns = as_u64(dst.view.free_elements());
    let half = dst.view.dtype.is_float() && dst.view.dtype.storage_bits() == 16 && value == 0.0;
    let cost = cost(chip, engine, if half { columns / 2 } else { columns }, &[dst], VectorRate::Plain);
    Ok(Instruction::new(NAME, engine, cost, &[dst], &[]))
}

/// Writes one value everywhere.
#[expect(clippy::cast_possible_truncation, reason = "constants are FP32, or integers of at most 32 bits")]
pub fn fill(chip: &Chip, dst: &Tile, value: f64) {
    if value.to_bits() == 0 && dst.clear() {
        return;
    }
    if dst.view.dtype.is_float() {
        dst.write(&chip.rules, &vec![value as f32; dst.elements()]);
    } else {
        dst.write_integers(&chip.rules, &vec![value.round_ties_even() as i64; dst.elements()]);
    }
}

/// dst = 1 / data.
///
/// # Errors
/// If an operand breaks a rule of the engine.
pub fn reciprocal(chip: &Chip, dst: &Tile, data: &Tile) -> Result<Instruction, Refusal> {
    const NAME: &str = "reciprocal";
    limits::operand(chip, EngineKind::Vector, NAME, "data", data)?;
    limits::operand(chip, EngineKind::Vector, NAME, "the result", dst)?;
    same_shape(NAME, dst, data)?;
    let read = data.read(&chip.rules);
    let mut values = read.values;
    AluOp::Reciprocal.combine_scalar(&mut values, 0.0, false);
    dst.write_last(&chip.rules, values);
    let cycles = as_u64(data.view.free_elements()).exact_mul(chip.neuron.vector.reciprocal_cycles);
    let cost = cost(chip, EngineKind::Vector, cycles, &[data, dst], VectorRate::Plain);
    Ok(Instruction::new(NAME, EngineKind::Vector, cost, &[dst], &[data])
        .computing(ComputeForm::Reciprocal, &[dst, data], &[])
        .reading(read.uninitialised))
}

/// Transposes blocks of at most 32 by 32.
///
/// # Errors
/// If an operand breaks a rule of the engine.
pub fn transpose(chip: &Chip, dst: &Tile, data: &Tile) -> Result<Instruction, Refusal> {
    const NAME: &str = "nc_transpose";
    limits::operand(chip, EngineKind::Vector, NAME, "data", data)?;
    limits::operand(chip, EngineKind::Vector, NAME, "the result", dst)?;
    let block = chip.neuron.vector.transpose_block;
    let (p, f) = (as_u64(data.view.partitions()), as_u64(data.view.free_elements()));
    rule(p <= block && f <= block, || {
        Refusal::new(
            "neuron/shape",
            format!("nc_transpose of [{p}, {f}] on the vector engine"),
            format!("at most [{block}, {block}]"),
            "use the tensor engine, or transpose in blocks",
        )
    })?;
    let uninitialised = crate::engine::tensor::transpose_values(chip, dst, data)?;
    let cost = cost(chip, EngineKind::Vector, f, &[data, dst], VectorRate::Plain);
    Ok(Instruction::new(NAME, EngineKind::Vector, cost, &[dst], &[data]).reading(uninitialised))
}

/// Copies partitions within each quadrant of 32 as the mask says; 255 leaves a partition as it is.
///
/// # Errors
/// If an operand breaks a rule of the engine, or the mask names a partition outside a quadrant.
pub fn nc_stream_shuffle(chip: &Chip, dst: &Tile, src: &Tile, mask: &[u64]) -> Result<Instruction, Refusal> {
    const NAME: &str = "nc_stream_shuffle";
    const LEAVE: u64 = 255;
    limits::operand(chip, EngineKind::Vector, NAME, "the source", src)?;
    limits::operand(chip, EngineKind::Vector, NAME, "the result", dst)?;
    let block = chip.neuron.vector.transpose_block;
    rule(as_u64(mask.len()) == block && mask.iter().all(|&from| from < block || from == LEAVE), || {
        Refusal::new(
            "neuron/shape",
            format!("nc_stream_shuffle with a mask of {} entries", mask.len()),
            format!("{block} entries below {block}, or 255"),
            "name a partition of the quadrant for each of its partitions",
        )
    })?;
    let columns = src.view.free_elements();
    rule(columns == dst.view.free_elements(), || {
        Refusal::new(
            "neuron/shape",
            "nc_stream_shuffle of different free sizes",
            "the same free size",
            "slice one of them",
        )
    })?;
    let (read, mut kept) = (src.read_words(), dst.read_words().values);
    let block = mask.len();
    for (partition, row) in kept.chunks_mut(columns.max(1)).enumerate() {
        let Some(&from) = mask.get(partition % block) else { continue };
        let source = partition / block * block + usize::try_from(from).unwrap_or(usize::MAX);
        if from == LEAVE {
            continue;
        }
        if let Some(values) = read.values.get(source * columns..(source + 1) * columns) {
            row.copy_from_slice(values);
        }
    }
    dst.write_words(&kept);
    let cost = cost(chip, EngineKind::Vector, as_u64(columns), &[src, dst], VectorRate::Plain);
    Ok(Instruction::new(NAME, EngineKind::Vector, cost, &[dst], &[src]))
}
