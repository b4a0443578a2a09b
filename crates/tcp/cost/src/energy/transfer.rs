//! Events of a DMA command (paper section III-D; vISA book, DMA engine).

use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::program::transfer::{MemoryInstance, MemoryLocation};

use super::EnergyCounts;
use crate::cycles::image::TransferCost;
use tilewright_tcp_isa::capped::Capped;

/// What a transfer does, from its cost: [`crate::cycles::image::transfer_cost`].
pub fn counts_transfer(machine: &Tcp, cost: &TransferCost) -> EnergyCounts {
    let bytes = cost.bytes;
    let is_dm = |end: MemoryLocation| matches!(end.medium, MemoryInstance::Dm { .. });
    let units = [&cost.read, &cost.written].into_iter().flatten();
    let unit_bytes = units.fold(0, |all, side| u64::capped_add(all, side.unit_bytes));
    EnergyCounts {
        dm_read_bytes: if is_dm(cost.source) { bytes } else { 0 },
        dm_written_bytes: if is_dm(cost.target) { bytes } else { 0 },
        hbm_read_bytes: if cost.read.is_some() { bytes } else { 0 },
        hbm_written_bytes: if cost.written.is_some() { bytes } else { 0 },
        hbm_bits: unit_bytes.capped_mul(8),
        noc_bits: if crosses(machine, cost) { bytes.capped_mul(8) } else { 0 },
        link_bytes: if cost.link_cycles > 0 { bytes } else { 0 },
        ..EnergyCounts::default()
    }
}

/// The on-chip network lies between the two ends: they are not both in one PE.
fn crosses(machine: &Tcp, cost: &TransferCost) -> bool {
    let pe = |end: MemoryLocation| match end.medium {
        MemoryInstance::Hbm => None,
        MemoryInstance::Dm { slice } => Some((end.chip, slice / machine.pe.slices.max(1))),
        MemoryInstance::Spm { pe } => Some((end.chip, pe)),
    };
    pe(cost.source).is_none() || pe(cost.source) != pe(cost.target)
}
