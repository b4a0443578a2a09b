//! What a machine file says of single figures besides their source.
//!
//! `[fitted]` names the published rows (`chip/group/name`) that a figure was fitted to or derived from:
//! errors of these rows say nothing about the machine. `[bands]` has the lowest and the highest value that
//! a figure may be taken to have, with the reason: `"hbm.efficiency" = { low = 0.91, high = 0.97, reason =
//! "..." }`. Both name figures that the same file states, by `section.key`.

use serde::Serialize;
use tilewright_base::Diagnostic;

use crate::architecture::Architecture;
use crate::check;
use crate::document::{Document, DocumentEntry, RawValue};
use crate::keys::KeySpec;
use crate::nearest::nearest;
use crate::resolve::Figures;
use crate::value::Value;

/// Lowest and highest value that a figure may be taken to have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Band {
    /// Lowest.
    pub low: Value,
    /// Highest.
    pub high: Value,
    /// Why these two.
    pub reason: String,
}

/// Reads both tables of a file into the figures that it states, by path with the key of each. What is
/// said of a figure that was refused or is missing is passed over: that was complained about.
pub(crate) fn lay(
    document: &Document,
    architecture: Architecture,
    stated: &[(String, &'static KeySpec)],
    figures: &mut Figures,
    diagnostics: &mut Vec<Diagnostic>,
) {
    for entry in document.table("fitted") {
        let Some(found) = find(entry, architecture, stated, figures) else { continue };
        match found.and_then(|_| rows(entry)) {
            Ok(rows) => {
                figures.by_path.entry(entry.key.clone()).and_modify(|figure| figure.fitted_to = rows);
            }
            Err(diagnostic) => diagnostics.push(*diagnostic),
        }
    }
    for entry in document.table("bands") {
        let Some(found) = find(entry, architecture, stated, figures) else { continue };
        let value = figures.by_path.get(&entry.key).map(|figure| figure.value.clone());
        match found.and_then(|key| band(entry, key, value.as_ref())) {
            Ok(band) => {
                figures.by_path.entry(entry.key.clone()).and_modify(|figure| figure.band = Some(band));
            }
            Err(diagnostic) => diagnostics.push(*diagnostic),
        }
    }
}

/// The key that an entry names; nothing if the architecture has it and no file states it well.
fn find(
    entry: &DocumentEntry,
    architecture: Architecture,
    stated: &[(String, &'static KeySpec)],
    figures: &Figures,
) -> Option<Result<&'static KeySpec, Box<Diagnostic>>> {
    if let Some((_, key)) = stated.iter().find(|(path, _)| *path == entry.key) {
        return Some(Ok(key));
    }
    let (section, key) = entry.key.split_once('.').unwrap_or((&entry.key, ""));
    let mut sections = architecture.sections().iter().filter(|spec| spec.name == section);
    if sections.any(|spec| spec.key(key).is_some()) && !figures.by_path.contains_key(&entry.key) {
        return None;
    }
    let near = nearest(&entry.key, stated.iter().map(|(path, _)| path.as_str()));
    let diagnostic =
        Diagnostic::error("machine/remark", format!("this file states no figure `{}`", entry.key))
            .at(entry.key_span, "")
            .allowed("section.key of a figure that the same file states")
            .instead(format!("\"{near}\" = ..."));
    Some(Err(Box::new(diagnostic)))
}

fn rows(entry: &DocumentEntry) -> Result<Vec<String>, Box<Diagnostic>> {
    let text = |value: &RawValue| match value {
        RawValue::Text(text) => Some(text.clone()),
        _ => None,
    };
    let found = match &entry.value {
        RawValue::List(values) => values.iter().map(text).collect::<Option<Vec<String>>>(),
        _ => None,
    };
    found.filter(|rows| !rows.is_empty()).ok_or_else(|| {
        let message = format!("what `{}` was fitted to is {}", entry.key, entry.value.describe());
        let diagnostic = Diagnostic::error("machine/fitted", message)
            .at(entry.value_span, "")
            .allowed("a list of published rows, each \"chip/group/name\"")
            .instead(format!("\"{}\" = [\"chip/group/name\"]", entry.key));
        Box::new(diagnostic)
    })
}

fn band(
    entry: &DocumentEntry,
    key: &'static KeySpec,
    value: Option<&Value>,
) -> Result<Band, Box<Diagnostic>> {
    let refuse = |message: String| {
        let diagnostic = Diagnostic::error("machine/band", message)
            .at(entry.value_span, "")
            .allowed("{ low = a number, high = a number, reason = \"why\" } around the value of the figure")
            .instead(format!("\"{}\" = {{ low = ..., high = ..., reason = \"...\" }}", entry.key));
        Box::new(diagnostic)
    };
    let RawValue::Table(fields) = &entry.value else {
        return Err(refuse(format!("the band of `{}` is {}", entry.key, entry.value.describe())));
    };
    let (mut low, mut high, mut reason) = (None, None, None);
    for field in fields {
        let checked = || check::value(&entry.key, key, &field.value, field.value_span);
        match (field.key.as_str(), &field.value) {
            ("low", _) => low = Some(checked()?),
            ("high", _) => high = Some(checked()?),
            ("reason", RawValue::Text(text)) if !text.trim().is_empty() => reason = Some(text.clone()),
            (other, _) => return Err(refuse(format!("`{other}` is nothing of the band of `{}`", entry.key))),
        }
    }
    let (Some(low), Some(high), Some(reason)) = (low, high, reason) else {
        return Err(refuse(format!("the band of `{}` lacks low, high or reason", entry.key)));
    };
    let numbers = (low.number(), value.and_then(Value::number), high.number());
    match numbers {
        (Some(least), Some(stated), Some(most)) if least <= stated && stated <= most => {
            Ok(Band { low, high, reason })
        }
        _ => Err(refuse(format!("`{}` does not lie from {low} to {high}", entry.key))),
    }
}
