//! Diagnostics as data, with the same fields as the rendered text.

use serde::Serialize;

use crate::diagnostic::{Diagnostic, Label, Severity};
use crate::source::Sources;

/// A diagnostic as it appears in `--json` output.
#[derive(Debug, Serialize)]
pub struct JsonDiagnostic<'a> {
    code: &'a str,
    severity: &'static str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<JsonPlace<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    others: Vec<JsonPlace<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instead: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    notes: &'a [String],
}

/// A labelled span as file, line and column, both from 1.
#[derive(Debug, Serialize)]
struct JsonPlace<'a> {
    source: &'a str,
    line: usize,
    column: usize,
    start_byte: u32,
    end_byte: u32,
    label: &'a str,
}

/// Turns diagnostics into serialisable data.
pub fn diagnostics<'a>(sources: &'a Sources, diagnostics: &'a [Diagnostic]) -> Vec<JsonDiagnostic<'a>> {
    diagnostics.iter().map(|diagnostic| one(sources, diagnostic)).collect()
}

fn one<'a>(sources: &'a Sources, diagnostic: &'a Diagnostic) -> JsonDiagnostic<'a> {
    JsonDiagnostic {
        code: diagnostic.code,
        severity: match diagnostic.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        },
        message: &diagnostic.message,
        place: diagnostic.primary.as_ref().map(|label| place(sources, label)),
        others: diagnostic.others.iter().map(|label| place(sources, label)).collect(),
        allowed: diagnostic.allowed.as_deref(),
        instead: diagnostic.instead.as_deref(),
        notes: &diagnostic.notes,
    }
}

fn place<'a>(sources: &'a Sources, label: &'a Label) -> JsonPlace<'a> {
    let (line, column) = sources.line_column(label.span);
    JsonPlace {
        source: sources.get(label.span.source).map_or("", |source| source.name.as_str()),
        line,
        column,
        start_byte: label.span.start,
        end_byte: label.span.end,
        label: &label.text,
    }
}
