//! Where a figure comes from.
//!
//! `[sources]` maps key prefixes to `"kind: place"`. The longest prefix of a key wins; a prefix is
//! a section (`dm`), a key (`dm.banks`) or the first words of one (`ce.int8`). Every figure that a
//! file states must be covered, and every entry must cover one: a source that vouches for nothing
//! is as suspect as a figure that nobody vouches for.

use std::fmt;

use serde::Serialize;
use tilewright_base::{Diagnostic, Span};

use crate::document::{DocumentEntry, RawValue};
use crate::nearest::nearest;

/// How far a source can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceKind {
    /// A paper by the machine's makers.
    Paper,
    /// The maker's documentation, and what can be read off its tables and figures.
    VendorDocumentation,
    /// Published work by others, standards included.
    Literature,
    /// Ours, because nothing is published.
    Assumption,
}

impl SourceKind {
    /// The words of a machine file.
    pub const NAMES: &'static [&'static str] = &["paper", "vendor documentation", "literature", "assumption"];

    fn parse(word: &str) -> Option<SourceKind> {
        match word {
            "paper" => Some(SourceKind::Paper),
            "vendor documentation" => Some(SourceKind::VendorDocumentation),
            "literature" => Some(SourceKind::Literature),
            "assumption" => Some(SourceKind::Assumption),
            _ => None,
        }
    }

    /// The word of a machine file.
    pub fn name(self) -> &'static str {
        match self {
            SourceKind::Paper => "paper",
            SourceKind::VendorDocumentation => "vendor documentation",
            SourceKind::Literature => "literature",
            SourceKind::Assumption => "assumption",
        }
    }
}

/// A source: its kind and the place in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Provenance {
    /// What kind of source.
    pub kind: SourceKind,
    /// Section, table, page or reason.
    pub place: String,
}

impl Provenance {
    /// Reads `"kind: place"`.
    pub(crate) fn read(text: &str, span: Span) -> Result<Provenance, Box<Diagnostic>> {
        let (word, place) = text.split_once(':').unwrap_or((text, ""));
        let (word, place) = (word.trim(), place.trim());
        let allowed = format!("\"kind: place\" with kind one of {}", SourceKind::NAMES.join(", "));
        let refuse = |message: String, instead: String| {
            let diagnostic =
                Diagnostic::error("machine/source-kind", message).at(span, "").allowed(allowed.as_str());
            Err(Box::new(diagnostic.instead(instead)))
        };
        let Some(kind) = SourceKind::parse(word) else {
            let near = nearest(word, SourceKind::NAMES.iter().copied());
            return refuse(format!("`{word}` is no kind of source"), format!("\"{near}: ...\""));
        };
        if place.is_empty() {
            let message = format!("a source of kind `{word}` names no place");
            return refuse(message, format!("\"{word}: section, table, page or reason\""));
        }
        Ok(Provenance { kind, place: place.to_owned() })
    }
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.name(), self.place)
    }
}

/// One entry of `[sources]`.
struct SourceEntry {
    prefix: String,
    span: Span,
    provenance: Provenance,
    used: bool,
}

/// The `[sources]` table of one file.
#[derive(Default)]
pub(crate) struct SourceTable {
    covers: Vec<SourceEntry>,
}

impl SourceTable {
    /// Reads the table; entries that cannot be read are reported and left out.
    pub(crate) fn read(entries: &[DocumentEntry], diagnostics: &mut Vec<Diagnostic>) -> SourceTable {
        let mut covers = SourceTable::default();
        for entry in entries {
            match &entry.value {
                RawValue::Text(text) => match Provenance::read(text, entry.value_span) {
                    Ok(provenance) => covers.covers.push(SourceEntry {
                        prefix: entry.key.clone(),
                        span: entry.key_span,
                        provenance,
                        used: false,
                    }),
                    Err(diagnostic) => diagnostics.push(*diagnostic),
                },
                other => diagnostics.push(not_text(entry, other)),
            }
        }
        covers
    }

    /// The source of a key, by the longest prefix.
    pub(crate) fn of(&mut self, path: &str) -> Option<Provenance> {
        let cover = self
            .covers
            .iter_mut()
            .filter(|cover| covers(&cover.prefix, path))
            .max_by_key(|cover| cover.prefix.len())?;
        cover.used = true;
        Some(cover.provenance.clone())
    }

    /// Entries that were never the longest prefix of anything.
    pub(crate) fn unused(&self) -> impl Iterator<Item = Diagnostic> {
        self.covers.iter().filter(|cover| !cover.used).map(|cover| {
            let message = format!("the source for `{}` covers no figure of this file", cover.prefix);
            Diagnostic::error("machine/source-unused", message)
                .at(cover.span, "")
                .allowed(
                    "a section, a key or the first words of a key that this file states, unless longer \
                          entries cover them all",
                )
                .instead("remove the entry, or write the prefix of a figure")
        })
    }
}

fn not_text(entry: &DocumentEntry, value: &RawValue) -> Diagnostic {
    let message = format!("the source for `{}` is {}", entry.key, value.describe());
    let diagnostic = Diagnostic::error("machine/source-kind", message)
        .at(entry.value_span, "")
        .allowed("a text \"kind: place\"");
    match value {
        RawValue::Table(inner) => {
            let key = inner.first().map_or("key", |inner| inner.key.as_str());
            diagnostic.instead(format!("quote the prefix: \"{}.{key}\" = \"kind: place\"", entry.key))
        }
        _ => diagnostic.instead(format!("\"{}\" = \"kind: place\"", entry.key)),
    }
}

/// A prefix ends where a word of the key ends; a bare section ends at its dot.
fn covers(prefix: &str, path: &str) -> bool {
    let Some(rest) = path.strip_prefix(prefix) else { return false };
    rest.is_empty() || rest.starts_with('.') || (prefix.contains('.') && rest.starts_with('_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_with_a_word() {
        assert!(covers("dm", "dm.banks"));
        assert!(covers("dm.bank", "dm.bank_access_bytes"));
        assert!(!covers("dm.bank", "dm.banks"));
        assert!(!covers("dm", "dm_network.hop"));
    }
}
