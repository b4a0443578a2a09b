//! Block-scaled instructions of NeuronCore-v4: `quantize_mx` on the Vector engine and `nc_matmul_mx` on the
//! Tensor engine (NKI instruction pages; docs/hardware-rules.md#tensor-engine and #vector-instructions).
//!
//! A block is 8 partitions by the 4 elements of a word. The scales of a quadrant of 32 partitions lie in its
//! first four partitions, or in those from where the view of the scales starts.

use tilewright_base::invariant::{OrBroken, to_index};
use tilewright_neuron_isa::cost::tensor::stream;
use tilewright_neuron_isa::cost::vector::plain_cost;
use tilewright_neuron_isa::mx::{LANES, MxFormat, scale};
use tilewright_neuron_isa::pattern::as_u64;
use tilewright_neuron_isa::program::{EngineKind, Instruction};
use tilewright_neuron_isa::refusal::{Refusal, rule};
use tilewright_neuron_isa::{Chip, Generation, MemorySpace, limits};
use tilewright_num::Dtype;

use super::tensor::multiply_into;
use crate::Tile;

/// Partitions of a block.
const BLOCK: usize = 8;

/// Exponents that a block's largest element stays below the format's largest. The instruction page of NKI
/// 0.6 says one, so that rounding does not saturate; the references of the vendor's kernel library, which its
/// tests hold against devices, say none, as the OCP text does. The references are followed.
const HEADROOM: i32 = 0;

/// dst, scales = src in blocks: each block divided by a power of two that brings its largest element to the
/// format's largest exponent; what is too large after rounding becomes the largest finite element.
///
/// # Errors
/// If an operand breaks a rule of the instruction.
pub fn quantize_mx(chip: &Chip, dst: &Tile, src: &Tile, scales: &Tile) -> Result<Instruction, Refusal> {
    const NAME: &str = "quantize_mx";
    chip.needs(NAME, Generation::V4)?;
    for (role, tile) in [("the source", src), ("the result", dst), ("the scales", scales)] {
        limits::operand(chip, EngineKind::Vector, NAME, role, tile)?;
        in_sbuf(NAME, role, tile)?;
    }
    let format = quantized(NAME, "the result", dst)?;
    rule(format != MxFormat::F4E2M1X4 && matches!(src.view.dtype, Dtype::Bf16 | Dtype::F16), || {
        Refusal::new(
            "neuron/dtype",
            format!("quantize_mx of {} to {}", src.view.dtype, format.name()),
            "bfloat16 or float16 to float8_e4m3fn_x4 or float8_e5m2_x4",
            "cast the source, or give the result one of these types",
        )
    })?;
    is_scale(NAME, scales)?;
    let (partitions, words) = (src.view.partitions(), dst.view.free_elements());
    rule(
        dst.view.partitions() == partitions && src.view.free_elements() == words.saturating_mul(LANES),
        || shape("quantize_mx", src, dst, "a result with as many partitions and a fourth of the elements"),
    )?;
    let quadrant = whole_quadrants(chip, NAME, src)?;
    let read = src.read(&chip.rules);
    let mut values = read.values;
    let row = words * LANES;
    let mut exponents = scales.read_words().values;
    let scale_row = scales.view.free_elements();
    for block in 0..partitions / BLOCK {
        let place = scale_place(block, quadrant);
        for word in 0..words {
            let at = |lane: usize| (block * BLOCK + lane / LANES) * row + word * LANES + lane % LANES;
            let max_exponent = (0..BLOCK * LANES)
                .map(|lane| exponent_of(values[at(lane)]))
                .max()
                .or_broken("an empty block");
            let stored = (max_exponent - (format.max_exponent() - HEADROOM)).clamp(0, 254);
            let factor = scale(u32::try_from(stored).or_broken("a stored exponent below zero"));
            for lane in 0..BLOCK * LANES {
                values[at(lane)] /= factor;
            }
            let to = exponents.get_mut(place * scale_row + word).filter(|_| word < scale_row);
            *to.ok_or_else(|| too_few_scales(NAME, scales, place + 1, words))? =
                u32::try_from(stored).or_broken("a stored exponent below zero");
        }
    }
    dst.write_words(&format.encode(&chip.rules, &values));
    write_scales(scales, &exponents, partitions / BLOCK, quadrant);
    let cycles = as_u64(src.view.free_elements()) / as_u64(LANES);
    let cost = plain_cost(chip, cycles, &[src, dst]);
    Ok(Instruction::new(NAME, EngineKind::Vector, cost, &[dst, scales], &[src]).reading(read.uninitialised))
}

/// Writes the rows that hold scales and leaves the others as they are.
fn write_scales(scales: &Tile, exponents: &[u32], blocks: usize, quadrant: usize) {
    let row = scales.view.free_elements();
    for place in (0..blocks).map(|block| scale_place(block, quadrant)) {
        let mut view = scales.view.clone();
        if let (Ok(()), Some(values)) =
            (view.slice(0, place, 1, 1), exponents.get(place * row..(place + 1) * row))
        {
            Tile { storage: scales.storage.clone(), view }.write_words(values);
        }
    }
}

/// What a matmul of block-scaled operands reads.
#[derive(Clone, Copy, Debug)]
pub struct MxOperand<'a> {
    /// Words of four elements.
    pub data: &'a Tile,
    /// Their scales.
    pub scales: &'a Tile,
}

/// dst (+)= stationary transposed times moving, each element times the scale of its block; the contraction
/// runs over partitions and the elements of a word.
///
/// # Errors
/// If an operand breaks a rule of the tensor engine.
pub fn nc_matmul_mx(
    chip: &Chip,
    dst: &Tile,
    stationary: MxOperand<'_>,
    moving: MxOperand<'_>,
    accumulate: bool,
) -> Result<Instruction, Refusal> {
    const NAME: &str = "nc_matmul_mx";
    chip.needs(NAME, Generation::V4)?;
    let (m, n) = (stationary.data.view.free_elements(), moving.data.view.free_elements());
    let (partitions, tensor) = (stationary.data.view.partitions(), &chip.neuron.tensor);
    for (role, operand, most) in
        [("stationary", stationary, tensor.stationary_free_max), ("moving", moving, tensor.moving_free_max)]
    {
        limits::operand(chip, EngineKind::Tensor, NAME, role, operand.data)?;
        limits::operand(chip, EngineKind::Tensor, NAME, "the scales", operand.scales)?;
        in_sbuf(NAME, role, operand.data)?;
        in_sbuf(NAME, "the scales", operand.scales)?;
        quantized(NAME, role, operand.data)?;
        is_scale(NAME, operand.scales)?;
        limits::columns(NAME, role, as_u64(operand.data.view.free_elements()), most)?;
    }
    rule(moving.data.view.partitions() == partitions && m.is_multiple_of(2), || {
        shape(
            NAME,
            stationary.data,
            moving.data,
            "as many partitions, and an even number of stationary columns",
        )
    })?;
    let quadrant = whole_quadrants(chip, NAME, stationary.data)?;
    limits::operand(chip, EngineKind::Tensor, NAME, "the result", dst)?;
    rule(
        dst.storage.memory == MemorySpace::Psum && matches!(dst.view.dtype, Dtype::F32 | Dtype::Bf16),
        || {
            Refusal::new(
                "neuron/memory",
                format!("nc_matmul_mx into {} of {}", dst.view.dtype, dst.storage.memory.name()),
                "float32 or bfloat16 in PSUM",
                "allocate the result with buffer=nl.psum, then copy it",
            )
        },
    )?;
    rule(dst.view.partitions() == m && dst.view.free_elements() == n, || {
        shape(
            NAME,
            stationary.data,
            dst,
            "a result with a row for each stationary and a column for each moving word",
        )
    })?;
    let (a, missing) = dequantized(chip, NAME, stationary, quadrant)?;
    let (b, more) = dequantized(chip, NAME, moving, quadrant)?;
    let uninitialised = missing | more | (accumulate && dst.unwritten());
    multiply_into(chip, dst, (&a, m), (&b, n), accumulate);
    let mut reads = vec![stationary.data, stationary.scales, moving.data, moving.scales];
    if accumulate {
        reads.push(dst);
    }
    let cost = stream(chip, as_u64(m), as_u64(n), 1);
    let mut instruction =
        Instruction::new(NAME, EngineKind::Tensor, cost, &[dst], &reads).reading(uninitialised);
    instruction.macs = as_u64(partitions * LANES * m * n);
    instruction.block_scaled = true;
    Ok(instruction)
}

/// Elements times their scales, as rows of the contraction: partition by partition, and the lanes of each.
fn dequantized(
    chip: &Chip,
    name: &str,
    operand: MxOperand<'_>,
    quadrant: usize,
) -> Result<(Vec<f32>, bool), Refusal> {
    let format = quantized(name, "an operand", operand.data)?;
    let (partitions, columns) = (operand.data.view.partitions(), operand.data.view.free_elements());
    let words = operand.data.read_words();
    let values = format.decode(&chip.rules, &words.values);
    let exponents = operand.scales.read_words().values;
    let (rows, row) = (operand.scales.view.partitions(), operand.scales.view.free_elements());
    let mut out = vec![0.0; values.len()];
    for partition in 0..partitions {
        let place = scale_place(partition / BLOCK, quadrant);
        rule(place < rows && columns <= row, || too_few_scales(name, operand.scales, place + 1, columns))?;
        for column in 0..columns {
            let factor = scale(exponents.get(place * row + column).copied().unwrap_or(255));
            for lane in 0..LANES {
                let value = values[(partition * columns + column) * LANES + lane];
                out[(partition * LANES + lane) * columns + column] = value * factor;
            }
        }
    }
    Ok((out, words.uninitialised))
}

/// The partition, from where the scales start, that holds the scale of a block.
fn scale_place(block: usize, quadrant: usize) -> usize {
    let blocks = (quadrant / BLOCK).max(1);
    block / blocks * quadrant + block % blocks
}

/// The stored exponent of a value: zero for zeros and subnormals.
fn exponent_of(value: f32) -> i32 {
    i32::from(u8::try_from(value.to_bits() >> 23 & 0xFF).or_broken("an exponent of more than eight bits"))
}

/// Partitions of a quadrant, if the operand has whole ones.
fn whole_quadrants(chip: &Chip, name: &str, tile: &Tile) -> Result<usize, Refusal> {
    let quadrant = to_index(chip.neuron.access.quadrant_partitions);
    let partitions = tile.view.partitions();
    rule(partitions > 0 && partitions.is_multiple_of(quadrant.max(1)), || {
        Refusal::new(
            "neuron/partitions",
            format!("{name} of {partitions} partitions"),
            format!("a multiple of {quadrant}"),
            "pad the operand to whole quadrants",
        )
    })?;
    Ok(quadrant)
}

fn in_sbuf(name: &str, role: &str, tile: &Tile) -> Result<(), Refusal> {
    rule(tile.storage.memory == MemorySpace::Sbuf, || {
        Refusal::new(
            "neuron/memory",
            format!("{name} with {role} in {}", tile.storage.memory.name()),
            "tiles in SBUF",
            "copy the tile to SBUF first",
        )
    })
}

/// The format of an operand of packed elements.
fn quantized(name: &str, role: &str, tile: &Tile) -> Result<MxFormat, Refusal> {
    tile.view.mx.filter(|format| format.element().is_some()).ok_or_else(|| {
        Refusal::new(
            "neuron/dtype",
            format!("{name} with {role} of {}", tile.view.type_name()),
            "float8_e4m3fn_x4, float8_e5m2_x4 or float4_e2m1fn_x4",
            "quantize it, or view its bytes as one of these types",
        )
    })
}

fn is_scale(name: &str, tile: &Tile) -> Result<(), Refusal> {
    rule(tile.view.mx == Some(MxFormat::F8E8M0) || tile.view.dtype == Dtype::U8, || {
        Refusal::new(
            "neuron/dtype",
            format!("{name} with scales of {}", tile.view.type_name()),
            "float8_e8m0fnu or uint8",
            "view the scales as one of these types",
        )
    })
}

fn too_few_scales(name: &str, scales: &Tile, rows: usize, columns: usize) -> Refusal {
    Refusal::new(
        "neuron/shape",
        format!("{name} with scales of shape {:?}", scales.view.shape()),
        format!("at least {rows} partitions and {columns} columns"),
        "scales lie in the first four partitions of each quadrant, one for each word",
    )
}

fn shape(name: &str, a: &Tile, b: &Tile, allowed: &str) -> Refusal {
    Refusal::new(
        "neuron/shape",
        format!("{name} of {:?} and {:?}", a.view.shape(), b.view.shape()),
        allowed,
        "slice or reshape one of them",
    )
}
