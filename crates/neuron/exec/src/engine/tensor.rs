//! Tensor engine: `nc_matmul` and the transpose that is a matmul (NKI architecture guide, tensor engine;
//! docs/hardware-rules.md#tensor-engine).

use std::borrow::Cow;
use std::sync::Arc;

use tilewright_neuron_isa::cost::tensor::{self as cost, ArrayPart, MatmulOptions};
use tilewright_neuron_isa::pattern::as_u64;
use tilewright_neuron_isa::program::{EngineKind, Instruction};
use tilewright_neuron_isa::refusal::{Refusal, rule};
use tilewright_neuron_isa::{Chip, Generation, MemorySpace, limits};
use tilewright_num::{Dtype, RuleSet};

use crate::Tile;
use crate::buffer_pool::recycle_floats;
use crate::matmul::{
    CachedPack, MatmulOperands, OperandRows, PackedColumns, PackedRows, ResultRows, multiply, multiply_packed,
};
use crate::storage::Content;

/// Refuses a part that the array cannot be split into, or that the stationary tile does not fit
/// (NKI instruction pages, nc_matmul, tiling mode).
///
/// # Errors
/// If it is no such part.
pub fn check_part(
    chip: &Chip,
    name: &str,
    stationary: &Tile,
    part: ArrayPart,
    rows_only: bool,
) -> Result<(), Refusal> {
    let (rows, columns) = (chip.neuron.sbuf.partitions, chip.neuron.tensor.stationary_free_max);
    let grain = chip.neuron.access.quadrant_partitions;
    let one = |start: u64, size: u64, all: u64| {
        [grain, 2 * grain, all].contains(&size)
            && start.is_multiple_of(size)
            && start.saturating_add(size) <= all
    };
    let (size, position) = (part.size, part.position);
    let fits =
        as_u64(stationary.view.partitions()) <= size.0 && as_u64(stationary.view.free_elements()) <= size.1;
    let small = size.0.max(size.1) < chip.neuron.tensor.tile_min;
    let legal = one(position.0, size.0, rows) && one(position.1, size.1, columns) && !small;
    rule(legal && fits && (!rows_only || size.1 == columns), || {
        Refusal::new(
            "neuron/tile-position",
            format!(
                "{name} of a stationary tile {:?} at {position:?} of the array with a part of {size:?}",
                stationary.view.shape()
            ),
            format!(
                "parts of {grain}, {} or {rows} rows and columns that start at a multiple of their size{}",
                2 * grain,
                if rows_only { ", over all columns" } else { "" }
            ),
            "choose a part that holds the stationary tile",
        )
    })
}

/// dst (+)= stationary transposed times moving. As many columns as the moving tile may have fill a bank of
/// PSUM.
///
/// # Errors
/// If an operand breaks a rule of the tensor engine.
pub fn nc_matmul(
    chip: &Chip,
    dst: &Tile,
    stationary: &Tile,
    moving: &Tile,
    options: MatmulOptions,
) -> Result<Instruction, Refusal> {
    const NAME: &str = "nc_matmul";
    if options.double_row {
        chip.needs("nc_matmul with double_row", Generation::V3)?;
    }
    if let Some(part) = options.part {
        check_part(chip, NAME, stationary, part, options.double_row)?;
    }
    let (dst, stationary, moving) = (
        &*array_offsets(dst, options)?,
        &*array_offsets(stationary, options)?,
        &*array_offsets(moving, options)?,
    );
    rule(!options.is_transpose || moving.view.index.is_none(), || {
        Refusal::new(
            "neuron/shape",
            "nc_matmul with is_transpose of a moving tile with offsets from a tile",
            "a moving tile whose elements lie in loops",
            "gather with tensor_copy first, or make the stationary tile the one with offsets",
        )
    })?;
    check_operands(chip, stationary, moving, options)?;
    check_result(chip, dst, stationary, moving, options)?;
    let rows_per_pass = if options.double_row { 2 } else { 1 };
    let (m, n) =
        (stationary.view.free_elements() / rows_per_pass, moving.view.free_elements() / rows_per_pass);
    let mut uninitialised = moving.unwritten();
    if options.is_transpose && chip.neuron.tensor.exact_transpose {
        let a = stationary.read(&chip.rules);
        uninitialised |= a.uninitialised;
        let mut transposed = vec![0.0; m * n];
        transpose_rows(&a.values, &mut transposed, stationary.view.partitions(), m, n);
        dst.write(&chip.rules, &transposed);
    } else if !dst.storage.valueless {
        uninitialised |= stationary.unwritten() | (options.accumulate && dst.unwritten());
        MatmulProduct::new(&chip.rules, stationary, moving, options.double_row)
            .write(dst, options.accumulate);
    }
    let cost = cost::product(chip, stationary, moving, options);
    let mut reads = vec![stationary, moving];
    if options.accumulate {
        reads.push(dst);
    }
    let mut instruction =
        Instruction::new(NAME, EngineKind::Tensor, cost, &[dst], &reads).reading(uninitialised);
    instruction.macs = as_u64(stationary.view.partitions() * rows_per_pass * m * n);
    instruction.operand_bits = moving.view.dtype.storage_bits();
    instruction.passes = cost::passes(moving.view.dtype);
    instruction.full_rows = !options.is_transpose && !options.stationary_onezero && !options.moving_onezero;
    instruction.cells = cost::cells_of(chip, options.part);
    Ok(instruction)
}

/// An operand with the offsets that the tensor engine takes from its index tile.
fn array_offsets(tile: &Tile, options: MatmulOptions) -> Result<Cow<'_, Tile>, Refusal> {
    let Some(index) = &tile.view.index else { return Ok(Cow::Borrowed(tile)) };
    rule(options.part.is_none(), || {
        Refusal::new(
            "neuron/tile-position",
            "nc_matmul on a part of the array with offsets from a tile",
            "all of the array",
            "leave out tile_position and tile_size, or gather with tensor_copy first",
        )
    })?;
    let offsets = index.array.clone().ok_or_else(|| index.too_few(EngineKind::Tensor))?;
    let mut tile = tile.clone();
    tile.view.gather = Some(offsets);
    Ok(Cow::Owned(tile))
}

/// A product that is still to be computed, of operands as they were.
#[derive(Clone, Debug)]
pub struct MatmulProduct {
    rules: RuleSet,
    factors: MatmulOperands,
}

impl From<(RuleSet, MatmulOperands)> for MatmulProduct {
    fn from((rules, factors): (RuleSet, MatmulOperands)) -> MatmulProduct {
        MatmulProduct { rules, factors }
    }
}

impl MatmulProduct {
    fn new(rules: &RuleSet, stationary: &Tile, moving: &Tile, double_row: bool) -> MatmulProduct {
        let rows_per_pass = if double_row { 2 } else { 1 };
        let rows = packed_rows(rules, stationary, rows_per_pass);
        let columns = packed_columns(rules, moving, rows_per_pass);
        MatmulProduct { rules: *rules, factors: MatmulOperands { rows, columns } }
    }

    /// dst (+)= the product, at once or when somebody looks at it.
    pub fn write(self, dst: &Tile, accumulate: bool) {
        if dst.is_whole() {
            return dst.storage.defer_product(self.rules, self.factors, accumulate);
        }
        dst.update(&mut dst.storage.lock(), accumulate, |bytes| {
            let out = ResultRows { bytes, dtype: dst.view.dtype, accumulate };
            multiply_packed(&self.rules, &[self.factors], out);
        });
    }
}

fn packed_rows(rules: &RuleSet, tile: &Tile, rows_per_pass: usize) -> Arc<PackedRows> {
    let mut source = tile.storage.lock();
    if let Some(CachedPack::Rows(rows)) = source.pack(&tile.view, |pack| matches!(pack, CachedPack::Rows(_)))
    {
        return rows;
    }
    let rows = Arc::new(PackedRows::new(rules, rows_of(tile, &source, rows_per_pass)));
    source.keep_pack(&tile.view, CachedPack::Rows(rows.clone()));
    rows
}

fn packed_columns(rules: &RuleSet, tile: &Tile, rows_per_pass: usize) -> Arc<PackedColumns> {
    let mut source = tile.storage.lock();
    if let Some(CachedPack::Columns(columns)) =
        source.pack(&tile.view, |pack| matches!(pack, CachedPack::Columns(_)))
    {
        return columns;
    }
    let columns = Arc::new(PackedColumns::new(rules, rows_of(tile, &source, rows_per_pass)));
    source.keep_pack(&tile.view, CachedPack::Columns(columns.clone()));
    columns
}

/// Who writes to a tensor while a product still needs it copies the tensor, so only a part that is at least
/// this share of it is left where it lies.
const LEAST_SHARE: usize = 4;

/// An operand as it is now: where it lies if its rows do and it is not a small part of something large, or a
/// copy.
fn rows_of(tile: &Tile, source: &Content, rows_per_pass: usize) -> OperandRows {
    let (dtype, length) = (tile.view.dtype, tile.view.free_elements() / rows_per_pass);
    let steps = tile.view.partitions() * rows_per_pass;
    let large = dtype.size_bytes(steps * length) >= tile.storage.size_bytes() / LEAST_SHARE;
    let in_place = large && tile.view.free_contiguous() && rows_per_pass == 1;
    let pitch = tile.view.dims.first().and_then(|rows| usize::try_from(rows.stride).ok());
    match pitch.filter(|_| in_place) {
        Some(pitch) => {
            OperandRows { bytes: source.bytes.clone(), dtype, offset: tile.view.offset, pitch, length, steps }
        }
        None => {
            OperandRows { bytes: tile.packed(source).into(), dtype, offset: 0, pitch: length, length, steps }
        }
    }
}

/// Transposes [k, m] to [m, n] where n is k: what multiplying by an identity gives, bit for bit.
fn transpose_rows(a: &[f32], out: &mut [f32], k: usize, m: usize, n: usize) {
    for row in 0..m {
        for column in 0..n.min(k) {
            if let (Some(out), Some(value)) = (out.get_mut(row * n + column), a.get(column * m + row)) {
                *out = *value;
            }
        }
    }
}

fn check_operands(
    chip: &Chip,
    stationary: &Tile,
    moving: &Tile,
    options: MatmulOptions,
) -> Result<(), Refusal> {
    const NAME: &str = "nc_matmul";
    let tensor = &chip.neuron.tensor;
    for (role, tile) in [("stationary", stationary), ("moving", moving)] {
        limits::operand(chip, EngineKind::Tensor, NAME, role, tile)?;
        rule(tile.storage.memory == MemorySpace::Sbuf, || {
            Refusal::new(
                "neuron/memory",
                format!("nc_matmul with the {role} tile in {}", tile.storage.memory.name()),
                "operands of the tensor engine in SBUF",
                "copy the tile from PSUM to SBUF with tensor_copy",
            )
        })?;
        rule(tile.view.dtype.is_float(), || {
            Refusal::new(
                "neuron/dtype",
                format!("nc_matmul with the {role} tile of type {}", tile.view.dtype),
                "floats of 8, 16 or 32 bits",
                "cast to bfloat16 first",
            )
        })?;
    }
    rule(stationary.view.partitions() == moving.view.partitions(), || {
        Refusal::new(
            "neuron/shape",
            format!(
                "nc_matmul of stationary {:?} and moving {:?}: contractions of {} and {}",
                stationary.view.shape(),
                moving.view.shape(),
                stationary.view.partitions(),
                moving.view.partitions()
            ),
            "both operands with the contraction on their partitions",
            "transpose or slice one of them",
        )
    })?;
    let wide = |dtype: Dtype| matches!(dtype, Dtype::F32 | Dtype::Tf32);
    rule(wide(stationary.view.dtype) == wide(moving.view.dtype), || {
        Refusal::new(
            "neuron/dtype",
            format!("nc_matmul of {} and {}", stationary.view.dtype, moving.view.dtype),
            "FP32 and TF32 pair with FP32 and TF32 only",
            "cast one of them",
        )
    })?;
    let per_pass = if options.double_row { 2 } else { 1 };
    let limits =
        [("stationary", stationary, tensor.stationary_free_max), ("moving", moving, tensor.moving_free_max)];
    for (role, tile, most) in limits {
        limits::columns(NAME, role, as_u64(tile.view.free_elements()) / per_pass, most)?;
    }
    Ok(())
}

fn check_result(
    chip: &Chip,
    dst: &Tile,
    stationary: &Tile,
    moving: &Tile,
    options: MatmulOptions,
) -> Result<(), Refusal> {
    limits::operand(chip, EngineKind::Tensor, "nc_matmul", "the result", dst)?;
    rule(dst.storage.memory == MemorySpace::Psum, || {
        Refusal::new(
            "neuron/memory",
            format!("nc_matmul into {}", dst.storage.memory.name()),
            "results of the tensor engine in PSUM",
            "allocate the result with buffer=nl.psum, then copy it",
        )
    })?;
    let per_pass = if options.double_row { 2 } else { 1 };
    let (m, n) = (stationary.view.free_elements() / per_pass, moving.view.free_elements() / per_pass);
    rule(dst.view.partitions() == m && dst.view.free_elements() == n, || {
        Refusal::new(
            "neuron/shape",
            format!("nc_matmul of [{m}] by [{n}] columns into {:?}", dst.view.shape()),
            format!("a result of shape [{m}, {n}]"),
            "slice the result",
        )
    })
}

/// Multiplies FP32 values into a result: `a` has `m` elements in a row, `b` has `n`.
pub(super) fn multiply_into(
    chip: &Chip,
    dst: &Tile,
    a: (&[f32], usize),
    b: (&[f32], usize),
    accumulate: bool,
) {
    let rows = |(values, length): (&[f32], usize)| OperandRows {
        bytes: values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>().into(),
        dtype: Dtype::F32,
        offset: 0,
        pitch: length,
        length,
        steps: values.len().checked_div(length).unwrap_or(0),
    };
    let whole = !accumulate && dst.is_whole();
    let mut target = if whole { dst.storage.lock_to_overwrite() } else { dst.storage.lock() };
    dst.update(&mut target, accumulate, |bytes| {
        let out = ResultRows { bytes, dtype: dst.view.dtype, accumulate };
        multiply(&chip.rules, rows(a), rows(b), out);
    });
}

/// A row on every partition of a PSUM tile, as compilers do it: a product with a column of ones.
///
/// # Errors
/// If an operand breaks a rule of the tensor engine.
pub fn partition_broadcast(chip: &Chip, dst: &Tile, row: &Tile) -> Result<Instruction, Refusal> {
    const NAME: &str = "partition_broadcast";
    limits::operand(chip, EngineKind::Tensor, NAME, "data", row)?;
    limits::operand(chip, EngineKind::Tensor, NAME, "the result", dst)?;
    let (m, n) = (dst.view.partitions(), dst.view.free_elements());
    let most = chip.neuron.tensor.moving_free_max;
    rule(row.view.partitions() == 1 && row.elements() == n && as_u64(n) <= most, || {
        Refusal::new(
            "neuron/shape",
            format!("{NAME} of {:?} into {:?}", row.view.shape(), dst.view.shape()),
            format!("a row of at most {most} elements, and as many in each partition of the result"),
            "broadcast in pieces",
        )
    })?;
    rule(row.storage.memory == MemorySpace::Sbuf && dst.storage.memory == MemorySpace::Psum, || {
        Refusal::new("neuron/memory", NAME, "from SBUF to PSUM", "copy the row to SBUF first")
    })?;
    let mut uninitialised = false;
    if !dst.storage.valueless {
        let read = row.read(&chip.rules);
        uninitialised = read.uninitialised;
        dst.write(&chip.rules, &read.values.repeat(m));
    }
    let tensor = &chip.neuron.tensor;
    let factor = if row.view.dtype == Dtype::F32 { tensor.fp32_row_cycles.div_ceil(2) } else { 1 };
    let cost = cost::stream(chip, as_u64(m), as_u64(n), factor);
    let mut instruction =
        Instruction::new(NAME, EngineKind::Tensor, cost, &[dst], &[row]).reading(uninitialised);
    instruction.macs = as_u64(m * n);
    instruction.operand_bits = row.view.dtype.storage_bits();
    instruction.passes = cost::passes(row.view.dtype);
    Ok(instruction)
}

/// Transposes a tile of at most 128 by 128 into PSUM.
///
/// # Errors
/// If an operand breaks a rule of the tensor engine.
pub fn nc_transpose(chip: &Chip, dst: &Tile, data: &Tile) -> Result<Instruction, Refusal> {
    const NAME: &str = "nc_transpose";
    limits::operand(chip, EngineKind::Tensor, NAME, "data", data)?;
    limits::operand(chip, EngineKind::Tensor, NAME, "the result", dst)?;
    let (p, f) = (data.view.partitions(), data.view.free_elements());
    let most = chip.neuron.tensor.stationary_free_max;
    rule(as_u64(f) <= most, || {
        Refusal::new(
            "neuron/free-size",
            format!("nc_transpose of {f} columns on the tensor engine"),
            format!("at most {most}"),
            "transpose in tiles",
        )
    })?;
    rule(data.storage.memory == MemorySpace::Sbuf && dst.storage.memory == MemorySpace::Psum, || {
        Refusal::new(
            "neuron/memory",
            format!(
                "nc_transpose on the tensor engine from {} to {}",
                data.storage.memory.name(),
                dst.storage.memory.name()
            ),
            "from SBUF to PSUM",
            "use engine=vector for blocks of 32 by 32, or copy first",
        )
    })?;
    let uninitialised = transpose_values(chip, dst, data)?;
    // What nobody wrote is named and does not spread.
    if !chip.neuron.tensor.exact_transpose && !uninitialised && data.view.dtype.is_float() {
        spread(chip, dst, p);
    }
    let tensor = &chip.neuron.tensor;
    let factor = if data.view.dtype == Dtype::F32 { tensor.fp32_transpose_row_cycles } else { 1 };
    let cost = cost::stream(chip, as_u64(f), as_u64(p), factor);
    let mut instruction =
        Instruction::new(NAME, EngineKind::Tensor, cost, &[dst], &[data]).reading(uninitialised);
    instruction.macs = as_u64(p * p * f);
    instruction.operand_bits = data.view.dtype.storage_bits();
    instruction.passes = cost::passes(data.view.dtype);
    Ok(instruction)
}

/// A product with an identity adds every element of a row times zero: one that is not finite makes NaN of the
/// others (docs/hardware-rules.md#tensor-engine).
fn spread(chip: &Chip, dst: &Tile, columns: usize) {
    let mut values = dst.read(&chip.rules).values;
    if values.iter().all(|value| value.is_finite()) {
        return recycle_floats(values);
    }
    for row in values.chunks_mut(columns.max(1)) {
        let wild = row.iter().filter(|value| !value.is_finite()).count();
        for value in row.iter_mut().filter(|value| wild > 1 || (wild == 1 && value.is_finite())) {
            *value = f32::NAN;
        }
    }
    dst.write(&chip.rules, &values);
}

/// Moves the values of a transpose.
///
/// # Errors
/// If the result has another shape.
pub(crate) fn transpose_values(chip: &Chip, dst: &Tile, data: &Tile) -> Result<bool, Refusal> {
    let (p, f) = (data.view.partitions(), data.view.free_elements());
    rule(dst.view.partitions() == f && dst.view.free_elements() == p, || {
        Refusal::new(
            "neuron/shape",
            format!("a transpose of [{p}, {f}] into {:?}", dst.view.shape()),
            format!("a result of shape [{f}, {p}]"),
            "swap the sizes of the result",
        )
    })?;
    if dst.storage.valueless {
        return Ok(false);
    }
    if dst.view.dtype == data.view.dtype {
        return Ok(crate::convert::transpose(dst, data));
    }
    let transposed = |values: &[f32]| -> Vec<f32> {
        (0..f)
            .flat_map(|column| (0..p).map(move |row| row * f + column))
            .filter_map(|at| values.get(at).copied())
            .collect()
    };
    let read = data.read(&chip.rules);
    dst.write(&chip.rules, &transposed(&read.values));
    Ok(read.uninitialised)
}
