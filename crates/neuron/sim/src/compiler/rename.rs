//! Tiles that are written as a whole again, as one that a kernel makes outside of a loop is in every
//! iteration: from there on they are new tiles, so that an iteration need not wait for the last
//! (docs/hardware-rules.md#order-and-synchronisation: several buffers arise from independent iterations).

use std::collections::BTreeMap;

use tilewright_base::invariant::OrBroken;
use tilewright_neuron_isa::{NeuronProgram, TensorRegion};

use super::is_whole;

pub(super) fn run(program: &mut NeuronProgram) {
    // The tensor that stands for a tile now; none before it is touched.
    let mut current: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    let mut instructions = std::mem::take(&mut program.instructions);
    for instruction in &mut instructions {
        let read: Vec<(u32, u32)> =
            instruction.reads.iter().map(|region| (region.storage, region.tile)).collect();
        for region in &mut instruction.reads {
            rename_region(&mut current, region);
        }
        for region in &mut instruction.writes {
            let tile = (region.storage, region.tile);
            let on_chip =
                program.allocations.get(region.storage as usize).is_some_and(|one| one.memory.on_chip());
            let again =
                on_chip && current.contains_key(&tile) && !read.contains(&tile) && is_whole(program, region);
            if !again {
                rename_region(&mut current, region);
                continue;
            }
            let mut fresh = program.allocations[region.storage as usize].clone();
            fresh.storage =
                u32::try_from(program.allocations.len()).or_broken("more tensors than are numbered");
            fresh.tiles = 1;
            (region.storage, region.tile) = (fresh.storage, 0);
            current.insert(tile, fresh.storage);
            program.allocations.push(fresh);
        }
    }
    program.instructions = instructions;
}

/// The tile that stands for a region's tile now.
fn rename_region(current: &mut BTreeMap<(u32, u32), u32>, region: &mut TensorRegion) {
    let tile = (region.storage, region.tile);
    let now = *current.entry(tile).or_insert(region.storage);
    if now != region.storage {
        (region.storage, region.tile) = (now, 0);
    }
}
