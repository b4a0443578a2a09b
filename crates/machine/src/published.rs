//! Figures that others have published, set beside ours.
//!
//! `[published]` names derived quantities: `peak_bf16_tflops = { value = 256, source = "paper: Table I" }`.
//! They are never inputs. A difference of more than one percent needs a `note` with its cause.

use serde::Serialize;
use tilewright_base::{Diagnostic, Span};

use crate::architecture::{Architecture, Machine};
use crate::derived::Derived;
use crate::document::{Document, DocumentEntry, RawValue};
use crate::nearest::nearest;
use crate::provenance::Provenance;

/// Largest relative difference that needs no explanation.
const TOLERANCE: f64 = 0.01;

/// A published figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Published {
    /// The derived quantity that it is about.
    pub name: String,
    /// The figure as printed.
    pub value: f64,
    /// Where.
    pub source: Provenance,
    /// Why ours differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    #[serde(skip)]
    pub(crate) span: Span,
}

/// A derived quantity beside what is published about it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Ours.
    #[serde(flatten)]
    pub derived: Derived,
    /// Theirs, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published: Option<Published>,
    /// Ours over theirs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
}

impl Comparison {
    /// True if the two differ by more than one percent.
    pub fn differs(&self) -> bool {
        self.ratio.is_some_and(|ratio| (ratio - 1.0).abs() > TOLERANCE)
    }
}

/// Sets every derived quantity beside what is published about it.
pub(crate) fn compare(machine: &Machine, published: &[Published]) -> Vec<Comparison> {
    machine
        .derived()
        .into_iter()
        .map(|derived| {
            let published = published.iter().find(|published| published.name == derived.name).cloned();
            let ratio = published.as_ref().map(|published| derived.value / published.value);
            Comparison { derived, published, ratio }
        })
        .collect()
}

/// Warnings about published figures that ours misses without a word.
pub(crate) fn unexplained(machine: &Machine, published: &[Published]) -> Vec<Diagnostic> {
    let unexplained = |row: Comparison| {
        let differs = row.differs();
        let published = row.published.filter(|published| differs && published.note.is_none())?;
        let message = format!(
            "`{}` is derived as {} and published as {}",
            published.name, row.derived.value, published.value
        );
        Some(
            Diagnostic::warning("machine/unexplained", message)
                .at(published.span, "")
                .allowed("a difference of at most 1 %, or a note with its cause")
                .instead("{ value = ..., source = ..., note = \"why\" }"),
        )
    };
    compare(machine, published).into_iter().filter_map(unexplained).collect()
}

/// Reads `[published]`.
pub(crate) fn read(
    document: &Document,
    architecture: Architecture,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Published> {
    let names = architecture.derived_names();
    let mut published = Vec::new();
    for entry in document.table("published") {
        if !names.contains(&entry.key.as_str()) {
            diagnostics.push(unknown(entry, &names));
            continue;
        }
        match one(entry) {
            Ok(one) => published.push(one),
            Err(diagnostic) => diagnostics.push(*diagnostic),
        }
    }
    published
}

fn unknown(entry: &DocumentEntry, names: &[&'static str]) -> Diagnostic {
    Diagnostic::error("machine/published", format!("`{}` is no derived quantity", entry.key))
        .at(entry.key_span, "")
        .allowed(names.join(", "))
        .instead(nearest(&entry.key, names.iter().copied()))
}

fn one(entry: &DocumentEntry) -> Result<Published, Box<Diagnostic>> {
    let RawValue::Table(fields) = &entry.value else { return Err(shape(entry, entry.value_span)) };
    let (mut value, mut source, mut note) = (None, None, None);
    for field in fields {
        match (field.key.as_str(), &field.value) {
            ("value", RawValue::Integer(_) | RawValue::Number(_)) => value = number(&field.value),
            ("source", RawValue::Text(text)) => source = Some(Provenance::read(text, field.value_span)?),
            ("note", RawValue::Text(text)) => note = Some(text.clone()),
            _ => return Err(shape(entry, field.key_span)),
        }
    }
    let (Some(value), Some(source)) = (value, source) else { return Err(shape(entry, entry.value_span)) };
    Ok(Published { name: entry.key.clone(), value, source, note, span: entry.value_span })
}

/// A positive number: a ratio to zero says nothing.
#[expect(clippy::cast_precision_loss, reason = "published figures have few digits")]
fn number(raw: &RawValue) -> Option<f64> {
    let value = match raw {
        RawValue::Integer(value) => *value as f64,
        RawValue::Number(value) => *value,
        _ => return None,
    };
    (value > 0.0 && value.is_finite()).then_some(value)
}

fn shape(entry: &DocumentEntry, span: Span) -> Box<Diagnostic> {
    let message = format!("the published figure `{}` is {}", entry.key, entry.value.describe());
    let diagnostic = Diagnostic::error("machine/published", message)
        .at(span, "")
        .allowed("{ value = a number above 0, source = \"kind: place\" }, and note = \"why ours differs\"")
        .instead(format!("{} = {{ value = 1, source = \"paper: Table I\" }}", entry.key));
    Box::new(diagnostic)
}
