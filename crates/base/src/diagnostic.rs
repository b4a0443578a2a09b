//! One diagnostic type for every reader and rule.
//!
//! A refusal has three parts besides its place: what was asked (the message and the labels),
//! what is allowed, and what to write instead. Codes are stable: `family/rule`.

use crate::source::Span;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing; nothing is refused.
    Note,
    /// Legal, but probably not what was meant.
    Warning,
    /// Refused.
    Error,
}

/// A span with words under it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Where.
    pub span: Span,
    /// What is to be said about it; may be empty.
    pub text: String,
}

/// What is wrong, where, what is allowed, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Stable code, `family/rule`.
    pub code: &'static str,
    /// Error, warning or note.
    pub severity: Severity,
    /// What was asked, in one line.
    pub message: String,
    /// The offending place.
    pub primary: Option<Label>,
    /// Other places that matter.
    pub others: Vec<Label>,
    /// What the language or the machine allows.
    pub allowed: Option<String>,
    /// What to write instead.
    pub instead: Option<String>,
    /// Further facts.
    pub notes: Vec<String>,
}

impl Diagnostic {
    /// A refusal.
    pub fn error(code: &'static str, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(Severity::Error, code, message.into())
    }

    /// A warning.
    pub fn warning(code: &'static str, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(Severity::Warning, code, message.into())
    }

    /// A note.
    pub fn note(code: &'static str, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(Severity::Note, code, message.into())
    }

    fn new(severity: Severity, code: &'static str, message: String) -> Diagnostic {
        Diagnostic {
            code,
            severity,
            message,
            primary: None,
            others: Vec::new(),
            allowed: None,
            instead: None,
            notes: Vec::new(),
        }
    }

    /// Points at the offending place.
    #[must_use]
    pub fn at(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        self.primary = Some(Label { span, text: text.into() });
        self
    }

    /// Points at another place that matters.
    #[must_use]
    pub fn also(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        self.others.push(Label { span, text: text.into() });
        self
    }

    /// Says what is allowed.
    #[must_use]
    pub fn allowed(mut self, text: impl Into<String>) -> Diagnostic {
        self.allowed = Some(text.into());
        self
    }

    /// Says what to write instead.
    #[must_use]
    pub fn instead(mut self, text: impl Into<String>) -> Diagnostic {
        self.instead = Some(text.into());
        self
    }

    /// Adds a fact.
    #[must_use]
    pub fn with_note(mut self, text: impl Into<String>) -> Diagnostic {
        self.notes.push(text.into());
        self
    }
}

/// True if any of them refuses.
pub fn any_error(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
}
