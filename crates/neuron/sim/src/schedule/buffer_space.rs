//! Room in SBUF and PSUM: a new tile takes what earlier ones left, in the order of the program, and waits for
//! their last use. Tiles with an address wait for those that had the same bytes before.

use std::collections::{BTreeMap, VecDeque};

use smallvec::SmallVec;
use tilewright_base::invariant::Exact;
use tilewright_neuron_isa::{Chip, MemorySpace, NeuronProgram};

use super::dependences::{BufferReuse, DependenceEdge, DependenceKind};
use super::tiles::TileTable;

/// Bytes that are free once some nodes are over.
struct FreedBytes {
    bytes: u64,
    users: SmallVec<[u32; 4]>,
}

/// One memory of one core.
struct SpacePool {
    capacity: u64,
    used: u64,
    freed: VecDeque<FreedBytes>,
}

impl SpacePool {
    fn claim(&mut self, bytes: u64, found: &mut SmallVec<[DependenceEdge; 8]>) {
        // A memory that is too full has nothing free: a finding says so.
        let mut missing = bytes.saturating_sub(self.capacity.saturating_sub(self.used));
        self.used = self.used.exact_add(bytes);
        while missing > 0 {
            // What never becomes free is taken as fitting; a finding says so.
            let Some(freed) = self.freed.front_mut() else { break };
            let part = missing.min(freed.bytes);
            found.extend(freed.users.iter().map(|&user| (user, DependenceKind::Space)));
            freed.bytes -= part;
            missing -= part;
            // A tile that is read before it is written was never counted.
            self.used = self.used.saturating_sub(part);
            if freed.bytes == 0 {
                self.freed.pop_front();
            }
        }
    }
}

/// The last users of bytes at an address.
struct AddressOwner {
    partitions: (u64, u64),
    end: u64,
    users: SmallVec<[u32; 4]>,
}

/// Room of all cores.
pub(crate) struct BufferSpace<'a> {
    program: &'a NeuronProgram,
    capacity: [u64; 2],
    pools: BTreeMap<(u32, bool), SpacePool>,
    owners: BTreeMap<(u32, bool, u64), Vec<AddressOwner>>,
    max_tile_bytes: u64,
    buffers: BufferReuse,
}

impl<'a> BufferSpace<'a> {
    pub(crate) fn new(chip: &Chip, program: &'a NeuronProgram, buffers: BufferReuse) -> BufferSpace<'a> {
        BufferSpace {
            program,
            capacity: [chip.sbuf_usable_bytes(), chip.psum_partition_bytes()],
            pools: BTreeMap::new(),
            owners: BTreeMap::new(),
            max_tile_bytes: 0,
            buffers,
        }
    }

    /// Takes room for a tile; adds what it waits for.
    pub(crate) fn claim(&mut self, tiles: &TileTable, tile: u32, found: &mut SmallVec<[DependenceEdge; 8]>) {
        let facts = &tiles.facts[tile as usize];
        if !facts.memory.on_chip() {
            return;
        }
        let core = self.core(facts.life.0);
        let psum = facts.memory == MemorySpace::Psum;
        if let Some((partition, byte)) = self.place(facts.storage, facts.tile) {
            // The kernel chose the address: one that no memory has is a finding.
            let (rows, end) = ((partition, partition + facts.partitions), byte.saturating_add(facts.bytes));
            self.claim_address(core, psum, rows, (byte, end), found);
            return;
        }
        let capacity = self.capacity[usize::from(psum)];
        let pool = self.pools.entry((core, psum)).or_insert_with(|| SpacePool {
            capacity,
            used: 0,
            freed: VecDeque::new(),
        });
        pool.claim(facts.bytes, found);
    }

    /// Gives the room of a tile back, free once its users are over.
    pub(crate) fn release(&mut self, tiles: &TileTable, tile: u32, users: SmallVec<[u32; 4]>) {
        let facts = &tiles.facts[tile as usize];
        let core = self.core(facts.life.0);
        let psum = facts.memory == MemorySpace::Psum;
        if let Some((partition, byte)) = self.place(facts.storage, facts.tile) {
            self.max_tile_bytes = self.max_tile_bytes.max(facts.bytes);
            self.owners.entry((core, psum, byte)).or_default().push(AddressOwner {
                partitions: (partition, partition + facts.partitions),
                end: byte.saturating_add(facts.bytes),
                users,
            });
        } else if let Some(pool) = self.pools.get_mut(&(core, psum)) {
            pool.freed.push_back(FreedBytes { bytes: facts.bytes, users });
        }
    }

    fn claim_address(
        &mut self,
        core: u32,
        psum: bool,
        rows: (u64, u64),
        bytes: (u64, u64),
        found: &mut SmallVec<[DependenceEdge; 8]>,
    ) {
        // No tile starts before byte 0.
        let from = (core, psum, bytes.0.saturating_sub(self.max_tile_bytes));
        let mut empty = Vec::new();
        for (&key, owners) in self.owners.range_mut(from..(core, psum, bytes.1)) {
            owners.retain(|owner| {
                let meets = owner.end > bytes.0 && owner.partitions.0 < rows.1 && rows.0 < owner.partitions.1;
                if meets && self.buffers == BufferReuse::Waits {
                    found.extend(owner.users.iter().map(|&user| (user, DependenceKind::Space)));
                }
                !meets
            });
            if owners.is_empty() {
                empty.push(key);
            }
        }
        for key in empty {
            self.owners.remove(&key);
        }
    }

    fn place(&self, storage: u32, tile: u32) -> Option<(u64, u64)> {
        let allocation = self.program.allocations.get(storage as usize)?;
        allocation.places.get(tile as usize).map(|&(partition, byte)| (u64::from(partition), byte))
    }

    fn core(&self, node: u32) -> u32 {
        self.program.core(&self.program.instructions[node as usize])
    }
}
