//! What a transposing transfer may be asked for (NKI reference of `dma_transpose`;
//! docs/hardware-rules.md#descriptors; docs/hardware-rules.md#eager-execution for the rank of the result).
//!
//! Not checked: the rule on products of sizes for hardware descriptors, of which the references have the name
//! alone.

use tilewright_neuron_isa::refusal::{Refusal, rule};
use tilewright_neuron_isa::{Chip, Generation, MemorySpace};

use crate::Tile;

/// Orders of dimensions that there are.
const ORDERS: [&[usize]; 3] = [&[1, 0], &[2, 1, 0], &[3, 1, 2, 0]];

/// Sizes that the first dimension may have if hardware makes the descriptors.
const FIRST: [usize; 5] = [1, 2, 4, 8, 16];

/// The order of dimensions of a transpose: as asked for, or the only one of that many.
///
/// # Errors
/// If the DMA engines have no such order.
pub fn order(rank: usize, axes: Option<&[usize]>) -> Result<&'static [usize], Refusal> {
    let known = ORDERS.into_iter().find(|order| order.len() == rank);
    known.filter(|order| axes.is_none_or(|axes| axes == *order)).ok_or_else(|| {
        let axes = axes.map_or(String::new(), |axes| format!(" in the order {axes:?}"));
        Refusal::new(
            "neuron/shape",
            format!("dma_transpose of {rank} dimensions{axes}"),
            "(1, 0), (2, 1, 0) and (3, 1, 2, 0)",
            "reshape the source, or permute a view of it and use dma_copy",
        )
    })
}

/// Refuses a result that is elsewhere than in SBUF or has another rank, and what the descriptors of the
/// transfer do not allow.
///
/// # Errors
/// If it breaks one of these rules.
pub fn check(chip: &Chip, dst: &Tile, src: &Tile, hardware: bool) -> Result<(), Refusal> {
    rule(dst.storage.memory == MemorySpace::Sbuf, || {
        Refusal::new(
            "neuron/memory",
            format!("dma_transpose to {}", dst.storage.memory.name()),
            "a result in SBUF",
            "transpose into a tile, then copy the tile",
        )
    })?;
    rule(dst.view.dims.len() == src.view.dims.len(), || {
        Refusal::new(
            "neuron/shape",
            format!("dma_transpose of {:?} to {:?}", src.view.shape(), dst.view.shape()),
            "a result with as many dimensions as its source",
            "give the result dimensions of size 1, or reshape it",
        )
    })?;
    if hardware {
        by_hardware(src)?;
    }
    let gathers = src.view.gather.is_some() && src.view.picked_by.is_some();
    if gathers { of_rows(chip, src) } else { Ok(()) }
}

/// Rows that a tile picks.
fn of_rows(chip: &Chip, src: &Tile) -> Result<(), Refusal> {
    chip.needs("dma_transpose of rows that a tile picks", Generation::V3)?;
    two_bytes(src, "of rows that a tile picks", "gather them with dma_copy and use nc_transpose")
}

/// Descriptors made by hardware. One page allows a last dimension of at most 128, another one multiples of
/// 128: what both refuse is refused.
fn by_hardware(src: &Tile) -> Result<(), Refusal> {
    two_bytes(src, "with dge_mode hwdge", "leave dge_mode out, which takes types of 4 bytes too")?;
    let shape = src.view.shape();
    let (first, last) = (shape.first().copied().unwrap_or(0), shape.last().copied().unwrap_or(0));
    rule(if shape.len() == 2 { first == 16 } else { FIRST.contains(&first) }, || {
        Refusal::new(
            "neuron/shape",
            format!("dma_transpose of {shape:?} with dge_mode hwdge"),
            "16 rows, or 1, 2, 4, 8 or 16 of a source with 3 or 4 dimensions",
            "transpose 16 rows at a time, or leave dge_mode out",
        )
    })?;
    rule(last <= 128 || last.is_multiple_of(128), || {
        Refusal::new(
            "neuron/free-size",
            format!("dma_transpose of {shape:?} with dge_mode hwdge"),
            "a last dimension of at most 128, or a multiple of 128",
            "split the last dimension, or leave dge_mode out",
        )
    })
}

fn two_bytes(src: &Tile, how: &str, instead: &str) -> Result<(), Refusal> {
    rule(src.view.dtype.storage_bits() == 16, || {
        Refusal::new(
            "neuron/dtype",
            format!("dma_transpose of {} {how}", src.view.type_name()),
            "types of 2 bytes",
            instead,
        )
    })
}
