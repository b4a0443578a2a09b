//! What a command leaves behind.

use std::error::Error;
use std::io::{self, ErrorKind};

use serde::Serialize;
use tilewright_base::{Diagnostic, Severity, Sources, render};

use crate::guard::Overwrite;
use crate::machine::to_json;

/// All is well.
pub const GOOD: u8 = 0;
/// The thing asked about failed: illegal, mismatched, over a limit.
pub const FAILED: u8 = 1;
/// Wrong usage or unreadable input.
pub const BAD_INPUT: u8 = 2;
/// A defect of ours.
pub const OUR_FAULT: u8 = 3;

/// Texts for the two streams and the exit code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Exit code.
    pub code: u8,
    /// Data and answers.
    pub stdout: String,
    /// Messages.
    pub stderr: String,
    /// Why there is no answer, as data: what `--json` prints then.
    pub refusal: Option<Box<Refusal>>,
}

/// A refusal as data. Places are `FILE:LINE:COLUMN`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// A stable code; `cli/usage` where a message has none of its own, `cli/failed` if it is no fault of
    /// usage.
    pub code: String,
    /// Where.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// What was asked, and why it cannot be.
    pub asked: String,
    /// What is allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed: Option<String>,
    /// What to write instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instead: Option<String>,
}

impl Refusal {
    /// The first error of some diagnostics, or the first of all.
    fn of(sources: &Sources, diagnostics: &[Diagnostic]) -> Option<Box<Refusal>> {
        let error = diagnostics.iter().find(|one| one.severity == Severity::Error);
        let first = error.or(diagnostics.first())?;
        let place = first.primary.as_ref().map(|label| {
            let (line, column) = sources.line_column(label.span);
            let name = sources.get(label.span.source).map_or("", |source| &source.name);
            format!("{name}:{line}:{column}")
        });
        let (allowed, instead) = (first.allowed.clone(), first.instead.clone());
        Some(Box::new(Refusal {
            code: first.code.to_string(),
            place,
            asked: first.message.clone(),
            allowed,
            instead,
        }))
    }

    /// A message of lines, some of which begin with `= allowed:` or `= instead:`.
    fn of_message(message: &str) -> Refusal {
        let mut refusal = Refusal::default();
        for line in message.lines() {
            let said = line.trim_start();
            if let Some(allowed) = said.strip_prefix("= allowed: ") {
                refusal.allowed = Some(allowed.to_string());
            } else if let Some(instead) = said.strip_prefix("= instead: ") {
                refusal.instead = Some(instead.to_string());
            } else {
                let apart = if refusal.asked.is_empty() { "" } else { "\n" };
                refusal.asked += apart;
                refusal.asked += line;
            }
        }
        refusal
    }
}

impl Outcome {
    /// An answer.
    pub fn good(stdout: String) -> Outcome {
        Outcome { stdout, ..Outcome::default() }
    }

    /// A refusal with rendered diagnostics on the error stream.
    pub fn refused(code: u8, sources: &Sources, diagnostics: &[Diagnostic], colour: bool) -> Outcome {
        let refusal = Refusal::of(sources, diagnostics);
        Outcome { code, stderr: rendered(sources, diagnostics, colour), refusal, ..Outcome::default() }
    }

    /// A file that cannot be written: wrong usage where its place does not take one, a failure where it ends
    /// halfway, as on a full disk.
    pub fn unwritten(path: &str, error: &io::Error) -> Outcome {
        if let Some(why) = Overwrite::of(error) {
            return Outcome::usage(&why.to_string()).coded("cli/overwrite");
        }
        let place = [
            ErrorKind::NotFound,
            ErrorKind::PermissionDenied,
            ErrorKind::NotADirectory,
            ErrorKind::IsADirectory,
            ErrorKind::ReadOnlyFilesystem,
            ErrorKind::InvalidFilename,
        ];
        let code = if place.contains(&error.kind()) { BAD_INPUT } else { FAILED };
        Outcome { code, ..Outcome::usage(&format!("cannot write `{path}`: {error}")) }
    }

    /// A plain message about usage: what was asked, what is allowed, what to write.
    pub fn usage(message: &str) -> Outcome {
        let refusal = Some(Box::new(Refusal::of_message(message)));
        Outcome { code: BAD_INPUT, stderr: format!("error: {message}\n"), refusal, ..Outcome::default() }
    }

    /// With a stable code of its own.
    #[must_use]
    pub(crate) fn coded(mut self, code: &str) -> Outcome {
        if let Some(refusal) = &mut self.refusal {
            refusal.code = code.to_string();
        }
        self
    }

    /// The same for whoever asked for data: what is refused is printed as data too.
    #[must_use]
    pub(crate) fn into_data(mut self) -> Outcome {
        let Some(mut refusal) = self.refusal.take().filter(|_| self.code != GOOD && self.stdout.is_empty())
        else {
            return self;
        };
        if refusal.code.is_empty() {
            refusal.code = if self.code == BAD_INPUT { "cli/usage" } else { "cli/failed" }.to_string();
        }
        self.stdout = to_json(&serde_json::json!({ "error": refusal }));
        self
    }
}

/// The error of a file or stream behind another error, such as that of a trace that cannot be written.
pub(crate) fn io_cause<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e io::Error> {
    match error.downcast_ref::<io::Error>() {
        Some(found) => Some(found),
        None => io_cause(error.source()?),
    }
}

/// Diagnostics as text, ending in a new line unless there are none.
pub(crate) fn rendered(sources: &Sources, diagnostics: &[Diagnostic], colour: bool) -> String {
    if diagnostics.is_empty() {
        return String::new();
    }
    let text =
        if colour { render::coloured(sources, diagnostics) } else { render::plain(sources, diagnostics) };
    text + "\n"
}
