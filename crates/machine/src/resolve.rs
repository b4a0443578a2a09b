//! From the files of a machine, its own and its bases', to one table of figures.
//!
//! Files are laid over each other from the root base to the variant. Each keeps its own sources;
//! what is missing is missing from the root.

use std::collections::{BTreeMap, BTreeSet};

use tilewright_base::{Diagnostic, Span};

use crate::architecture::Architecture;
use crate::check;
use crate::document::{Document, DocumentEntry, RawValue};
use crate::keys::{KeySpec, SectionSpec};
use crate::nearest::nearest;
use crate::provenance::{Provenance, SourceTable};
use crate::remarks::{self, Band};
use crate::value::Value;

/// Top-level tables that are no section of figures.
pub(crate) const OWN_TABLES: &[&str] = &["sources", "published", "fitted", "bands"];
/// Top-level keys.
pub(crate) const OWN_KEYS: &[&str] = &["name", "description", "architecture", "base"];

/// A figure with its source and its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ResolvedFigure {
    pub(crate) value: Value,
    pub(crate) provenance: Provenance,
    /// The machine that states it, or `--set`.
    pub(crate) stated_by: String,
    pub(crate) span: Span,
    /// Published rows that it was fitted to or derived from.
    pub(crate) fitted_to: Vec<String>,
    /// What it may be taken to be, where the file says so.
    pub(crate) band: Option<Band>,
}

/// Every figure by `section.key`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) by_path: BTreeMap<String, ResolvedFigure>,
    /// Keys that a file states but that were refused: wrong, yet not missing.
    refused: BTreeSet<String>,
}

impl Figures {
    /// The figure of a section's key.
    pub(crate) fn get(&self, section: &str, key: &str) -> Option<&ResolvedFigure> {
        self.by_path.get(&format!("{section}.{key}"))
    }

    /// Lays one file over what its bases say.
    pub(crate) fn lay(
        &mut self,
        document: &Document,
        name: &str,
        architecture: Architecture,
        diagnostics: &mut Vec<Diagnostic>,
    ) {
        let mut covers = SourceTable::read(document.table("sources"), diagnostics);
        let mut stated = Vec::new();
        for section in document.entries.iter().filter(|entry| is_section(entry)) {
            let Some(spec) = section_spec(section, architecture, diagnostics) else { continue };
            let RawValue::Table(entries) = &section.value else { continue };
            for entry in entries {
                let path = format!("{}.{}", spec.name, entry.key);
                if let Some(figure) = figure(spec, &path, entry, name, &mut covers, diagnostics) {
                    self.warn_if_same(&path, &figure, diagnostics);
                    stated.extend(spec.key(&entry.key).map(|key| (path.clone(), key)));
                    self.by_path.insert(path, figure);
                } else {
                    self.refused.insert(path);
                }
            }
        }
        diagnostics.extend(covers.unused());
        remarks::lay(document, architecture, &stated, self, diagnostics);
    }

    fn warn_if_same(&self, path: &str, figure: &ResolvedFigure, diagnostics: &mut Vec<Diagnostic>) {
        let Some(base) = self.by_path.get(path).filter(|base| base.value == figure.value) else { return };
        let message = format!("`{path}` is {} already in the base", figure.value);
        diagnostics.push(
            Diagnostic::warning("machine/same-as-base", message)
                .at(figure.span, "")
                .also(base.span, format!("stated by {}", base.stated_by))
                .allowed("a variant states what differs")
                .instead("remove the key and its source"),
        );
    }

    /// Complaints about keys that no file states; `root` is the root base.
    pub(crate) fn missing(&self, root: &Document, architecture: Architecture) -> Vec<Diagnostic> {
        let mut missing = Vec::new();
        for section in architecture.sections() {
            let place = root.entry(section.name).map_or(root.start(), |entry| entry.key_span);
            let stated = |key: &&KeySpec| {
                let path = format!("{}.{}", section.name, key.name);
                self.by_path.contains_key(&path) || self.refused.contains(&path)
            };
            let keys: Vec<&KeySpec> = section.keys.iter().filter(|key| !stated(key)).collect();
            // A section left out whole is one complaint, not one for each of its keys.
            if keys.len() > FEW_KEYS {
                missing.push(missing_many(section, &keys, place));
            } else {
                missing.extend(keys.iter().map(|key| missing_one(section, key, place)));
            }
        }
        missing
    }
}

/// Missing keys of a section that are complained about one by one.
const FEW_KEYS: usize = 3;

fn missing_one(section: &SectionSpec, key: &KeySpec, place: Span) -> Diagnostic {
    Diagnostic::error("machine/missing-key", format!("`{}.{}` is missing", section.name, key.name))
        .at(place, "")
        .allowed(key.accepts())
        .instead(format!("{} = ... below [{}], with a source", key.name, section.name))
        .with_note(key.doc.trim())
}

fn missing_many(section: &SectionSpec, keys: &[&KeySpec], place: Span) -> Diagnostic {
    let names: Vec<&str> = keys.iter().map(|key| key.name).collect();
    Diagnostic::error(
        "machine/missing-key",
        format!("{} figures of [{}] are missing", keys.len(), section.name),
    )
    .at(place, "")
    .allowed(format!("every figure of the section stated: {}", names.join(", ")))
    .instead("state them, each with a source, or start from a machine that does: base = \"...\"")
}

fn is_section(entry: &DocumentEntry) -> bool {
    !OWN_TABLES.contains(&entry.key.as_str()) && !OWN_KEYS.contains(&entry.key.as_str())
}

fn section_spec(
    entry: &DocumentEntry,
    architecture: Architecture,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<&'static SectionSpec> {
    let sections = architecture.sections();
    let found = sections.iter().find(|section| section.name == entry.key);
    let is_table = matches!(entry.value, RawValue::Table(_));
    if is_table && found.is_some() {
        return found;
    }
    let (code, message) = match found {
        Some(_) => {
            ("machine/type", format!("`{}` is a section, given {}", entry.key, entry.value.describe()))
        }
        None => ("machine/unknown-key", format!("`{}` is no section of a {architecture} machine", entry.key)),
    };
    let names: Vec<&str> =
        sections.iter().map(|section| section.name).chain(OWN_TABLES.iter().copied()).collect();
    let candidates = names.iter().copied().chain(OWN_KEYS.iter().copied());
    let near = nearest(&entry.key, candidates);
    let instead = if OWN_KEYS.contains(&near) { format!("{near} = ...") } else { format!("[{near}]") };
    diagnostics.push(
        Diagnostic::error(code, message)
            .at(entry.key_span, "")
            .allowed(format!("keys {}; sections {}", OWN_KEYS.join(", "), names.join(", ")))
            .instead(instead),
    );
    None
}

fn figure(
    section: &'static SectionSpec,
    path: &str,
    entry: &DocumentEntry,
    name: &str,
    covers: &mut SourceTable,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<ResolvedFigure> {
    let Some(key) = section.key(&entry.key) else {
        diagnostics.push(unknown_key(section, entry));
        return None;
    };
    let provenance = covers.of(path);
    if provenance.is_none() {
        diagnostics.push(uncovered(path, section.name, entry));
    }
    match check::value(path, key, &entry.value, entry.value_span) {
        Ok(value) => provenance.map(|provenance| ResolvedFigure {
            value,
            provenance,
            stated_by: name.to_owned(),
            span: entry.value_span,
            fitted_to: Vec::new(),
            band: None,
        }),
        Err(diagnostic) => {
            diagnostics.push(*diagnostic);
            None
        }
    }
}

fn unknown_key(section: &SectionSpec, entry: &DocumentEntry) -> Diagnostic {
    let names: Vec<&str> = section.keys.iter().map(|key| key.name).collect();
    let message = format!("`{}` is no key of [{}]", entry.key, section.name);
    Diagnostic::error("machine/unknown-key", message)
        .at(entry.key_span, "")
        .allowed(names.join(", "))
        .instead(nearest(&entry.key, names))
}

fn uncovered(path: &str, section: &str, entry: &DocumentEntry) -> Diagnostic {
    Diagnostic::error("machine/source-missing", format!("`{path}` has no source"))
        .at(entry.key_span, "")
        .allowed("every stated figure below an entry of [sources]")
        .instead(format!("\"{path}\" = \"kind: place\" or \"{section}\" = \"kind: place\" below [sources]"))
}
