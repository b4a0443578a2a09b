//! One program for several groups of PEs: an axis with a subscript is split over them, and each runs the same commands on its own
//! part (paper section VI-A: SPMD over PEs).

use tilewright_base::Diagnostic;
use tilewright_notation::problem::{AxisId, Problem};
use tilewright_notation::syntax::ast::Operand;

use super::build::refuse;
use crate::program::Program;
use crate::program::control::Queue;
use crate::program::tensor::{Data, Place, Tensor};
use crate::setup::Setup;

/// Repeats a group's program for every group that the einsum names; one group stays as it is.
pub(super) fn spread(
    setup: &Setup<'_>,
    problem: &Problem,
    program: Program,
) -> Result<Program, Box<Diagnostic>> {
    let groups = problem.axes.iter().map(|axis| axis.pes).max().unwrap_or(1);
    if groups <= 1 {
        return Ok(program);
    }
    if let Some(axis) = summed_axis(problem) {
        let name = problem.axis(axis).name;
        let asked = format!("axis `{name}` is summed over {groups} groups of PEs");
        return Err(refuse(
            problem,
            &asked,
            "a subscript on a surviving axis; sums over PEs are a transfer and an addition",
        ));
    }
    let there = setup.machine.pes() / setup.fused_pes;
    if groups > there {
        let asked = format!("{groups} groups of {} PEs", setup.fused_pes);
        return Err(refuse(problem, &asked, &format!("a subscript of at most {there}")));
    }
    let mut tensors = Vec::new();
    let mut queues = Vec::new();
    for group in 0..groups {
        for (tensor, operand) in program.tensors.iter().zip(Operand::ALL) {
            tensors.push(part(setup, problem, tensor, operand, group)?);
        }
        for queue in &program.queues {
            queues.push(Queue { pe: group * setup.fused_pes, ..queue.clone() });
        }
    }
    Ok(Program { tensors, queues, ..program })
}

/// An axis whose sum is spread over groups.
pub(super) fn summed_axis(problem: &Problem) -> Option<AxisId> {
    problem.axis_ids().find(|id| problem.contracted(*id) && problem.axis(*id).pes > 1)
}

/// A group's tensor: its part of a split one, or a copy.
fn part(
    setup: &Setup<'_>,
    problem: &Problem,
    tensor: &Tensor,
    operand: Operand,
    group: u64,
) -> Result<Tensor, Box<Diagnostic>> {
    let split = problem.tensor(operand).iter().any(|id| problem.axis(*id).pes > 1);
    let data = match &tensor.data {
        Data::Random(seed) if split => Data::Random(seed.wrapping_add(group << 32)),
        Data::File(_) | Data::Patterns(_) if split => {
            let asked = format!("{} is split over PEs and comes from a file", operand.name());
            return Err(refuse(
                problem,
                &asked,
                "a seed, or one program for each group with its part of the file",
            ));
        }
        other => other.clone(),
    };
    let place = match tensor.place {
        Place::Dm { chip, slice, base } => Place::Dm { chip, slice: slice + group * setup.slices(), base },
        hbm @ Place::Hbm { .. } => hbm,
    };
    Ok(Tensor {
        name: format!("{}_pe{}", tensor.name, group * setup.fused_pes),
        data,
        place,
        ..tensor.clone()
    })
}
