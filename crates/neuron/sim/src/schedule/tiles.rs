//! Tiles numbered one after the other, with the first and the last instruction that touch each.

use std::collections::BTreeMap;

use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_neuron_isa::program::{NeuronProgram, TensorRegion};
use tilewright_neuron_isa::{Chip, MemorySpace};

/// No tile, no node.
pub(crate) const NONE: u32 = u32::MAX;

/// What is known of a tile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TileInfo {
    /// Number of its tensor.
    pub(crate) storage: u32,
    /// Number within the tensor.
    pub(crate) tile: u32,
    /// Where it lies.
    pub(crate) memory: MemorySpace,
    /// Bytes of a partition; of all of it in HBM. In PSUM whole banks.
    pub(crate) bytes: u64,
    /// Partitions.
    pub(crate) partitions: u64,
    /// First and last instruction that touch it.
    pub(crate) life: (u32, u32),
    /// Some instruction writes it.
    pub(crate) written: bool,
    /// The last one that does, if any.
    pub(crate) last_write: u32,
}

/// Tiles of a program that instructions touch.
#[derive(Debug, Default)]
pub(crate) struct TileTable {
    /// Facts by number.
    pub(crate) facts: Vec<TileInfo>,
    /// Number of the only tile of a tensor, by tensor.
    single: Vec<u32>,
    /// Numbers of tiles of tensors with several.
    several: BTreeMap<(u32, u32), u32>,
}

impl TileTable {
    /// The tiles of a program.
    pub(crate) fn of(chip: &Chip, program: &NeuronProgram) -> TileTable {
        let mut tiles = TileTable { single: vec![NONE; program.allocations.len()], ..TileTable::default() };
        for (at, instruction) in (0_u32..).zip(&program.instructions) {
            for region in &instruction.reads {
                tiles.touch(chip, program, region, at, false);
            }
            for region in &instruction.writes {
                tiles.touch(chip, program, region, at, true);
            }
        }
        tiles
    }

    /// Number of the tile that a region lies in.
    pub(crate) fn number(&self, region: &TensorRegion) -> u32 {
        match self.single.get(region.storage as usize) {
            Some(&number) if region.tile == 0 && number != NONE => number,
            _ => self.several.get(&(region.storage, region.tile)).copied().unwrap_or(NONE),
        }
    }

    fn touch(&mut self, chip: &Chip, program: &NeuronProgram, region: &TensorRegion, at: u32, writes: bool) {
        let number = self.number(region);
        if let Some(facts) = self.facts.get_mut(number as usize) {
            facts.life.1 = at;
            if writes {
                (facts.written, facts.last_write) = (true, at);
            }
            return;
        }
        let allocation = &program.allocations[region.storage as usize];
        let bank = chip.neuron.psum.bank_bytes.max(1);
        let bytes = match allocation.memory {
            MemorySpace::Psum => allocation.partition_bytes.div_ceil(bank).exact_mul(bank),
            _ => allocation.partition_bytes,
        };
        let number = u32::try_from(self.facts.len()).or_broken("more tiles than are numbered");
        if region.tile == 0 {
            if let Some(single) = self.single.get_mut(region.storage as usize) {
                *single = number;
            }
        } else {
            self.several.insert((region.storage, region.tile), number);
        }
        self.facts.push(TileInfo {
            storage: region.storage,
            tile: region.tile,
            memory: allocation.memory,
            bytes,
            partitions: u64::from(allocation.partitions.max(1)),
            life: (at, at),
            written: writes,
            last_write: if writes { at } else { 0 },
        });
    }

    /// Most bytes of a partition of a memory that are live at once, in the order of recording.
    pub(crate) fn peak_bytes(&self, memory: MemorySpace) -> u64 {
        let mut changes: Vec<(u32, bool, u64)> = Vec::new();
        for facts in self.facts.iter().filter(|facts| facts.memory == memory) {
            changes.push((facts.life.0, true, facts.bytes));
            changes.push((facts.life.1.exact_add(1), false, facts.bytes));
        }
        changes.sort_unstable();
        let (mut live, mut most) = (0_u64, 0_u64);
        for (_, begins, bytes) in changes {
            live = if begins { live.exact_add(bytes) } else { live.exact_sub(bytes) };
            most = most.max(live);
        }
        most
    }
}
