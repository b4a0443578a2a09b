//! `tilewright study published --chip tcp`: published figures of the TCP, ours beside each that the model can express.
//!
//! A row says what reproduces it: a row of the study (simulated programs), a tactic (the notation's rules), a derived or stated figure of
//! the machine file, a closed form of an engine, or why nothing does.

use serde::{Deserialize, Serialize};
use tilewright_base::SourceId;
use tilewright_machine::{Loaded, Tcp};
use tilewright_notation::problem::Problem;
use tilewright_notation::syntax::parser;
use tilewright_num::Dtype;
use tilewright_report::columns::{Align, table};
use tilewright_tcp_cost::Setup;

use super::closed::{self, Fetched, Moved, Stages, Switched, Turned};
use super::rows::Row;
use super::sizes::size;

/// What reproduces a row.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct How {
    cannot: Option<String>,
    /// A row of Table II, as it is, over another's figure, another's over it, or the part by which it is below it.
    study: Option<String>,
    over: Option<f64>,
    under: Option<f64>,
    below: Option<f64>,
    /// A derived figure of the machine, or a stated one, so many times.
    derived: Option<String>,
    figure: Option<String>,
    times: Option<f64>,
    /// An einsum with its tactic, and what of it is measured.
    tactic: Option<String>,
    measure: Option<String>,
    fetch: Option<Fetched>,
    waste: Option<u64>,
    switch: Option<Switched>,
    transpose: Option<Turned>,
    dma: Option<Moved>,
    command: Option<Stages>,
}

/// A row with ours, or with the reason why there is none. The same form as rows of Neuron chips have.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Compared {
    chip: String,
    group: String,
    name: String,
    published: f64,
    unit: String,
    source: String,
    what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    cannot: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ours: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<f64>,
    /// Where ours comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'static str>,
}

/// All rows of a chip.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Comparison {
    chip: String,
    rows: Vec<Compared>,
}

/// What rows are compared with.
pub(super) struct Ours<'o> {
    pub(super) loaded: &'o Loaded,
    pub(super) machine: &'o Tcp,
    /// Our value of a row of Table II; asked only if a row needs it.
    pub(super) table2: &'o mut dyn FnMut(&str) -> Result<Option<f64>, String>,
}

/// Compares rows.
///
/// # Errors
/// A row that says nothing that can be done.
pub(super) fn compare(chip: &str, rows: &[&Row], ours: &mut Ours<'_>) -> Result<Comparison, String> {
    let mut compared = Vec::new();
    for row in rows {
        let how: How = row.how.clone().try_into().map_err(|error| format!("row `{}`: {error}", row.name))?;
        let (value, by) = match &how.cannot {
            Some(_) => (None, None),
            None => {
                let (value, by) = value(&how, ours).map_err(|why| format!("row `{}`: {why}", row.name))?;
                (Some(value), Some(by))
            }
        };
        compared.push(Compared {
            chip: chip.to_string(),
            group: row.group.clone(),
            name: row.name.clone(),
            published: row.published,
            unit: row.unit.clone(),
            source: row.source.clone(),
            what: row.what.clone(),
            cannot: how.cannot,
            ours: value,
            error: value.map(|value| value / row.published - 1.0),
            by,
        });
    }
    Ok(Comparison { chip: chip.to_string(), rows: compared })
}

/// Our value, and where it comes from.
fn value(how: &How, ours: &mut Ours<'_>) -> Result<(f64, &'static str), String> {
    const CLOSED: &str = "closed form of an engine";
    let machine = ours.machine;
    let known = |cycles: Option<u64>| cycles.map(size).ok_or("no engine knows such a stage".to_string());
    if let Some(row) = &how.study {
        let value = (ours.table2)(row)?.ok_or(format!("the study has no row `{row}`"))?;
        let value = match (how.over, how.under, how.below) {
            (Some(other), ..) => value / other,
            (_, Some(other), _) => other / value,
            (.., Some(other)) => (1.0 - value / other) * 100.0,
            _ => value,
        };
        return Ok((value, "simulated programs"));
    }
    if let Some(name) = &how.derived {
        let found = ours.loaded.comparisons().into_iter().find(|found| found.derived.name == name.as_str());
        let value = found.ok_or(format!("no derived figure is called `{name}`"))?.derived.value;
        return Ok((value * how.times.unwrap_or(1.0), "derived from the machine file"));
    }
    if let Some(name) = &how.figure {
        let is = |section: &str, key: &str| name.split_once('.') == Some((section, key));
        let found = ours.loaded.key_values().into_iter().find(|found| is(found.section, found.key));
        let text = found.ok_or(format!("no figure is called `{name}`"))?.value.to_string();
        let value: f64 =
            text.replace([',', '_'], "").parse().map_err(|_| format!("`{name}` is no number"))?;
        return Ok((value * how.times.unwrap_or(1.0), "stated by the machine file"));
    }
    if let Some(text) = &how.tactic {
        let measure = how.measure.as_deref().unwrap_or("reuse");
        return Ok((tactic(machine, text, measure)?, "rules of the notation"));
    }
    let value = match how {
        How { fetch: Some(fetch), .. } => size(closed::fetched(machine, fetch)),
        How { waste: Some(bytes), .. } => closed::wasted(machine, *bytes) * 100.0,
        How { switch: Some(switch), .. } => known(closed::switched(switch))?,
        How { transpose: Some(tiles), .. } => size(closed::turned(machine, tiles)),
        How { dma: Some(transfer), .. } => known(closed::moved(machine, transfer))?,
        How { command: Some(stages), .. } => known(closed::command(machine, stages))?,
        _ => return Err("it says neither what reproduces it nor why nothing does".to_string()),
    };
    Ok((value, CLOSED))
}

/// What a tactic gives.
fn tactic(machine: &Tcp, text: &str, measure: &str) -> Result<f64, String> {
    let wrong = || "its tactic is not legal".to_string();
    let setup = Setup::new(machine, 1, Dtype::I8).map_err(|_| wrong())?;
    let program = parser::program(text, SourceId(0)).map_err(|error| error.message.clone())?;
    let problem = Problem::new(&program).map_err(|_| wrong())?;
    let verdict = tilewright_tcp_cost::check(&setup, &problem);
    let (Some(reuse), Some(placed)) = (&verdict.reuse, &verdict.placed) else { return Err(wrong()) };
    match measure {
        "reuse" => Ok(size(reuse.count())),
        "use" => Ok(placed.multiplier_use(&setup, &problem) * 100.0),
        other => Err(format!("`{other}` is no measure of a tactic")),
    }
}

/// Relative errors beyond this are marked.
const LARGE: f64 = 0.25;

/// As text.
pub(super) fn text(comparison: &Comparison) -> String {
    let head = ["row", "published", "unit", "ours", "error", "", "by, or why not"];
    let mut rows = vec![head.map(str::to_string).to_vec()];
    let number = |value: f64| {
        let text = format!("{value:.2}");
        text.trim_end_matches('0').trim_end_matches('.').to_string()
    };
    for row in &comparison.rows {
        let large = row.error.is_some_and(|error| error.abs() > LARGE);
        let why = row.cannot.as_ref().map(|why| format!("not expressible: {why}"));
        rows.push(vec![
            row.name.clone(),
            number(row.published),
            row.unit.clone(),
            row.ours.map_or("-".to_string(), number),
            row.error.map_or("-".to_string(), |error| format!("{:+.1} %", error * 100.0)),
            if large { "!" } else { "" }.to_string(),
            why.or(row.by.map(str::to_string)).unwrap_or_default(),
        ]);
    }
    use Align::{Left, Right};
    let mut errors: Vec<f64> = comparison.rows.iter().filter_map(|row| row.error.map(f64::abs)).collect();
    errors.sort_by(f64::total_cmp);
    let median = errors.get(errors.len() / 2).copied().unwrap_or(0.0);
    format!(
        "{}{} rows have ours, {} do not; median error {:.1} %, {} over {:.0} %, largest {:.1} %\n",
        table(&[Left, Right, Left, Right, Right, Left, Left], &rows),
        errors.len(),
        comparison.rows.len() - errors.len(),
        median * 100.0,
        errors.iter().filter(|error| **error > LARGE).count(),
        LARGE * 100.0,
        errors.last().copied().unwrap_or(0.0) * 100.0
    )
}
