//! DMA engines: copies, gathers, scatters, transposes and read-modify-write between HBM and SBUF (NKI guide
//! to DMA; docs/hardware-rules.md#transfers-and-communication and #dma).

use tilewright_base::invariant::Exact;
use tilewright_neuron_isa::alu::AluOp;
use tilewright_neuron_isa::chip::{bytes_ps, cycles_ps};
use tilewright_neuron_isa::cost::dma::{hbm_bytes, transfer, transfer_side};
use tilewright_neuron_isa::pattern::{SKIP, as_u64};
use tilewright_neuron_isa::program::{EngineKind, Instruction, InstructionCost};
use tilewright_neuron_isa::refusal::{Refusal, rule};
use tilewright_neuron_isa::{Chip, Generation, MemorySpace, TensorAccess, TensorRegion, TensorView, limits};

use crate::Tile;
use crate::convert;

/// dst = src, or dst = dst op src.
///
/// # Errors
/// If the two sides have different numbers of elements, or one lies outside its tensor.
pub fn dma_copy(chip: &Chip, dst: &Tile, src: &Tile, combine: Option<AluOp>) -> Result<Instruction, Refusal> {
    const NAME: &str = "dma_copy";
    check(NAME, dst, src)?;
    let uninitialised = match combine {
        None => convert::copy(&chip.rules, dst, src),
        Some(op) => {
            let read = src.read(&chip.rules);
            add_each(chip, dst, &read.values, op);
            read.uninitialised
        }
    };
    let factor = if combine.is_some() { chip.neuron.dma.accumulate_factor } else { 1 };
    Ok(transfer(chip, NAME, dst, src, factor).reading(uninitialised))
}

/// Combines element by element, so that an index that occurs twice counts twice.
fn add_each(chip: &Chip, dst: &Tile, values: &[f32], op: AluOp) {
    let offsets = dst.view.offsets();
    for (offset, value) in offsets.iter().zip(values).filter(|(offset, _)| **offset != SKIP) {
        let Ok(at) = usize::try_from(*offset) else { continue };
        let view = TensorView {
            offset: at,
            dims: smallvec::smallvec![],
            gather: None,
            index: None,
            ..dst.view.clone()
        };
        let one = Tile { storage: dst.storage.clone(), view };
        let before = one.read(&chip.rules).values;
        let sum = op.apply(before.first().copied().unwrap_or_default(), *value);
        one.write(&chip.rules, &[sum]);
    }
}

/// dst = src with its dimensions in reverse or in the order of `axes`; the views are already permuted.
///
/// # Errors
/// If the two sides have different numbers of elements, or one lies outside its tensor.
pub fn dma_transpose(chip: &Chip, dst: &Tile, src: &Tile, permuted: &Tile) -> Result<Instruction, Refusal> {
    const NAME: &str = "dma_transpose";
    check(NAME, dst, permuted)?;
    let uninitialised = convert::copy(&chip.rules, dst, permuted);
    // At most half the rate from SBUF, nine tenths from HBM: both are charged as the descriptors' longer
    // phase.
    let factor = if src.storage.memory.on_chip() { 2 } else { 1 };
    Ok(transfer(chip, NAME, dst, src, factor).reading(uninitialised))
}

/// Refuses what a DMA engine does not compute: more than sums of some sources as they are
/// (docs/hardware-rules.md#transfers-and-communication).
fn sums_only(chip: &Chip, sources: usize, scales: &[f32], op: AluOp) -> Result<(), Refusal> {
    let most = chip.neuron.dma.sources_max;
    rule(as_u64(sources) <= most, || {
        Refusal::new(
            "neuron/shape",
            format!("dma_compute of {sources} sources"),
            format!("1 to {most} sources"),
            "add in several steps",
        )
    })?;
    rule(op == AluOp::Add, || {
        Refusal::new(
            "neuron/operator",
            format!("dma_compute with {}", op.name()),
            "add",
            "load the sources and combine them on the Vector engine",
        )
    })?;
    rule(scales.iter().all(|scale| *scale == 1.0), || {
        Refusal::new(
            "neuron/operator",
            format!("dma_compute with scales {scales:?}"),
            "scales of 1",
            "load the sources, and scale and add them with scalar_tensor_tensor",
        )
    })
}

/// Refuses ways to make descriptors and classes of service that the chip does not have
/// (docs/hardware-rules.md#transfers-and-communication and #descriptors).
///
/// # Errors
/// If hardware is to make the descriptors and there is none that does, or the priority is none.
pub fn check_trigger(chip: &Chip, name: &str, hardware: bool, priority: Option<i64>) -> Result<(), Refusal> {
    if hardware && chip.neuron.dma.hardware_generators == 0 {
        chip.needs(&format!("{name} with dge_mode hwdge"), Generation::V3)?;
    }
    let Some(priority) = priority else { return Ok(()) };
    chip.needs(&format!("{name} with a priority"), Generation::V4)?;
    rule((0..=3).contains(&priority), || {
        Refusal::new(
            "neuron/operator",
            format!("{name} with priority {priority}"),
            "0 to 3",
            "leave the priority out, or name one of the four classes",
        )
    })
}

/// Refuses a transfer from or to PSUM: none since NKI 0.3 (docs/hardware-rules.md#tensor-access and
/// #versions-of-the-language).
///
/// # Errors
/// If the tile is in PSUM.
pub fn check_reach(name: &str, tile: &Tile) -> Result<(), Refusal> {
    rule(tile.storage.memory != MemorySpace::Psum, || {
        Refusal::new(
            "neuron/memory",
            format!("{name} of a tile in PSUM"),
            "HBM and SBUF",
            "copy between PSUM and SBUF with tensor_copy",
        )
    })
}

/// A tile of another core, moved by the DMA engines inside GpSimd's processors: half of their rate is one
/// direction (NKI Trainium2 architecture guide; docs/hardware-rules.md#gpsimd-engine). Assumed: it takes
/// GpSimd as long as it lasts, and no queue of transfers.
///
/// # Errors
/// If the two sides have different numbers of elements, or one lies outside its tensor.
pub fn gpsimd_exchange(chip: &Chip, dst: &Tile, src: &Tile) -> Result<Instruction, Refusal> {
    const NAME: &str = "sendrecv";
    check(NAME, dst, src)?;
    let uninitialised = convert::copy(&chip.rules, dst, src);
    let gpsimd = &chip.neuron.gpsimd;
    let moving_ps = bytes_ps(transfer_side(src).bytes, gpsimd.dma_bytes_per_s / 2);
    let busy_ps = cycles_ps(gpsimd.startup_cycles, gpsimd.clock_hz).exact_add(moving_ps);
    let cost = InstructionCost { busy_ps, latency_ps: 0 };
    Ok(Instruction::new(NAME, EngineKind::Gpsimd, cost, &[dst], &[src]).reading(uninitialised))
}

/// Refuses an exchange between cores that is too large for the DMA of GpSimd
/// (docs/hardware-rules.md#transfers-and-communication).
///
/// # Errors
/// If a partition has too many elements.
pub fn check_exchange(chip: &Chip, tile: &Tile) -> Result<(), Refusal> {
    let (elements, most) = (tile.view.free_elements(), chip.neuron.gpsimd.exchange_elements_max);
    rule(as_u64(elements) <= most, || {
        Refusal::new(
            "neuron/free-size",
            format!("sendrecv on gpsimd_dma of {elements} elements for each partition"),
            format!("at most {most}"),
            "use dma_engine.dma, or exchange in pieces",
        )
    })
}

/// dst = the sum of the sources, each scaled, in FP32.
///
/// # Errors
/// If the sides have different numbers of elements, or one lies outside its tensor; if it asks for more than
/// sums.
pub fn dma_compute(
    chip: &Chip,
    dst: &Tile,
    sources: &[Tile],
    scales: &[f32],
    op: AluOp,
) -> Result<Instruction, Refusal> {
    const NAME: &str = "dma_compute";
    let Some((first, rest)) = sources.split_first() else {
        return Err(Refusal::new(
            "neuron/shape",
            "dma_compute of no source",
            "1 to 16 sources",
            "pass the sources as a list",
        ));
    };
    sums_only(chip, sources.len(), scales, op)?;
    let scaled = |tile: &Tile, at: usize| -> Result<(Vec<f32>, bool), Refusal> {
        check(NAME, dst, tile)?;
        let read = tile.read(&chip.rules);
        let scale = scales.get(at).copied().unwrap_or(1.0);
        Ok((read.values.iter().map(|value| value * scale).collect(), read.uninitialised))
    };
    let (mut total, mut uninitialised) = scaled(first, 0)?;
    for (at, tile) in rest.iter().enumerate() {
        let (values, missing) = scaled(tile, at + 1)?;
        op.combine(&mut total, &values, false);
        uninitialised |= missing;
    }
    dst.write(&chip.rules, &total);
    let mut instruction = transfer(chip, NAME, dst, first, as_u64(sources.len())).reading(uninitialised);
    instruction.reads = sources.iter().filter_map(TensorRegion::of).collect();
    instruction.hbm_read_bytes = sources.iter().map(hbm_bytes).sum();
    Ok(instruction)
}

fn check(name: &str, dst: &Tile, src: &Tile) -> Result<(), Refusal> {
    src.check_bounds()?;
    dst.check_bounds()?;
    limits::same_words(name, dst, src)?;
    rule(src.elements() == dst.elements(), || {
        Refusal::new(
            "neuron/shape",
            format!("{name} of {:?} to {:?}", src.view.shape(), dst.view.shape()),
            "as many elements on both sides",
            "slice one of them",
        )
    })
}
