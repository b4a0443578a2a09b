//! What is explored on the TCP: an einsum of two inputs with numbers, on a setup. Extents are those of one
//! group of PEs.

use tilewright_base::Diagnostic;
use tilewright_notation::problem::Problem;
use tilewright_notation::syntax::ast::{Operand, Program};
use tilewright_tcp_cost::Setup;

pub use crate::axes::{AxisClass, ExploreAxis, MAX_AXES};
use crate::axes::{products, sorted};

/// An einsum on a setup.
#[derive(Clone, Debug)]
pub struct TcpTask<'m> {
    /// Machine, PEs, element type.
    pub setup: Setup<'m>,
    /// Axes in the order in which the einsum names them.
    pub axes: Vec<ExploreAxis>,
    /// The einsum and its sizes as written, without shapes and tactic.
    pub program: Program,
    /// Groups of PEs that each do the same with their part, at the same time.
    pub groups: u64,
    /// Whether in0 and in1 start in off-chip memory.
    pub from_hbm: [bool; 2],
}

impl<'m> TcpTask<'m> {
    /// Sorts the axes of an einsum.
    ///
    /// # Errors
    /// Einsums that the contraction engine does not compute in one kind of command: one input, windows, axes
    /// summed by one input alone, too many axes.
    pub fn new(
        setup: Setup<'m>,
        program: &Program,
        problem: &Problem,
    ) -> Result<TcpTask<'m>, Box<Diagnostic>> {
        let axes = sorted(problem)?;
        let program =
            Program { in0: None, in1: None, out: None, tactic: None, stationary: None, ..program.clone() };
        let groups = problem.axes.iter().map(|axis| axis.pes).max().unwrap_or(1);
        Ok(TcpTask { setup, axes, program, groups, from_hbm: [false; 2] })
    }

    /// The same where inputs start in off-chip memory.
    #[must_use]
    pub fn with_inputs_in_hbm(self, from_hbm: [bool; 2]) -> TcpTask<'m> {
        TcpTask { from_hbm, ..self }
    }

    /// Indices of the axes of an input.
    pub fn axes_of(&self, operand: Operand) -> impl Iterator<Item = usize> + '_ {
        let others = if operand == Operand::In0 { AxisClass::Free1 } else { AxisClass::Free0 };
        (0..self.axes.len()).filter(move |axis| self.axes[*axis].class != others)
    }

    /// Indices of the axes of a class, in order.
    pub fn of_class(&self, class: AxisClass) -> impl Iterator<Item = usize> + '_ {
        self.axes.iter().enumerate().filter(move |(_, axis)| axis.class == class).map(|(index, _)| index)
    }

    /// Products that the einsum asks for on one group of PEs.
    pub fn macs(&self) -> u128 {
        products(&self.axes)
    }
}
