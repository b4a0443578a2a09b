//! Tensors in HBM that a device has no room for.
//!
//! What every program of a launch sees stays for the whole launch. What one program made for itself stays
//! until it ends: programs that run side by side add up, of those that follow each other the largest counts.

use std::collections::BTreeMap;

use tilewright_neuron_isa::program::{Allocation, NeuronProgram};
use tilewright_neuron_isa::{Chip, MemorySpace};

use super::NeuronFinding;

/// Tensors that a message names.
const NAMED: usize = 5;

/// The finding, if all tensors in HBM together are larger than it.
pub(super) fn finding(chip: &Chip, program: &NeuronProgram) -> Option<NeuronFinding> {
    let capacity = chip.hbm_bytes();
    let bytes = resident_bytes(program);
    if bytes <= capacity {
        return None;
    }
    let mut held: Vec<&Allocation> =
        program.allocations.iter().filter(|allocation| !allocation.memory.on_chip()).collect();
    held.sort_by_key(|allocation| (std::cmp::Reverse(allocated_bytes(allocation)), allocation.storage));
    let name = |allocation: &&Allocation| {
        let name = if allocation.name.is_empty() { String::new() } else { format!("`{}` ", allocation.name) };
        format!("{name}{} B from {}", allocated_bytes(allocation), program.source(allocation.source))
    };
    let named: Vec<String> = held.iter().take(NAMED).map(name).collect();
    let rest = held.len().saturating_sub(NAMED);
    let rest = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    let source = held.first().map_or(String::new(), |first| program.source(first.source).to_owned());
    Some(NeuronFinding {
        code: "neuron/hbm-capacity",
        error: true,
        source,
        message: format!("tensors in HBM take {bytes} bytes together: {}{rest}", named.join(", ")),
        allowed: format!("{capacity} bytes of HBM on {}", chip.name),
        instead: "use smaller tensors, tensors again that are no longer needed, or more devices".to_owned(),
    })
}

/// Bytes of HBM that are taken at once.
fn resident_bytes(program: &NeuronProgram) -> u64 {
    let mut owners: BTreeMap<u32, u32> = BTreeMap::new();
    for instruction in &program.instructions {
        for region in instruction.reads.iter().chain(&instruction.writes) {
            owners.entry(region.storage).or_insert(instruction.program);
        }
    }
    let (mut shared, mut private) = (0_u64, BTreeMap::<u32, u64>::new());
    for allocation in &program.allocations {
        let bytes = allocated_bytes(allocation);
        match allocation.memory {
            MemorySpace::SharedHbm => shared = shared.saturating_add(bytes),
            MemorySpace::Hbm => {
                let owner = owners.get(&allocation.storage).copied().unwrap_or(0);
                let sum = private.entry(owner).or_default();
                *sum = sum.saturating_add(bytes);
            }
            MemorySpace::Sbuf | MemorySpace::Psum => {}
        }
    }
    let of_programs = match program.cores {
        0 | 1 => private.into_values().max().unwrap_or(0),
        _ => private.into_values().fold(0, u64::saturating_add),
    };
    shared.saturating_add(of_programs)
}

fn allocated_bytes(allocation: &Allocation) -> u64 {
    allocation.partition_bytes.saturating_mul(u64::from(allocation.tiles))
}
