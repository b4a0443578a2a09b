//! Engines of instructions for which the kernel names none: copies and additions or multiplications with one
//! number for each partition run on Vector or, as an activation, on Scalar; those of two tiles on Vector or,
//! where it does not share Vector's port, on GpSimd. In the order of the program each goes to the engine that
//! has had less to do; where Vector and Scalar keep each other from PSUM, one that needs PSUM goes to the
//! engine that needs it for less time.

use std::collections::BTreeMap;

use tilewright_base::invariant::Exact;
use tilewright_neuron_isa::program::{EngineKind, Instruction};
use tilewright_neuron_isa::{Chip, MemorySpace, NeuronProgram};

pub(super) fn run(chip: &Chip, program: &mut NeuronProgram) {
    // Time that each engine of each core has had to work.
    let mut loads: BTreeMap<(u32, EngineKind), u64> = BTreeMap::new();
    let cores = program.cores;
    let psum: Vec<bool> = program.allocations.iter().map(|one| one.memory == MemorySpace::Psum).collect();
    let one_at_a_time = |instruction: &Instruction| {
        let mut regions = instruction.reads.iter().chain(&instruction.writes);
        chip.neuron.access.vector_scalar_exclusive
            && regions.any(|region| psum.get(region.storage as usize).is_some_and(|psum| *psum))
    };
    for instruction in &mut program.instructions {
        let core = if cores > 1 { instruction.program % cores } else { 0 };
        let others =
            [(EngineKind::Scalar, instruction.on_scalar), (EngineKind::Gpsimd, instruction.on_gpsimd)];
        if instruction.engine == EngineKind::Vector && !instruction.merged {
            let mut best = (instruction.engine, instruction.cost);
            let excludes = one_at_a_time(instruction);
            for (engine, cost) in others {
                let Some(cost) = cost else { continue };
                let end = |engine: EngineKind, busy_ps: u64| {
                    let load_ps = loads.get(&(core, engine)).map_or(0, |&load_ps| load_ps);
                    if excludes { busy_ps } else { load_ps.exact_add(busy_ps) }
                };
                if end(engine, cost.busy_ps) < end(best.0, best.1.busy_ps) {
                    best = (engine, cost);
                }
            }
            (instruction.engine, instruction.cost) = best;
        }
        let load = loads.entry((core, instruction.engine)).or_default();
        *load = load.exact_add(instruction.cost.busy_ps);
    }
}
