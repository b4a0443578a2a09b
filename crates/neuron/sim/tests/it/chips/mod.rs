//! Chips and allocations for tests.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

use tilewright_neuron_exec::Tile;
use tilewright_neuron_isa::Chip;
use tilewright_neuron_isa::program::Allocation;

/// A chip of a machine file that comes with us.
pub(crate) fn chip(name: &str) -> Chip {
    let mut sources = tilewright_base::Sources::default();
    let id = sources.add(name, tilewright_machine::builtin(name).unwrap());
    let bases = |name: &str| tilewright_machine::builtin(name).map(str::to_owned);
    let loaded = tilewright_machine::load(&mut sources, id, &bases).unwrap();
    Chip::new(name, loaded.machine.neuron().unwrap().clone())
}

/// A tensor as a program knows it, made before everything.
#[allow(dead_code, reason = "not every test has a program")]
pub(crate) fn allocation(tile: &Tile) -> Allocation {
    Allocation {
        storage: tile.storage.id,
        memory: tile.storage.memory,
        partition_bytes: tile.storage.partition_bytes(),
        tiles: 1,
        name: String::new(),
        source: 0,
        places: Vec::new(),
        partitions: u32::try_from(tile.storage.partitions()).unwrap_or(u32::MAX),
        made_at: 0,
    }
}
