//! The complaint about a legal contraction that has no lowering.

use tilewright_base::Diagnostic;
use tilewright_notation::problem::Problem;

/// A legal contraction that cannot be lowered.
pub(super) fn refuse(problem: &Problem, message: &str, instead: &str) -> Box<Diagnostic> {
    Box::new(
        Diagnostic::error("tcp/lower", message.to_string()).at(problem.span, "").instead(instead.to_string()),
    )
}
