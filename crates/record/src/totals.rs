//! What a run adds up to. Complete whatever a sink keeps, and in integers, so that it is exact.
//!
//! Energy is in integer femtojoules: the per-event figures of machine files are whole multiples of one
//! femtojoule (0.025 pJ is 25 fJ), so sums have no rounding and no order. Sums are 128 bits wide and stop
//! at the largest value.

use std::collections::BTreeMap;

use crate::event::{Interval, Sample};
use crate::layout::Layout;
use crate::summary::LONGEST_SHOWN;

/// Sums over a whole run; vectors are indexed by the ids of the layout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The latest cycle that anything was recorded at.
    pub cycles: u64,
    /// By track.
    pub tracks: Vec<TrackTotals>,
    /// By counter.
    pub counters: Vec<CounterTotals>,
    /// By energy component.
    pub energy_fj: Vec<u128>,
    /// The longest intervals, longest first; of equals, those recorded first.
    pub longest: Vec<Interval>,
}

/// Sums over the intervals of one track, without those of the tracks below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrackTotals {
    /// How many intervals.
    pub intervals: u64,
    /// Cycles in which at least one interval was under way.
    pub busy_cycles: u64,
    /// Sum of the lengths, which is more where intervals overlap.
    pub interval_cycles: u128,
    /// Sums of the named counts.
    pub counts: BTreeMap<&'static str, u128>,
    /// Sum of the lengths by the stage that decided them.
    pub binding_cycles: BTreeMap<&'static str, u128>,
}

/// One counter over a whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterTotals {
    /// Largest value.
    pub peak: u64,
    /// Last value.
    pub last: u64,
    /// Cycle of the last sample.
    pub last_cycles: u64,
    /// Sum of the value over all cycles; divided by the cycles of the run it is the mean.
    pub value_cycles: u128,
}

impl Totals {
    pub(crate) fn new(layout: &Layout) -> Totals {
        Totals {
            cycles: 0,
            tracks: vec![TrackTotals::default(); layout.tracks.len()],
            counters: vec![CounterTotals::default(); layout.counters.len()],
            energy_fj: vec![0; layout.components.len()],
            longest: Vec::new(),
        }
    }

    /// All energy.
    pub fn total_energy_fj(&self) -> u128 {
        self.energy_fj.iter().fold(0, |sum, part| sum.saturating_add(*part))
    }

    pub(crate) fn add_longest(&mut self, interval: &Interval) {
        let length = interval.length_cycles();
        let place = self.longest.partition_point(|kept| kept.length_cycles() >= length);
        if place < LONGEST_SHOWN {
            self.longest.truncate(LONGEST_SHOWN - 1);
            self.longest.insert(place, interval.clone());
        }
    }
}

impl TrackTotals {
    pub(crate) fn add(&mut self, interval: &Interval) {
        let length = u128::from(interval.length_cycles());
        self.intervals = self.intervals.saturating_add(1);
        self.interval_cycles = self.interval_cycles.saturating_add(length);
        for (name, count) in &interval.counts {
            add_to(&mut self.counts, name, u128::from(*count));
        }
        if let Some(stage) = interval.binding {
            add_to(&mut self.binding_cycles, stage, length);
        }
    }
}

impl CounterTotals {
    /// A later sample.
    pub(crate) fn add(&mut self, sample: &Sample) {
        self.hold_until(sample.at_cycles);
        self.last = sample.value;
        self.peak = self.peak.max(sample.value);
    }

    /// Extends the last value to a cycle.
    pub(crate) fn hold_until(&mut self, cycles: u64) {
        let held = u128::from(self.last) * u128::from(cycles.saturating_sub(self.last_cycles));
        self.value_cycles = self.value_cycles.saturating_add(held);
        self.last_cycles = self.last_cycles.max(cycles);
    }
}

/// Busy cycles as parts per million of all cycles, rounded down; zero of nothing.
pub fn utilisation_ppm(busy_cycles: u64, cycles: u64) -> u32 {
    let parts = u128::from(busy_cycles) * 1_000_000;
    parts.checked_div(u128::from(cycles)).and_then(|ppm| u32::try_from(ppm).ok()).unwrap_or(0)
}

fn add_to(sums: &mut BTreeMap<&'static str, u128>, name: &'static str, amount: u128) {
    let sum = sums.entry(name).or_default();
    *sum = sum.saturating_add(amount);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{CounterId, TrackId};

    #[test]
    fn utilisation_is_exact_and_never_divides_by_zero() {
        assert_eq!(utilisation_ppm(1, 3), 333_333);
        assert_eq!(utilisation_ppm(u64::MAX, u64::MAX), 1_000_000);
        assert_eq!(utilisation_ppm(0, 0), 0);
    }

    #[test]
    fn a_counter_is_held_until_it_changes() {
        let mut totals = CounterTotals::default();
        for (at_cycles, value) in [(10, 8), (20, 3), (20, 5)] {
            totals.add(&Sample { counter: CounterId(0), at_cycles, value });
        }
        totals.hold_until(30);
        let expected = CounterTotals { peak: 8, last: 5, last_cycles: 30, value_cycles: 80 + 50 };
        assert_eq!(totals, expected);
    }

    #[test]
    fn the_longest_are_kept_in_order() {
        let mut totals = Totals::default();
        for (serial, length) in [5, 9, 1, 9, 7, 2, 3, 4, 6, 8, 10, 11].into_iter().enumerate() {
            totals.add_longest(&Interval::new(TrackId(0), serial.to_string(), 0, length));
        }
        let kept: Vec<&str> = totals.longest.iter().map(|interval| &*interval.name).collect();
        assert_eq!(kept, ["11", "10", "1", "3", "9", "4", "8", "0", "7", "6"]);
    }
}
