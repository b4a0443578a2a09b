//! The rows of `bench/published.toml`: what others published, with its source, and how it is reproduced.

use serde::Deserialize;
use tilewright_base::invariant::OrBroken;

use crate::kinds::RowKind;

/// The file, as it comes with the binary.
pub const FILE: &str = include_str!("../../../bench/published.toml");

/// A published figure and how it is reproduced.
#[derive(Clone, Debug, Deserialize)]
pub struct PublishedRow {
    /// The chip that it was measured on.
    pub chip: String,
    /// Other chips that it holds of.
    #[serde(default)]
    pub also: Vec<String>,
    /// The table or figure that it is from.
    pub group: String,
    /// Its name there.
    pub name: String,
    /// What was measured.
    #[serde(default)]
    pub what: String,
    /// Where it was published.
    pub source: String,
    /// The published value.
    pub published: f64,
    /// Its unit.
    pub unit: String,
    /// What it was used for.
    pub kind: RowKind,
    /// Figures of the machine that were fitted to it or derived from it, as `section.key`.
    #[serde(default)]
    pub calibrates: Vec<String>,
    /// Whether it is the ceiling of a regression test, a few percent above what was measured.
    #[serde(default)]
    pub ceiling: bool,
    /// Why ours misses it, as far as is known.
    pub why: Option<String>,
    /// What reproduces it; read by whoever does.
    pub how: toml::Value,
}

impl PublishedRow {
    /// Chip, group and name: what a row is called in machine files, and what is hashed.
    pub fn id(&self) -> String {
        format!("{}/{}/{}", self.chip, self.group, self.name)
    }
}

#[derive(Deserialize)]
struct PublishedRows {
    #[serde(default)]
    row: Vec<PublishedRow>,
}

/// The rows of a file's text.
///
/// # Errors
/// A text that is no such file.
pub fn read(text: &str) -> Result<Vec<PublishedRow>, toml::de::Error> {
    toml::from_str::<PublishedRows>(text).map(|rows| rows.row)
}

/// The rows of a chip, of one group or of all.
pub fn of_chip<'r>(rows: &'r [PublishedRow], chip: &str, group: Option<&str>) -> Vec<&'r PublishedRow> {
    let is_its = |row: &&PublishedRow| row.chip == chip || row.also.iter().any(|also| also == chip);
    let in_group = |row: &&PublishedRow| group.is_none_or(|group| group == row.group);
    rows.iter().filter(is_its).filter(in_group).collect()
}

/// Chip and group of the paper's Table II.
const TABLE2: (&str, &str) = ("tcp", "Table II");

/// A published value of Table II; GPUs have their name before that of the row.
pub(crate) fn published(name: &str) -> Option<f64> {
    table2(name).map(|row| row.published)
}

/// What a row of Table II was used for.
pub(crate) fn kind(name: &str) -> Option<RowKind> {
    table2(name).map(|row| row.kind)
}

fn table2(name: &str) -> Option<PublishedRow> {
    let rows = read(FILE).or_broken("the published rows that come with the binary are valid");
    let is = |row: &&PublishedRow| (row.chip.as_str(), row.group.as_str()) == TABLE2 && row.name == name;
    rows.iter().find(is).cloned()
}
