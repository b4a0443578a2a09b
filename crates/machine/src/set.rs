//! Changes from the command line: `--set dm.capacity_bytes=1048576`.
//!
//! A setting goes through the same checks as a line of a file, and its source is an assumption.

use std::collections::BTreeSet;
use std::ops::Range;

use tilewright_base::diagnostic::any_error;
use tilewright_base::{Diagnostic, Sources, Span};

use crate::check;
use crate::document::raw_value;
use crate::keys::{KeySpec, SectionSpec};
use crate::load::{LoadedMachine, build};
use crate::nearest::near;
use crate::provenance::{Provenance, SourceKind};
use crate::resolve::ResolvedFigure;

/// What a setting is called where a machine's name would stand.
const SET: &str = "--set";

impl LoadedMachine {
    /// The machine with `section.key=value` settings; the section may be left out where the key is in one
    /// section only, or stand behind the key as in `slices_per_pe`. Each setting becomes a source text, so
    /// that complaints can point at it.
    ///
    /// # Errors
    /// Every complaint about the settings.
    pub fn override_with(
        &self,
        sources: &mut Sources,
        settings: &[&str],
    ) -> Result<LoadedMachine, Vec<Diagnostic>> {
        let mut diagnostics = Vec::new();
        let mut loaded = self.clone();
        let mut set = BTreeSet::new();
        for setting in settings {
            let id = sources.add(SET, *setting);
            let place = |range| sources.span(id, range);
            match self.setting(setting, &place) {
                Ok((path, figure)) => {
                    if !set.insert(path.clone()) {
                        let what = format!("`{path}` is set twice");
                        let span = place(0..setting.len());
                        let twice = Diagnostic::error("machine/set", what).at(span, "second time");
                        diagnostics.push(
                            twice.allowed("one setting of each figure").instead("delete one of the two"),
                        );
                    }
                    loaded.figures.by_path.insert(path, figure);
                }
                Err(diagnostic) => diagnostics.push(*diagnostic),
            }
        }
        let machine = build(self.machine.architecture(), &loaded.figures, &mut diagnostics);
        match machine {
            Some(machine) if !any_error(&diagnostics) => Ok(LoadedMachine { machine, ..loaded }),
            _ => Err(diagnostics),
        }
    }

    fn setting(
        &self,
        setting: &str,
        place: &dyn Fn(Range<usize>) -> Span,
    ) -> Result<(String, ResolvedFigure), Box<Diagnostic>> {
        let Some((left, right)) = setting.split_once('=') else {
            let diagnostic = Diagnostic::error("machine/set", format!("`{setting}` sets nothing"))
                .at(place(0..setting.len()), "")
                .allowed("section.key=value")
                .instead("dm.capacity_bytes=1048576");
            return Err(Box::new(diagnostic));
        };
        let (section, key) =
            self.find(left.trim()).map_err(|diagnostic| Box::new(diagnostic.at(place(0..left.len()), "")))?;
        let path = format!("{}.{}", section.name, key.name);
        let span = place(left.len() + 1..setting.len());
        let value = check::value(&path, key, &raw_value(right.trim()), span)?;
        let provenance = Provenance { kind: SourceKind::Assumption, place: SET.to_owned() };
        let stated_by = SET.to_owned();
        Ok((path, ResolvedFigure { value, provenance, stated_by, span, fitted_to: Vec::new(), band: None }))
    }

    /// The key of that path, or of that name if one section has it; `slices_per_pe` is `pe.slices`.
    fn find(&self, given: &str) -> Result<KeyPair, Box<Diagnostic>> {
        let keys = |section: &'static SectionSpec| section.keys.iter().map(move |key| (section, key));
        let all: Vec<_> = self.machine.architecture().sections().iter().flat_map(keys).collect();
        let per = |(section, key): &KeyPair| format!("{}_per_{}", key.name, section.name);
        let named = |pair: &&KeyPair| pair.1.name == given || path_of(pair) == given || per(pair) == given;
        let found: Vec<_> = all.iter().filter(named).copied().collect();
        match found.as_slice() {
            [one] => Ok(*one),
            [] => Err(Box::new(unknown(given, &self.name, &all))),
            several => Err(Box::new(ambiguous(given, several))),
        }
    }
}

type KeyPair = (&'static SectionSpec, &'static KeySpec);

fn path_of((section, key): &KeyPair) -> String {
    format!("{}.{}", section.name, key.name)
}

fn unknown(given: &str, machine: &str, all: &[KeyPair]) -> Diagnostic {
    let paths: Vec<String> = all.iter().map(path_of).collect();
    let bare = all.iter().map(|(_, key)| key.name);
    let dotted = paths.iter().map(String::as_str);
    let close = if given.contains('.') { near(given, dotted) } else { near(given, bare) };
    Diagnostic::error("machine/unknown-key", format!("`{given}` is no key of {machine}"))
        .allowed("section.key as `machine show` lists them")
        .instead(close.unwrap_or("`machine show`, for all keys"))
}

fn ambiguous(given: &str, found: &[KeyPair]) -> Diagnostic {
    let paths: Vec<String> = found.iter().map(path_of).collect();
    Diagnostic::error("machine/ambiguous-key", format!("`{given}` is in {} sections", found.len()))
        .allowed(paths.join(", "))
        .instead(paths.first().cloned().unwrap_or_default())
}
