//! How an einsum with subscripts is sharded over groups of PEs (paper section VI-A: SPMD over PEs).
//!
//! Every axis that an input splits is a digit of the group number: surviving axes first, then summed ones, so
//! the groups that hold parts of the same sums are neighbours, a team. A team adds its parts up; axes that
//! only the output splits say which part of the result each of its members keeps.

use tilewright_base::Diagnostic;
use tilewright_notation::problem::{AxisId, Problem};
use tilewright_notation::syntax::ast::Operand;
use tilewright_tcp_isa::capped::Capped;

/// The digits of a group's number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeGroups {
    /// Surviving axes that inputs split, most significant first.
    pub surviving: Vec<AxisId>,
    /// Summed axes that inputs split; less significant than the surviving ones.
    pub summed: Vec<AxisId>,
    /// Axes that the output alone splits: parts of sums are scattered over their team.
    pub scattered: Vec<AxisId>,
}

impl PeGroups {
    /// Reads the subscripts of an einsum.
    pub fn new(problem: &Problem) -> PeGroups {
        let mut groups = PeGroups::default();
        for id in problem.axis_ids().filter(|id| problem.axis(*id).pes > 1) {
            let axis = problem.axis(id);
            if axis.extent == axis.whole {
                groups.scattered.push(id);
            } else if problem.contracted(id) {
                groups.summed.push(id);
            } else {
                groups.surviving.push(id);
            }
        }
        groups
    }

    /// Groups that run.
    pub fn count(&self, problem: &Problem) -> u64 {
        product(problem, &self.surviving).capped_mul(self.team(problem))
    }

    /// Groups that hold parts of the same sums.
    pub fn team(&self, problem: &Problem) -> u64 {
        product(problem, &self.summed)
    }

    /// The digits of the group number as a tensor has them, most significant first: an axis and its parts, or
    /// no axis for copies.
    pub fn digits(&self, problem: &Problem, operand: Operand) -> Vec<(Option<AxisId>, u64)> {
        let split = |id: &AxisId| {
            let axis = problem.axis(*id);
            let extent = axis.extent_in[operand as usize];
            ((extent > 0 && extent < axis.whole).then_some(*id), axis.pes)
        };
        let over_team = if operand == Operand::Out && !self.scattered.is_empty() {
            &self.scattered
        } else {
            &self.summed
        };
        self.surviving.iter().chain(over_team).map(split).collect()
    }

    /// What no exchange of whole parts can do.
    pub fn check(&self, problem: &Problem) -> Option<Diagnostic> {
        let spread = product(problem, &self.scattered);
        if !self.scattered.is_empty() && !self.summed.is_empty() && spread != self.team(problem) {
            let axis = problem.axis(self.scattered[0]);
            let (name, team) = (axis.name, self.team(problem));
            return Some(
                Diagnostic::error(
                    "tcp/pes",
                    format!("sums over {team} PE groups are scattered over {spread}"),
                )
                .at(axis.span, "")
                .allowed(format!("as many parts as groups that hold parts of a sum: {team}"))
                .instead(format!("{name}_{team} in the output, or {name} for copies on every group")),
            );
        }
        None
    }
}

fn product(problem: &Problem, axes: &[AxisId]) -> u64 {
    axes.iter().map(|id| problem.axis(*id).pes).fold(1, u64::capped_mul)
}
