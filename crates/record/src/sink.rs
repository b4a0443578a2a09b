//! How much of a run is kept: everything, the last of it, or nothing but what was written on the way.

use std::collections::{BTreeMap, VecDeque};

use crate::error::RecordError;
use crate::event::{Event, Interval, Sample};
use crate::layout::{CounterId, Layout};

/// Receives what a recorder has checked, in order of arrival.
pub trait Sink {
    /// The run starts.
    fn begin(&mut self, layout: &Layout) -> Result<(), RecordError>;
    /// A track was busy.
    fn interval(&mut self, interval: Interval) -> Result<(), RecordError>;
    /// A counter has a new value.
    fn sample(&mut self, sample: Sample) -> Result<(), RecordError>;
    /// The run has ended: gives what was kept, in order of arrival.
    fn finish(&mut self) -> Result<Vec<Event>, RecordError>;
}

/// Keeps everything.
#[derive(Debug, Default)]
pub struct KeepAll {
    events: Vec<Event>,
}

impl Sink for KeepAll {
    fn begin(&mut self, _layout: &Layout) -> Result<(), RecordError> {
        Ok(())
    }

    fn interval(&mut self, interval: Interval) -> Result<(), RecordError> {
        self.events.push(Event::Interval(interval));
        Ok(())
    }

    fn sample(&mut self, sample: Sample) -> Result<(), RecordError> {
        self.events.push(Event::Sample(sample));
        Ok(())
    }

    fn finish(&mut self) -> Result<Vec<Event>, RecordError> {
        Ok(std::mem::take(&mut self.events))
    }
}

/// Keeps the last intervals and the last samples, so many of each, and the value that each counter had
/// before.
#[derive(Debug)]
pub struct KeepLast {
    most: usize,
    arrived: u64,
    /// With their places in the order of arrival.
    intervals: VecDeque<(u64, Interval)>,
    samples: VecDeque<(u64, Sample)>,
    /// The newest forgotten sample of each counter.
    before: BTreeMap<CounterId, Sample>,
}

impl KeepLast {
    /// Keeps at most so many intervals and so many samples.
    pub fn new(most: usize) -> KeepLast {
        let (intervals, samples) = (VecDeque::new(), VecDeque::new());
        KeepLast { most, arrived: 0, intervals, samples, before: BTreeMap::new() }
    }
}

impl Sink for KeepLast {
    fn begin(&mut self, _layout: &Layout) -> Result<(), RecordError> {
        Ok(())
    }

    fn interval(&mut self, interval: Interval) -> Result<(), RecordError> {
        self.arrived += 1;
        self.intervals.push_back((self.arrived, interval));
        if self.intervals.len() > self.most {
            self.intervals.pop_front();
        }
        Ok(())
    }

    fn sample(&mut self, sample: Sample) -> Result<(), RecordError> {
        self.arrived += 1;
        self.samples.push_back((self.arrived, sample));
        if self.samples.len() > self.most {
            self.before.extend(self.samples.pop_front().map(|(_, old)| (old.counter, old)));
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Vec<Event>, RecordError> {
        let intervals = self.intervals.drain(..).map(|(place, kept)| (place, Event::Interval(kept)));
        let samples = self.samples.drain(..).map(|(place, kept)| (place, Event::Sample(kept)));
        let mut kept: Vec<(u64, Event)> = intervals.chain(samples).collect();
        kept.sort_by_key(|(place, _)| *place);
        let before = std::mem::take(&mut self.before).into_values().map(Event::Sample);
        Ok(before.chain(kept.into_iter().map(|(_, event)| event)).collect())
    }
}

/// Both: gives what the first kept, or what the second did if the first kept nothing.
impl<A: Sink, B: Sink> Sink for (A, B) {
    fn begin(&mut self, layout: &Layout) -> Result<(), RecordError> {
        self.0.begin(layout)?;
        self.1.begin(layout)
    }

    fn interval(&mut self, interval: Interval) -> Result<(), RecordError> {
        self.0.interval(interval.clone())?;
        self.1.interval(interval)
    }

    fn sample(&mut self, sample: Sample) -> Result<(), RecordError> {
        self.0.sample(sample)?;
        self.1.sample(sample)
    }

    fn finish(&mut self) -> Result<Vec<Event>, RecordError> {
        let (first, second) = (self.0.finish()?, self.1.finish()?);
        Ok(if first.is_empty() { second } else { first })
    }
}

/// A sink chosen at run time.
impl<S: Sink + ?Sized> Sink for Box<S> {
    fn begin(&mut self, layout: &Layout) -> Result<(), RecordError> {
        (**self).begin(layout)
    }

    fn interval(&mut self, interval: Interval) -> Result<(), RecordError> {
        (**self).interval(interval)
    }

    fn sample(&mut self, sample: Sample) -> Result<(), RecordError> {
        (**self).sample(sample)
    }

    fn finish(&mut self) -> Result<Vec<Event>, RecordError> {
        (**self).finish()
    }
}
