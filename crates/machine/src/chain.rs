//! A file and its bases: `base = "tcp"` names another machine, and so on to one with none.

use tilewright_base::{Diagnostic, SourceId, Sources, Span};

use crate::architecture::Architecture;
use crate::document::{Document, DocumentEntry, RawValue};
use crate::nearest::nearest;

/// Gives the text of a base by its name.
pub type BaseTexts<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Longest chain of bases that is followed.
const MAX_BASES: usize = 16;

/// One file with what stands at its top.
pub(crate) struct MachineLayer {
    pub(crate) document: Document,
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) architecture: Option<(Architecture, Span)>,
}

/// The layers from the file itself to the root base; none if one of them cannot be read.
pub(crate) fn read(
    sources: &mut Sources,
    id: SourceId,
    bases: BaseTexts<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Vec<MachineLayer>> {
    let mut layers: Vec<MachineLayer> = Vec::new();
    let mut asked: Vec<(String, Span)> = Vec::new();
    let mut next = Some(id);
    while let Some(id) = next {
        let document = Document::read(sources, id, diagnostics)?;
        let base = text(&document, "base", false, diagnostics);
        next = match base {
            Some((base, span)) => Some(follow(sources, (base, span), &mut asked, bases, diagnostics)?),
            None => None,
        };
        layers.push(layer(document, diagnostics));
    }
    Some(layers)
}

/// The id of a base's text, unless the base is unknown or was already asked for.
fn follow(
    sources: &mut Sources,
    (base, span): (String, Span),
    asked: &mut Vec<(String, Span)>,
    bases: BaseTexts<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<SourceId> {
    if let Some((_, first)) = asked.iter().find(|(name, _)| *name == base) {
        let mut names: Vec<&str> = asked.iter().map(|(name, _)| name.as_str()).collect();
        names.push(&base);
        diagnostics.push(
            Diagnostic::error("machine/base-cycle", format!("bases go round: {}", names.join(" -> ")))
                .at(span, "asked for again here")
                .also(*first, "asked for first here")
                .allowed("a chain of bases that ends in a machine without one")
                .instead("state the figures in one of them and remove its base"),
        );
        return None;
    }
    let found = if asked.len() < MAX_BASES { bases(&base) } else { None };
    let Some(text) = found else {
        let known = crate::builtin::builtin_names();
        diagnostics.push(
            Diagnostic::error("machine/unknown-base", format!("there is no machine `{base}` to start from"))
                .at(span, "")
                .allowed(format!("{}, at most {MAX_BASES} deep", known.join(", ")))
                .instead(format!("base = \"{}\"", nearest(&base, known.iter().copied()))),
        );
        return None;
    };
    let id = sources.add(format!("{base}.toml"), text);
    asked.push((base, span));
    Some(id)
}

fn layer(document: Document, diagnostics: &mut Vec<Diagnostic>) -> MachineLayer {
    let mut required = |key| text(&document, key, true, diagnostics).map_or(String::new(), |(text, _)| text);
    let (name, description) = (required("name"), required("description"));
    let architecture = architecture(&document, diagnostics);
    MachineLayer { document, name, description, architecture }
}

fn architecture(document: &Document, diagnostics: &mut Vec<Diagnostic>) -> Option<(Architecture, Span)> {
    let has_base = document.entry("base").is_some();
    let (word, span) = text(document, "architecture", !has_base, diagnostics)?;
    if has_base {
        diagnostics.push(
            Diagnostic::error("machine/architecture", "a variant has the architecture of its base")
                .at(span, "")
                .allowed("`architecture` in a machine without a base")
                .instead("remove the line"),
        );
        return None;
    }
    let architecture = Architecture::parse(&word);
    if architecture.is_none() {
        diagnostics.push(
            Diagnostic::error("machine/architecture", format!("there is no architecture `{word}`"))
                .at(span, "")
                .allowed(Architecture::NAMES.join(", "))
                .instead(format!(
                    "architecture = \"{}\"",
                    nearest(&word, Architecture::NAMES.iter().copied())
                )),
        );
    }
    architecture.map(|architecture| (architecture, span))
}

/// A text at the top of the file.
fn text(
    document: &Document,
    key: &str,
    required: bool,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<(String, Span)> {
    match document.entry(key) {
        Some(DocumentEntry { value: RawValue::Text(text), value_span, .. }) if !text.trim().is_empty() => {
            return Some((text.clone(), *value_span));
        }
        Some(entry) => diagnostics.push(
            Diagnostic::error("machine/type", format!("`{key}` is {}", entry.value.describe()))
                .at(entry.value_span, "")
                .allowed("a text that is not empty")
                .instead(format!("{key} = \"...\"")),
        ),
        None if required => diagnostics.push(
            Diagnostic::error("machine/missing-key", format!("`{key}` is missing"))
                .at(document.start(), "")
                .allowed("a text at the top of the file")
                .instead(format!("{key} = \"...\"")),
        ),
        None => {}
    }
    None
}
