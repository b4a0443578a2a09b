//! What simulators feed: checks what comes, adds it up, and hands it to a sink.

use crate::busy_time::BusyTime;
use crate::error::RecordError;
use crate::event::{Interval, Sample};
use crate::layout::{ComponentId, Layout};
use crate::record::Record;
use crate::sink::Sink;
use crate::totals::Totals;

/// A run being recorded.
///
/// Memory is that of the sink, of the totals, and of the gaps between intervals after the settled cycle:
/// call [`Recorder::advance`] as time passes.
#[derive(Debug)]
pub struct Recorder<S> {
    layout: Layout,
    sink: S,
    totals: Totals,
    busy: Vec<BusyTime>,
    settled_cycles: u64,
}

impl<S: Sink> Recorder<S> {
    /// Starts a record, if the layout makes sense.
    pub fn new(layout: Layout, mut sink: S) -> Result<Recorder<S>, RecordError> {
        layout.check()?;
        sink.begin(&layout)?;
        let totals = Totals::new(&layout);
        let busy = vec![BusyTime::default(); layout.tracks.len()];
        Ok(Recorder { layout, sink, totals, busy, settled_cycles: 0 })
    }

    /// The layout being recorded.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Records an interval. Any order will do, as long as none starts before the settled cycle.
    pub fn interval(&mut self, interval: Interval) -> Result<(), RecordError> {
        let Interval { start_cycles, end_cycles, track, .. } = interval;
        let name = || interval.name.to_string();
        if end_cycles < start_cycles {
            return Err(RecordError::EndBeforeStart { name: name(), start_cycles, end_cycles });
        }
        if start_cycles < self.settled_cycles {
            let settled_cycles = self.settled_cycles;
            return Err(RecordError::Late { name: name(), start_cycles, settled_cycles });
        }
        let index = track.0 as usize;
        let (Some(totals), Some(busy)) = (self.totals.tracks.get_mut(index), self.busy.get_mut(index)) else {
            return Err(RecordError::UnknownTrack { track, count: self.busy.len() });
        };
        totals.add(&interval);
        busy.add(start_cycles, end_cycles, self.settled_cycles);
        self.totals.add_longest(&interval);
        self.totals.cycles = self.totals.cycles.max(end_cycles);
        self.sink.interval(interval)
    }

    /// Sets a counter from a cycle on. The cycles of one counter never decrease.
    pub fn sample(&mut self, sample: Sample) -> Result<(), RecordError> {
        let index = sample.counter.0 as usize;
        let count = self.totals.counters.len();
        let Some(totals) = self.totals.counters.get_mut(index) else {
            return Err(RecordError::UnknownCounter { counter: sample.counter, count });
        };
        if sample.at_cycles < totals.last_cycles {
            let name = self.layout.counters.get(index).map(|counter| counter.name.clone());
            return Err(RecordError::SampleBackwards {
                name: name.unwrap_or_default(),
                at_cycles: sample.at_cycles,
                last_cycles: totals.last_cycles,
            });
        }
        totals.add(&sample);
        self.totals.cycles = self.totals.cycles.max(sample.at_cycles);
        self.sink.sample(sample)
    }

    /// Adds energy to a component.
    pub fn energy(&mut self, component: ComponentId, energy_fj: u64) -> Result<(), RecordError> {
        let count = self.totals.energy_fj.len();
        let Some(sum) = self.totals.energy_fj.get_mut(component.0 as usize) else {
            return Err(RecordError::UnknownComponent { component: component.0, count });
        };
        *sum = sum.saturating_add(u128::from(energy_fj));
        Ok(())
    }

    /// Promises that no interval recorded from now on starts before this cycle, and that the run lasts
    /// at least until it. A simulator that records commands as they end gives the earliest start of those
    /// under way.
    pub fn advance(&mut self, settled_cycles: u64) {
        self.settled_cycles = self.settled_cycles.max(settled_cycles);
        self.totals.cycles = self.totals.cycles.max(settled_cycles);
    }

    /// Ends the run.
    pub fn finish(mut self) -> Result<Record, RecordError> {
        for (totals, busy) in self.totals.tracks.iter_mut().zip(&self.busy) {
            totals.busy_cycles = busy.cycles();
        }
        for counter in &mut self.totals.counters {
            counter.hold_until(self.totals.cycles);
        }
        let events = self.sink.finish()?;
        Ok(Record { layout: self.layout, events, totals: self.totals })
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;
    use crate::layout::{CounterId, TrackId, TrackKind, Unit};
    use crate::sink::KeepAll;

    fn recorder() -> Recorder<KeepAll> {
        let mut layout = Layout::new(NonZeroU64::MIN);
        let chip = layout.add_track(None, TrackKind::Chip, "chip");
        layout.add_counter(chip, "power", Unit::Milliwatts);
        layout.add_component("hbm");
        Recorder::new(layout, KeepAll::default()).unwrap()
    }

    #[test]
    fn what_contradicts_is_refused_and_leaves_no_mark() {
        let mut recorder = recorder();
        let interval = |track, start, end| Interval::new(TrackId(track), "x", start, end);
        let sample = |counter, at_cycles| Sample { counter: CounterId(counter), at_cycles, value: 1 };
        recorder.advance(10);
        recorder.sample(sample(0, 5)).unwrap();
        let refused = [
            recorder.interval(interval(0, 20, 19)),
            recorder.interval(interval(0, 9, 30)),
            recorder.interval(interval(1, 20, 30)),
            recorder.sample(sample(1, 6)),
            recorder.sample(sample(0, 4)),
            recorder.energy(ComponentId(1), 1),
        ];
        let words = refused.map(|result| result.unwrap_err().to_string());
        assert_eq!(words[0], "interval `x` starts at cycle 20 and ends before it, at 19");
        assert_eq!(words[1], "interval `x` starts at cycle 9, but time is settled up to 10");
        assert_eq!(words[2], "track 1 is not in the layout, which has 1");
        assert_eq!(words[3], "counter 1 is not in the layout, which has 1");
        assert_eq!(words[4], "counter `power` is set at cycle 4 after it was set at 5");
        assert_eq!(words[5], "energy component 1 is not in the layout, which has 1");
        let record = recorder.finish().unwrap();
        assert_eq!(
            (record.events.len(), record.totals.cycles, record.totals.tracks[0].intervals),
            (1, 10, 0)
        );
    }

    #[test]
    fn sums_stop_at_the_largest_value() {
        let mut recorder = recorder();
        for _ in 0..3 {
            recorder.interval(Interval::new(TrackId(0), "x", 0, u64::MAX)).unwrap();
            recorder.energy(ComponentId(0), u64::MAX).unwrap();
            recorder.sample(Sample { counter: CounterId(0), at_cycles: u64::MAX, value: u64::MAX }).unwrap();
        }
        let record = recorder.finish().unwrap();
        assert_eq!(record.totals.tracks[0].busy_cycles, u64::MAX);
        assert_eq!(record.totals.total_energy_fj(), 3 * u128::from(u64::MAX));
    }
}
