//! Power of components over time: the energy of each command, spread evenly over its time.

use std::collections::BTreeMap;

use tilewright_neuron_sim::occupancy::instruction_energies;
use tilewright_record::{Interval, Record, TrackKind};
use tilewright_tcp_cost::energy::{COMPONENTS, Component};
use tilewright_tcp_sim::SimOutcome;
use tilewright_view::run_view::ComponentPower;

use crate::simulate::NeuronRun;

/// Parts of a run, at most.
const MOST_PARTS: u64 = 600;

/// Power by component of a run of the TCP. Runs of an image whose registers differ share its energy by time.
pub(crate) fn of_tcp(outcome: &SimOutcome) -> Vec<ComponentPower> {
    let record = &outcome.record;
    let kind = |one: &Interval| record.layout.tracks.get(one.track.0 as usize).map(|track| track.kind);
    let is_command = |one: &&Interval| matches!(kind(one), Some(TrackKind::Context | TrackKind::Dma));
    let mut busy: BTreeMap<&str, f64> = BTreeMap::new();
    for interval in record.intervals().filter(is_command) {
        *busy.entry(&interval.name).or_default() += real(interval.length_cycles());
    }
    let mut taken: BTreeMap<&str, [f64; COMPONENTS]> = BTreeMap::new();
    for image in &outcome.images {
        let sums = taken.entry(&image.name).or_default();
        sums.iter_mut().zip(image.component_fj).for_each(|(sum, part)| *sum += wide(part) * 1e-15);
    }
    let names: Vec<&str> = Component::ALL.iter().map(|component| component.name()).collect();
    let mut power = PowerParts::new(&names, outcome.cycles);
    for interval in record.intervals().filter(is_command) {
        let (Some(joules), Some(busy)) = (taken.get(&*interval.name), busy.get(&*interval.name)) else {
            continue;
        };
        let part = real(interval.length_cycles()) / busy.max(1.0);
        for (component, joules) in joules.iter().enumerate().filter(|(_, joules)| **joules > 0.0) {
            power.add(component, (interval.start_cycles, interval.end_cycles), joules * part);
        }
    }
    power.finish(record)
}

/// The same of a run on a NeuronCore.
pub(crate) fn of_neuron(run: &NeuronRun) -> Vec<ComponentPower> {
    let names: Vec<&str> = run.record.layout.components.iter().map(String::as_str).collect();
    let timeline = &run.run.timeline;
    let mut power = PowerParts::new(&names, timeline.total_ps);
    for one in instruction_energies(&run.chip, run.run.program(&run.recorded), timeline) {
        for (name, joules) in one.joules {
            if let Some(component) = names.iter().position(|known| *known == name) {
                power.add(component, (one.start_ps, one.end_ps), joules);
            }
        }
    }
    power.finish(&run.record)
}

/// Joules of components in equal parts of a run.
struct PowerParts {
    names: Vec<String>,
    ticks: u64,
    part_ticks: f64,
    /// Components by part.
    joules: Vec<Vec<f64>>,
}

impl PowerParts {
    fn new(names: &[&str], ticks: u64) -> PowerParts {
        let parts = usize::try_from(ticks.clamp(1, MOST_PARTS)).unwrap_or(1);
        PowerParts {
            names: names.iter().map(ToString::to_string).collect(),
            ticks,
            part_ticks: real(ticks.max(1)) / real(parts as u64),
            joules: vec![vec![0.0; parts]; names.len()],
        }
    }

    /// Spreads joules over a time.
    fn add(&mut self, component: usize, (start, end): (u64, u64), joules: f64) {
        let Some(parts) = self.joules.get_mut(component).filter(|_| end > start) else { return };
        let (from, to) = (real(start) / self.part_ticks, real(end) / self.part_ticks);
        let each = joules / (to - from);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "places in a list")]
        let first = (from as usize).min(parts.len() - 1);
        for (at, sum) in parts.iter_mut().enumerate().skip(first) {
            let (low, high) = (real(at as u64), real(at as u64 + 1));
            if low >= to {
                break;
            }
            *sum += each * (to.min(high) - from.max(low)).max(0.0);
        }
    }

    /// As power; what no command takes is taken all the time.
    fn finish(mut self, record: &Record) -> Vec<ComponentPower> {
        let totals = record.totals.energy_fj.iter().map(|fj| wide(*fj) * 1e-15);
        for (parts, total) in self.joules.iter_mut().zip(totals) {
            let rest = (total - parts.iter().sum::<f64>()).max(0.0) / real(parts.len() as u64);
            parts.iter_mut().for_each(|part| *part += rest);
        }
        let seconds = self.part_ticks / real(record.layout.clock_hz.get());
        let ran = self.ticks > 0;
        let all = self.names.into_iter().zip(self.joules);
        let used = all.filter(|(_, parts)| ran && parts.iter().any(|part| *part > 0.0));
        used.map(|(name, parts)| {
            // A microwatt is enough for a picture.
            let milliwatts = parts.iter().map(|joules| (joules / seconds * 1e6).round() / 1e3);
            ComponentPower { name, milliwatts: milliwatts.collect() }
        })
        .collect()
    }
}

#[expect(clippy::cast_precision_loss, reason = "places and figures of a picture")]
fn real(value: u64) -> f64 {
    value as f64
}

#[expect(clippy::cast_precision_loss, reason = "figures of a picture")]
fn wide(value: impl Into<u128>) -> f64 {
    value.into() as f64
}
