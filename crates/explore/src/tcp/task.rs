//! What is explored on the TCP: an einsum of two inputs with numbers, on a setup. Extents are those of one group of PEs.

use tilewright_base::Diagnostic;
use tilewright_notation::problem::Problem;
use tilewright_notation::syntax::ast::Program;
use tilewright_tcp::Setup;

pub use crate::axes::{Axis, Class, MAX_AXES};
use crate::axes::{products, sorted};

/// An einsum on a setup.
#[derive(Clone, Debug)]
pub struct Task<'m> {
    /// Machine, PEs, element type.
    pub setup: Setup<'m>,
    /// Axes in the order in which the einsum names them.
    pub axes: Vec<Axis>,
    /// The einsum and its sizes as written, without shapes and tactic.
    pub program: Program,
}

impl<'m> Task<'m> {
    /// Sorts the axes of an einsum.
    ///
    /// # Errors
    /// Einsums that the contraction engine does not compute in one kind of command: one input, windows, axes summed by one input
    /// alone, too many axes.
    pub fn new(setup: Setup<'m>, program: &Program, problem: &Problem) -> Result<Task<'m>, Box<Diagnostic>> {
        let axes = sorted(problem)?;
        let program =
            Program { in0: None, in1: None, out: None, tactic: None, stationary: None, ..program.clone() };
        Ok(Task { setup, axes, program })
    }

    /// Indices of the axes of a class, in order.
    pub fn of_class(&self, class: Class) -> impl Iterator<Item = usize> + '_ {
        self.axes.iter().enumerate().filter(move |(_, axis)| axis.class == class).map(|(index, _)| index)
    }

    /// Products that the einsum asks for on one group of PEs.
    pub fn macs(&self) -> u128 {
        products(&self.axes)
    }
}
