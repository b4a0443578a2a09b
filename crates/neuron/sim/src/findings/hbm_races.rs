//! Programs and cores that touch the same bytes of HBM while nothing orders them: programs of a launch run in
//! any order, cores meet only at `core_barrier` and `sendrecv`
//! (docs/hardware-rules.md#order-and-synchronisation).

use std::collections::BTreeMap;

use tilewright_neuron_isa::MemorySpace;
use tilewright_neuron_isa::program::{NeuronProgram, TensorRegion};

use crate::findings::NeuronFinding;

/// Pairs of accesses that are compared at most.
const MAX_PAIRS: usize = 20_000_000;

/// One access of a shared tensor.
#[derive(Clone, Copy)]
struct SharedAccess {
    region: TensorRegion,
    at: usize,
    program: u32,
    writes: bool,
}

/// Accesses of one tensor between two meetings.
#[derive(Default)]
struct SharedTensor {
    all: Vec<SharedAccess>,
    written: bool,
    programs: (u32, u32),
}

/// Findings about bytes that two programs share without an order.
pub fn findings(program: &NeuronProgram) -> Vec<NeuronFinding> {
    findings_within(program, MAX_PAIRS)
}

/// The same with so many pairs; what is not compared is said.
fn findings_within(program: &NeuronProgram, most_pairs: usize) -> Vec<NeuronFinding> {
    if program.instructions.iter().all(|instruction| instruction.program == 0) {
        return Vec::new();
    }
    let mut found = BTreeMap::new();
    let mut pairs = 0;
    for ((storage, _), shared) in accesses(program) {
        if !shared.written || shared.programs.0 == shared.programs.1 {
            continue;
        }
        for (index, later) in shared.all.iter().enumerate() {
            for earlier in &shared.all[..index] {
                pairs += 1;
                if pairs > most_pairs {
                    return found.into_values().chain([not_compared(program, later, most_pairs)]).collect();
                }
                let clash = earlier.program != later.program
                    && (earlier.writes || later.writes)
                    && earlier.region.overlaps(&later.region);
                if clash {
                    let line = |access: &SharedAccess| program.instructions[access.at].source;
                    let key = (storage, line(earlier), line(later), earlier.writes, later.writes);
                    let reads_own = !(earlier.writes && later.writes)
                        && reads_own_bytes(program, &shared, if earlier.writes { later } else { earlier });
                    let one = race(program, storage, earlier, later, reads_own);
                    let known: &mut NeuronFinding = found.entry(key).or_insert_with(|| one.clone());
                    if one.error && !known.error {
                        *known = one;
                    }
                }
            }
        }
    }
    found.into_values().collect()
}

fn accesses(program: &NeuronProgram) -> BTreeMap<(u32, u32), SharedTensor> {
    let shared: BTreeMap<u32, ()> = program
        .allocations
        .iter()
        .filter(|allocation| allocation.memory == MemorySpace::SharedHbm)
        .map(|allocation| (allocation.storage, ()))
        .collect();
    let mut tensors: BTreeMap<(u32, u32), SharedTensor> = BTreeMap::new();
    for (at, instruction) in program.instructions.iter().enumerate() {
        for (regions, writes) in [(&instruction.reads[..], false), (&instruction.writes[..], true)] {
            for region in regions.iter().filter(|region| shared.contains_key(&region.storage)) {
                let number = instruction.program;
                let tensor = tensors.entry((region.storage, instruction.barrier)).or_insert_with(|| {
                    SharedTensor { programs: (number, number), ..SharedTensor::default() }
                });
                tensor.programs = (tensor.programs.0.min(number), tensor.programs.1.max(number));
                tensor.written |= writes;
                tensor.all.push(SharedAccess { region: *region, at, program: number, writes });
            }
        }
    }
    tensors
}

/// True if a program reads what it wrote itself, and no other put other values there: whoever writes last, it
/// reads the same.
fn reads_own_bytes(program: &NeuronProgram, shared: &SharedTensor, read: &SharedAccess) -> bool {
    let own = |write: &&SharedAccess| {
        write.writes
            && write.program == read.program
            && write.at < read.at
            && write.region.covers(&read.region)
    };
    let changes = |write: &&SharedAccess| {
        write.writes && write.region.overlaps(&read.region) && program.instructions[write.at].other_values
    };
    shared.all.iter().any(|write| own(&write)) && !shared.all.iter().any(|write| changes(&write))
}

/// What says that accesses were not compared from one on.
fn not_compared(program: &NeuronProgram, from: &SharedAccess, most_pairs: usize) -> NeuronFinding {
    let line = program.instructions.get(from.at).map_or("?", |one| program.source(one.source)).to_owned();
    NeuronFinding {
        code: "neuron/core-race",
        error: false,
        message: format!(
            "accesses of shared HBM were compared up to {line}: {most_pairs} pairs, more were not"
        ),
        source: line,
        allowed: format!("{most_pairs} pairs of accesses of the same tensor between two meetings"),
        instead: "look for races at smaller sizes, which touch the same bytes from the same lines".to_owned(),
    }
}

fn race(
    program: &NeuronProgram,
    storage: u32,
    earlier: &SharedAccess,
    later: &SharedAccess,
    reads_own: bool,
) -> NeuronFinding {
    let line = |access: &SharedAccess| {
        program.instructions.get(access.at).map_or("?", |instruction| program.source(instruction.source))
    };
    let verb = |access: &SharedAccess| if access.writes { "writes" } else { "reads" };
    let name = program.allocations.iter().find(|allocation| allocation.storage == storage);
    let name = name.map_or("", |allocation| allocation.name.as_str());
    let name = if name.is_empty() { "a shared tensor".to_owned() } else { format!("`{name}`") };
    let both = earlier.writes && later.writes;
    let sure = earlier.region.surely_overlaps(&later.region);
    let other_values =
        both && program.instructions.get(later.at).is_some_and(|instruction| instruction.other_values);
    let verb_of_later = if other_values { "writes other values to" } else { verb(later) };
    let bytes = if sure || other_values { "bytes" } else { "what may be bytes" };
    NeuronFinding {
        code: "neuron/core-race",
        error: other_values || (sure && !both && !reads_own),
        source: line(later).to_owned(),
        message: format!(
            "program {} {verb_of_later} {bytes} of {name} that program {} {} at {}, and nothing orders them",
            later.program,
            earlier.program,
            verb(earlier),
            line(earlier),
        ),
        allowed: "programs that touch bytes of their own, or meet in between".to_owned(),
        instead: "give each program its part, or call nisa.core_barrier between the two".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use tilewright_neuron_isa::program::Allocation;
    use tilewright_neuron_isa::{EngineKind, Instruction, InstructionCost};

    use super::*;

    /// Two programs that write rows of their own, one row after the other.
    fn program(rows: u64) -> NeuronProgram {
        let write = |row: u64, program: u32| {
            let rows = (row, row + 1);
            let region =
                TensorRegion { storage: 0, tile: 0, pitch_bytes: 64, rows, bytes: (0, 64), sparse: false };
            let mut one = Instruction::untouched("dma_copy", EngineKind::Dma, InstructionCost::default());
            one.writes.push(region);
            one.program = program;
            one
        };
        let shared = Allocation {
            storage: 0,
            memory: MemorySpace::SharedHbm,
            partition_bytes: 64 * rows,
            tiles: 1,
            name: "out".to_owned(),
            source: 0,
            places: Vec::new(),
            partitions: 1,
            made_at: 0,
        };
        NeuronProgram {
            instructions: (0..rows).map(|row| write(row, u32::from(row % 2 == 1))).collect(),
            allocations: vec![shared],
            sources: vec!["kernel.py:7".to_owned()],
            ..NeuronProgram::default()
        }
    }

    #[test]
    fn what_is_not_compared_is_said() {
        let program = program(8);
        assert_eq!(findings_within(&program, 28), Vec::new());
        let found = findings_within(&program, 27);
        let [one] = &found[..] else { panic!("{found:?}") };
        assert!(!one.error && one.message.contains("27 pairs"), "{one:?}");
    }
}
