//! What lies where in the memories of NeuronCores, and when: tiles from the first instruction that touches
//! them to the last.
//!
//! Bytes are those of a partition. A tile that its kernel places lies there; any other lies at the lowest
//! bytes that are free as long as it is needed, which is an allocation of ours: the vendor's compiler may
//! choose another.

use std::collections::BTreeMap;

use tilewright_base::invariant::Exact;
use tilewright_neuron_isa::program::Allocation;
use tilewright_neuron_isa::{Chip, MemorySpace, NeuronProgram};
use tilewright_neuron_sim::findings::lifetimes;
use tilewright_neuron_sim::schedule::Timeline;
use tilewright_view::run_view::{MemoryBlock, MemoryView};

/// Tiles that a map shows.
const MOST_BLOCKS: usize = 4_000;

/// The SBUF and the PSUM of every core that a program uses, those with tiles only.
pub fn neuron_memory_map(chip: &Chip, program: &NeuronProgram, timeline: &Timeline) -> Vec<MemoryView> {
    let tensors: BTreeMap<u32, &Allocation> = program.allocations.iter().map(|of| (of.storage, of)).collect();
    let mut tiles: BTreeMap<(u32, MemorySpace), Vec<Tile<'_>>> = BTreeMap::new();
    for ((storage, tile), (first, last)) in lifetimes(program) {
        let Some(tensor) = tensors.get(&storage).filter(|tensor| tensor.memory.on_chip()) else { continue };
        let (Some(from), Some(until)) = (timeline.spans.get(first), timeline.spans.get(last)) else {
            continue;
        };
        let core = program.instructions.get(first).map_or(0, |one| program.core(one));
        let ticks = (from.start_ps, until.done_ps.max(from.start_ps));
        tiles.entry((core, tensor.memory)).or_default().push(Tile { tensor, tile, ticks });
    }
    let map = |((core, memory), tiles): ((u32, MemorySpace), Vec<Tile<'_>>)| MemoryView {
        name: if program.cores > 1 {
            format!("core {core} {}", memory.name())
        } else {
            memory.name().to_string()
        },
        capacity_bytes: match memory {
            MemorySpace::Psum => chip.psum_partition_bytes(),
            _ => chip.sbuf_usable_bytes(),
        },
        blocks: blocks(program, tiles),
    };
    tiles.into_iter().map(map).collect()
}

/// A tile of a tensor, and from when to when it is needed.
struct Tile<'p> {
    tensor: &'p Allocation,
    tile: u32,
    ticks: (u64, u64),
}

/// Tiles with their addresses.
fn blocks(program: &NeuronProgram, mut tiles: Vec<Tile<'_>>) -> Vec<MemoryBlock> {
    // Those that have a place come first, so that the others lie around them.
    tiles.sort_by_key(|one| (place(one).is_none(), one.ticks.0, one.tensor.storage, one.tile));
    tiles.truncate(MOST_BLOCKS);
    let mut blocks: Vec<MemoryBlock> = Vec::with_capacity(tiles.len());
    for one in &tiles {
        let bytes = one.tensor.partition_bytes;
        let start_byte = place(one).unwrap_or_else(|| lowest_free(&blocks, bytes, one.ticks));
        let line = program.source(one.tensor.source);
        let name = if one.tensor.name.is_empty() {
            line.to_string()
        } else {
            format!("{} ({line})", one.tensor.name)
        };
        let end_byte = start_byte.exact_add(bytes);
        blocks.push(MemoryBlock {
            name,
            start_byte,
            end_byte,
            start_tick: one.ticks.0,
            end_tick: one.ticks.1,
        });
    }
    blocks
}

/// The first byte that a kernel gave a tile.
fn place(one: &Tile<'_>) -> Option<u64> {
    one.tensor.places.get(one.tile as usize).map(|(_, byte)| *byte)
}

/// The lowest byte behind which so many are free from one tick to another.
fn lowest_free(blocks: &[MemoryBlock], bytes: u64, (from, until): (u64, u64)) -> u64 {
    let meets = |block: &&MemoryBlock| block.start_tick < until && from < block.end_tick;
    let mut taken: Vec<(u64, u64)> =
        blocks.iter().filter(meets).map(|block| (block.start_byte, block.end_byte)).collect();
    taken.sort_unstable();
    let mut at = 0_u64;
    for (start, end) in taken {
        if at.exact_add(bytes) <= start {
            break;
        }
        at = at.max(end);
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(bytes: (u64, u64), ticks: (u64, u64)) -> MemoryBlock {
        let (start_byte, end_byte) = bytes;
        MemoryBlock { name: String::new(), start_byte, end_byte, start_tick: ticks.0, end_tick: ticks.1 }
    }

    #[test]
    fn a_tile_lies_at_the_lowest_bytes_that_are_free_while_it_is_needed() {
        let blocks = [block((0, 64), (0, 10)), block((96, 128), (0, 10)), block((64, 96), (10, 20))];
        assert_eq!(lowest_free(&blocks, 32, (0, 10)), 64, "between two");
        assert_eq!(lowest_free(&blocks, 33, (0, 10)), 128, "behind all");
        assert_eq!(lowest_free(&blocks, 64, (10, 20)), 0, "where others are over");
        assert_eq!(lowest_free(&blocks, 65, (10, 20)), 96, "behind the one that is there then");
        assert_eq!(lowest_free(&[], 7, (0, 1)), 0);
    }
}
