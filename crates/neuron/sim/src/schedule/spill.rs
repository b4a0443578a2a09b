//! Spills: where a kernel leaves placement to the compiler and needs more SBUF than there is, tiles whose
//! next use is farthest away go to HBM and come back (docs/hardware-rules.md#order-and-synchronisation; the
//! choice of the tile is an assumption).

use std::collections::{BTreeMap, BTreeSet};

use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_neuron_isa::{Chip, EngineKind, MemorySpace, NeuronProgram};

use super::tiles::{NONE, TileTable};

/// What runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScheduleNode {
    /// A recorded instruction.
    Instruction(u32),
    /// A tile goes to HBM.
    Save(u32),
    /// A tile that is in HBM as it is leaves SBUF.
    Drop(u32),
    /// A tile comes back.
    Reload(u32),
}

/// Recorded instructions, numbered as they are, and spills after them.
#[derive(Debug, Default)]
pub(crate) struct ScheduleNodes {
    instruction_count: u32,
    spills: Vec<ScheduleNode>,
    /// All of them in the order of the program.
    pub(crate) order: Vec<u32>,
}

impl ScheduleNodes {
    /// Nodes.
    pub(crate) fn count(&self) -> usize {
        self.instruction_count as usize + self.spills.len()
    }

    /// What a node is.
    pub(crate) fn node(&self, node: u32) -> ScheduleNode {
        match node.checked_sub(self.instruction_count) {
            None => ScheduleNode::Instruction(node),
            Some(spills) => self.spills[spills as usize],
        }
    }

    /// Spills.
    pub(crate) fn spills(&self) -> &[ScheduleNode] {
        &self.spills
    }

    /// Recorded instructions.
    pub(crate) fn instruction_count(&self) -> u32 {
        self.instruction_count
    }
}

/// The nodes of a program, with spills if the compiler has to make room.
pub(crate) fn nodes(chip: &Chip, program: &NeuronProgram, tiles: &TileTable, spills: bool) -> ScheduleNodes {
    let instruction_count =
        u32::try_from(program.instructions.len()).or_broken("more instructions than are numbered");
    let capacity = chip.sbuf_usable_bytes();
    let placed = program.allocations.iter().any(|allocation| !allocation.places.is_empty());
    if placed || !spills || tiles.peak_bytes(MemorySpace::Sbuf) <= capacity {
        return ScheduleNodes {
            instruction_count,
            spills: Vec::new(),
            order: (0..instruction_count).collect(),
        };
    }
    // A part stays free for what is loaded ahead.
    Spiller::new(
        program,
        tiles,
        capacity - part(capacity, chip.neuron.sbuf.spill_reserve_fraction),
        instruction_count,
    )
    .run()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of some bytes")]
fn part(bytes: u64, fraction: f64) -> u64 {
    (bytes as f64 * fraction) as u64
}

/// Tiles of one core that are in SBUF.
#[derive(Default)]
struct ResidentTiles {
    used: u64,
    /// By next use, then number.
    by_use: BTreeSet<(u32, u32)>,
}

struct Spiller<'a> {
    program: &'a NeuronProgram,
    tiles: &'a TileTable,
    capacity: u64,
    nodes: ScheduleNodes,
    /// Instructions that touch each tile of SBUF.
    uses: Vec<Vec<u32>>,
    /// How many of them are over.
    uses_done: Vec<u32>,
    resident: Vec<bool>,
    /// What SBUF holds is in HBM too.
    clean: Vec<bool>,
    cores: BTreeMap<u32, ResidentTiles>,
}

impl<'a> Spiller<'a> {
    fn new(
        program: &'a NeuronProgram,
        tiles: &'a TileTable,
        capacity: u64,
        instruction_count: u32,
    ) -> Spiller<'a> {
        let count = tiles.facts.len();
        let mut uses: Vec<Vec<u32>> = vec![Vec::new(); count];
        for (at, instruction) in (0_u32..).zip(&program.instructions) {
            for region in instruction.reads.iter().chain(&instruction.writes) {
                let tile = tiles.number(region) as usize;
                let sbuf = tiles.facts.get(tile).is_some_and(|facts| facts.memory == MemorySpace::Sbuf);
                if let Some(uses) = uses.get_mut(tile).filter(|uses| sbuf && uses.last() != Some(&at)) {
                    uses.push(at);
                }
            }
        }
        Spiller {
            program,
            tiles,
            capacity,
            nodes: ScheduleNodes { instruction_count, ..ScheduleNodes::default() },
            uses,
            uses_done: vec![0; count],
            resident: vec![false; count],
            clean: vec![false; count],
            cores: BTreeMap::new(),
        }
    }

    fn run(mut self) -> ScheduleNodes {
        for (at, instruction) in (0_u32..).zip(&self.program.instructions) {
            let mut touched: Vec<u32> = instruction
                .reads
                .iter()
                .chain(&instruction.writes)
                .map(|region| self.tiles.number(region))
                .filter(|&tile| self.uses.get(tile as usize).is_some_and(|uses| !uses.is_empty()))
                .collect();
            touched.sort_unstable();
            touched.dedup();
            let core = self.program.core(instruction);
            for &tile in &touched {
                self.ensure_resident(core, tile, &touched);
            }
            self.nodes.order.push(at);
            for region in &instruction.writes {
                let tile = self.tiles.number(region) as usize;
                let whole = instruction.engine == EngineKind::Dma
                    && instruction.hbm_read_bytes > 0
                    && instruction.reads.iter().all(|source| self.only_read(source))
                    && self.tiles.facts.get(tile).is_some_and(|facts| facts.life.0 == at);
                if let Some(clean) = self.clean.get_mut(tile) {
                    *clean = whole;
                }
            }
            for &tile in &touched {
                self.finish_use(core, tile);
            }
        }
        self.nodes
    }

    /// True for a tensor that nobody writes, so that it can be loaded again.
    fn only_read(&self, region: &tilewright_neuron_isa::TensorRegion) -> bool {
        self.tiles.facts.get(self.tiles.number(region) as usize).is_some_and(|facts| !facts.written)
    }

    fn next_use(&self, tile: u32) -> u32 {
        let uses_done = self.uses_done[tile as usize];
        self.uses[tile as usize].get(uses_done as usize).copied().unwrap_or(NONE)
    }

    fn bytes(&self, tile: u32) -> u64 {
        self.tiles.facts[tile as usize].bytes
    }

    /// Makes sure that a tile is in SBUF.
    fn ensure_resident(&mut self, core: u32, tile: u32, needed: &[u32]) {
        if self.resident[tile as usize] {
            return;
        }
        let bytes = self.bytes(tile);
        while self.cores.entry(core).or_default().used.exact_add(bytes) > self.capacity {
            let Some(resident) = self.cores.get(&core) else { break };
            let victim =
                resident.by_use.iter().rev().map(|&(_, tile)| tile).find(|tile| !needed.contains(tile));
            let Some(victim) = victim else { break };
            self.evict(core, victim);
        }
        if self.uses_done.get(tile as usize).is_some_and(|&uses_done| uses_done > 0) {
            self.emit(ScheduleNode::Reload(tile));
        }
        let next = self.next_use(tile);
        let resident = self.cores.entry(core).or_default();
        resident.used = resident.used.exact_add(bytes);
        resident.by_use.insert((next, tile));
        self.resident[tile as usize] = true;
    }

    fn evict(&mut self, core: u32, tile: u32) {
        let clean = std::mem::replace(&mut self.clean[tile as usize], true);
        self.emit(if clean { ScheduleNode::Drop(tile) } else { ScheduleNode::Save(tile) });
        self.remove(core, tile);
    }

    fn remove(&mut self, core: u32, tile: u32) {
        let (bytes, next) = (self.bytes(tile), self.next_use(tile));
        let resident = self.cores.entry(core).or_default();
        // Another core may have brought the tile in, and counts it.
        resident.used = resident.used.saturating_sub(bytes);
        resident.by_use.remove(&(next, tile));
        self.resident[tile as usize] = false;
    }

    /// One use of a tile is over.
    fn finish_use(&mut self, core: u32, tile: u32) {
        let before = self.next_use(tile);
        self.uses_done[tile as usize] += 1;
        let next = self.next_use(tile);
        let resident = self.cores.entry(core).or_default();
        resident.by_use.remove(&(before, tile));
        if next == NONE {
            let bytes = self.tiles.facts[tile as usize].bytes;
            // Another core may have brought the tile in, and counts it.
            resident.used = resident.used.saturating_sub(bytes);
            self.resident[tile as usize] = false;
        } else {
            resident.by_use.insert((next, tile));
        }
    }

    fn emit(&mut self, node: ScheduleNode) {
        let number = self
            .nodes
            .instruction_count
            .exact_add(u32::try_from(self.nodes.spills.len()).or_broken("more spills than are numbered"));
        self.nodes.spills.push(node);
        self.nodes.order.push(number);
    }
}
