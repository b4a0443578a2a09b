//! Why there is no answer, with the texts that the complaints are about.

use tilewright_base::{Diagnostic, Sources, render};

/// Complaints, and the texts that they point into.
#[derive(Clone, Debug, Default)]
pub struct Refusal {
    /// Texts.
    pub sources: Sources,
    /// What is wrong, the first of it first.
    pub diagnostics: Vec<Diagnostic>,
}

impl Refusal {
    /// One complaint about no text.
    pub fn plain(complaint: Diagnostic) -> Refusal {
        Refusal { sources: Sources::default(), diagnostics: vec![complaint] }
    }

    /// All of it as text, with the lines that it is about.
    pub fn text(&self) -> String {
        render::plain(&self.sources, &self.diagnostics)
    }
}
