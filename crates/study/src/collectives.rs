//! Published collectives beside ours: the rows of `bench/published_collectives.toml`, what the model of
//! rings, meshes and switches gives for them, and their part of the page of accuracy.

use std::fmt::Write as _;

use serde::Deserialize;
use tilewright_base::Sources;
use tilewright_base::invariant::OrBroken;
use tilewright_machine::neuron::instances;
use tilewright_machine::{builtin, load};
use tilewright_neuron_isa::Chip;
use tilewright_neuron_isa::cost::collective::{CollectiveKind, CollectiveRequest, collective_cost};
use tilewright_neuron_isa::network::Network;

use crate::accuracy::{digits, rounded, summary_cells};
use crate::kinds::{RowKind, by_kind};

/// The file, as it comes with the binary.
pub const FILE: &str = include_str!("../../../bench/published_collectives.toml");

/// A published time of a collective.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CollectiveRow {
    /// Its name where rows are listed.
    pub name: String,
    /// What it was used for.
    pub kind: RowKind,
    /// Figures of the machine that were chosen with it in view.
    #[serde(default)]
    pub calibrates: Vec<String>,
    /// Which collective.
    pub collective: String,
    /// Ranks that take part.
    pub ranks: u32,
    /// Bytes that all contribute to.
    pub bytes: u64,
    /// Microseconds that were published.
    pub published: f64,
    /// Where it is taken to have run.
    pub instance: String,
    /// Cores of a rank.
    pub cores: u64,
    /// The type of the data, and which of several streams.
    pub what: String,
}

#[derive(Deserialize)]
struct CollectiveRows {
    #[serde(default)]
    row: Vec<CollectiveRow>,
}

/// The rows of a file's text.
///
/// # Errors
/// A text that is no such file.
pub fn read(text: &str) -> Result<Vec<CollectiveRow>, toml::de::Error> {
    toml::from_str::<CollectiveRows>(text).map(|rows| rows.row)
}

/// Microseconds that the model gives for a row; none if its instance or collective is not known, or has no
/// room for its ranks.
pub fn ours(row: &CollectiveRow) -> Option<f64> {
    let instance = instances().iter().find(|instance| instance.name == row.instance)?;
    let mut sources = Sources::default();
    let id = sources.add(instance.chip.as_str(), builtin(&instance.chip)?);
    let loaded = load(&mut sources, id, &|name: &str| builtin(name).map(str::to_string)).ok()?;
    let chip = Chip::new(&instance.chip, loaded.machine.neuron()?.clone());
    let network = Network::new(&chip, Some(&row.instance), u64::from(row.ranks), row.cores).ok()?;
    let request = CollectiveRequest {
        kind: CollectiveKind::from_name(&row.collective)?,
        ranks: (0..row.ranks).collect(),
        pairs: Vec::new(),
        bytes: row.bytes,
    };
    let cost = collective_cost(&chip, &network, request).cost;
    Some((cost.busy_ps as f64 + cost.latency_ps as f64) * 1e-6)
}

/// A size in the unit that leaves it short.
fn size(bytes: u64) -> String {
    match bytes {
        _ if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} B"),
    }
}

/// Where rows ran: the collective, how many ranks, the instance.
fn run(row: &CollectiveRow) -> String {
    format!("{} of {} ranks on {}", row.collective, row.ranks, row.instance)
}

/// A row and what the model gives for it, as it is printed.
type ShownRow<'r> = (&'r CollectiveRow, Option<f64>);

/// The part of the page: errors of each run by kind, then every row, by size.
pub(crate) fn section() -> String {
    let rows = read(FILE).or_broken("the published collectives that come with the binary are valid");
    let mut runs: Vec<(String, Vec<ShownRow<'_>>)> = Vec::new();
    for row in &rows {
        let shown = (row, ours(row).map(rounded));
        match runs.iter_mut().find(|(name, _)| *name == run(row)) {
            Some((_, found)) => found.push(shown),
            None => runs.push((run(row), vec![shown])),
        }
    }
    let error = |(row, ours): &ShownRow<'_>| ours.map(|ours| ours / row.published - 1.0);
    let (mut summary, mut tables) = (String::new(), String::new());
    for (name, found) in &mut runs {
        found.sort_by_key(|(row, _)| row.bytes);
        let errors: Vec<(RowKind, &str, Option<f64>)> =
            found.iter().map(|one| (one.0.kind, one.0.name.as_str(), error(one))).collect();
        for kind in by_kind(&errors).iter().filter(|kind| kind.rows > 0) {
            let _ = writeln!(summary, "| {name} | {} | {} |", kind.kind.name(), summary_cells(kind));
        }
        let _ = write!(tables, "\n### {name}\n\n{ROW_HEAD}");
        for one in found.iter() {
            let (row, ours) = one;
            let _ = writeln!(
                tables,
                "| {}, {}, {} | {} | {} us | {} | {} |",
                row.name,
                size(row.bytes),
                row.what,
                row.kind.name(),
                digits(row.published),
                ours.map_or("-".to_string(), |ours| format!("{} us", digits(ours))),
                error(one).map_or("-".to_string(), |error| format!("{:+.1} %", error * 100.0)),
            );
        }
    }
    format!("{HEAD}{summary}{tables}")
}

const HEAD: &str = "
## Collectives

From `bench/published_collectives.toml`. The documentation of `nccom-test` that shows these runs does not \
say where they ran: instances are
assumed. Figures of collectives were chosen with all of them in view but those of 64 ranks: what is left of \
the former is what the figures cannot fit,
and the latter are missed, since nothing documented explains 100 us for a message of any size.

| run | kind | rows | median error | 90th percentile | worst |
|---|---|---|---|---|---|
";

const ROW_HEAD: &str = "\
| row, size, data | kind | published | ours | error |
|---|---|---|---|---|
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_time_and_stands_in_its_run() {
        let rows = read(FILE).expect("the rows are valid");
        assert!(rows.iter().all(|row| ours(row).is_some_and(|ours| ours > 0.0)));
        let text = section();
        for row in &rows {
            assert!(text.contains(&format!("\n### {}\n", run(row))), "{}", row.name);
            assert!(text.contains(&format!("\n| {}, {}, ", row.name, size(row.bytes))), "{}", row.name);
        }
        let twice = [size(32), size(1025), size(1 << 14), size(1 << 25)];
        assert_eq!(twice, ["32 B", "1025 B", "16 KiB", "32 MiB"]);
    }

    #[test]
    fn rows_that_no_instance_runs_have_no_time() {
        let mut row = read(FILE).expect("the rows are valid").remove(0);
        assert!(ours(&CollectiveRow { ranks: 1 << 20, ..row.clone() }).is_none());
        assert!(ours(&CollectiveRow { collective: "shuffle".to_string(), ..row.clone() }).is_none());
        row.instance = "nowhere".to_string();
        assert!(ours(&row).is_none());
    }
}
