//! Published figures of the TCP, ours beside each that the model can express.
//!
//! A row says what reproduces it: a row of the study (simulated programs), a tactic (the notation's rules), a
//! derived or stated figure of the machine file, a closed form of an engine, or why nothing does.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use tilewright_base::SourceId;
use tilewright_machine::{LoadedMachine, Tcp};
use tilewright_notation::problem::Problem;
use tilewright_notation::syntax::parser;
use tilewright_num::Dtype;
use tilewright_report::columns::{Align, table};
use tilewright_tcp_cost::Setup;

use crate::closed_form::{self, CommandCase, FetchCase, SwitchCase, TransferCase, TransposeCase};
use crate::kinds::{self, KindErrors, RowKind};
use crate::rows::PublishedRow;
use crate::sizes::size;

/// What reproduces a row.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RowRecipe {
    cannot: Option<String>,
    /// A row of Table II, as it is, over another's figure, another's over it, or the part by which it is
    /// below it.
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
    fetch: Option<FetchCase>,
    waste: Option<u64>,
    switch: Option<SwitchCase>,
    transpose: Option<TransposeCase>,
    dma: Option<TransferCase>,
    command: Option<CommandCase>,
}

/// A row with ours, or with the reason why there is none. The same form as rows of Neuron chips have.
#[derive(Clone, Debug, Serialize)]
pub struct ComparedRow {
    /// The chip.
    pub chip: String,
    /// The table or figure that the row is from.
    pub group: String,
    /// Its name there.
    pub name: String,
    /// The published value.
    pub published: f64,
    /// Its unit.
    pub unit: String,
    /// Where it was published.
    pub source: String,
    /// What was measured.
    pub what: String,
    /// What the row was used for. A held-out row shows neither our value nor its error.
    pub kind: RowKind,
    /// Figures of the machine that were fitted to it or derived from it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calibrates: Vec<String>,
    /// Why ours misses it, as far as is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Why our model does not express it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cannot: Option<String>,
    /// Our value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ours: Option<f64>,
    /// Ours over the published value, less one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// Where ours comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<&'static str>,
}

/// All rows of a chip.
#[derive(Clone, Debug, Serialize)]
pub struct PublishedComparison {
    /// The chip.
    pub chip: String,
    /// Its rows, in the order of the file.
    pub rows: Vec<ComparedRow>,
    /// Errors by kind of row.
    pub errors: Vec<KindErrors>,
}

/// What rows are compared with.
pub struct OwnResults<'o> {
    /// The machine file, with derived figures and sources.
    pub loaded: &'o LoadedMachine,
    /// Its machine.
    pub machine: &'o Tcp,
    /// Our value of a row of Table II; asked only if a row needs it.
    pub table2: &'o mut dyn FnMut(&str) -> Result<Option<f64>, StudyFailed>,
}

/// The case study that a row needs was not made; whoever was asked for it knows why.
#[derive(Clone, Debug, Error)]
#[error("{0}")]
pub struct StudyFailed(pub String);

/// Why a row has no value of ours.
#[derive(Debug, Error)]
#[error("row `{row}`: {fault}")]
pub struct RowError {
    /// Its name.
    pub row: String,
    /// What is wrong.
    pub fault: RowFault,
}

/// What is wrong with a row.
#[derive(Debug, Error)]
pub enum RowFault {
    /// Its `how` is not in the form that rows have.
    #[error(transparent)]
    Form(#[from] toml::de::Error),
    /// Its `how` is empty.
    #[error("it says neither what reproduces it nor why nothing does")]
    Nothing,
    /// The case study was not made.
    #[error(transparent)]
    Study(#[from] StudyFailed),
    /// Table II has no such row.
    #[error("the study has no row `{0}`")]
    Table2(String),
    /// The machine derives no such figure.
    #[error("no derived figure is called `{0}`")]
    Derived(String),
    /// The machine file has no such figure.
    #[error("no figure is called `{0}`")]
    Figure(String),
    /// The figure is a word.
    #[error("`{0}` is no number")]
    NoNumber(String),
    /// A stage whose sizes no engine has.
    #[error("no engine knows such a stage")]
    Stage,
    /// The tactic does not read.
    #[error("{0}")]
    Syntax(String),
    /// The tactic is refused.
    #[error("its tactic is not legal")]
    Illegal,
    /// Neither `reuse` nor `use`.
    #[error("`{0}` is no measure of a tactic")]
    Measure(String),
}

/// Compares rows.
///
/// # Errors
/// A row that says nothing that can be done.
pub fn compare(
    chip: &str,
    rows: &[&PublishedRow],
    ours: &mut OwnResults<'_>,
) -> Result<PublishedComparison, RowError> {
    let (mut compared, mut errors) = (Vec::new(), Vec::new());
    for row in rows {
        let faulty = |fault: RowFault| RowError { row: row.name.clone(), fault };
        let how: RowRecipe =
            row.how.clone().try_into().map_err(|error: toml::de::Error| faulty(error.into()))?;
        let (value, by) = match &how.cannot {
            Some(_) => (None, None),
            None => {
                let (value, by) = value(&how, ours).map_err(faulty)?;
                (Some(value), Some(by))
            }
        };
        let error = value.map(|value| value / row.published - 1.0);
        errors.push((row.kind, row.name.as_str(), error));
        let shown = row.kind != RowKind::HeldOut;
        compared.push(ComparedRow {
            chip: chip.to_string(),
            group: row.group.clone(),
            name: row.name.clone(),
            published: row.published,
            unit: row.unit.clone(),
            source: row.source.clone(),
            what: row.what.clone(),
            kind: row.kind,
            calibrates: row.calibrates.clone(),
            why: row.why.clone(),
            cannot: how.cannot,
            ours: value.filter(|_| shown),
            error: error.filter(|_| shown),
            by,
        });
    }
    Ok(PublishedComparison { chip: chip.to_string(), rows: compared, errors: kinds::by_kind(&errors) })
}

/// Our value, and where it comes from.
fn value(how: &RowRecipe, ours: &mut OwnResults<'_>) -> Result<(f64, &'static str), RowFault> {
    const CLOSED: &str = "closed form of an engine";
    let machine = ours.machine;
    let known = |cycles: Option<u64>| cycles.map(size).ok_or(RowFault::Stage);
    if let Some(row) = &how.study {
        let value = (ours.table2)(row)?.ok_or_else(|| RowFault::Table2(row.clone()))?;
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
        let value = found.ok_or_else(|| RowFault::Derived(name.clone()))?.derived.value;
        return Ok((value * how.times.unwrap_or(1.0), "derived from the machine file"));
    }
    if let Some(name) = &how.figure {
        let is = |section: &str, key: &str| name.split_once('.') == Some((section, key));
        let found = ours.loaded.key_values().into_iter().find(|found| is(found.section, found.key));
        let text = found.ok_or_else(|| RowFault::Figure(name.clone()))?.value.to_string();
        let value: f64 =
            text.replace([',', '_'], "").parse().map_err(|_| RowFault::NoNumber(name.clone()))?;
        return Ok((value * how.times.unwrap_or(1.0), "stated by the machine file"));
    }
    if let Some(text) = &how.tactic {
        let measure = how.measure.as_deref().unwrap_or("reuse");
        return Ok((tactic(machine, text, measure)?, "rules of the notation"));
    }
    let value = match how {
        RowRecipe { fetch: Some(fetch), .. } => size(closed_form::fetched(machine, fetch)),
        RowRecipe { waste: Some(bytes), .. } => closed_form::wasted(machine, *bytes) * 100.0,
        RowRecipe { switch: Some(switch), .. } => known(closed_form::switched(switch))?,
        RowRecipe { transpose: Some(tiles), .. } => size(closed_form::transposed(machine, tiles)),
        RowRecipe { dma: Some(transfer), .. } => known(closed_form::moved(machine, transfer))?,
        RowRecipe { command: Some(stages), .. } => known(closed_form::command(machine, stages))?,
        _ => return Err(RowFault::Nothing),
    };
    Ok((value, CLOSED))
}

/// What a tactic gives.
fn tactic(machine: &Tcp, text: &str, measure: &str) -> Result<f64, RowFault> {
    let setup = Setup::new(machine, 1, Dtype::I8).map_err(|_| RowFault::Illegal)?;
    let program =
        parser::program(text, SourceId(0)).map_err(|error| RowFault::Syntax(error.message.clone()))?;
    let problem = Problem::new(&program).map_err(|_| RowFault::Illegal)?;
    let verdict = tilewright_tcp_cost::check(&setup, &problem);
    let (Some(reuse), Some(placed)) = (&verdict.reuse, &verdict.placed) else {
        return Err(RowFault::Illegal);
    };
    match measure {
        "reuse" => Ok(size(reuse.count())),
        "use" => Ok(placed.multiplier_use(&setup, &problem) * 100.0),
        other => Err(RowFault::Measure(other.to_string())),
    }
}

/// Relative errors beyond this are marked.
const LARGE: f64 = 0.25;

/// At most two digits after the point, none that are zero.
fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// The last column: what ours is by, which figures were fitted to the row, or why there is no value.
fn remark(row: &ComparedRow) -> String {
    match (&row.cannot, row.kind) {
        (Some(why), _) => format!("not expressible: {why}"),
        (None, RowKind::HeldOut) => "held out: its error is part of the summary".to_string(),
        (None, RowKind::Calibration) => {
            format!("{}; gave {}", row.by.unwrap_or_default(), row.calibrates.join(", "))
        }
        (None, RowKind::Development) => row.by.unwrap_or_default().to_string(),
    }
}

/// The comparison as a table, and errors by kind of row.
pub fn text(comparison: &PublishedComparison) -> String {
    let head = ["row", "kind", "published", "unit", "ours", "error", "", "by, or why not"];
    let mut rows = vec![head.map(str::to_string).to_vec()];
    for row in &comparison.rows {
        let large = row.error.is_some_and(|error| error.abs() > LARGE);
        rows.push(vec![
            row.name.clone(),
            row.kind.name().to_string(),
            number(row.published),
            row.unit.clone(),
            row.ours.map_or("-".to_string(), number),
            row.error.map_or("-".to_string(), |error| format!("{:+.1} %", error * 100.0)),
            if large { "!" } else { "" }.to_string(),
            remark(row),
        ]);
    }
    use Align::{Left, Right};
    format!(
        "{}\nErrors by what rows were used for; those of calibration rows are no results. ! marks more than \
         {:.0} %.\n\n{}",
        table(&[Left, Left, Right, Left, Right, Right, Left, Left], &rows),
        LARGE * 100.0,
        kinds::text(&comparison.errors)
    )
}
