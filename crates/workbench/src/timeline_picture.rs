//! When units of runs were busy, as one picture: runs below each other on one axis of time, a lane for each
//! context and DMA engine that had something to do (engines of chips without contexts), a colour for each
//! name of commands.

use std::collections::{BTreeMap, BTreeSet};

use tilewright_record::{Record, TrackId, TrackKind};
use tilewright_report::columns::thousands;
use tilewright_report::lanes::{ChartLane, LaneBar, LaneFrame, WIDE_LANE, draw};
use tilewright_report::svg::{Anchor, Svg, colour};

use crate::simulate::SimulatedRun;

/// Left edge and width of the bars, in pixels.
const LEFT: f64 = 130.0;
const WIDTH: f64 = 900.0;
/// Lanes of a run beyond which they are drawn narrow, and how narrow.
const FEW_LANES: usize = 6;
const NARROW_LANE: f64 = 15.0;
/// Names in a row of the legend, and pixels of each.
const LEGEND_COLUMNS: usize = 5;
const LEGEND_PIXELS: f64 = 185.0;
/// Names that have a colour of their own, those that took longest first.
const MOST_NAMES: usize = 20;
const OTHER: &str = "#888";

/// A run with its name.
pub struct PicturedRun<'r> {
    /// What it is called.
    pub name: &'r str,
    /// The run, with all that happened in it.
    pub run: &'r SimulatedRun,
}

/// The picture as an SVG file.
pub fn timeline_picture(runs: &[PicturedRun<'_>]) -> String {
    let records: Vec<&Record> = runs.iter().map(|one| one.run.record()).collect();
    let named = named_groups(&records);
    let most = runs.iter().map(|one| seconds(one.run)).fold(0.0, f64::max);
    let mut svg = Svg::default();
    let mut top = 50.0;
    for (one, record) in runs.iter().zip(&records) {
        let lanes = lanes(record, &named);
        let lane = if lanes.len() > FEW_LANES { NARROW_LANE } else { WIDE_LANE };
        let frame = LaneFrame { left: LEFT, top, width: WIDTH, label: "time, us", most: most * 1e6, lane };
        let title = format!("{}: {}", one.name, length(one.run));
        top = draw(&mut svg, &frame, &title, &lanes) + 40.0;
    }
    legend(&mut svg, top - 20.0, &named);
    svg.finish()
}

/// How long a run took, in words.
fn length(run: &SimulatedRun) -> String {
    match run {
        SimulatedRun::Tcp(run) => format!("{} cycles", thousands(run.reading.outcome.cycles)),
        SimulatedRun::Neuron(_) => format!("{:.3} us", seconds(run) * 1e6),
    }
}

fn seconds(run: &SimulatedRun) -> f64 {
    let record = run.record();
    let cycles = match run {
        SimulatedRun::Tcp(run) => run.reading.outcome.cycles,
        SimulatedRun::Neuron(_) => record.totals.cycles,
    };
    real(cycles) / real(record.layout.clock_hz.get())
}

/// A name without the numbers that tell commands of one kind apart: of its kernel (`_k2`), and a last one.
fn group(name: &str) -> &str {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let plain = match name.rsplit_once('_') {
        Some((before, last)) if is_number(last) => before,
        _ => name,
    };
    match plain.rsplit_once("_k") {
        Some((before, kernel)) if is_number(kernel) => before,
        _ => plain,
    }
}

/// Colours by group of names, for those that took longest in all runs; in the order of their names.
fn named_groups(records: &[&Record]) -> BTreeMap<String, String> {
    let mut busy: BTreeMap<&str, u128> = BTreeMap::new();
    for record in records {
        let drawn = drawn_tracks(record);
        for interval in record.intervals().filter(|interval| drawn.contains(&interval.track)) {
            *busy.entry(group(&interval.name)).or_default() += u128::from(interval.length_cycles());
        }
    }
    let mut names: Vec<(&str, u128)> = busy.into_iter().collect();
    names.sort_by_key(|(name, cycles)| (std::cmp::Reverse(*cycles), *name));
    names.truncate(MOST_NAMES);
    names.sort_unstable();
    let count = names.len() as u64;
    (0_u64..).zip(names).map(|(at, (name, _))| (name.to_string(), colour(at, count))).collect()
}

/// Contexts and DMA engines that had something to do; engines and DMA engines if there are no contexts.
fn drawn_tracks(record: &Record) -> BTreeSet<TrackId> {
    let kind = |track: TrackId| record.layout.tracks.get(track.0 as usize).map(|track| track.kind);
    let busy: BTreeSet<TrackId> = record.intervals().map(|interval| interval.track).collect();
    let has_contexts = busy.iter().any(|track| kind(*track) == Some(TrackKind::Context));
    let unit = if has_contexts { TrackKind::Context } else { TrackKind::Engine };
    busy.into_iter()
        .filter(|track| kind(*track) == Some(unit) || kind(*track) == Some(TrackKind::Dma))
        .collect()
}

fn lanes(record: &Record, named: &BTreeMap<String, String>) -> Vec<ChartLane> {
    let us = |cycles: u64| real(cycles) / real(record.layout.clock_hz.get()) * 1e6;
    let lane = |track: TrackId| {
        let bars = record.intervals().filter(|interval| interval.track == track).map(|interval| LaneBar {
            start: us(interval.start_cycles),
            end: us(interval.end_cycles),
            colour: named.get(group(&interval.name)).cloned().unwrap_or_else(|| OTHER.to_string()),
        });
        ChartLane { name: short_path(&record.layout.path(track)), bars: bars.collect() }
    };
    drawn_tracks(record).into_iter().map(lane).collect()
}

/// A path without its first chip: `pe3 main`.
fn short_path(path: &str) -> String {
    path.strip_prefix("chip0/").unwrap_or(path).replace('/', " ")
}

fn legend(svg: &mut Svg, y: f64, named: &BTreeMap<String, String>) {
    for (at, (name, fill)) in named.iter().enumerate() {
        let (column, row) = (at % LEGEND_COLUMNS, at / LEGEND_COLUMNS);
        let (x, y) = (LEFT + LEGEND_PIXELS * real(column as u64), y + 20.0 * real(row as u64));
        svg.block(x, y - 10.0, 12.0, 12.0, fill);
        svg.text(x + 18.0, y, Anchor::Start, "small", name);
    }
}

#[expect(clippy::cast_precision_loss, reason = "places in a picture")]
fn real(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::group;

    #[test]
    fn names_of_one_kind_share_a_colour() {
        let names =
            [("bring_rows_k13", "bring_rows"), ("clear_k2_1", "clear"), ("main", "main"), ("a_k", "a_k")];
        names.iter().for_each(|(name, wanted)| assert_eq!(group(name), *wanted));
    }
}
