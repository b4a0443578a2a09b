//! All memories of a program's chips: HBM, data memories, register files and scratchpads (paper section III).
//!
//! What was never written reads as zeros and takes no room. Data memories are addressed through a table for
//! each PE that says which of its slices answers to a number, so that a program runs unchanged when a spare
//! slice replaces a faulty one (paper section III-B). Register files belong to the slice and move with it.
//!
//! | file | owns |
//! |---|---|
//! | `pages`, `shared_bytes` | HBM, of its own or where somebody else holds it |
//! | `slice` | the memories of one slice; who reads or writes them comes through here |
//! | `overlay`, `deferred_loads` | bytes of a slice that were not copied yet: those of DMA, and those of register file loads |
//! | `copy` | bytes from memory to memory without a stop between |
//! | `tensor` | tensors of the host |

mod copy;
mod deferred_loads;
pub(crate) mod overlay;
pub(crate) mod pages;
mod shared_bytes;
pub(crate) mod sizes;
mod slice;
mod tensor;

use std::collections::BTreeMap;

use tilewright_machine::tcp::Tcp;

use super::fault::{ExecFault, ExecProblem, ExecStage, out_of_bounds};
use crate::limits::index;
pub(super) use deferred_loads::{LaneReads, LoadTarget, LoadedRows, SliceLoads};
use pages::HbmPages;
pub use shared_bytes::SharedBytes;
use sizes::MemorySizes;
pub(super) use slice::SliceMemory;
use tilewright_tcp_isa::capped::Capped;
use tilewright_tcp_isa::program::event::PeId;
use tilewright_tcp_isa::program::exec::Memory;
use tilewright_tcp_isa::program::transfer::{Address, MemoryInstance, MemoryLocation};

/// The memories of some chips.
#[derive(Clone, Debug)]
pub struct MemoryState {
    pub(super) sizes: MemorySizes,
    /// Only chips that were written to.
    chips: BTreeMap<u64, ChipMemories>,
    /// What a slice holds that was never written.
    untouched: SliceMemory,
}

#[derive(Clone, Debug)]
struct ChipMemories {
    hbm: HbmPages,
    pes: Vec<PeMemories>,
}

#[derive(Clone, Debug)]
struct PeMemories {
    /// By physical number, spares last.
    slices: Vec<SliceMemory>,
    /// The physical slice that answers to a number.
    table: Vec<usize>,
    spares_used: u64,
    spm: Vec<u8>,
}

/// A byte in a memory of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceAddress {
    /// Chip.
    pub chip: u64,
    /// Slice of the chip.
    pub slice: u64,
    /// Memory of the slice.
    pub memory: Memory,
    /// Byte.
    pub offset: u64,
}

/// Slices that work as one: those of neighbouring PEs of a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PeGroup {
    chip: u64,
    pe: u64,
    pes: u64,
    pub(super) slices: u64,
}

impl ChipMemories {
    fn new(sizes: &MemorySizes) -> ChipMemories {
        let pe = PeMemories {
            slices: (0..sizes.slices + sizes.spares).map(|_| SliceMemory::default()).collect(),
            table: (0..index(sizes.slices)).collect(),
            spares_used: 0,
            spm: Vec::new(),
        };
        ChipMemories { hbm: HbmPages::default(), pes: (0..sizes.pes).map(|_| pe.clone()).collect() }
    }
}

impl MemoryState {
    /// Memories without content.
    pub fn new(machine: &Tcp, chips: u64) -> MemoryState {
        let sizes = MemorySizes {
            dm: machine.dm.capacity_bytes,
            trf: machine.ce.lanes * machine.trf_lane_payload_bytes(),
            vrf: machine.vrf.capacity_bytes,
            spm: machine.cpu.spm_bytes,
            hbm: machine.hbm_capacity_bytes(),
            slices: machine.pe.slices,
            spares: machine.pe.spare_slices,
            pes: machine.pes(),
            chips,
        };
        MemoryState { sizes, chips: BTreeMap::new(), untouched: SliceMemory::default() }
    }

    /// Lets the next spare slice of a PE answer to the number of a faulty one. What the faulty slice held is
    /// lost.
    ///
    /// # Errors
    /// No such slice, or no spare left.
    pub fn replace_slice(&mut self, chip: u64, pe: u64, faulty: u64) -> Result<(), ExecFault> {
        let sizes = self.sizes;
        below("slice", faulty, sizes.slices)?;
        let pe = self.pe_mut(chip, pe)?;
        below("spare slice", pe.spares_used, sizes.spares)?;
        if let Some(entry) = pe.table.get_mut(index(faulty)) {
            *entry = index(sizes.slices + pe.spares_used);
            pe.spares_used += 1;
        }
        Ok(())
    }

    /// Reads bytes of any memory that DMA reaches.
    ///
    /// # Errors
    /// An address where nothing is mapped, or bytes past the end of the memory.
    pub fn read(&self, address: Address, bytes: &mut [u8]) -> Result<(), ExecFault> {
        let at = address.locate().ok_or_else(|| ExecProblem::Unmapped(address).at(ExecStage::Memory))?;
        self.read_at(at, bytes)
    }

    /// [`Self::read`] at an address taken apart.
    fn read_at(&self, at: MemoryLocation, bytes: &mut [u8]) -> Result<(), ExecFault> {
        self.check(&at, bytes.len())?;
        let Some(chip) = self.chips.get(&at.chip) else {
            bytes.fill(0);
            return Ok(());
        };
        match at.medium {
            MemoryInstance::Hbm => chip.hbm.read(at.offset, bytes),
            MemoryInstance::Dm { slice } => self.slice(at.chip, slice)?.read_dm(at.offset, bytes),
            MemoryInstance::Spm { pe } => {
                slice::read(chip.pes.get(index(pe)).map_or(&[], |pe| &pe.spm), at.offset, bytes);
            }
        }
        Ok(())
    }

    /// Writes bytes of any memory that DMA reaches.
    ///
    /// # Errors
    /// An address where nothing is mapped, or bytes past the end of the memory.
    pub fn write(&mut self, address: Address, bytes: &[u8]) -> Result<(), ExecFault> {
        let at = address.locate().ok_or_else(|| ExecProblem::Unmapped(address).at(ExecStage::Memory))?;
        self.write_at(at, bytes)
    }

    /// Writes bytes of HBM that are held elsewhere: they are read there until they change here.
    ///
    /// # Errors
    /// An address that is not in HBM, or bytes past its end.
    pub fn lend(&mut self, address: Address, shared: &SharedBytes) -> Result<(), ExecFault> {
        let at = address.locate().filter(|at| at.medium == MemoryInstance::Hbm);
        let at = at.ok_or_else(|| ExecProblem::Unmapped(address).at(ExecStage::Memory))?;
        self.check(&at, shared.bytes().len())?;
        self.chip_mut(at.chip).hbm.lend(at.offset, shared);
        Ok(())
    }

    /// [`Self::write`] at an address taken apart.
    fn write_at(&mut self, at: MemoryLocation, bytes: &[u8]) -> Result<(), ExecFault> {
        self.check(&at, bytes.len())?;
        let sizes = self.sizes;
        match at.medium {
            MemoryInstance::Hbm => self.chip_mut(at.chip).hbm.write(at.offset, bytes),
            MemoryInstance::Dm { slice } => {
                self.slice_mut(at.chip, slice)?.write(&sizes, Memory::Dm, at.offset, bytes);
            }
            MemoryInstance::Spm { pe } => {
                slice::write(&mut self.pe_mut(at.chip, pe)?.spm, sizes.spm, at.offset, bytes);
            }
        }
        Ok(())
    }

    /// Reads bytes of a slice's memory.
    ///
    /// # Errors
    /// No such slice, or bytes past the end.
    pub fn read_slice(&self, at: SliceAddress, bytes: &mut [u8]) -> Result<(), ExecFault> {
        self.check_slice(&at, bytes.len())?;
        self.slice(at.chip, at.slice)?.read(&self.sizes, at.memory, at.offset, bytes);
        Ok(())
    }

    /// Writes bytes of a slice's memory; in the register file, elements with plain signs.
    ///
    /// # Errors
    /// No such slice, or bytes past the end.
    pub fn write_slice(&mut self, at: SliceAddress, bytes: &[u8]) -> Result<(), ExecFault> {
        self.check_slice(&at, bytes.len())?;
        let sizes = self.sizes;
        self.slice_mut(at.chip, at.slice)?.write(&sizes, at.memory, at.offset, bytes);
        Ok(())
    }

    /// The slices of a group of PEs.
    pub(super) fn group(&self, pe: PeId, pes: u64) -> Result<PeGroup, ExecFault> {
        below("chip", pe.chip, self.sizes.chips)?;
        below("PE", pe.pe, self.sizes.pes)?;
        let pes = pes.max(1);
        below("PE", pe.pe.capped_add(pes - 1), self.sizes.pes)?;
        Ok(PeGroup { chip: pe.chip, pe: pe.pe, pes, slices: pes * self.sizes.slices })
    }

    /// The memories of a group, in the order of slice numbers.
    pub(super) fn slices(&self, group: PeGroup) -> Vec<&SliceMemory> {
        let first = group.pe * self.sizes.slices;
        let slice = |number| self.slice(group.chip, first + number).unwrap_or(&self.untouched);
        (0..group.slices).map(slice).collect()
    }

    /// The same, to write to.
    pub(super) fn slices_mut(&mut self, group: PeGroup) -> Vec<&mut SliceMemory> {
        let pes = &mut self.chip_mut(group.chip).pes;
        let mut ordered = Vec::new();
        for pe in pes.iter_mut().skip(index(group.pe)).take(index(group.pes)) {
            let mut physical: Vec<Option<&mut SliceMemory>> = pe.slices.iter_mut().map(Some).collect();
            ordered.extend(pe.table.iter().filter_map(|entry| physical.get_mut(*entry)?.take()));
        }
        ordered
    }

    fn check(&self, at: &MemoryLocation, bytes: usize) -> Result<(), ExecFault> {
        below("chip", at.chip, self.sizes.chips)?;
        let (memory, capacity) = match at.medium {
            MemoryInstance::Hbm => ("HBM", self.sizes.hbm),
            MemoryInstance::Dm { slice } => {
                below("slice", slice, self.sizes.pes * self.sizes.slices)?;
                ("data memory", self.sizes.dm)
            }
            MemoryInstance::Spm { pe } => {
                below("PE", pe, self.sizes.pes)?;
                ("the scratchpad", self.sizes.spm)
            }
        };
        inside(memory, at.offset, bytes as u64, capacity)
    }

    fn check_slice(&self, at: &SliceAddress, bytes: usize) -> Result<(), ExecFault> {
        below("chip", at.chip, self.sizes.chips)?;
        below("slice", at.slice, self.sizes.pes * self.sizes.slices)?;
        let (memory, capacity) = self.sizes.of(at.memory);
        inside(memory, at.offset, bytes as u64, capacity)
    }

    fn slice(&self, chip: u64, slice: u64) -> Result<&SliceMemory, ExecFault> {
        below("slice", slice, self.sizes.pes * self.sizes.slices)?;
        let pe = self.chips.get(&chip).and_then(|chip| chip.pes.get(index(slice / self.sizes.slices)));
        let Some(pe) = pe else { return Ok(&self.untouched) };
        let entry = pe.table.get(index(slice % self.sizes.slices));
        Ok(entry.and_then(|entry| pe.slices.get(*entry)).unwrap_or(&self.untouched))
    }

    fn slice_mut(&mut self, chip: u64, slice: u64) -> Result<&mut SliceMemory, ExecFault> {
        let (slices, pes) = (self.sizes.slices, self.sizes.pes);
        let nowhere = || {
            ExecProblem::Nowhere { what: "slice", number: slice, count: slices * pes }.at(ExecStage::Memory)
        };
        let pe = self.pe_mut(chip, slice / slices)?;
        let entry = *pe.table.get(index(slice % slices)).ok_or_else(nowhere)?;
        pe.slices.get_mut(entry).ok_or_else(nowhere)
    }

    fn pe_mut(&mut self, chip: u64, pe: u64) -> Result<&mut PeMemories, ExecFault> {
        below("chip", chip, self.sizes.chips)?;
        let count = self.sizes.pes;
        let pe_memory = self.chip_mut(chip).pes.get_mut(index(pe));
        pe_memory.ok_or_else(|| ExecProblem::Nowhere { what: "PE", number: pe, count }.at(ExecStage::Memory))
    }

    fn chip_mut(&mut self, chip: u64) -> &mut ChipMemories {
        let sizes = self.sizes;
        self.chips.entry(chip).or_insert_with(|| ChipMemories::new(&sizes))
    }
}

fn below(what: &'static str, number: u64, count: u64) -> Result<(), ExecFault> {
    if number < count {
        Ok(())
    } else {
        Err(ExecProblem::Nowhere { what, number, count }.at(ExecStage::Memory))
    }
}

fn inside(memory: &'static str, offset: u64, bytes: u64, capacity: u64) -> Result<(), ExecFault> {
    if offset.checked_add(bytes).is_some_and(|end| end <= capacity) {
        return Ok(());
    }
    Err(out_of_bounds(memory, offset, bytes, capacity).at(ExecStage::Memory))
}
