//! Pairs of instructions that the machine does in one: an activation and the sum of its results, which the
//! Scalar engine takes on the way (docs/hardware-rules.md#scalar-engine), a tile and its own multiple, and a
//! reciprocal with the product that it is for, which is a division.

use tilewright_base::invariant::Exact;
use tilewright_neuron_isa::chip::cycles_ps;
use tilewright_neuron_isa::program::ComputeForm;
use tilewright_neuron_isa::{Chip, EngineKind, NeuronProgram, TensorRegion};

use super::{TileUsers, merge};
use crate::schedule::TileTable;

pub(super) fn run(chip: &Chip, program: &mut NeuronProgram, tiles: &TileTable) {
    let users = TileUsers::of(program, tiles);
    for at in (0_u32..).take(program.instructions.len()) {
        match program.instructions[at as usize].form {
            ComputeForm::Sum => sum(chip, program, tiles, &users, at),
            ComputeForm::Product => {
                own_multiple(program, tiles, &users, at);
                division(chip, program, tiles, &users, at);
            }
            ComputeForm::Linear => own_multiple(program, tiles, &users, at),
            _ => {}
        }
    }
}

/// The last instruction before `at` that writes a tile, if it writes that region and nothing else does.
fn writer_of(
    program: &NeuronProgram,
    tiles: &TileTable,
    users: &TileUsers,
    region: &TensorRegion,
    at: u32,
) -> Option<u32> {
    let writer = users.last_writer(tiles.number(region), at)?;
    let instruction = program.instructions.get(writer as usize)?;
    (instruction.writes[..] == [*region]).then_some(writer)
}

fn sum(chip: &Chip, program: &mut NeuronProgram, tiles: &TileTable, users: &TileUsers, at: u32) {
    let instruction = &program.instructions[at as usize];
    let ([data], [result]) = (&instruction.reads[..], &instruction.writes[..]) else { return };
    let (data, result) = (*data, *result);
    let Some(writer) = writer_of(program, tiles, users, &data, at) else { return };
    let first = tiles.facts.get(tiles.number(&result) as usize).is_some_and(|facts| facts.life.0 == at);
    let map = &mut program.instructions[writer as usize];
    if !first || map.form != ComputeForm::Map || map.engine != EngineKind::Scalar {
        return;
    }
    let scalar = &chip.neuron.scalar;
    let read_ps = cycles_ps(scalar.accumulator_read_cycles, scalar.clock_hz);
    map.cost.busy_ps = map.cost.busy_ps.exact_add(read_ps);
    map.writes.push(result);
    merge(&mut program.instructions[at as usize]);
}

/// A tile combined with its own multiple: x + c x is x (1 + c), and c x x a square, which Scalar and Vector
/// compute of one operand.
fn own_multiple(program: &mut NeuronProgram, tiles: &TileTable, users: &TileUsers, at: u32) {
    let [left, right] = program.instructions[at as usize].reads[..] else { return };
    for (scaled, other) in [(left, right), (right, left)] {
        let tile = tiles.number(&scaled);
        let Some(writer) = writer_of(program, tiles, users, &scaled, at) else { continue };
        let multiple = &program.instructions[writer as usize];
        let only = users.readers(tile) == [at] && users.writers(tile) == [writer];
        let unchanged = users.last_writer(tiles.number(&other), at).is_none_or(|last| last <= writer);
        if multiple.form != ComputeForm::Scaled || multiple.reads[..] != [other] || !only || !unchanged {
            continue;
        }
        let (cost, on_scalar) = (multiple.cost, multiple.on_scalar);
        merge(&mut program.instructions[writer as usize]);
        let instruction = &mut program.instructions[at as usize];
        (instruction.cost, instruction.on_scalar, instruction.on_gpsimd) = (cost, on_scalar, None);
        instruction.reads.clear();
        instruction.reads.push(other);
        instruction.form = ComputeForm::Map;
        return;
    }
}

fn division(chip: &Chip, program: &mut NeuronProgram, tiles: &TileTable, users: &TileUsers, at: u32) {
    let reads = program.instructions[at as usize].reads.clone();
    for (place, region) in reads.iter().enumerate() {
        let tile = tiles.number(region);
        let Some(writer) = writer_of(program, tiles, users, region, at) else { continue };
        let reciprocal = &program.instructions[writer as usize];
        let only = users.readers(tile) == [at] && users.writers(tile) == [writer];
        let ([data], true) = (&reciprocal.reads[..], reciprocal.form == ComputeForm::Reciprocal && only)
        else {
            continue;
        };
        let data = *data;
        let changed = users.last_writer(tiles.number(&data), at).is_some_and(|last| last > writer);
        if changed {
            continue;
        }
        let fixed_ps = cycles_ps(chip.neuron.vector.fixed_cycles, chip.neuron.vector.clock_hz);
        // A program that was read may state less than the fixed time.
        let pass_ps = reciprocal.cost.busy_ps.saturating_sub(fixed_ps) / chip.neuron.vector.reciprocal_cycles;
        let product = &mut program.instructions[at as usize];
        product.cost.busy_ps = times(pass_ps, chip.neuron.vector.divide_cycles).exact_add(fixed_ps);
        if let Some(read) = product.reads.get_mut(place) {
            *read = data;
        }
        (product.form, product.on_gpsimd) = (ComputeForm::Other, None);
        merge(&mut program.instructions[writer as usize]);
        return;
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time times a few cycles")]
fn times(time_ps: u64, cycles: f64) -> u64 {
    (time_ps as f64 * cycles) as u64
}
