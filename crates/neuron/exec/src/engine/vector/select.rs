//! Selections: by a predicate tile, by a range of columns, or by chance.

use tilewright_neuron_isa::alu::AluOp;
use tilewright_neuron_isa::cost::vector::{VectorRate, cost, two_input_cycles};
use tilewright_neuron_isa::limits::{self, same_shape};
use tilewright_neuron_isa::pattern::as_u64;
use tilewright_neuron_isa::program::{EngineKind, Instruction};
use tilewright_neuron_isa::refusal::{Refusal, rule};
use tilewright_neuron_isa::{Chip, Generation};
use tilewright_num::Dtype;

use crate::Tile;
use crate::convert::word_of;
use crate::engine::ScalarOperand;

/// Refuses operands of `tensor_copy_predicated` that the instruction does not take (instruction page;
/// docs/hardware-rules.md#vector-instructions).
///
/// # Errors
/// If the predicate is no unsigned integer, or the source has another type than the result.
pub fn check_predicate(dst: &Tile, src: &ScalarOperand, predicate: &Tile) -> Result<(), Refusal> {
    rule(matches!(predicate.view.dtype, Dtype::U8 | Dtype::U16 | Dtype::U32), || {
        Refusal::new(
            "neuron/dtype",
            format!("tensor_copy_predicated with a predicate of {}", predicate.view.type_name()),
            "predicates of uint8, uint16 or uint32",
            "give the comparison that makes the predicate dtype=nl.uint8, or use nl.where",
        )
    })?;
    let Some(src) = src.tile() else { return Ok(()) };
    rule(src.view.dtype == dst.view.dtype, || {
        Refusal::new(
            "neuron/dtype",
            format!("tensor_copy_predicated from {} to {}", src.view.type_name(), dst.view.type_name()),
            "source and result of one type",
            "cast the source with tensor_copy first",
        )
    })
}

/// dst = src where the predicate is not zero.
///
/// # Errors
/// If an operand breaks a rule of the engine.
pub fn tensor_copy_predicated(
    chip: &Chip,
    dst: &Tile,
    src: &ScalarOperand,
    predicate: &Tile,
    reverse: bool,
) -> Result<Instruction, Refusal> {
    const NAME: &str = "tensor_copy_predicated";
    limits::operand(chip, EngineKind::Vector, NAME, "the predicate", predicate)?;
    limits::operand(chip, EngineKind::Vector, NAME, "the result", dst)?;
    same_shape(NAME, dst, predicate)?;
    let flags = predicate.read(&chip.rules);
    // Elements move as they are stored: what is kept, and what comes from a tile of the same type, to the
    // bit.
    let (dtype, kept) = (dst.view.dtype, dst.read_words());
    let mut uninitialised = flags.uninitialised;
    let source = match src {
        ScalarOperand::Constant(value) => vec![word_of(&chip.rules, dtype, *value); dst.elements()],
        ScalarOperand::PerPartition(tile) => {
            limits::operand(chip, EngineKind::Vector, NAME, "the source", tile)?;
            limits::not_both_psum(NAME, tile, predicate)?;
            same_shape(NAME, dst, tile)?;
            let read = tile.read_words_as(&chip.rules, dtype);
            uninitialised |= read.uninitialised;
            read.values
        }
    };
    let mut values = kept.values;
    let mut untouched = false;
    for ((value, source), flag) in values.iter_mut().zip(&source).zip(&flags.values) {
        if (*flag != 0.0) != reverse {
            *value = *source;
        } else {
            untouched = true;
        }
    }
    dst.write_words(&values);
    let mut reads = vec![predicate];
    reads.extend(src.tile());
    let one_pass = as_u64(dst.view.free_elements());
    let cycles = src.tile().map_or(one_pass, |tile| two_input_cycles(tile, predicate));
    let tiles: Vec<&Tile> = [dst].into_iter().chain(reads.iter().copied()).collect();
    let cost = cost(chip, EngineKind::Vector, cycles, &tiles, VectorRate::Plain);
    Ok(Instruction::new(NAME, EngineKind::Vector, cost, &[dst], &reads)
        .reading(uninitialised | (untouched & kept.uninitialised)))
}

/// Refuses a reduction beside a selection that is not the largest
/// (docs/hardware-rules.md#vector-instructions).
///
/// # Errors
/// If it is another.
pub fn largest_only(instruction: &str, op: AluOp) -> Result<(), Refusal> {
    rule(op == AluOp::Maximum, || {
        Refusal::new(
            "neuron/operator",
            format!("{instruction} with reduce_op {}", op.name()),
            "maximum",
            "select first, then reduce with tensor_reduce",
        )
    })
}

/// Refuses on_true of a type that `select_reduce` does not take: what does not pass through FP32 as it is.
fn selectable(on_true: &Tile) -> Result<(), Refusal> {
    rule(!matches!(on_true.view.dtype, Dtype::Tf32 | Dtype::I32 | Dtype::U32), || {
        Refusal::new(
            "neuron/dtype",
            format!("select_reduce with on_true of {}", on_true.view.type_name()),
            "floats except TF32, and integers of 8 or 16 bits",
            "use tensor_copy_predicated, which moves 32-bit integers as they are",
        )
    })
}

/// dst = on_true where the predicate holds, on_false elsewhere, and the largest of each row.
///
/// # Errors
/// If an operand breaks a rule of the engine.
pub fn select_reduce(
    chip: &Chip,
    dst: &Tile,
    predicate: &Tile,
    on_true: &Tile,
    on_false: &ScalarOperand,
    reverse: bool,
    result: Option<(&Tile, bool)>,
) -> Result<Instruction, Refusal> {
    const NAME: &str = "select_reduce";
    for (role, tile) in [("the predicate", predicate), ("on_true", on_true), ("the result", dst)] {
        limits::operand(chip, EngineKind::Vector, NAME, role, tile)?;
    }
    selectable(on_true)?;
    same_shape(NAME, dst, predicate)?;
    same_shape(NAME, dst, on_true)?;
    let (partitions, columns) = (dst.view.partitions(), dst.view.free_elements());
    let (flags, source) = (predicate.read(&chip.rules), on_true.read(&chip.rules));
    let others = match on_false {
        ScalarOperand::PerPartition(tile) if tile.elements() == dst.elements() && columns > 1 => {
            tile.read(&chip.rules).values
        }
        _ => {
            let (values, _) = on_false.values(&chip.rules, partitions)?;
            values.iter().flat_map(|&value| std::iter::repeat_n(value, columns)).collect()
        }
    };
    let pick = |((flag, yes), no): ((&f32, &f32), &f32)| if (*flag != 0.0) != reverse { *yes } else { *no };
    let values: Vec<f32> = flags.values.iter().zip(&source.values).zip(&others).map(pick).collect();
    dst.write(&chip.rules, &values);
    let mut writes = vec![dst];
    if let Some((tile, accumulate)) = result {
        row_maxima(chip, tile, &values, columns, accumulate)?;
        writes.push(tile);
    }
    let mut reads = vec![predicate, on_true];
    reads.extend(on_false.tile());
    let cost = cost(chip, EngineKind::Vector, as_u64(columns) * 2, &[dst, on_true], VectorRate::Plain);
    Ok(Instruction::new(NAME, EngineKind::Vector, cost, &writes, &reads)
        .reading(flags.uninitialised | source.uninitialised))
}

fn row_maxima(
    chip: &Chip,
    tile: &Tile,
    values: &[f32],
    columns: usize,
    accumulate: bool,
) -> Result<(), Refusal> {
    let mut maxima: Vec<f32> = values.chunks(columns.max(1)).map(|row| AluOp::Maximum.reduce(row)).collect();
    rule(maxima.len() == tile.elements(), || {
        Refusal::new(
            "neuron/shape",
            format!("reduce_res of shape {:?}", tile.view.shape()),
            "[P, 1]",
            "one element for each partition",
        )
    })?;
    if accumulate {
        AluOp::Maximum.combine(&mut maxima, &tile.read(&chip.rules).values, true);
    }
    tile.write(&chip.rules, &maxima);
    Ok(())
}

/// A comparison of the column with a value for each partition.
#[derive(Clone, Debug)]
pub struct ColumnBound {
    /// Comparison: column op value.
    pub op: AluOp,
    /// Value.
    pub value: ScalarOperand,
}

/// dst = data where both comparisons hold for the column, `fill` elsewhere, and the largest of each row.
///
/// # Errors
/// If an operand breaks a rule of the engine.
pub fn range_select(
    chip: &Chip,
    dst: &Tile,
    data: &Tile,
    bounds: &[ColumnBound; 2],
    range_start: f32,
    fill: f32,
    result: Option<(&Tile, bool)>,
) -> Result<Instruction, Refusal> {
    const NAME: &str = "range_select";
    chip.needs(NAME, Generation::V3)?;
    limits::operand(chip, EngineKind::Vector, NAME, "data", data)?;
    limits::operand(chip, EngineKind::Vector, NAME, "the result", dst)?;
    same_shape(NAME, dst, data)?;
    let (partitions, columns) = (dst.view.partitions(), dst.view.free_elements());
    let (low, missing0) = bounds[0].value.values(&chip.rules, partitions)?;
    let (high, missing1) = bounds[1].value.values(&chip.rules, partitions)?;
    let read = data.read(&chip.rules);
    let mut values = read.values;
    for ((row, low), high) in values.chunks_mut(columns.max(1)).zip(&low).zip(&high) {
        let mut column = range_start;
        for value in row {
            if bounds[0].op.apply(column, *low) == 0.0 || bounds[1].op.apply(column, *high) == 0.0 {
                *value = fill;
            }
            column += 1.0;
        }
    }
    dst.write(&chip.rules, &values);
    let mut writes = vec![dst];
    if let Some((tile, accumulate)) = result {
        row_maxima(chip, tile, &values, columns, accumulate)?;
        writes.push(tile);
    }
    let mut reads = vec![data];
    reads.extend(bounds.iter().filter_map(|bound| bound.value.tile()));
    let cost = cost(chip, EngineKind::Vector, as_u64(columns), &[dst, data], VectorRate::Plain);
    Ok(Instruction::new(NAME, EngineKind::Vector, cost, &writes, &reads)
        .reading(read.uninitialised | missing0 | missing1))
}

/// dst = data with elements set to zero with a probability. The generator's sequence is ours: none is
/// published.
///
/// # Errors
/// If an operand breaks a rule of the engine.
pub fn dropout(
    chip: &Chip,
    dst: &Tile,
    data: &Tile,
    probability: &ScalarOperand,
    seed: &mut u64,
) -> Result<Instruction, Refusal> {
    const NAME: &str = "dropout";
    limits::operand(chip, EngineKind::Vector, NAME, "data", data)?;
    limits::operand(chip, EngineKind::Vector, NAME, "the result", dst)?;
    same_shape(NAME, dst, data)?;
    let columns = data.view.free_elements();
    let (probs, missing) = probability.values(&chip.rules, data.view.partitions())?;
    let read = data.read(&chip.rules);
    let mut values = read.values;
    for (row, chance) in values.chunks_mut(columns.max(1)).zip(probs) {
        for value in row {
            if uniform(seed) < chance {
                *value = 0.0;
            }
        }
    }
    dst.write(&chip.rules, &values);
    let cost = cost(chip, EngineKind::Vector, as_u64(columns), &[dst, data], VectorRate::Plain);
    let mut reads = vec![data];
    reads.extend(probability.tile());
    Ok(Instruction::new(NAME, EngineKind::Vector, cost, &[dst], &reads).reading(read.uninitialised | missing))
}

/// The next number in [0, 1) of a splitmix generator.
pub fn uniform(seed: &mut u64) -> f32 {
    (tilewright_base::random::next(seed) >> 40) as f32 / 16_777_216.0
}
