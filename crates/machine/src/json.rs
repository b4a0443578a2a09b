//! A machine as data, with the same content as the printed text.

use serde::Serialize;

use crate::architecture::Architecture;
use crate::load::{KeyValue, LoadedMachine};
use crate::published::Comparison;

/// A machine as it appears in `--json` output.
#[derive(Debug, Serialize)]
pub struct JsonMachine<'a> {
    name: &'a str,
    description: &'a str,
    architecture: Architecture,
    bases: &'a [String],
    derived: Vec<Comparison>,
    figures: Vec<KeyValue>,
    assumptions: Vec<String>,
}

/// Turns a machine into serialisable data.
pub fn json(loaded: &LoadedMachine) -> JsonMachine<'_> {
    JsonMachine {
        name: &loaded.name,
        description: &loaded.description,
        architecture: loaded.machine.architecture(),
        bases: &loaded.bases,
        derived: loaded.comparisons(),
        figures: loaded.key_values(),
        assumptions: loaded.assumptions().iter().map(|a| format!("{}.{}", a.section, a.key)).collect(),
    }
}
