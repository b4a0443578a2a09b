//! The file of a compiled graph: its program, its constants one after the other, and the plan of both.

use tilewright_base::SourceId;
use tilewright_compile::general::Planned;
use tilewright_compile::general::interface::constants;
use tilewright_tcp_isa::program::Program;
use tilewright_tcp_isa::program::binary::{Bundle, pack_bundle};
use tilewright_tcp_isa::program::text as commands;

use crate::PLAN;
use crate::graph_plan::GraphPlan;
use crate::read::ArtifactError;

/// The section of constants.
pub(crate) const CONSTANTS: &str = "constants";
/// The section of the program, behind the name of its chip family.
const PROGRAM: &str = "graph";

/// The parts of a file. Constants are a slice of it.
#[derive(Clone, Debug)]
pub struct GraphArtifact<'f> {
    /// What the graph takes and gives, and what it was compiled for.
    pub plan: GraphPlan,
    /// Constants, in the order of the plan.
    pub constants: Vec<(u64, &'f [u8])>,
    program: String,
}

impl<'f> GraphArtifact<'f> {
    /// Takes the sections of a file apart.
    pub(crate) fn of(bundle: Bundle<'f>) -> Result<GraphArtifact<'f>, ArtifactError> {
        let plan = GraphPlan::read(bundle.text(PLAN).ok_or(ArtifactError::Missing("plan"))?)?;
        check_places(&plan)?;
        let mut left = bundle.array(CONSTANTS).ok_or(ArtifactError::Missing("constants"))?;
        let mut constants = Vec::new();
        for (base, bytes) in &plan.constants {
            let taken = usize::try_from(*bytes).ok().and_then(|bytes| left.split_at_checked(bytes));
            let (own, rest) = taken.ok_or(ArtifactError::Constants)?;
            constants.push((*base, own));
            left = rest;
        }
        if !left.is_empty() {
            return Err(ArtifactError::Constants);
        }
        let program = bundle.programs.into_iter().find(|(name, _)| *name == PROGRAM);
        let (_, program) = program.ok_or(ArtifactError::Missing("program `graph`"))?;
        Ok(GraphArtifact { plan, constants, program })
    }

    /// A plan whose places were checked, its constants in their order, and the statements of its program.
    pub(crate) fn of_parts(
        plan: GraphPlan,
        constants: Vec<(u64, &'f [u8])>,
        program: String,
    ) -> GraphArtifact<'f> {
        GraphArtifact { plan, constants, program }
    }

    /// The program, which whoever runs it still has to verify.
    ///
    /// # Errors
    /// Statements that are no program.
    pub fn program(&self) -> Result<Program, ArtifactError> {
        commands::read(&self.program, SourceId(0)).map_err(|_| ArtifactError::Missing("program that reads"))
    }
}

/// Refuses inputs, results and constants that lie outside of what a program takes, and open sizes that are
/// not those of inputs and results.
pub(crate) fn check_places(plan: &GraphPlan) -> Result<(), ArtifactError> {
    let hbm_bytes = plan.interface.hbm_bytes;
    for port in plan.interface.inputs.iter().chain(&plan.interface.results) {
        port.check(hbm_bytes)?;
    }
    plan.interface.check_open()?;
    let lies_within =
        |(base, bytes): &(u64, u64)| base.checked_add(*bytes).is_some_and(|end| end <= hbm_bytes);
    if plan.constants.iter().all(lies_within) { Ok(()) } else { Err(ArtifactError::Constants) }
}

/// The bytes of a planned graph's file. The plan says all but the constants, which are taken from what was
/// planned.
pub fn write_graph(planned: &Planned, plan: GraphPlan) -> Vec<u8> {
    let (mut places, mut bytes) = (Vec::new(), Vec::new());
    for (base, constant) in constants(planned) {
        places.push((base, constant.len() as u64));
        bytes.extend(constant);
    }
    let plan = GraphPlan { constants: places, ..plan }.to_string();
    pack_bundle(&[(PROGRAM, &planned.program)], &[(CONSTANTS, &bytes)], &[(PLAN, &plan)])
}
