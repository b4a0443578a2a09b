//! The memories of one slice: data memory and both register files (paper section IV).

use super::Sizes;
use crate::program::exec::Memory;
use crate::run::index;

/// Memories that take room once they are written to.
#[derive(Clone, Debug, Default)]
pub(in crate::run) struct SliceMemory {
    dm: Vec<u8>,
    trf: Vec<u8>,
    /// Extra bits of the register file's elements, one byte for each payload byte.
    extra: Vec<u8>,
    vrf: Vec<u8>,
}

impl SliceMemory {
    /// Data memory; empty if nothing was ever written.
    pub(in crate::run) fn dm(&self) -> &[u8] {
        &self.dm
    }

    /// Payload of the contraction engine's register file, and its extra bits if there ever were any.
    pub(in crate::run) fn trf(&self) -> (&[u8], Option<&[u8]>) {
        (&self.trf, (!self.extra.is_empty()).then_some(&self.extra))
    }

    /// The content of a memory; empty if nothing was ever written.
    pub(in crate::run) fn bytes(&self, memory: Memory) -> &[u8] {
        match memory {
            Memory::Dm => &self.dm,
            Memory::Trf { .. } => &self.trf,
            Memory::Vrf => &self.vrf,
        }
    }

    /// Writes bytes that are known to be inside.
    pub(in crate::run) fn write(&mut self, sizes: &Sizes, memory: Memory, offset: u64, bytes: &[u8]) {
        match memory {
            Memory::Dm => write(&mut self.dm, sizes.dm, offset, bytes),
            Memory::Vrf => write(&mut self.vrf, sizes.vrf, offset, bytes),
            Memory::Trf { .. } => {
                write(&mut self.trf, sizes.trf, offset, bytes);
                if let Some(flags) = span(&mut self.extra, offset, bytes.len()) {
                    flags.fill(0);
                }
            }
        }
    }

    /// Writes bytes of the register file with their extra bits.
    pub(in crate::run) fn write_extra(&mut self, sizes: &Sizes, offset: u64, bytes: &[u8], extra: &[u8]) {
        write(&mut self.trf, sizes.trf, offset, bytes);
        write(&mut self.extra, sizes.trf, offset, extra);
    }
}

/// Reads; zeros where the memory was never written. Bounds are the caller's to check.
pub(super) fn read(memory: &[u8], offset: u64, bytes: &mut [u8]) {
    match memory.get(index(offset)..index(offset).saturating_add(bytes.len())) {
        Some(source) => bytes.copy_from_slice(source),
        None => bytes.fill(0),
    }
}

/// Writes, taking room for the whole memory first. Bounds are the caller's to check.
pub(super) fn write(memory: &mut Vec<u8>, capacity: u64, offset: u64, bytes: &[u8]) {
    if memory.is_empty() {
        *memory = vec![0; index(capacity)];
    }
    if let Some(target) = span(memory, offset, bytes.len()) {
        target.copy_from_slice(bytes);
    }
}

fn span(memory: &mut [u8], offset: u64, bytes: usize) -> Option<&mut [u8]> {
    memory.get_mut(index(offset)..index(offset).saturating_add(bytes))
}
