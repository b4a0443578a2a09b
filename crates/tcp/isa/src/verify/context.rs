//! One image under examination, with the complaints about it.

use tilewright_base::{Diagnostic, Span};
use tilewright_machine::tcp::Tcp;

use crate::program::exec::Context;
use crate::program::{Exec, Program};

/// One image under examination.
pub(super) struct VerifyContext<'a> {
    pub(super) machine: &'a Tcp,
    pub(super) program: &'a Program,
    /// With every size a number.
    pub(super) exec: &'a Exec,
    /// As it is written.
    pub(super) written: &'a Exec,
    pub(super) found: &'a mut Vec<Diagnostic>,
}

impl VerifyContext<'_> {
    /// A refusal that points at the image.
    pub(super) fn refuse(&mut self, code: &'static str, message: String, allowed: String, instead: String) {
        let name = &self.exec.name;
        let refusal = Diagnostic::error(code, format!("`{name}`: {message}"));
        self.found.push(refusal.at(self.exec.span, message).allowed(allowed).instead(instead));
    }

    /// Slices of the group.
    pub(super) fn slices(&self) -> u64 {
        self.machine.fused_slices(self.exec.pes)
    }

    pub(super) fn is_sub(&self) -> bool {
        self.exec.context == Context::Sub
    }
}

/// A refusal outside of images.
pub(super) fn refusal(
    code: &'static str,
    span: Span,
    message: String,
    allowed: String,
    instead: &str,
) -> Diagnostic {
    Diagnostic::error(code, message.clone()).at(span, message).allowed(allowed).instead(instead)
}
