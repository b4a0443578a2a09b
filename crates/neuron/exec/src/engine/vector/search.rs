//! Searches for the eight largest values of a row and where they are.

use tilewright_neuron_isa::Chip;
use tilewright_neuron_isa::cost::vector::{VectorRate, cost};
use tilewright_neuron_isa::limits::{self, same_shape};
use tilewright_neuron_isa::pattern::as_u64;
use tilewright_neuron_isa::program::{EngineKind, Instruction};
use tilewright_neuron_isa::refusal::{Refusal, rule};

use crate::Tile;
use crate::buffer_pool::recycle_floats;

/// Values that one of these instructions looks for.
const EIGHT: usize = 8;

fn row_length(chip: &Chip, name: &str, data: &Tile) -> Result<usize, Refusal> {
    let (columns, most) = (data.view.free_elements(), chip.neuron.vector.search_free_max);
    rule(columns >= EIGHT && as_u64(columns) <= most, || {
        Refusal::new(
            "neuron/free-size",
            format!("{name} of {columns} elements"),
            format!("{EIGHT} to {most}"),
            "split or pad the row",
        )
    })?;
    Ok(columns)
}

fn eight(name: &str, role: &str, tile: &Tile, data: &Tile) -> Result<(), Refusal> {
    let partitions = data.view.partitions();
    rule(tile.view.free_elements() == EIGHT && tile.view.partitions() == partitions, || {
        Refusal::new(
            "neuron/shape",
            format!("{name} with {role} of shape {:?}", tile.view.shape()),
            format!("[{partitions}, {EIGHT}]"),
            "give eight elements for each partition",
        )
    })
}

/// The eight largest of each row, largest first.
///
/// # Errors
/// If an operand breaks a rule of the engine.
pub fn max8(chip: &Chip, dst: &Tile, src: &Tile) -> Result<Instruction, Refusal> {
    const NAME: &str = "max8";
    limits::operand(chip, EngineKind::Vector, NAME, "the source", src)?;
    limits::operand(chip, EngineKind::Vector, NAME, "the result", dst)?;
    let columns = row_length(chip, NAME, src)?;
    eight(NAME, "the result", dst, src)?;
    let read = src.read(&chip.rules);
    let mut largest = Vec::with_capacity(dst.elements());
    for row in read.values.chunks(columns) {
        largest.extend_from_slice(&largest_of(row));
    }
    recycle_floats(read.values);
    dst.write(&chip.rules, &largest);
    let cost = cost(chip, EngineKind::Vector, as_u64(columns), &[src], VectorRate::Plain);
    Ok(Instruction::new(NAME, EngineKind::Vector, cost, &[dst], &[src]).reading(read.uninitialised))
}

/// The eight largest of a row, largest first; NaN and zeros in the order of `f32::total_cmp`.
fn largest_of(row: &[f32]) -> [f32; EIGHT] {
    // Below everything else.
    let mut largest = [f32::from_bits(u32::MAX); EIGHT];
    for &value in row {
        // Few values are among the largest so far.
        if value.total_cmp(&largest[EIGHT - 1]).is_gt() {
            let place = largest.iter().take_while(|other| other.total_cmp(&value).is_ge()).count();
            largest[place..].rotate_right(1);
            largest[place] = value;
        }
    }
    largest
}

/// The first place of a value in a row that is not one of those that are taken.
fn place_of(row: &[f32], value: f32, taken: &[u32]) -> Option<u32> {
    let mut start = 0;
    loop {
        let place = start + row.get(start..)?.iter().position(|have| *have == value)?;
        let number = u32::try_from(place).ok()?;
        if !taken.contains(&number) {
            return Some(number);
        }
        start = place + 1;
    }
}

/// Where each of eight values first is; values that occur again get the next place.
///
/// # Errors
/// If an operand breaks a rule of the engine.
pub fn nc_find_index8(chip: &Chip, dst: &Tile, data: &Tile, values: &Tile) -> Result<Instruction, Refusal> {
    const NAME: &str = "nc_find_index8";
    for (role, tile) in [("data", data), ("the values", values), ("the result", dst)] {
        limits::operand(chip, EngineKind::Vector, NAME, role, tile)?;
    }
    let columns = row_length(chip, NAME, data)?;
    eight(NAME, "the values", values, data)?;
    eight(NAME, "the result", dst, data)?;
    rule(!dst.view.dtype.is_float(), || {
        Refusal::new(
            "neuron/dtype",
            format!("{NAME} with indices as {}", dst.view.type_name()),
            "uint16 or uint32",
            "give the result an integer type, and cast it with tensor_copy",
        )
    })?;
    let (read, wanted) = (data.read(&chip.rules), values.read(&chip.rules));
    let missing = u32::MAX >> (32 - dst.view.dtype.bits().min(32));
    let mut found = Vec::with_capacity(dst.elements());
    for (row, wanted) in read.values.chunks(columns).zip(wanted.values.chunks(EIGHT)) {
        let start = found.len();
        for value in wanted {
            let place = place_of(row, *value, &found[start..]);
            found.push(place.unwrap_or(missing));
        }
    }
    dst.write_words(&found);
    let cost = cost(chip, EngineKind::Vector, as_u64(columns), &[data], VectorRate::Plain);
    Ok(Instruction::new(NAME, EngineKind::Vector, cost, &[dst], &[data, values])
        .reading(read.uninitialised | wanted.uninitialised))
}

/// dst = data with the first occurrence of each of eight values replaced; their places go to `places`.
///
/// # Errors
/// If an operand breaks a rule of the engine.
pub fn nc_match_replace8(
    chip: &Chip,
    dst: &Tile,
    data: &Tile,
    values: &Tile,
    replacement: f32,
    places: Option<&Tile>,
) -> Result<Instruction, Refusal> {
    const NAME: &str = "nc_match_replace8";
    for (role, tile) in [("data", data), ("the values", values), ("the result", dst)] {
        limits::operand(chip, EngineKind::Vector, NAME, role, tile)?;
    }
    let columns = row_length(chip, NAME, data)?;
    eight(NAME, "the values", values, data)?;
    same_shape(NAME, dst, data)?;
    places.map_or(Ok(()), |tile| eight(NAME, "dst_idx", tile, data))?;
    let (read, wanted) = (data.read(&chip.rules), values.read(&chip.rules));
    let bits = places.map_or(32, |tile| tile.view.dtype.bits());
    let missing = u32::MAX >> (32 - bits.min(32));
    let mut replaced = read.values;
    let mut found = Vec::with_capacity(wanted.values.len());
    for (row, wanted) in replaced.chunks_mut(columns).zip(wanted.values.chunks(EIGHT)) {
        let mut slots = [missing; EIGHT];
        // Equal values are paired from the last slot downwards; all are looked for before any is replaced.
        for slot in (0..wanted.len()).rev() {
            slots[slot] = place_of(row, wanted[slot], &slots[slot + 1..]).unwrap_or(missing);
        }
        for place in slots.iter().filter_map(|&place| usize::try_from(place).ok()) {
            if let Some(value) = row.get_mut(place) {
                *value = replacement;
            }
        }
        found.extend_from_slice(&slots);
    }
    dst.write_last(&chip.rules, replaced);
    let mut writes = vec![dst];
    if let Some(tile) = places {
        tile.write_words(&found);
        writes.push(tile);
    }
    let cost = cost(chip, EngineKind::Vector, as_u64(columns), &[data], VectorRate::Plain);
    Ok(Instruction::new(NAME, EngineKind::Vector, cost, &writes, &[data, values])
        .reading(read.uninitialised | wanted.uninitialised))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_are_those_of_a_sorted_row() {
        for seed in 0..200_u32 {
            let row: Vec<f32> = (0..40 + seed % 30)
                .map(|at| match (at.wrapping_mul(2_654_435_761).wrapping_add(seed * 97)) >> 27 {
                    0 => f32::NAN,
                    1 => -0.0,
                    2 => f32::INFINITY,
                    3 => -f32::NAN,
                    place => place as f32 - 15.0,
                })
                .collect();
            let mut sorted = row.clone();
            sorted.sort_by(|a, b| b.total_cmp(a));
            let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<u32>>();
            assert_eq!(bits(&largest_of(&row)), bits(&sorted[..EIGHT]), "{row:?}");
        }
    }

    #[test]
    fn a_value_that_occurs_again_gets_its_next_place() {
        let row = [3.0, 1.0, 3.0, 3.0];
        assert_eq!(place_of(&row, 3.0, &[]), Some(0));
        assert_eq!(place_of(&row, 3.0, &[0, 3]), Some(2));
        assert_eq!(place_of(&row, 3.0, &[0, 2, 3]), None);
        assert_eq!(place_of(&row, 7.0, &[]), None);
    }
}
