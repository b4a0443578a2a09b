//! `tilewright study accuracy`: runs every published row of every chip and writes the page of accuracy.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tilewright_base::invariant::OrBroken;
use tilewright_study::accuracy::{AccuracyValues, OursOfRow, page as render, summary_cells};
use tilewright_study::bands::BandScope;
use tilewright_study::kinds::RowKind;
use tilewright_study::{Study, rows};

use super::args::{AccuracyArgs, PublishedArgs};
use super::{TCP, compare_tcp, neuron_rows};
use crate::{Host, Outcome};

/// Chips whose rows run in the Python package.
const NEURON_CHIPS: [&str; 2] = ["trainium1", "trainium2"];

/// Makes the page.
pub(crate) fn page(args: &AccuracyArgs, host: &mut dyn Host) -> Result<Outcome, Outcome> {
    let all = rows::read(rows::FILE)
        .map_err(|why| Outcome::usage(&format!("the published rows that come with the binary: {why}")))?;
    let mut values = AccuracyValues::default();
    tcp(&rows::of_chip(&all, TCP, None), &mut values, host)?;
    for chip in NEURON_CHIPS {
        neuron(chip, &mut values, host)?;
    }
    let text = render(&all, &values);
    match &args.out {
        None => Ok(Outcome::good(text)),
        Some(path) => {
            host.write(Path::new(path), text.as_bytes()).map_err(|error| Outcome::unwritten(path, &error))?;
            Ok(Outcome::good(format!("{path}\n")))
        }
    }
}

/// Rows of the TCP: those of the study with their range.
fn tcp(
    rows: &[&rows::PublishedRow],
    values: &mut AccuracyValues,
    host: &mut dyn Host,
) -> Result<(), Outcome> {
    let (compared, study) = compare_tcp(rows, BandScope::Table2, host)?;
    for (row, published) in compared.rows.iter().zip(rows) {
        let named = published.how.get("study").and_then(toml::Value::as_str);
        let is_plain = ["over", "under", "below"].iter().all(|word| published.how.get(word).is_none());
        let range = named.filter(|_| is_plain).and_then(|name| range(study.as_ref()?, name));
        values.rows.insert(published.id(), OursOfRow { ours: row.ours, range });
    }
    let held_out = compared.errors.iter().find(|errors| errors.kind == RowKind::HeldOut);
    values.held_out.extend(held_out.map(|errors| (TCP.to_string(), summary_cells(errors))));
    Ok(())
}

/// A row of Table II over the band of HBM's efficiency, with the scales that the study has.
fn range(study: &Study, name: &str) -> Option<[f64; 2]> {
    let bands = &study.bands.as_ref()?.table2;
    let band = bands.iter().find(|band| band.row == name && Some(band.scales) == study.scales)?;
    let [low, _, high] = band.ours;
    Some([low.min(high), low.max(high)])
}

/// Rows of a Neuron chip, as the Python package writes them.
fn neuron(chip: &str, values: &mut AccuracyValues, host: &mut dyn Host) -> Result<(), Outcome> {
    let unwritten = |error: &std::io::Error| Outcome::unwritten("the folder for results", error);
    let folder = host.scratch_folder("accuracy").map_err(|error| unwritten(&error))?;
    let file: PathBuf = folder.join(format!("{chip}.json"));
    let args = PublishedArgs { chip: chip.to_string(), group: None, rows: None, kernels: None, json: true };
    let outcome = neuron_rows(&args, Some(&file), host);
    if outcome.code != 0 {
        return Err(outcome);
    }
    let unread = |why: String| Outcome::usage(&format!("what python3 wrote of {chip} cannot be read: {why}"));
    let bytes = host.read(&file).map_err(|error| unread(error.to_string()))?;
    let found: Value = serde_json::from_slice(&bytes).map_err(|error| unread(error.to_string()))?;
    let list = |name: &str| found.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    for row in list("rows") {
        let text = |name: &str| row.get(name).and_then(Value::as_str).unwrap_or_default().to_string();
        let ours = row.get("ours").and_then(Value::as_f64);
        let id = format!("{chip}/{}/{}", text("group"), text("name"));
        values.rows.insert(id, OursOfRow { ours, range: None });
    }
    let part = |errors: &Value, name: &str| {
        let value = errors.get(name).and_then(Value::as_f64);
        value.map_or("-".to_string(), |value| format!("{:.1} %", value * 100.0))
    };
    for errors in list("errors").iter().filter(|errors| errors["kind"] == "held-out") {
        let parts = ["median", "percentile_90", "worst"].map(|name| part(errors, name));
        let count = errors.get("rows").and_then(Value::as_u64).or_broken("errors say of how many rows");
        values.held_out.insert(chip.to_string(), format!("{count} | {}", parts.join(" | ")));
    }
    Ok(())
}
