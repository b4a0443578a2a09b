//! The totals of a record as serialisable data, with names in place of ids. Sums beyond 64 bits stop there.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::layout::{TrackId, TrackKind, Unit};
use crate::record::Record;
use crate::totals::utilisation_ppm;

/// The totals of a run as they appear in `--json` output.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JsonTotals<'a> {
    /// Cycles per second.
    pub clock_hz: u64,
    /// Length of the run.
    pub cycles: u64,
    /// By track, in the order of the layout.
    pub tracks: Vec<JsonTrack<'a>>,
    /// By counter, in the order of the layout.
    pub counters: Vec<JsonCounter>,
    /// All energy, rounded to the nearest double.
    pub energy_pj: f64,
    /// By component, exact, in the order of the layout.
    pub energy: Vec<JsonEnergy<'a>>,
}

/// One track.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JsonTrack<'a> {
    /// Names from the root, such as `chip0/pe3/main`.
    pub path: String,
    /// What it stands for.
    pub kind: TrackKind,
    /// How many intervals.
    pub intervals: u64,
    /// Length of their union.
    pub busy_cycles: u64,
    /// That length as parts per million of the run, rounded down.
    pub utilisation_ppm: u32,
    /// Sums of the named counts.
    pub counts: BTreeMap<&'a str, u64>,
    /// Sums of lengths by the stage that decided them.
    pub binding_cycles: BTreeMap<&'a str, u64>,
}

/// One counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JsonCounter {
    /// Names from the root.
    pub path: String,
    /// Unit of the values.
    pub unit: Unit,
    /// Largest value.
    pub peak: u64,
    /// Mean over the run, rounded down.
    pub mean: u64,
    /// Value at the end.
    pub last: u64,
}

/// One energy component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JsonEnergy<'a> {
    /// Its name.
    pub component: &'a str,
    /// Its energy.
    pub energy_fj: u64,
}

/// The totals of a record.
pub fn totals(record: &Record) -> JsonTotals<'_> {
    let components = record.layout.components.iter().zip(&record.totals.energy_fj);
    JsonTotals {
        clock_hz: record.layout.clock_hz.get(),
        cycles: record.totals.cycles,
        tracks: tracks(record),
        counters: counters(record),
        energy_pj: record.totals.total_energy_fj() as f64 / 1000.0,
        energy: components.map(|(component, sum)| JsonEnergy { component, energy_fj: clamp(*sum) }).collect(),
    }
}

fn tracks(record: &Record) -> Vec<JsonTrack<'_>> {
    let pairs = record.layout.tracks.iter().zip(&record.totals.tracks).zip(0..);
    pairs
        .map(|((track, totals), index)| JsonTrack {
            path: record.layout.path(TrackId(index)),
            kind: track.kind,
            intervals: totals.intervals,
            busy_cycles: totals.busy_cycles,
            utilisation_ppm: utilisation_ppm(totals.busy_cycles, record.totals.cycles),
            counts: clamp_all(&totals.counts),
            binding_cycles: clamp_all(&totals.binding_cycles),
        })
        .collect()
}

fn counters(record: &Record) -> Vec<JsonCounter> {
    let pairs = record.layout.counters.iter().zip(&record.totals.counters);
    let cycles = u128::from(record.totals.cycles);
    pairs
        .map(|(counter, totals)| JsonCounter {
            path: record.layout.counter_path(counter),
            unit: counter.unit,
            peak: totals.peak,
            mean: clamp(totals.value_cycles.checked_div(cycles).unwrap_or(0)),
            last: totals.last,
        })
        .collect()
}

fn clamp_all<'a>(sums: &BTreeMap<&'static str, u128>) -> BTreeMap<&'a str, u64> {
    sums.iter().map(|(name, sum)| (*name, clamp(*sum))).collect()
}

fn clamp(sum: u128) -> u64 {
    u64::try_from(sum).unwrap_or(u64::MAX)
}
