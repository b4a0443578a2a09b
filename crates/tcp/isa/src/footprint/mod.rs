//! The bytes that a resolved command reads and writes, memory by memory, exactly.
//!
//! | file | holds |
//! |---|---|
//! | [`bytes`] | sets of bytes as sorted runs |
//! | [`walk`] | loops with strides and limits to such sets |
//! | [`exec`] | tensor unit commands: fetch, register files, commit |
//! | `live_slices` | slices whose reads reach a write |
//! | [`transfer`] | DMA commands |
//! | [`self_overlap`] | commands that overwrite what they read later |
//! | [`tensor`] | where named data lies |
//!
//! Elements that a limit replaces by zero are not read: whatever the fetch unit loads there goes nowhere, as
//! does what slices load that feed no slice that writes. Nor do the bytes count that a wide access loads next
//! to an element. Addresses that come from a table are not known here: such a walk may touch all of the
//! tensor that its base lies in, or the whole memory if there is none, and its set is not exact.

pub mod bytes;
pub mod exec;
mod live_slices;
pub mod self_overlap;
pub mod tensor;
pub mod transfer;
pub mod walk;

use std::sync::Arc;

pub use bytes::ByteSet;
pub use exec::of_exec;
pub use transfer::{of_read, of_transfer};

use tilewright_machine::tcp::Tcp;
use tilewright_notation::syntax::ast::Place;

use crate::memory::capacity_bytes;

/// Memories of a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemoryKind {
    /// High-bandwidth memory.
    Hbm,
    /// Data memory of a slice.
    Dm,
    /// The contraction engine's register file of a slice.
    Trf,
    /// The vector engine's register file of a slice.
    Vrf,
    /// Scratchpad of a PE.
    Spm,
}

impl MemoryKind {
    /// As it is written in findings.
    pub fn name(self) -> &'static str {
        match self {
            MemoryKind::Hbm => "hbm",
            MemoryKind::Dm => "dm",
            MemoryKind::Trf => "trf",
            MemoryKind::Vrf => "vrf",
            MemoryKind::Spm => "spm",
        }
    }

    /// Bytes of one such memory: of a chip, a slice or a PE.
    pub fn capacity_bytes(self, machine: &Tcp) -> u64 {
        match self {
            MemoryKind::Hbm => machine.hbm_capacity_bytes(),
            MemoryKind::Dm => capacity_bytes(machine, Place::Dm),
            MemoryKind::Trf => capacity_bytes(machine, Place::Trf),
            MemoryKind::Vrf => capacity_bytes(machine, Place::Vrf),
            MemoryKind::Spm => machine.cpu.spm_bytes,
        }
    }
}

/// One memory access of a command: the same bytes in each of a range of slices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryAccess {
    /// Kind of memory.
    pub memory: MemoryKind,
    /// Chip.
    pub chip: u64,
    /// First slice of the chip and one past the last; PEs for a scratchpad, `0..1` for HBM.
    pub slices: (u64, u64),
    /// Written rather than read.
    pub write: bool,
    /// Lanes that a register file is cut into; 0 for other memories.
    pub lanes: u64,
    /// The bytes.
    pub bytes: Arc<ByteSet>,
}

impl MemoryAccess {
    /// Whether both touch some memory in common, whatever the bytes.
    pub fn meets(&self, other: &MemoryAccess) -> bool {
        self.memory == other.memory
            && self.chip == other.chip
            && self.slices.0 < other.slices.1
            && other.slices.0 < self.slices.1
    }
}

/// Addresses that no memory has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutOfBounds {
    /// The memory that they were meant for, if any is mapped near.
    pub memory: Option<MemoryKind>,
    /// First byte and one past the last of the walk.
    pub bytes: (i128, i128),
    /// Bytes that the memory has.
    pub capacity: u64,
    /// Written rather than read.
    pub write: bool,
}

/// All that one command touches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Inside memories.
    pub accesses: Vec<MemoryAccess>,
    /// Outside of them.
    pub outside: Vec<OutOfBounds>,
}

impl Footprint {
    pub(crate) fn add(&mut self, machine: &Tcp, place: AccessSite, placed: walk::TouchedBytes) {
        if let Some(bytes) = placed.outside {
            let capacity = place.memory.capacity_bytes(machine);
            self.outside.push(OutOfBounds {
                memory: Some(place.memory),
                bytes,
                capacity,
                write: place.write,
            });
        }
        self.add_shared(place, &Arc::new(placed.bytes));
    }

    fn add_shared(&mut self, place: AccessSite, bytes: &Arc<ByteSet>) {
        if !bytes.is_empty() && place.slices.0 < place.slices.1 {
            let AccessSite { memory, chip, slices, write, lanes } = place;
            self.accesses.push(MemoryAccess { memory, chip, slices, write, lanes, bytes: Arc::clone(bytes) });
        }
    }
}

/// An access but for its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccessSite {
    pub(crate) memory: MemoryKind,
    pub(crate) chip: u64,
    pub(crate) slices: (u64, u64),
    pub(crate) write: bool,
    pub(crate) lanes: u64,
}

/// What a walk through a table may touch: the object that its base lies in, or else the whole memory.
fn reachable(machine: &Tcp, objects: &[MemoryAccess], place: AccessSite, base: u64) -> ByteSet {
    let holds = |object: &&MemoryAccess| {
        let same = object.memory == place.memory && object.chip == place.chip;
        same && object.slices.0 <= place.slices.0
            && place.slices.0 < object.slices.1
            && object.bytes.bounds().is_some_and(|(start, end)| start <= base && base < end)
    };
    let bounds = objects.iter().find(holds).and_then(|object| object.bytes.bounds());
    let (start, end) = bounds.unwrap_or((0, place.memory.capacity_bytes(machine)));
    ByteSet::range(start, end).inexact()
}
