//! GpSimd engine: index patterns, affine selections, gathers, reductions across partitions (NKI architecture
//! guide, GpSimd engine; docs/hardware-rules.md#gpsimd-engine).

use tilewright_base::invariant::{Exact, OrBroken, to_index};
use tilewright_neuron_isa::alu::AluOp;
use tilewright_neuron_isa::cost::gpsimd::cost;
use tilewright_neuron_isa::pattern::as_u64;
use tilewright_neuron_isa::program::{EngineKind, Instruction};
use tilewright_neuron_isa::refusal::{Refusal, rule};
use tilewright_neuron_isa::{Chip, TensorAccess, limits};
use tilewright_num::Dtype;

use crate::Tile;
use crate::convert::word_of;

/// Said if elements of an operand cannot be counted; operands are bounded when they are made.
const TOO_MANY: &str = "an operand of more elements than are counted";

/// dst = the given integers, one for each element: what an index pattern evaluates to.
///
/// # Errors
/// If the result breaks a rule of the engine.
pub fn iota(chip: &Chip, dst: &Tile, values: &[i64]) -> Result<Instruction, Refusal> {
    const NAME: &str = "iota";
    limits::operand(chip, EngineKind::Gpsimd, NAME, "the result", dst)?;
    rule(values.len() == dst.elements(), || {
        Refusal::new(
            "neuron/shape",
            format!("iota of {} elements into {:?}", values.len(), dst.view.shape()),
            "a pattern of as many elements as the result",
            "check the counts of the pattern",
        )
    })?;
    dst.write_integers(&chip.rules, values);
    let cost = cost(chip, as_u64(dst.view.free_elements()));
    Ok(Instruction::new(NAME, EngineKind::Gpsimd, cost, &[dst], &[]))
}

/// dst = data where the affine predicate holds, a constant of FP32 elsewhere; elements move as they are
/// stored, and integers as integers.
///
/// # Errors
/// If an operand breaks a rule of the engine.
pub fn affine_select(
    chip: &Chip,
    dst: &Tile,
    data: &Tile,
    holds: &[bool],
    otherwise: f32,
) -> Result<Instruction, Refusal> {
    const NAME: &str = "affine_select";
    data.check_bounds()?;
    dst.check_bounds()?;
    rule(holds.len() == data.elements() && holds.len() == dst.elements(), || {
        Refusal::new(
            "neuron/shape",
            format!(
                "affine_select of {:?} into {:?} with {} predicates",
                data.view.shape(),
                dst.view.shape(),
                holds.len()
            ),
            "as many elements in all of them",
            "check the shape of the predicate",
        )
    })?;
    let read = data.read_words_as(&chip.rules, dst.view.dtype);
    let otherwise = word_of(&chip.rules, dst.view.dtype, f64::from(otherwise));
    let mut values = read.values;
    for (value, holds) in values.iter_mut().zip(holds) {
        if !holds {
            *value = otherwise;
        }
    }
    dst.write_words(&values);
    let cost = cost(chip, as_u64(dst.view.free_elements()));
    Ok(Instruction::new(NAME, EngineKind::Gpsimd, cost, &[dst], &[data]).reading(read.uninitialised))
}

/// dst = data reduced over partitions.
///
/// # Errors
/// If an operand breaks a rule of the engine.
pub fn tensor_partition_reduce(
    chip: &Chip,
    dst: &Tile,
    data: &Tile,
    op: AluOp,
) -> Result<Instruction, Refusal> {
    const NAME: &str = "tensor_partition_reduce";
    data.check_bounds()?;
    dst.check_bounds()?;
    let (partitions, columns) = (data.view.partitions(), data.view.free_elements());
    rule(dst.elements() == columns, || {
        Refusal::new(
            "neuron/shape",
            format!("a row of {columns} into {:?}", dst.view.shape()),
            format!("[1, {columns}]"),
            "give the result one partition",
        )
    })?;
    let uninitialised = if !data.view.dtype.is_float() && op.exact_on_integers() {
        let read = data.read_integers(&chip.rules);
        let mut rows = read.values.chunks(columns.max(1));
        let mut totals = rows.next().unwrap_or_default().to_vec();
        rows.for_each(|row| op.combine_integers(&mut totals, row, data.view.dtype.bits()));
        dst.write_integers(&chip.rules, &totals);
        read.uninitialised
    } else {
        let read = data.read(&chip.rules);
        let mut rows = read.values.chunks(columns.max(1));
        let mut totals = rows.next().unwrap_or_default().to_vec();
        rows.for_each(|row| op.combine(&mut totals, row, false));
        dst.write(&chip.rules, &totals);
        read.uninitialised
    };
    // Nothing is published: a pass over the data for each doubling of partitions.
    let passes = as_u64(partitions).max(2).ilog2();
    let cost = cost(chip, as_u64(columns).exact_mul(u64::from(passes)));
    Ok(Instruction::new(NAME, EngineKind::Gpsimd, cost, &[dst], &[data]).reading(uninitialised))
}

/// Each group of 16 partitions gathers from itself, with indices that the group shares, flattened partition
/// first.
///
/// # Errors
/// If an operand breaks a rule of the engine.
pub fn local_gather(
    chip: &Chip,
    dst: &Tile,
    data: &Tile,
    indices: &Tile,
    elements_per_index: usize,
    valid: Option<usize>,
) -> Result<Instruction, Refusal> {
    const NAME: &str = "local_gather";
    for (role, tile) in [("the source", data), ("the indices", indices), ("the result", dst)] {
        limits::operand(chip, EngineKind::Gpsimd, NAME, role, tile)?;
    }
    let group = to_index(chip.neuron.gpsimd.partitions_per_processor);
    let partitions = data.view.partitions();
    let (picked, written) = (indices.view.partitions(), dst.view.partitions());
    rule(partitions.is_multiple_of(group) && [picked, written] == [partitions; 2], || {
        Refusal::new(
            "neuron/partitions",
            format!("local_gather on {partitions} partitions, with indices on {picked}, into {written}"),
            format!("a multiple of {group}, the same of all three"),
            "pad the tile",
        )
    })?;
    let each = elements_per_index.max(1);
    let (source, picks) = (data.read(&chip.rules), indices.read_integers(&chip.rules));
    let (columns, per_row, out_columns) =
        (data.view.free_elements(), indices.view.free_elements(), dst.view.free_elements());
    let mut values = dst.read(&chip.rules).values;
    let count = valid.unwrap_or(per_row * group).min(out_columns / each);
    for partition in 0..partitions {
        let first = partition / group * group;
        for at in 0..count {
            let index = picks.values.get((first + at % group) * per_row + at / group).copied().unwrap_or(-1);
            let Ok(index) = usize::try_from(index) else { continue };
            for element in 0..each {
                let from = index + element;
                rule(from < columns, || bounds(from, columns))?;
                let (to, value) = (
                    partition * out_columns + at * each + element,
                    source.values.get(partition * columns + from),
                );
                if let (Some(to), Some(value)) = (values.get_mut(to), value) {
                    *to = *value;
                }
            }
        }
    }
    dst.write(&chip.rules, &values);
    let cost = cost(chip, as_u64(count * each));
    Ok(Instruction::new(NAME, EngineKind::Gpsimd, cost, &[dst], &[data, indices])
        .reading(source.uninitialised | picks.uninitialised))
}

fn bounds(index: usize, columns: usize) -> Refusal {
    Refusal::new(
        "neuron/bounds",
        format!("element {index} of a row of {columns}"),
        "indices inside the row",
        "check the indices",
    )
}

/// dst[p, i] = data[p, indices[p, i]].
///
/// # Errors
/// If an operand breaks a rule of the engine.
pub fn gather(chip: &Chip, dst: &Tile, data: &Tile, indices: &Tile) -> Result<Instruction, Refusal> {
    const NAME: &str = "nc_n_gather";
    for (role, tile) in [("the source", data), ("the indices", indices), ("the result", dst)] {
        limits::operand(chip, EngineKind::Gpsimd, NAME, role, tile)?;
    }
    let (source, picks) = (data.read_words(), indices.read_integers(&chip.rules));
    let (columns, count) = (data.view.free_elements(), indices.view.free_elements());
    let rows = [dst, data].iter().all(|tile| tile.view.partitions() == indices.view.partitions());
    rule(rows && dst.elements() == picks.values.len() && dst.view.dtype == data.view.dtype, || {
        Refusal::new(
            "neuron/shape",
            format!(
                "a gather of {:?} from {:?} into {:?}",
                indices.view.shape(),
                data.view.shape(),
                dst.view.shape()
            ),
            "the shape of the indices, the partitions and the type of the data",
            "allocate it so",
        )
    })?;
    let mut values = Vec::with_capacity(picks.values.len());
    for (partition, row) in picks.values.chunks(count.max(1)).enumerate() {
        for &index in row {
            let index = usize::try_from(index).unwrap_or(usize::MAX);
            rule(index < columns, || bounds(index, columns))?;
            values.push(source.values.get(partition * columns + index).copied().unwrap_or_default());
        }
    }
    dst.write_words(&values);
    let groups = as_u64(count).div_ceil(512);
    let cost = cost(chip, as_u64(count).exact_add(groups * chip.neuron.gpsimd.startup_cycles));
    Ok(Instruction::new(NAME, EngineKind::Gpsimd, cost, &[dst], &[data, indices])
        .reading(source.uninitialised | picks.uninitialised))
}

/// Start and end of the segment of each element; padding, segment 0, gives (n, -1).
///
/// # Errors
/// If an operand breaks a rule of the engine.
pub fn sequence_bounds(chip: &Chip, dst: &Tile, segments: &Tile) -> Result<Instruction, Refusal> {
    const NAME: &str = "sequence_bounds";
    limits::operand(chip, EngineKind::Gpsimd, NAME, "segment_ids", segments)?;
    limits::operand(chip, EngineKind::Gpsimd, NAME, "the result", dst)?;
    let read = segments.read_integers(&chip.rules);
    let count = read.values.len();
    rule(dst.elements() == 2 * count, || {
        Refusal::new(
            "neuron/shape",
            format!("sequence_bounds of {count} into {:?}", dst.view.shape()),
            format!("[1, 2, {count}]"),
            "allocate starts and ends",
        )
    })?;
    let end = i64::try_from(count).or_broken(TOO_MANY);
    let (mut starts, mut ends) = (vec![end; count], vec![-1; count]);
    let mut at = 0;
    while at < count {
        let mut next = at + 1;
        while next < count && read.values[next] == read.values[at] {
            next += 1;
        }
        if read.values[at] != 0 {
            starts[at..next].fill(i64::try_from(at).or_broken(TOO_MANY));
            ends[at..next].fill(i64::try_from(next).or_broken(TOO_MANY));
        }
        at = next;
    }
    starts.extend(ends);
    dst.write_integers(&chip.rules, &starts);
    let cost = cost(chip, as_u64(count));
    Ok(Instruction::new(NAME, EngineKind::Gpsimd, cost, &[dst], &[segments]).reading(read.uninitialised))
}

/// Indices of the non-zero elements of each row, then padding, then their count in the last place.
///
/// # Errors
/// If an operand breaks a rule of the engine.
pub fn nonzero_with_count(
    chip: &Chip,
    dst: &Tile,
    src: &Tile,
    offset: i64,
    padding: i64,
) -> Result<Instruction, Refusal> {
    const NAME: &str = "nonzero_with_count";
    chip.needs(NAME, tilewright_neuron_isa::Generation::V3)?;
    limits::operand(chip, EngineKind::Gpsimd, NAME, "the source", src)?;
    limits::operand(chip, EngineKind::Gpsimd, NAME, "the result", dst)?;
    let (columns, out) = (src.view.free_elements(), dst.view.free_elements());
    rule(out == columns + 1 && dst.view.partitions() == src.view.partitions(), || {
        Refusal::new(
            "neuron/shape",
            format!("nonzero_with_count of {:?} into {:?}", src.view.shape(), dst.view.shape()),
            format!("[P, {}]", columns + 1),
            "one more element than the source",
        )
    })?;
    let read = src.read(&chip.rules);
    let mut values = dst.read_integers(&chip.rules).values;
    for (partition, (row, to)) in
        read.values.chunks(columns.max(1)).zip(values.chunks_mut(out.max(1))).enumerate()
    {
        if partition % 16 != 0 {
            continue;
        }
        to.fill(padding);
        let mut found = 0;
        for (at, _) in row.iter().enumerate().filter(|(_, value)| **value != 0.0) {
            to[found] = offset + i64::try_from(at).or_broken(TOO_MANY);
            found += 1;
        }
        to[columns] = i64::try_from(found).or_broken(TOO_MANY);
    }
    dst.write_integers(&chip.rules, &values);
    let cost = cost(chip, as_u64(columns));
    Ok(Instruction::new(NAME, EngineKind::Gpsimd, cost, &[dst], &[src]).reading(read.uninitialised))
}

/// The largest elements of each group of 16 partitions, ascending, and where they were. A group holds one row
/// of `count` elements, the first sixteen in its first column; every partition of the group gets the same
/// result.
///
/// # Errors
/// If an operand breaks a rule of the engine.
pub fn topk(
    chip: &Chip,
    values: &Tile,
    places: &Tile,
    src: &Tile,
    count: usize,
) -> Result<Instruction, Refusal> {
    const NAME: &str = "topk";
    const GROUP: usize = 16;
    for (role, tile) in [("the source", src), ("the values", values), ("the indices", places)] {
        limits::operand(chip, EngineKind::Gpsimd, NAME, role, tile)?;
    }
    let (partitions, columns, most) =
        (src.view.partitions(), src.view.free_elements(), values.view.free_elements());
    let fits = partitions.is_multiple_of(GROUP) && count.div_ceil(GROUP) <= columns;
    let same = [values, places].iter().all(|tile| tile.view.partitions() == partitions);
    rule(fits && same && places.view.free_elements() == most, || {
        Refusal::new(
            "neuron/shape",
            format!("topk of {count} elements in {:?} into {:?}", src.view.shape(), values.view.shape()),
            "partitions a multiple of 16 on all sides, and enough columns for the elements",
            "lay the elements out 16 to a column",
        )
    })?;
    rule((8..65_536).contains(&count) && (1..32_768).contains(&most) && most <= count, || {
        Refusal::new(
            "neuron/free-size",
            format!("the {most} largest of {count} elements"),
            "8 to 65535 elements, and fewer than 32768 results",
            "split the elements, then take the largest of the results",
        )
    })?;
    let types = (src.view.dtype, values.view.dtype, places.view.dtype);
    rule(types == (Dtype::Bf16, Dtype::Bf16, Dtype::U32), || {
        Refusal::new(
            "neuron/dtype",
            format!("topk of {} into {} and {}", types.0, types.1, types.2),
            "bfloat16 into bfloat16 and uint32",
            "cast the source, or the results",
        )
    })?;
    let read = src.read(&chip.rules);
    let (mut found, mut at) = (Vec::new(), Vec::new());
    for group in read.values.chunks(columns * GROUP) {
        let element = |index: usize| group.get(index % GROUP * columns + index / GROUP).copied();
        let mut order: Vec<(f32, i64)> =
            (0..count).filter_map(|index| Some((element(index)?, i64::try_from(index).ok()?))).collect();
        // Among equals the first comes first; the largest are last.
        order.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        let largest = &order[order.len().saturating_sub(most)..];
        for _ in 0..GROUP {
            found.extend(largest.iter().map(|one| one.0));
            at.extend(largest.iter().map(|one| one.1));
        }
    }
    values.write(&chip.rules, &found);
    places.write_integers(&chip.rules, &at);
    let cycles = as_u64(count).exact_mul(4).exact_add(as_u64(most));
    Ok(Instruction::new(NAME, EngineKind::Gpsimd, cost(chip, cycles), &[values, places], &[src])
        .reading(read.uninitialised))
}
