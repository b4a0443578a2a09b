//! A machine file, read, resolved and checked; all complaints at once.

use serde::Serialize;
use tilewright_base::diagnostic::any_error;
use tilewright_base::{Diagnostic, SourceId, Sources};

use crate::architecture::{Architecture, Machine};
use crate::chain::{self, BaseTexts, MachineLayer};
use crate::provenance::{Provenance, SourceKind};
use crate::published::{self, Comparison, Published};
use crate::remarks::Band;
use crate::resolve::Figures;
use crate::value::Value;

/// A machine with everything that its files say about it.
#[derive(Clone, Debug)]
pub struct LoadedMachine {
    /// Its name.
    pub name: String,
    /// What it is, in a sentence.
    pub description: String,
    /// Names of its bases, nearest first.
    pub bases: Vec<String>,
    /// Its figures.
    pub machine: Machine,
    /// What others have published about it.
    pub published: Vec<Published>,
    /// What is legal but odd.
    pub warnings: Vec<Diagnostic>,
    pub(crate) figures: Figures,
}

/// One figure of the resolved machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeyValue {
    /// The section that it is in.
    pub section: &'static str,
    /// Its key.
    pub key: &'static str,
    /// Its value.
    pub value: Value,
    /// Its unit; empty for counts.
    pub unit: &'static str,
    /// Where it comes from.
    pub source: Provenance,
    /// The machine that states it, a base or the machine itself, or `--set`.
    pub stated_by: String,
    /// What it is, in a sentence.
    pub doc: &'static str,
    /// Published rows, `chip/group/name`, that it was fitted to or derived from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fitted_to: Vec<String>,
    /// What it may be taken to be, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub band: Option<Band>,
}

/// Reads the machine file `id`; `bases` gives the text of a base by its name.
///
/// # Errors
/// Every complaint about the file and its bases, warnings among them, if any of them refuses it.
pub fn load(
    sources: &mut Sources,
    id: SourceId,
    bases: BaseTexts<'_>,
) -> Result<LoadedMachine, Vec<Diagnostic>> {
    let mut diagnostics = Vec::new();
    let loaded = chain::read(sources, id, bases, &mut diagnostics)
        .and_then(|layers| resolve(&layers, &mut diagnostics));
    match loaded {
        Some(loaded) if !any_error(&diagnostics) => Ok(LoadedMachine { warnings: diagnostics, ..loaded }),
        _ => Err(diagnostics),
    }
}

/// Lays the layers over each other, the root base first.
fn resolve(layers: &[MachineLayer], diagnostics: &mut Vec<Diagnostic>) -> Option<LoadedMachine> {
    let (own, root) = (layers.first()?, layers.last()?);
    let (architecture, _) = root.architecture?;
    let mut figures = Figures::default();
    for layer in layers.iter().rev() {
        figures.lay(&layer.document, &layer.name, architecture, diagnostics);
    }
    diagnostics.extend(figures.missing(&root.document, architecture));
    let published = published::read(&own.document, architecture, diagnostics);
    let machine = build(architecture, &figures, diagnostics)?;
    if !any_error(diagnostics) {
        diagnostics.extend(published::unexplained(&machine, &published));
    }
    Some(LoadedMachine {
        name: own.name.clone(),
        description: own.description.clone(),
        bases: layers[1..].iter().map(|layer| layer.name.clone()).collect(),
        machine,
        published,
        warnings: Vec::new(),
        figures,
    })
}

/// Builds the machine and checks figures against each other.
pub(crate) fn build(
    architecture: Architecture,
    figures: &Figures,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Machine> {
    let machine = architecture.build(figures)?;
    for conflict in machine.conflicts() {
        let diagnostic = Diagnostic::error("machine/conflict", conflict.message).allowed(conflict.allowed);
        diagnostics.push(match figures.by_path.get(conflict.path) {
            Some(figure) => diagnostic.at(figure.span, ""),
            None => diagnostic,
        });
    }
    Some(machine)
}

impl LoadedMachine {
    /// Every figure in the order of the sections.
    pub fn key_values(&self) -> Vec<KeyValue> {
        let mut values = Vec::new();
        for section in self.machine.architecture().sections() {
            for key in section.keys {
                let Some(figure) = self.figures.get(section.name, key.name) else { continue };
                values.push(KeyValue {
                    section: section.name,
                    key: key.name,
                    value: figure.value.clone(),
                    unit: key.unit(),
                    source: figure.provenance.clone(),
                    stated_by: figure.stated_by.clone(),
                    doc: key.doc.trim(),
                    fitted_to: figure.fitted_to.clone(),
                    band: figure.band.clone(),
                });
            }
        }
        values
    }

    /// Every derived quantity beside what is published about it.
    pub fn comparisons(&self) -> Vec<Comparison> {
        published::compare(&self.machine, &self.published)
    }

    /// The figures that are assumptions: what every result on this machine rests on.
    pub fn assumptions(&self) -> Vec<KeyValue> {
        self.key_values().into_iter().filter(|figure| figure.source.kind == SourceKind::Assumption).collect()
    }
}
