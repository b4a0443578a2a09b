//! Bytes and numbers of the memories of some chips.

use tilewright_tcp_isa::program::exec::Memory;

/// Bytes of each memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemorySizes {
    pub(crate) dm: u64,
    pub(crate) trf: u64,
    pub(crate) vrf: u64,
    pub(crate) spm: u64,
    pub(crate) hbm: u64,
    /// Slices of a PE that programs see.
    pub(crate) slices: u64,
    pub(crate) spares: u64,
    pub(crate) pes: u64,
    pub(crate) chips: u64,
}

impl MemorySizes {
    /// What a slice's memory is called, and its bytes.
    pub(crate) fn of(&self, memory: Memory) -> (&'static str, u64) {
        match memory {
            Memory::Dm => ("data memory", self.dm),
            Memory::Trf { .. } => ("the contraction register file", self.trf),
            Memory::Vrf => ("the vector register file", self.vrf),
        }
    }
}
