//! Tensor engine: `nc_matmul` and the transpose that is a matmul (NKI architecture guide, tensor engine;
//! neuron.md sections 2.2 and 3.1).

use tilewright_num::Dtype;

use super::limits;
use crate::chip::cycles_ps;
use crate::matmul::{Results, Rows, multiply};
use crate::pattern::as_u64;
use crate::program::{Cost, EngineKind, Instruction};
use crate::refusal::{Refusal, rule};
use crate::{Chip, Generation, Memory, Tile};

/// What a matmul does besides multiplying.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MatmulOptions {
    /// Adds to what PSUM holds rather than overwriting it.
    pub accumulate: bool,
    /// A transpose: values pass unchanged where the generation has the mode.
    pub is_transpose: bool,
    /// The stationary tile holds only zeros and ones.
    pub stationary_onezero: bool,
    /// The moving tile holds only zeros and ones.
    pub moving_onezero: bool,
    /// Two rows of FP8 in one pass: operands have a second dimension of size 2.
    pub double_row: bool,
}

/// dst (+)= stationary transposed times moving.
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
    check_operands(chip, stationary, moving, options)?;
    check_result(chip, dst, stationary, moving, options)?;
    let rows_per_pass = if options.double_row { 2 } else { 1 };
    let (m, n) =
        (stationary.view.free_elements() / rows_per_pass, moving.view.free_elements() / rows_per_pass);
    let a = stationary.read(&chip.rules);
    let mut uninitialised = a.uninitialised;
    if options.is_transpose && chip.neuron.tensor.exact_transpose {
        uninitialised |= moving.unwritten();
        let mut turned = vec![0.0; m * n];
        transpose_rows(&a.values, &mut turned, stationary.view.partitions(), m, n);
        dst.write(&chip.rules, &turned);
    } else {
        uninitialised |= product(chip, dst, &a.values, m, moving, options);
    }
    let cost = cost(chip, stationary, moving, options);
    let mut reads = vec![stationary, moving];
    if options.accumulate {
        reads.push(dst);
    }
    let mut instruction =
        Instruction::new(NAME, EngineKind::Tensor, cost, &[dst], &reads).reading(uninitialised);
    instruction.macs = as_u64(stationary.view.partitions() * rows_per_pass * m * n);
    instruction.operand_bits = moving.view.dtype.storage_bits();
    Ok(instruction)
}

/// The product itself; true if bytes were read that nobody wrote.
fn product(chip: &Chip, dst: &Tile, a: &[f32], m: usize, moving: &Tile, options: MatmulOptions) -> bool {
    if dst.storage.valueless {
        return false;
    }
    let rules = &chip.rules;
    let n = moving.view.free_elements() / if options.double_row { 2 } else { 1 };
    let mut uninitialised = moving.unwritten();
    uninitialised |= options.accumulate && dst.unwritten();
    let source = moving.storage.lock();
    let packed;
    let dtype = moving.view.dtype;
    let in_place = moving.view.dims.first().filter(|_| moving.view.free_contiguous() && !options.double_row);
    let b = match in_place.and_then(|rows| usize::try_from(rows.stride).ok()) {
        Some(pitch) => Rows { bytes: &source.bytes, dtype, offset: moving.view.offset, pitch, length: n },
        None => {
            packed = moving.packed(&source);
            Rows { bytes: &packed, dtype, offset: 0, pitch: n, length: n }
        }
    };
    let whole = !options.accumulate && dst.is_whole();
    let mut target = if whole { dst.storage.lock_to_overwrite() } else { dst.storage.lock() };
    dst.update(&mut target, options.accumulate, |bytes| {
        let out = Results { bytes, dtype: dst.view.dtype, accumulate: options.accumulate };
        multiply(rules, a, m, b, out);
    });
    uninitialised
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
        rule(tile.storage.memory == Memory::Sbuf, || {
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
        let count = as_u64(tile.view.free_elements()) / per_pass;
        rule(count <= most, || {
            Refusal::new(
                "neuron/free-size",
                format!("nc_matmul with a {role} tile of {count} columns"),
                format!("at most {most}"),
                "tile that dimension",
            )
        })?;
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
    rule(dst.storage.memory == Memory::Psum, || {
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
    })?;
    let bank = chip.neuron.psum.bank_bytes;
    rule(dst.view.free_bytes() <= bank || chip.generation() >= Generation::V4, || {
        Refusal::new(
            "neuron/psum-bank",
            format!("nc_matmul into {} bytes of each partition", dst.view.free_bytes()),
            format!("one PSUM bank, {bank} bytes"),
            "tile the moving operand",
        )
    })
}

/// The rate of a stream of such matmuls: the moving rows, at least the turnaround, FP32 several times as long.
fn cost(chip: &Chip, stationary: &Tile, moving: &Tile, options: MatmulOptions) -> Cost {
    let tensor = &chip.neuron.tensor;
    let per_pass = if options.double_row { 2 } else { 1 };
    let (m, n) =
        (as_u64(stationary.view.free_elements()) / per_pass, as_u64(moving.view.free_elements()) / per_pass);
    let rows = n.max(m.min(tensor.turnaround_cycles));
    let fp32 = moving.view.dtype == Dtype::F32;
    let factor = match (fp32, options.is_transpose) {
        (true, true) => tensor.fp32_transpose_row_cycles,
        (true, false) => tensor.fp32_row_cycles,
        (false, _) => 1,
    };
    let halved = fp32 && (options.stationary_onezero || options.moving_onezero) && factor > 2;
    let cycles = rows * if halved { factor / 2 } else { factor };
    Cost {
        busy_ps: cycles_ps(cycles, tensor.clock_hz),
        latency_ps: cycles_ps(tensor.pipeline_cycles, tensor.clock_hz),
    }
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
    rule(row.storage.memory == Memory::Sbuf && dst.storage.memory == Memory::Psum, || {
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
    let rows = as_u64(n).max(as_u64(m).min(tensor.turnaround_cycles));
    let cost = Cost {
        busy_ps: cycles_ps(rows * factor, tensor.clock_hz),
        latency_ps: cycles_ps(tensor.pipeline_cycles, tensor.clock_hz),
    };
    let mut instruction =
        Instruction::new(NAME, EngineKind::Tensor, cost, &[dst], &[row]).reading(uninitialised);
    instruction.macs = as_u64(m * n);
    instruction.operand_bits = row.view.dtype.storage_bits();
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
    rule(data.storage.memory == Memory::Sbuf && dst.storage.memory == Memory::Psum, || {
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
    let tensor = &chip.neuron.tensor;
    let rows = as_u64(p).max(as_u64(f).min(tensor.turnaround_cycles));
    let factor = if data.view.dtype == Dtype::F32 { tensor.fp32_transpose_row_cycles } else { 1 };
    let cost = Cost {
        busy_ps: cycles_ps(rows * factor, tensor.clock_hz),
        latency_ps: cycles_ps(tensor.pipeline_cycles, tensor.clock_hz),
    };
    let mut instruction =
        Instruction::new(NAME, EngineKind::Tensor, cost, &[dst], &[data]).reading(uninitialised);
    instruction.macs = as_u64(p * p * f);
    instruction.operand_bits = data.view.dtype.storage_bits();
    Ok(instruction)
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
    let turned = |values: &[f32]| -> Vec<f32> {
        (0..f)
            .flat_map(|column| (0..p).map(move |row| row * f + column))
            .filter_map(|at| values.get(at).copied())
            .collect()
    };
    let read = data.read(&chip.rules);
    dst.write(&chip.rules, &turned(&read.values));
    Ok(read.uninitialised)
}
