//! The rows of `bench/published.toml`: what others published, with its source, and how it is reproduced.

use serde::Deserialize;

/// The file, as it comes with the binary.
pub(super) const FILE: &str = include_str!("../../../../bench/published.toml");

/// One row.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Row {
    pub(super) chip: String,
    #[serde(default)]
    pub(super) also: Vec<String>,
    pub(super) group: String,
    pub(super) name: String,
    #[serde(default)]
    pub(super) what: String,
    pub(super) source: String,
    pub(super) published: f64,
    pub(super) unit: String,
    /// What reproduces it; read by whoever does.
    pub(super) how: toml::Value,
}

#[derive(Deserialize)]
struct Rows {
    #[serde(default)]
    row: Vec<Row>,
}

/// The rows of a file's text.
///
/// # Errors
/// A text that is no such file.
pub(super) fn read(text: &str) -> Result<Vec<Row>, String> {
    toml::from_str::<Rows>(text).map(|rows| rows.row).map_err(|error| error.to_string())
}

/// Chip and group of the paper's Table II.
const TABLE2: (&str, &str) = ("tcp", "Table II");

/// A published value of Table II; GPUs have their name before that of the row.
pub(super) fn published(name: &str) -> Option<f64> {
    let rows = read(FILE).unwrap_or_default();
    let is = |row: &&Row| (row.chip.as_str(), row.group.as_str()) == TABLE2 && row.name == name;
    rows.iter().find(is).map(|row| row.published)
}
