//! What a command leaves behind.

use tilewright_base::{Diagnostic, Sources, render};

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
}

impl Outcome {
    /// An answer.
    pub fn good(stdout: String) -> Outcome {
        Outcome { code: GOOD, stdout, stderr: String::new() }
    }

    /// A refusal with rendered diagnostics on the error stream.
    pub fn refused(code: u8, sources: &Sources, diagnostics: &[Diagnostic], colour: bool) -> Outcome {
        Outcome { code, stdout: String::new(), stderr: rendered(sources, diagnostics, colour) }
    }

    /// A plain message about usage: what was asked, what is allowed, what to write.
    pub fn usage(message: &str) -> Outcome {
        Outcome { code: BAD_INPUT, stdout: String::new(), stderr: format!("error: {message}\n") }
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
