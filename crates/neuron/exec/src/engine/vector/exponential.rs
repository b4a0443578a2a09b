//! The exponential of the Vector engine, which NeuronCore-v4 has (NKI instruction pages, exponential).

use tilewright_neuron_isa::alu::AluOp;
use tilewright_neuron_isa::cost::vector::{VectorRate, cost};
use tilewright_neuron_isa::function::ActivationFunction;
use tilewright_neuron_isa::limits::{self, same_shape};
use tilewright_neuron_isa::pattern::as_u64;
use tilewright_neuron_isa::program::{EngineKind, Instruction};
use tilewright_neuron_isa::refusal::{Refusal, rule};
use tilewright_neuron_isa::{Chip, Generation};

use crate::Tile;
use crate::engine::ScalarOperand;

/// Elements of a lane in a cycle.
const RATE: u64 = 4;

/// dst = exp(src - largest), and the sums of its rows, which start from a value for each partition.
///
/// # Errors
/// If the generation lacks it, or an operand breaks a rule of the engine.
pub fn exponential(
    chip: &Chip,
    dst: &Tile,
    src: &Tile,
    largest: &ScalarOperand,
    sums: Option<(&Tile, &ScalarOperand)>,
) -> Result<Instruction, Refusal> {
    const NAME: &str = "exponential";
    chip.needs(NAME, Generation::V4)?;
    limits::operand(chip, EngineKind::Vector, NAME, "the source", src)?;
    limits::operand(chip, EngineKind::Vector, NAME, "the result", dst)?;
    same_shape(NAME, dst, src)?;
    let (partitions, columns) = (src.view.partitions(), src.view.free_elements());
    let (shifts, missing) = largest.values(&chip.rules, partitions)?;
    let read = src.read(&chip.rules);
    let (mut values, mut uninitialised) = (read.values, read.uninitialised | missing);
    for (row, shift) in values.chunks_mut(columns.max(1)).zip(&shifts) {
        AluOp::Subtract.combine_scalar(row, *shift, false);
        ActivationFunction::Exp.apply_slice(row);
    }
    dst.write(&chip.rules, &values);
    let mut writes = vec![dst];
    if let Some((tile, start)) = sums {
        limits::operand(chip, EngineKind::Vector, NAME, "reduce_res", tile)?;
        let (mut totals, missing) = start.values(&chip.rules, partitions)?;
        uninitialised |= missing;
        rule(tile.elements() == partitions, || {
            Refusal::new(
                "neuron/shape",
                format!("exponential with reduce_res of shape {:?}", tile.view.shape()),
                "[P, 1]",
                "one element for each partition",
            )
        })?;
        let rows = values.chunks(columns.max(1)).map(|row| AluOp::Add.reduce(row));
        totals.iter_mut().zip(rows).for_each(|(total, row)| *total += row);
        tile.write(&chip.rules, &totals);
        writes.push(tile);
    }
    let cost = cost(chip, EngineKind::Vector, as_u64(columns) / RATE, &[src, dst], VectorRate::Plain);
    let mut reads = vec![src];
    reads.extend(largest.tile());
    reads.extend(sums.and_then(|(_, start)| start.tile()));
    Ok(Instruction::new(NAME, EngineKind::Vector, cost, &writes, &reads).reading(uninitialised))
}
