//! Tiles that the kernel itself places (`address=`, `sbuf.alloc`, `psum.mod_alloc`): values that another tile
//! at the same bytes overwrites before they are read.
//!
//! The compiler orders all accesses of one core to the same memory, by tiles and by the addresses that the
//! kernel chose (docs/hardware-rules.md#order-and-synchronisation): a tile that takes over an address waits
//! for the last use of what was there. Such a wait costs time, which the schedule has as a stall, and is no
//! race. What no wait can mend is a value that is still to be read when something else is written there.

use std::collections::BTreeMap;

use tilewright_neuron_isa::MemorySpace;
use tilewright_neuron_isa::program::{Allocation, NeuronProgram, TensorRegion};

use crate::findings::{Lifetimes, NeuronFinding};

/// Pairs of a write and a live tile that are compared at most.
const MAX_PAIRS: usize = 50_000_000;

/// Partitions and bytes of each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ByteBox {
    partitions: (u64, u64),
    bytes: (u64, u64),
}

impl ByteBox {
    fn meet(&self, other: &ByteBox) -> Option<ByteBox> {
        let meet = |a: (u64, u64), b: (u64, u64)| (a.0.max(b.0), a.1.min(b.1));
        let (partitions, bytes) = (meet(self.partitions, other.partitions), meet(self.bytes, other.bytes));
        (partitions.0 < partitions.1 && bytes.0 < bytes.1).then_some(ByteBox { partitions, bytes })
    }

    /// What is left of it without another: up to four boxes.
    fn without(&self, other: &ByteBox) -> Vec<ByteBox> {
        let Some(cut) = self.meet(other) else { return vec![*self] };
        let mut left = Vec::new();
        for partitions in [(self.partitions.0, cut.partitions.0), (cut.partitions.1, self.partitions.1)] {
            left.push(ByteBox { partitions, bytes: self.bytes });
        }
        for bytes in [(self.bytes.0, cut.bytes.0), (cut.bytes.1, self.bytes.1)] {
            left.push(ByteBox { partitions: cut.partitions, bytes });
        }
        left.retain(|one| one.partitions.0 < one.partitions.1 && one.bytes.0 < one.bytes.1);
        left
    }
}

/// A part of a tile that a write to another tile destroyed.
struct DestroyedPart {
    place: ByteBox,
    /// The tile that was written.
    by: usize,
    /// The instruction that wrote it.
    at: usize,
    /// The write leaves gaps, so that the part may be whole.
    unsure: bool,
}

/// One placed tile with its life.
struct PlacedTile<'a> {
    allocation: &'a Allocation,
    tile: u32,
    /// Memory of one program that it lies in.
    space: (MemorySpace, u32),
    place: ByteBox,
    life: (usize, usize),
    destroyed: Vec<DestroyedPart>,
}

impl PlacedTile<'_> {
    fn name(&self) -> String {
        let tile = if self.allocation.tiles > 1 { format!(" tile {}", self.tile) } else { String::new() };
        let name = &self.allocation.name;
        if name.is_empty() { format!("a tensor{tile}") } else { format!("`{name}`{tile}") }
    }

    /// Where an access of it lies.
    fn locate(&self, region: &TensorRegion) -> ByteBox {
        // The kernel chose the address: one that no memory has is a finding of `out_of_bounds`.
        let shift = |range: (u64, u64), by: u64| (by.saturating_add(range.0), by.saturating_add(range.1));
        ByteBox {
            partitions: shift(region.rows, self.place.partitions.0),
            bytes: shift(region.bytes, self.place.bytes.0),
        }
    }
}

/// Findings about tiles at addresses of their own.
pub fn findings(program: &NeuronProgram, lives: &Lifetimes) -> Vec<NeuronFinding> {
    let tiles = placed(program, lives);
    if tiles.len() < 2 {
        return Vec::new();
    }
    let mut walk = PlacementWalk::new(program, tiles);
    let all = 0..program.instructions.len();
    let left = all.into_iter().find(|at| !walk.visit(*at));
    walk.found.into_values().chain(left.map(|at| not_compared(program, at))).collect()
}

/// What says that instructions were not looked at from one on.
fn not_compared(program: &NeuronProgram, from: usize) -> NeuronFinding {
    let source = line(program, from).to_owned();
    NeuronFinding {
        code: "neuron/address-overlap",
        error: false,
        message: format!("placed tiles were compared up to {source}: {MAX_PAIRS} pairs, more were not"),
        source,
        allowed: format!("{MAX_PAIRS} pairs of tiles that are live at once"),
        instead: "look at smaller sizes, which place the same tiles from the same lines".to_owned(),
    }
}

/// Placed tiles, by the beginning of their life.
fn placed<'a>(program: &'a NeuronProgram, lives: &Lifetimes) -> Vec<PlacedTile<'a>> {
    let mut tiles = Vec::new();
    for allocation in program.allocations.iter().filter(|allocation| allocation.memory.on_chip()) {
        for (tile, &(partition, byte)) in (0_u32..).zip(&allocation.places) {
            let Some(&life) = lives.get(&(allocation.storage, tile)) else { continue };
            let (partition, count) = (u64::from(partition), u64::from(allocation.partitions));
            tiles.push(PlacedTile {
                allocation,
                tile,
                space: (allocation.memory, program.instructions[life.0].program),
                place: ByteBox {
                    partitions: (partition, partition + count),
                    bytes: (byte, byte.saturating_add(allocation.partition_bytes)),
                },
                life,
                destroyed: Vec::new(),
            });
        }
    }
    tiles.sort_by_key(|tile| (tile.life.0, tile.allocation.storage, tile.tile));
    tiles
}

/// The program in its order, with the tiles that are live.
struct PlacementWalk<'a> {
    program: &'a NeuronProgram,
    tiles: Vec<PlacedTile<'a>>,
    numbers: BTreeMap<(u32, u32), usize>,
    /// Tiles that were used and will be again, by memory.
    live: BTreeMap<(MemorySpace, u32), Vec<usize>>,
    pairs: usize,
    /// By the lines that made the two tiles.
    found: BTreeMap<(u32, u32), NeuronFinding>,
}

impl<'a> PlacementWalk<'a> {
    fn new(program: &'a NeuronProgram, tiles: Vec<PlacedTile<'a>>) -> PlacementWalk<'a> {
        let numbers =
            tiles.iter().enumerate().map(|(at, tile)| ((tile.allocation.storage, tile.tile), at)).collect();
        PlacementWalk { program, tiles, numbers, live: BTreeMap::new(), pairs: 0, found: BTreeMap::new() }
    }

    /// Follows one instruction; false if there is too much to compare.
    fn visit(&mut self, at: usize) -> bool {
        let program = self.program;
        let Some(instruction) = program.instructions.get(at) else { return false };
        for region in &instruction.reads {
            if let Some(&number) = self.numbers.get(&(region.storage, region.tile)) {
                self.read(number, region, at);
            }
        }
        for region in &instruction.writes {
            if let Some(&number) = self.numbers.get(&(region.storage, region.tile)) {
                self.write(number, region, at);
            }
        }
        for region in instruction.reads.iter().chain(&instruction.writes) {
            if let Some(&number) = self.numbers.get(&(region.storage, region.tile)) {
                self.enter(number);
            }
        }
        self.pairs <= MAX_PAIRS
    }

    /// A tile is live from its first use on.
    fn enter(&mut self, number: usize) {
        let live = self.live.entry(self.tiles[number].space).or_default();
        if !live.contains(&number) {
            live.push(number);
        }
    }

    fn read(&mut self, number: usize, region: &TensorRegion, at: usize) {
        let tile = &self.tiles[number];
        let place = tile.locate(region);
        let Some(part) = tile.destroyed.iter().find(|part| part.place.meet(&place).is_some()) else { return };
        let over = &self.tiles[part.by];
        let key = (tile.allocation.source, over.allocation.source);
        let error = !part.unsure && !region.sparse;
        if self.found.get(&key).is_none_or(|known| error && !known.error) {
            self.found.insert(key, overwritten(self.program, tile, over, part.at, at, error));
        }
    }

    fn write(&mut self, number: usize, region: &TensorRegion, at: usize) {
        let tile = &mut self.tiles[number];
        let (place, space) = (tile.locate(region), tile.space);
        // What is written here is whole again; a write with gaps is taken to fill those that matter.
        let destroyed = std::mem::take(&mut tile.destroyed);
        tile.destroyed = destroyed
            .into_iter()
            .flat_map(|part| {
                let DestroyedPart { place: was, by, at, unsure } = part;
                was.without(&place).into_iter().map(move |place| DestroyedPart { place, by, at, unsure })
            })
            .collect();
        let live = self.live.entry(space).or_default();
        live.retain(|&other| self.tiles[other].life.1 > at);
        self.pairs += live.len();
        for other in live.iter().copied().filter(|&other| other != number) {
            let other = &mut self.tiles[other];
            if let Some(place) = other.place.meet(&place) {
                other.destroyed.retain(|part| part.place != place);
                other.destroyed.push(DestroyedPart { place, by: number, at, unsure: region.sparse });
            }
        }
    }
}

/// What to say of a value that is read after another tile was written over it.
fn overwritten(
    program: &NeuronProgram,
    tile: &PlacedTile<'_>,
    over: &PlacedTile<'_>,
    written_at: usize,
    read_at: usize,
    error: bool,
) -> NeuronFinding {
    let memory = over.space.0.name();
    let has = if error { "has" } else { "may have" };
    NeuronFinding {
        code: "neuron/address-overlap",
        error,
        source: program.source(over.allocation.source).to_owned(),
        message: format!(
            "{} at bytes {} to {} of {memory} {has} overwritten, at {}, what {} at bytes {} to {}, made at \
             {}, \
             holds until it is read at {}",
            over.name(),
            over.place.bytes.0,
            over.place.bytes.1,
            line(program, written_at),
            tile.name(),
            tile.place.bytes.0,
            tile.place.bytes.1,
            program.source(tile.allocation.source),
            line(program, read_at),
        ),
        allowed: "tiles at the same bytes of the same partitions one after the other".to_owned(),
        instead: format!("place it from byte {} on, or end the use of the other first", tile.place.bytes.1),
    }
}

fn line(program: &NeuronProgram, at: usize) -> &str {
    program.instructions.get(at).map_or("?", |instruction| program.source(instruction.source))
}
