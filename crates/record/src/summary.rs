//! A record as plain text, for terminals and goldens. Figures are rounded down.

use crate::layout::{Layout, TrackId, Unit};
use crate::perfetto::timestamp_ns;
use crate::record::Record;
use crate::totals::utilisation_ppm;

/// How many of the longest intervals are kept and shown.
pub const LONGEST_SHOWN: usize = 10;

/// Busy cycles and utilisation by track, counters, the longest intervals, and energy by component.
pub fn summary(record: &Record) -> String {
    let cycles = record.totals.cycles;
    let clock_hz = record.layout.clock_hz;
    let mut text = format!("{cycles} cycles at {clock_hz} Hz, {} ns\n", timestamp_ns(cycles, clock_hz));
    for (rows, title) in [
        (tracks(record), ["track", "busy cycles", "utilisation", "intervals"].as_slice()),
        (counters(record), &["counter", "peak", "mean", "unit"]),
        (longest(record), &["longest interval", "cycles", "start", "end", "track"]),
        (energy(record), &["energy", "pJ"]),
    ] {
        if !rows.is_empty() {
            text.push('\n');
            push_table(&mut text, title, &rows);
        }
    }
    text
}

/// Tracks with intervals, and tracks that could have had some: those with nothing below them.
fn tracks(record: &Record) -> Vec<Vec<String>> {
    let layout = &record.layout;
    let mut rows = Vec::new();
    for (totals, index) in record.totals.tracks.iter().zip(0..) {
        let id = TrackId(index);
        if totals.intervals == 0 && has_children(layout, id) {
            continue;
        }
        let ppm = utilisation_ppm(totals.busy_cycles, record.totals.cycles);
        let percent = format!("{}.{} %", ppm / 10_000, ppm / 1_000 % 10);
        let figures = [totals.busy_cycles.to_string(), percent, totals.intervals.to_string()];
        rows.push([vec![layout.path(id)], figures.to_vec()].concat());
    }
    rows
}

fn has_children(layout: &Layout, id: TrackId) -> bool {
    layout.tracks.iter().any(|track| track.parent == Some(id))
        || layout.counters.iter().any(|counter| counter.track == id)
}

fn counters(record: &Record) -> Vec<Vec<String>> {
    let pairs = record.layout.counters.iter().zip(&record.totals.counters);
    pairs
        .map(|(counter, totals)| {
            let mean = totals.value_cycles.checked_div(u128::from(record.totals.cycles)).unwrap_or(0);
            let unit = match counter.unit {
                Unit::Bytes => "bytes",
                Unit::Milliwatts => "mW",
                Unit::Count => "",
            };
            let path = record.layout.counter_path(counter);
            vec![path, totals.peak.to_string(), mean.to_string(), unit.to_string()]
        })
        .collect()
}

fn longest(record: &Record) -> Vec<Vec<String>> {
    let intervals = record.totals.longest.iter();
    intervals
        .map(|interval| {
            vec![
                interval.name.to_string(),
                interval.length_cycles().to_string(),
                interval.start_cycles.to_string(),
                interval.end_cycles.to_string(),
                record.layout.path(interval.track),
            ]
        })
        .collect()
}

fn energy(record: &Record) -> Vec<Vec<String>> {
    let picojoules = |energy_fj: u128| format!("{}.{:03}", energy_fj / 1000, energy_fj % 1000);
    let parts = record.layout.components.iter().zip(&record.totals.energy_fj);
    let mut rows: Vec<_> = parts.map(|(name, part)| vec![name.clone(), picojoules(*part)]).collect();
    if !rows.is_empty() {
        rows.push(vec!["total".to_string(), picojoules(record.totals.total_energy_fj())]);
    }
    rows
}

/// Columns as wide as their widest cell. The first is text; figures go to the right; a column of words
/// after the figures to the left.
fn push_table(text: &mut String, title: &[&str], rows: &[Vec<String>]) {
    let title: Vec<String> = title.iter().map(ToString::to_string).collect();
    let widths: Vec<usize> = (0..title.len())
        .map(|column| {
            let cells = rows.iter().chain([&title]).filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    for row in [&title].into_iter().chain(rows) {
        let mut line = String::new();
        for ((cell, width), name) in row.iter().zip(&widths).zip(&title) {
            let pad = " ".repeat(width.saturating_sub(cell.chars().count()));
            let words = line.is_empty() || name == "unit" || name == "track";
            let gap = if line.is_empty() { "" } else { "  " };
            line += &if words { format!("{gap}{cell}{pad}") } else { format!("{gap}{pad}{cell}") };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
}
