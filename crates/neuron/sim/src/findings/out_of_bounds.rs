//! Tiles that the kernel itself places where there is no memory: beyond the last partition, beyond the last
//! byte of a partition; and results of the tensor engine across two banks of PSUM
//! (docs/hardware-rules.md#on-chip-memories and #tensor-engine).

use std::collections::BTreeMap;

use tilewright_base::invariant::Exact;
use tilewright_neuron_isa::program::{Allocation, EngineKind, NeuronProgram};
use tilewright_neuron_isa::{Chip, MemorySpace};

use crate::findings::NeuronFinding;

/// One finding for each line that places such a tile.
pub(crate) fn findings(chip: &Chip, program: &NeuronProgram) -> Vec<NeuronFinding> {
    let mut found: BTreeMap<u32, NeuronFinding> = BTreeMap::new();
    for allocation in program.allocations.iter().filter(|allocation| allocation.memory.on_chip()) {
        let outside = allocation.places.iter().find_map(|&place| outside(chip, program, allocation, place));
        if let Some(finding) = outside {
            found.entry(allocation.source).or_insert(finding);
        }
    }
    for finding in across_banks(chip, program) {
        found.entry(finding.0).or_insert(finding.1);
    }
    found.into_values().collect()
}

/// What is wrong with a place, if it is outside its memory.
fn outside(
    chip: &Chip,
    program: &NeuronProgram,
    allocation: &Allocation,
    (partition, byte): (u32, u64),
) -> Option<NeuronFinding> {
    let last_partition = u64::from(partition) + u64::from(allocation.partitions);
    // The kernel chose the address, so that its end may lie beyond 64 bits: outside of every memory all the
    // same.
    let last_byte = byte.saturating_add(allocation.partition_bytes);
    let partitions = chip.neuron.sbuf.partitions;
    let bytes = match allocation.memory {
        MemorySpace::Psum => chip.psum_partition_bytes(),
        _ => chip.sbuf_usable_bytes(),
    };
    let memory = allocation.memory.name();
    let (message, allowed, instead) = if last_partition > partitions {
        (
            format!("{} at partitions {partition} to {last_partition} of {memory}", named(allocation)),
            format!("partitions below {partitions}"),
            "place it at an earlier partition, or give it fewer",
        )
    } else if last_byte > bytes {
        (
            format!("{} at bytes {byte} to {last_byte} of each {memory} partition", named(allocation)),
            format!("bytes below {bytes} of a partition"),
            "place it at a lower byte, or make it smaller",
        )
    } else {
        return None;
    };
    Some(placed(program, allocation.source, message, allowed, instead))
}

/// Tiles of PSUM that one instruction of the tensor engine writes across two banks, by line: of the tile if
/// the kernel placed it there, otherwise of the instruction, as tiles that are left to be placed begin where
/// a bank does.
fn across_banks(chip: &Chip, program: &NeuronProgram) -> BTreeMap<u32, NeuronFinding> {
    let bank = chip.neuron.psum.bank_bytes.max(1);
    let psum: BTreeMap<u32, &Allocation> = program
        .allocations
        .iter()
        .filter(|one| {
            one.memory == MemorySpace::Psum && (!one.places.is_empty() || one.partition_bytes > bank)
        })
        .map(|allocation| (allocation.storage, allocation))
        .collect();
    let mut found = BTreeMap::new();
    if psum.is_empty() {
        return found;
    }
    for instruction in program.instructions.iter().filter(|one| one.engine == EngineKind::Tensor) {
        for region in &instruction.writes {
            let Some(allocation) = psum.get(&region.storage) else { continue };
            let tile = region.tile as usize;
            let is_placed = !allocation.places.is_empty();
            let place = if is_placed { allocation.places.get(tile).copied() } else { Some((0, 0)) };
            let Some((_, start)) = place else { continue };
            // As in `outside`: the kernel chose where the tile starts.
            let (first, last) = (start.saturating_add(region.bytes.0), start.saturating_add(region.bytes.1));
            // More than a bank at once is what later generations allow, and whole banks then.
            let crosses = first / bank != last.exact_sub(1) / bank && !first.is_multiple_of(bank);
            if crosses {
                let line = if is_placed { allocation.source } else { instruction.source };
                let write = (instruction.opcode, first, last);
                found.entry(line).or_insert_with(|| across(program, allocation, line, write, bank));
            }
        }
    }
    found
}

/// What to say of such a write.
fn across(
    program: &NeuronProgram,
    allocation: &Allocation,
    line: u32,
    (opcode, first, last): (&str, u64, u64),
    bank: u64,
) -> NeuronFinding {
    let (of, instead) = if allocation.places.is_empty() {
        (
            "partition of its tile",
            "begin the columns of a result where a bank begins, or end them where it ends",
        )
    } else {
        ("PSUM partition", "place it at the beginning of a bank")
    };
    let message = format!("{opcode} writes {} at bytes {first} to {last} of each {of}", named(allocation));
    placed(program, line, message, format!("results inside one of the banks of {bank} bytes"), instead)
}

fn named(allocation: &Allocation) -> String {
    let name = &allocation.name;
    if name.is_empty() { "a tensor".to_owned() } else { format!("`{name}`") }
}

fn placed(
    program: &NeuronProgram,
    line: u32,
    message: String,
    allowed: String,
    instead: &str,
) -> NeuronFinding {
    NeuronFinding {
        code: "neuron/address",
        error: true,
        source: program.source(line).to_owned(),
        message,
        allowed,
        instead: instead.to_owned(),
    }
}
