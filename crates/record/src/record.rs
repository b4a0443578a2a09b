//! What a run left behind, as plain data.

use std::collections::BTreeMap;

use crate::event::{Event, FlowId, Interval, Sample};
use crate::layout::Layout;
use crate::totals::Totals;

/// A finished run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What could be busy.
    pub layout: Layout,
    /// What a sink kept, in order of arrival.
    pub events: Vec<Event>,
    /// Sums over the whole run, whatever was kept.
    pub totals: Totals,
}

/// A wait that a signal ended, between two kept intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow<'a> {
    /// The signal.
    pub id: FlowId,
    /// Raised it.
    pub from: &'a Interval,
    /// Waited for it.
    pub to: &'a Interval,
}

impl Record {
    /// Kept intervals, in order of arrival.
    pub fn intervals(&self) -> impl Iterator<Item = &Interval> {
        self.events.iter().filter_map(|event| match event {
            Event::Interval(interval) => Some(interval),
            Event::Sample(_) => None,
        })
    }

    /// Kept samples, in order of arrival.
    pub fn samples(&self) -> impl Iterator<Item = &Sample> {
        self.events.iter().filter_map(|event| match event {
            Event::Sample(sample) => Some(sample),
            Event::Interval(_) => None,
        })
    }

    /// Flows of which both ends were kept, in order of the waits. If several intervals raise one signal,
    /// the first kept is meant.
    pub fn flows(&self) -> Vec<Flow<'_>> {
        let mut raised = BTreeMap::new();
        for interval in self.intervals() {
            for id in &interval.signals {
                raised.entry(*id).or_insert(interval);
            }
        }
        let waits = self.intervals().flat_map(|to| to.waits.iter().map(move |id| (*id, to)));
        waits.filter_map(|(id, to)| raised.get(&id).map(|from| Flow { id, from, to })).collect()
    }
}
