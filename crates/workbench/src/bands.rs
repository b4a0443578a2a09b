//! Ranges of a program's time and energy over the figures of its machine that have a band.
//!
//! One figure is changed at a time and the program runs again. A range adds up what every figure does at the
//! end that moves the result that way, so that it is wider than if figures erred independently.

use serde::Serialize;
use tilewright_base::Sources;
use tilewright_machine::LoadedMachine;
use tilewright_report::columns::{Align, table};

/// Time and energy of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RunTotals {
    /// Microseconds.
    pub time_us: f64,
    /// Microjoules.
    pub energy_uj: f64,
}

impl RunTotals {
    fn both(self) -> [f64; 2] {
        [self.time_us, self.energy_uj]
    }
}

/// A result with its range.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TotalRange {
    /// What it is, with its unit.
    pub measure: &'static str,
    /// With every figure at its end that makes it least, effects added up.
    pub low: f64,
    /// With the figures of the machine.
    pub stated: f64,
    /// With every figure at its end that makes it most, effects added up.
    pub high: f64,
}

/// What a figure does.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BandedFigure {
    /// Its section and key.
    pub figure: String,
    /// Its lowest and highest value as written, with the unit.
    pub ends: [String; 2],
    /// Why these two.
    pub reason: String,
    /// The run with the lowest, and with the highest value.
    pub at: [RunTotals; 2],
}

/// Ranges of a program, and the figures that make them, those that move its time most first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProgramBands {
    /// Time and energy.
    pub results: [TotalRange; 2],
    /// Figures that move either; others do not matter to the program.
    pub figures: Vec<BandedFigure>,
}

/// Names of the results.
const MEASURES: [&str; 2] = ["time, us", "energy, uJ"];

/// Runs a program at both ends of every figure that has a band; nothing if it does not run.
pub fn program_bands(
    loaded: &LoadedMachine,
    run: &mut dyn FnMut(&LoadedMachine) -> Option<RunTotals>,
) -> Option<ProgramBands> {
    let stated = run(loaded)?;
    let mut figures = Vec::new();
    for figure in loaded.key_values() {
        let (name, Some(band)) = (format!("{}.{}", figure.section, figure.key), figure.band) else {
            continue;
        };
        let values = [band.low.to_string(), band.high.to_string()];
        let mut at = |value: &String| {
            let setting = format!("{name}={value}");
            run(&loaded.override_with(&mut Sources::default(), &[setting.as_str()]).ok()?)
        };
        let [Some(low), Some(high)] = [at(&values[0]), at(&values[1])] else { continue };
        if [low, high] != [stated; 2] {
            let ends = values.map(|value| format!("{value} {}", figure.unit).trim_end().to_string());
            figures.push(BandedFigure { figure: name, ends, reason: band.reason, at: [low, high] });
        }
    }
    let moved = |figure: &BandedFigure| {
        figure.at.iter().fold(0.0, |most: f64, totals| most.max((totals.time_us - stated.time_us).abs()))
    };
    figures.sort_by(|one, other| moved(other).total_cmp(&moved(one)).then(one.figure.cmp(&other.figure)));
    let results = [0, 1].map(|index| range(index, stated, &figures));
    Some(ProgramBands { results, figures })
}

fn range(index: usize, stated: RunTotals, figures: &[BandedFigure]) -> TotalRange {
    let value = |totals: RunTotals| totals.both()[index];
    let stated = value(stated);
    let (mut low, mut high) = (stated, stated);
    for figure in figures {
        let effects = figure.at.map(|totals| value(totals) - stated);
        low += effects[0].min(effects[1]).min(0.0);
        high += effects[0].max(effects[1]).max(0.0);
    }
    TotalRange { measure: MEASURES[index], low: low.max(0.0), stated, high }
}

/// Ranges in words.
pub fn words(bands: &ProgramBands) -> String {
    use Align::{Left, Right};
    let three = |value: f64| format!("{value:.3}");
    let mut rows = vec![["result", "low", "as stated", "high"].map(str::to_string).to_vec()];
    for result in &bands.results {
        let [low, stated, high] = [result.low, result.stated, result.high].map(three);
        rows.push(vec![result.measure.to_string(), low, stated, high]);
    }
    let mut text = table(&[Left, Right, Right, Right], &rows);
    let [time, energy] = bands.results.map(|result| result.stated);
    let percent = |value: f64, of: f64| format!("{:+.1} %", (value / of - 1.0) * 100.0);
    let mut rows = vec![["figure", "from", "to", "time", "", "energy", ""].map(str::to_string).to_vec()];
    for figure in &bands.figures {
        let [low, high] = figure.at;
        let mut row = vec![figure.figure.clone()];
        row.extend(figure.ends.clone());
        row.extend([percent(low.time_us, time), percent(high.time_us, time)]);
        row.extend([percent(low.energy_uj, energy), percent(high.energy_uj, energy)]);
        rows.push(row);
    }
    text += "\n";
    text + &table(&[Left, Right, Right, Right, Right, Right, Right], &rows)
}
