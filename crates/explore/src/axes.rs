//! The axes of an einsum of two inputs, sorted by what happens to them (paper section II-B).
//!
//! An axis of both inputs that the output keeps is a batch axis; one that only one input has is free; one
//! that the output lacks is contracted. Extents are those of one group: what one group of PEs, or one core,
//! computes.

use tilewright_base::invariant::Exact;
use tilewright_base::{Diagnostic, Name};
use tilewright_notation::problem::{AxisId, Problem};
use tilewright_notation::syntax::ast::Operand;

/// Axes that a task may have.
pub const MAX_AXES: usize = 8;

/// What happens to an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AxisClass {
    /// In both inputs and the output.
    Batch,
    /// In in0 and the output.
    Free0,
    /// In in1 and the output.
    Free1,
    /// In both inputs, summed.
    Contracted,
}

/// Products of an einsum that are too many to count what candidates take.
const MOST_PRODUCTS: u64 = 1 << 62;

/// An axis of the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExploreAxis {
    /// Its name.
    pub name: Name,
    /// What happens to it.
    pub class: AxisClass,
    /// Positions on one group; the most of them if it is known only at run time.
    pub extent: u64,
    /// Known only at run time; all estimates are for its largest size.
    pub dynamic: bool,
}

/// Sorts the axes of an einsum.
///
/// # Errors
/// Einsums that are no single contraction: one input, windows, axes summed by one input alone, too many axes.
pub fn sorted(problem: &Problem) -> Result<Vec<ExploreAxis>, Box<Diagnostic>> {
    let refuse = |asked: String, allowed: &str, instead: &str| {
        Err(Box::new(
            Diagnostic::error("explore/einsum", asked)
                .at(problem.span, "")
                .allowed(allowed.to_string())
                .instead(instead.to_string()),
        ))
    };
    if !problem.contracts_two() || !problem.has_out {
        return refuse(
            "an einsum without two inputs and an output".to_string(),
            "contractions of two inputs",
            "mk,kn->mn",
        );
    }
    if !problem.windows.is_empty() {
        return refuse(
            "an einsum with a window".to_string(),
            "inputs whose positions are loops, not sums of loops",
            "the window written out as an axis of its own",
        );
    }
    if problem.axes.len() > MAX_AXES {
        let asked = format!("an einsum of {} axes", problem.axes.len());
        return refuse(asked, &format!("at most {MAX_AXES} axes"), "axes that run together joined into one");
    }
    let mut axes = Vec::with_capacity(problem.axes.len());
    for id in problem.axis_ids() {
        let axis = problem.axis(id);
        let Some(class) = class(problem, id) else {
            let asked = format!("axis `{}` is summed and only one input has it", axis.name);
            return refuse(asked, "sums over axes of both inputs", "that sum taken before");
        };
        axes.push(ExploreAxis { name: axis.name, class, extent: axis.extent, dynamic: axis.dynamic });
    }
    if axes
        .iter()
        .try_fold(1_u64, |all, axis| all.checked_mul(axis.extent))
        .is_none_or(|all| all >= MOST_PRODUCTS)
    {
        return Err(Box::new(
            Diagnostic::error("explore/size", "the einsum asks for more products than can be counted")
                .at(problem.span, "")
                .allowed(format!("fewer than {MOST_PRODUCTS} products on one group"))
                .instead("smaller axes, or axes split over PEs or cores"),
        ));
    }
    Ok(axes)
}

/// Products that the einsum asks for on one group.
pub fn products(axes: &[ExploreAxis]) -> u128 {
    axes.iter().fold(1, |all: u128, axis| all.exact_mul(u128::from(axis.extent)))
}

fn class(problem: &Problem, id: AxisId) -> Option<AxisClass> {
    let [in0, in1, out] = Operand::ALL.map(|operand| problem.has(operand, id));
    match (in0, in1, out) {
        (true, true, true) => Some(AxisClass::Batch),
        (true, true, false) => Some(AxisClass::Contracted),
        (true, false, true) => Some(AxisClass::Free0),
        (false, true, true) => Some(AxisClass::Free1),
        _ => None,
    }
}
