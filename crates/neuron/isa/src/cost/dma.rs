//! What transfers take: bytes and contiguous runs of both sides, spread over the DMA engines of a core
//! (NKI guide to DMA; docs/hardware-rules.md#dma and #descriptors).

use crate::chip::{bytes_ps, ns_ps};
use crate::pattern::{SKIP, as_u64, signed};
use crate::program::{DmaShape, EngineKind, Instruction, InstructionCost};
use crate::{Chip, TensorAccess};
use tilewright_base::invariant::{Exact, OrBroken};

/// Bytes of a side that is in HBM; skipped elements do not count.
pub fn hbm_bytes(tile: &impl TensorAccess) -> u64 {
    if tile.tensor().memory.on_chip() { 0 } else { transfer_side(tile).bytes }
}

/// How one side of a transfer lies in memory.
pub struct TransferSide {
    /// Bytes that move.
    pub bytes: u64,
    /// Contiguous runs.
    pub descriptors: u64,
}

/// How a tile lies in memory: its bytes, and the runs that descriptors name.
pub fn transfer_side(tile: &impl TensorAccess) -> TransferSide {
    let size = as_u64(tile.view().dtype.size_bytes(1));
    if let Some(offsets) = &tile.view().gather {
        let used = offsets.iter().filter(|offset| **offset != SKIP).count();
        let joined = offsets.windows(2).filter(|pair| pair[0] != SKIP && pair[1] == pair[0] + 1).count();
        return TransferSide { bytes: as_u64(used) * size, descriptors: as_u64(used.exact_sub(joined)) };
    }
    let mut runs = 0_u64;
    let elements = as_u64(tile.view().elements());
    let dims = &tile.view().dims;
    let mut run = 1_usize;
    for (index, dim) in dims.iter().enumerate().rev() {
        let partition = tile.tensor().memory.on_chip() && index == 0;
        if dim.size > 1 && (partition || dim.stride != signed(run)) {
            break;
        }
        run = run.exact_mul(dim.size.max(1));
    }
    runs += elements / as_u64(run.max(1));
    TransferSide { bytes: elements * size, descriptors: runs }
}

/// A transfer as an instruction: rows spread over the engines, each moving its part with a fixed time for the
/// whole.
pub fn transfer<T: TensorAccess>(
    chip: &Chip,
    name: &'static str,
    dst: &T,
    src: &T,
    factor: u64,
) -> Instruction {
    let dma = &chip.neuron.dma;
    let (from, to) = (transfer_side(src), transfer_side(dst));
    let bytes = from.bytes.max(to.bytes);
    let longest = bytes.div_ceil(dma.descriptor_max_bytes.max(1));
    let descriptors = from.descriptors.max(to.descriptors).max(longest);
    let on_chip = [dst, src].into_iter().find(|tile| tile.tensor().memory.on_chip());
    let rows = on_chip.map_or(descriptors, |tile| as_u64(tile.view().partitions()));
    let engines = rows.div_ceil(dma.partitions_per_engine.max(1)).clamp(1, dma.engines_per_core);
    // Short runs take as long as those of some bytes.
    let least = descriptors.exact_mul(dma.descriptor_least_bytes);
    let phase = bytes.max(least).exact_mul(factor).div_ceil(engines);
    let data = bytes_ps(phase, dma.achieved_bytes_per_s);
    let data = data.exact_add(ns_ps(dma.descriptor_ns.exact_mul(descriptors.div_ceil(engines))));
    let cost = InstructionCost { busy_ps: data, latency_ps: ns_ps(dma.fixed_ns) };
    let mut instruction = Instruction::new(name, EngineKind::Dma, cost, &[dst], &[src]);
    instruction.hbm_read_bytes = hbm_bytes(src);
    instruction.hbm_written_bytes = hbm_bytes(dst);
    instruction.dma = Some(DmaShape {
        engines: u32::try_from(engines).or_broken("more DMA engines than machines have"),
        data_ps: data,
        bytes,
        descriptors,
        software: false,
    });
    instruction
}
