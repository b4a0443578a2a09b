//! Complaints of the core as the exception that refusals of kernels are too.

use pyo3::prelude::*;
use tilewright_base::Diagnostic;
use tilewright_workbench::Refusal;

use crate::error::Refused;

/// A refusal as an exception: its text with the lines that it is about, and the fields of the first complaint
/// as `code`, `place`, `asked`, `allowed` and `instead`; all of them as JSON in `diagnostics_json`.
pub(crate) fn raise(py: Python<'_>, refusal: &Refusal) -> PyErr {
    let error = Refused::new_err(refusal.text());
    let value = error.value(py);
    let all = tilewright_base::json::diagnostics(&refusal.sources, &refusal.diagnostics);
    let all = serde_json::to_string(&all).unwrap_or_default();
    let first = refusal.diagnostics.first();
    let place = first.and_then(|one| one.primary.as_ref()).map(|label| {
        let (line, column) = refusal.sources.line_column(label.span);
        let name = refusal.sources.get(label.span.source).map_or("", |source| source.name.as_str());
        format!("{name}:{line}:{column}")
    });
    let text = |field: fn(&Diagnostic) -> Option<&str>| first.and_then(field).unwrap_or_default();
    let fields = [
        ("code", text(|one| Some(one.code))),
        ("asked", text(|one| Some(&one.message))),
        ("allowed", text(|one| one.allowed.as_deref())),
        ("instead", text(|one| one.instead.as_deref())),
        ("place", place.as_deref().unwrap_or_default()),
        ("diagnostics_json", &all),
    ];
    for (name, field) in fields {
        // An attribute that cannot be set leaves the message, which has it all.
        let _ = value.setattr(name, field);
    }
    error
}

/// A refusal of one complaint that is about no text.
pub(crate) fn plain(py: Python<'_>, complaint: Diagnostic) -> PyErr {
    raise(py, &Refusal::plain(complaint))
}
