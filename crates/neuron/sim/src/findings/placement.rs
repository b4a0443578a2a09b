//! Tiles that the kernel itself places (`address=`, `sbuf.alloc`, `psum.mod_alloc`): two that hold values at
//! the same bytes at once, and two that follow each other there while nothing makes the second wait for the
//! first.
//!
//! Waits come from the tiles that instructions share and from the order of each engine
//! (docs/hardware-rules.md#order-and-synchronisation). DMA queues have no order among each other. Assumed:
//! sharing an address alone gives no wait, except among the tiles of one tensor, whose modulo allocation says
//! that they follow each other (public kernels that are known to be right rely on it).

use std::collections::{BTreeMap, BTreeSet};

use tilewright_neuron_isa::MemorySpace;
use tilewright_neuron_isa::program::{Allocation, EngineKind, NeuronProgram, TensorRegion};

use crate::findings::{Lifetimes, NeuronFinding};

/// Steps back from an instruction before a search for an order gives up and says nothing.
const MAX_STEPS: usize = 50_000;
/// Pairs of tiles that are compared at most.
const MAX_PAIRS: usize = 4_000_000;

/// One placed tile with its life.
struct PlacedTile<'a> {
    allocation: &'a Allocation,
    tile: u32,
    program: u32,
    partitions: (u64, u64),
    bytes: (u64, u64),
    life: (usize, usize),
}

impl PlacedTile<'_> {
    fn name(&self) -> String {
        let tile = if self.allocation.tiles > 1 { format!(" tile {}", self.tile) } else { String::new() };
        let name = &self.allocation.name;
        if name.is_empty() { format!("a tensor{tile}") } else { format!("`{name}`{tile}") }
    }
}

fn overlaps(a: (u64, u64), b: (u64, u64)) -> bool {
    a.0 < b.1 && b.0 < a.1
}

/// Findings about tiles at addresses of their own.
pub fn findings(program: &NeuronProgram, lives: &Lifetimes) -> Vec<NeuronFinding> {
    let mut found = BTreeMap::new();
    let mut before = None;
    let mut pairs = 0;
    for memory in [MemorySpace::Sbuf, MemorySpace::Psum] {
        let tiles = placed(program, lives, memory);
        for (at, later) in tiles.iter().enumerate() {
            for earlier in &tiles[..at] {
                pairs += 1;
                if pairs > MAX_PAIRS {
                    return found.into_values().collect();
                }
                let shares = overlaps(earlier.bytes, later.bytes)
                    && overlaps(earlier.partitions, later.partitions)
                    && earlier.program == later.program;
                let key = (earlier.allocation.source, later.allocation.source);
                if !shares || found.contains_key(&key) {
                    continue;
                }
                if later.life.0 <= earlier.life.1 {
                    found.insert(key, overlap(program, memory, earlier, later));
                    continue;
                }
                if earlier.allocation.storage == later.allocation.storage {
                    continue;
                }
                let before = before.get_or_insert_with(|| predecessors(program));
                if let Some(last) = unordered(program, before, earlier, later) {
                    found.insert(key, race(program, memory, earlier, later, last));
                }
            }
        }
    }
    found.into_values().collect()
}

/// Placed tiles of a memory, by the beginning of their life.
fn placed<'a>(program: &'a NeuronProgram, lives: &Lifetimes, memory: MemorySpace) -> Vec<PlacedTile<'a>> {
    let mut tiles = Vec::new();
    for allocation in program.allocations.iter().filter(|allocation| allocation.memory == memory) {
        for (tile, &(partition, byte)) in (0_u32..).zip(&allocation.places) {
            let Some(&life) = lives.get(&(allocation.storage, tile)) else { continue };
            let (partition, count) = (u64::from(partition), u64::from(allocation.partitions));
            tiles.push(PlacedTile {
                allocation,
                tile,
                program: program.instructions[life.0].program,
                partitions: (partition, partition + count),
                // The kernel chose the address: one that no memory has is a finding of `out_of_bounds`.
                bytes: (byte, byte.saturating_add(allocation.partition_bytes)),
                life,
            });
        }
    }
    tiles.sort_by_key(|tile| (tile.life.0, tile.allocation.storage, tile.tile));
    tiles
}

fn overlap(
    program: &NeuronProgram,
    memory: MemorySpace,
    earlier: &PlacedTile<'_>,
    later: &PlacedTile<'_>,
) -> NeuronFinding {
    NeuronFinding {
        code: "neuron/address-overlap",
        error: true,
        source: program.source(later.allocation.source).to_owned(),
        message: format!(
            "{} at bytes {} to {} of {} lies over {} at bytes {} to {}, made at {} and still used at {}",
            later.name(),
            later.bytes.0,
            later.bytes.1,
            memory.name(),
            earlier.name(),
            earlier.bytes.0,
            earlier.bytes.1,
            program.source(earlier.allocation.source),
            line(program, earlier.life.1),
        ),
        allowed: "tiles at the same bytes of the same partitions one after the other".to_owned(),
        instead: format!("place it from byte {} on, or end the use of the other first", earlier.bytes.1),
    }
}

fn race(
    program: &NeuronProgram,
    memory: MemorySpace,
    earlier: &PlacedTile<'_>,
    later: &PlacedTile<'_>,
    last: usize,
) -> NeuronFinding {
    let engine = |at: usize| program.instructions.get(at).map_or("?", |one| one.engine.name());
    let opcode = |at: usize| program.instructions.get(at).map_or("?", |one| one.opcode);
    NeuronFinding {
        code: "neuron/race",
        error: true,
        source: line(program, later.life.0).to_owned(),
        message: format!(
            "{} on the {} engine writes {} at byte {} of {} while {} on the {} engine at {} may still use {} there",
            opcode(later.life.0),
            engine(later.life.0),
            later.name(),
            later.bytes.0,
            memory.name(),
            opcode(last),
            engine(last),
            line(program, last),
            earlier.name(),
        ),
        allowed:
            "a second use of an address that waits for the first, through a tile or an engine that both share"
                .to_owned(),
        instead: "give the tiles addresses of their own, or make one tensor of them".to_owned(),
    }
}

fn line(program: &NeuronProgram, at: usize) -> &str {
    program.instructions.get(at).map_or("?", |instruction| program.source(instruction.source))
}

/// An access of the earlier tile that the first access of the later one does not wait for.
fn unordered(
    program: &NeuronProgram,
    before: &[Vec<usize>],
    earlier: &PlacedTile<'_>,
    later: &PlacedTile<'_>,
) -> Option<usize> {
    let (first, last) = earlier.life;
    let uses =
        |region: &TensorRegion| region.storage == earlier.allocation.storage && region.tile == earlier.tile;
    let mut open: BTreeSet<usize> = BTreeSet::new();
    for at in first..=last {
        let instruction = program.instructions.get(at)?;
        if instruction.reads.iter().chain(&instruction.writes).any(uses) {
            open.insert(at);
        }
    }
    let mut seen = BTreeSet::from([later.life.0]);
    let mut next = vec![later.life.0];
    while let Some(at) = next.pop() {
        open.remove(&at);
        if open.is_empty() || seen.len() > MAX_STEPS {
            return None;
        }
        for &earlier in before.get(at)?.iter().filter(|&&earlier| earlier >= first) {
            if seen.insert(earlier) {
                next.push(earlier);
            }
        }
    }
    open.last().copied()
}

/// Accesses of each tile that later ones may wait for: where, by whom, and whether it wrote.
type AccessesByTile = BTreeMap<(u32, u32), Vec<(TensorRegion, usize, bool)>>;

/// What each instruction waits for directly.
fn predecessors(program: &NeuronProgram) -> Vec<Vec<usize>> {
    let mut streams: BTreeMap<(u32, EngineKind), usize> = BTreeMap::new();
    let mut accesses = AccessesByTile::new();
    let mut before = Vec::with_capacity(program.instructions.len());
    for (at, instruction) in program.instructions.iter().enumerate() {
        let mut waits = Vec::new();
        if instruction.engine != EngineKind::Dma {
            waits.extend(streams.insert((instruction.program, instruction.engine), at));
        }
        for (regions, writing) in [(&instruction.reads[..], false), (&instruction.writes[..], true)] {
            for region in regions {
                let earlier = accesses.entry((region.storage, region.tile)).or_default();
                let shared =
                    earlier.iter().filter(|(other, _, wrote)| (writing || *wrote) && other.overlaps(region));
                waits.extend(shared.map(|&(_, at, _)| at));
                if writing {
                    earlier.retain(|(other, _, _)| !region.covers(other));
                }
                earlier.push((*region, at, writing));
            }
        }
        waits.retain(|&earlier| earlier < at);
        before.push(waits);
    }
    before
}
