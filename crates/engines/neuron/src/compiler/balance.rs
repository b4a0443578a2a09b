//! Engines of instructions for which the kernel names none: copies and additions or multiplications with one number for each
//! partition run on Vector or, as an activation, on Scalar. In the order of the program each goes to the engine that has had less to do.

use crate::program::EngineKind;
use crate::Program;

pub(super) fn run(program: &mut Program) {
    let mut loads = std::collections::BTreeMap::new();
    let cores = program.cores;
    for instruction in &mut program.instructions {
        let core = if cores > 1 { instruction.program % cores } else { 0 };
        let (vector_ps, scalar_ps) = loads.entry(core).or_insert((0_u64, 0_u64));
        if let (EngineKind::Vector, Some(other)) = (instruction.engine, instruction.on_scalar)
            && scalar_ps.saturating_add(other.busy_ps) < vector_ps.saturating_add(instruction.cost.busy_ps)
        {
            instruction.engine = EngineKind::Scalar;
            instruction.cost = other;
        }
        match instruction.engine {
            EngineKind::Vector => *vector_ps = vector_ps.saturating_add(instruction.cost.busy_ps),
            EngineKind::Scalar => *scalar_ps = scalar_ps.saturating_add(instruction.cost.busy_ps),
            _ => {}
        }
    }
}
