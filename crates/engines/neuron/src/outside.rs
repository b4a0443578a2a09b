//! Tiles that the kernel itself places where there is no memory: beyond the last partition, beyond the last byte of a
//! partition, or results of the tensor engine across two banks of PSUM (neuron.md sections 1.3 and 2.2).

use std::collections::BTreeMap;

use crate::findings::Finding;
use crate::program::{Allocation, EngineKind, Program};
use crate::{Chip, Memory};

/// One finding for each line that places such a tile.
pub(crate) fn findings(chip: &Chip, program: &Program) -> Vec<Finding> {
    let mut found: BTreeMap<u32, Finding> = BTreeMap::new();
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
    program: &Program,
    allocation: &Allocation,
    (partition, byte): (u32, u64),
) -> Option<Finding> {
    let last_partition = u64::from(partition).saturating_add(u64::from(allocation.partitions));
    let last_byte = byte.saturating_add(allocation.partition_bytes);
    let partitions = chip.neuron.sbuf.partitions;
    let bytes = match allocation.memory {
        Memory::Psum => chip.psum_partition_bytes(),
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

/// Placed tiles of PSUM that one instruction of the tensor engine writes across two banks, by line.
fn across_banks(chip: &Chip, program: &Program) -> BTreeMap<u32, Finding> {
    let bank = chip.neuron.psum.bank_bytes.max(1);
    let placed_psum: BTreeMap<u32, &Allocation> = program
        .allocations
        .iter()
        .filter(|allocation| allocation.memory == Memory::Psum && !allocation.places.is_empty())
        .map(|allocation| (allocation.storage, allocation))
        .collect();
    let mut found = BTreeMap::new();
    if placed_psum.is_empty() {
        return found;
    }
    for instruction in program.instructions.iter().filter(|one| one.engine == EngineKind::Tensor) {
        for region in &instruction.writes {
            let Some(allocation) = placed_psum.get(&region.storage) else { continue };
            let tile = usize::try_from(region.tile).unwrap_or(usize::MAX);
            let Some(&(_, start)) = allocation.places.get(tile) else { continue };
            let (first, last) = (start.saturating_add(region.bytes.0), start.saturating_add(region.bytes.1));
            // More than a bank at once is what later generations allow, and whole banks then.
            let crosses = first / bank != last.saturating_sub(1) / bank && !first.is_multiple_of(bank);
            if crosses {
                let opcode = instruction.opcode;
                let message = format!(
                    "{opcode} writes {} at bytes {first} to {last} of each PSUM partition",
                    named(allocation)
                );
                let allowed = format!("results inside one of the banks of {bank} bytes");
                let instead = "place it at the beginning of a bank";
                found
                    .entry(allocation.source)
                    .or_insert_with(|| placed(program, allocation.source, message, allowed, instead));
            }
        }
    }
    found
}

fn named(allocation: &Allocation) -> String {
    let name = &allocation.name;
    if name.is_empty() { "a tensor".to_owned() } else { format!("`{name}`") }
}

fn placed(program: &Program, line: u32, message: String, allowed: String, instead: &str) -> Finding {
    Finding {
        code: "neuron/address",
        error: true,
        source: program.source(line).to_owned(),
        message,
        allowed,
        instead: instead.to_owned(),
    }
}
