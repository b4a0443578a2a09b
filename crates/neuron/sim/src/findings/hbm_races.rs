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
                if pairs > MAX_PAIRS {
                    return found.into_values().collect();
                }
                let clash = earlier.program != later.program
                    && (earlier.writes || later.writes)
                    && earlier.region.overlaps(&later.region);
                if clash {
                    let line = |access: &SharedAccess| program.instructions[access.at].source;
                    found
                        .entry((storage, line(earlier), line(later), earlier.writes, later.writes))
                        .or_insert_with(|| race(program, storage, earlier, later));
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

fn race(
    program: &NeuronProgram,
    storage: u32,
    earlier: &SharedAccess,
    later: &SharedAccess,
) -> NeuronFinding {
    let line = |access: &SharedAccess| {
        program.instructions.get(access.at).map_or("?", |instruction| program.source(instruction.source))
    };
    let verb = |access: &SharedAccess| if access.writes { "writes" } else { "reads" };
    let name = program.allocations.iter().find(|allocation| allocation.storage == storage);
    let name = name.map_or("", |allocation| allocation.name.as_str());
    let name = if name.is_empty() { "a shared tensor".to_owned() } else { format!("`{name}`") };
    let both = earlier.writes && later.writes;
    NeuronFinding {
        code: "neuron/core-race",
        error: !both,
        source: line(later).to_owned(),
        message: format!(
            "program {} {} bytes of {name} that program {} {} at {}, and nothing orders them",
            later.program,
            verb(later),
            earlier.program,
            verb(earlier),
            line(earlier),
        ),
        allowed: "programs that touch bytes of their own, or meet in between".to_owned(),
        instead: "give each program its part, or call nisa.core_barrier between the two".to_owned(),
    }
}
