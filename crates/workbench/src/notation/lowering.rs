//! A legal einsum as a command program.

use tilewright_base::Diagnostic;
use tilewright_notation::problem::Problem;
use tilewright_tcp_cost::{Setup, Verdict};
use tilewright_tcp_isa::program::Program;
use tilewright_tcp_lower::{LowerOptions, confirm, lower};

use super::NotationInput;
use crate::Refusal;

/// An einsum whose sizes resolved, and what the machine says of it.
#[derive(Debug)]
pub struct CheckedEinsum<'m> {
    /// The machine, its PEs and the element type.
    pub setup: Setup<'m>,
    /// Sizes and digits.
    pub problem: Problem,
    /// Whether it is legal, and why not.
    pub verdict: Verdict,
}

/// Checks an einsum against a machine; one that is not legal has its reasons in the verdict.
///
/// # Errors
/// What has no sizes, or no element type that is multiplied.
pub fn check<'m>(input: &NotationInput, setup: Setup<'m>) -> Result<CheckedEinsum<'m>, Box<Refusal>> {
    let problem = input.problem()?;
    let mut verdict = tilewright_tcp_cost::check(&setup, &problem);
    confirm(&setup, &problem, &mut verdict);
    Ok(CheckedEinsum { setup, problem, verdict })
}

/// Lowers an einsum that was checked.
///
/// # Errors
/// What is not legal, or has no program.
pub fn lower_einsum(
    input: &NotationInput,
    checked: &CheckedEinsum<'_>,
    options: &LowerOptions,
) -> Result<Program, Box<Refusal>> {
    if !checked.verdict.legal() {
        return Err(input.refused(checked.verdict.diagnostics.clone()));
    }
    if input.program.tactic.is_none() {
        let complaint = Diagnostic::error("notation/no-tactic", "an einsum without a tactic has no program")
            .allowed("an einsum with a tactic and the shapes of its operands")
            .instead("what the explorer finds best");
        return Err(input.refused(vec![complaint]));
    }
    let CheckedEinsum { setup, problem, verdict } = checked;
    lower(setup, problem, verdict, options).map_err(|complaint| input.refused(vec![*complaint]))
}
