//! Events on their way to the file, held back so that a flow is written only where both its ends are.
//!
//! Every command names the signal that it raises, and most of these nobody waits for. Whether somebody does
//! is known only later, while a slice is written with its flows. So the newest events wait here, in their
//! order; a signal and a wait that meet among them are a flow, and what meets nothing before it leaves is
//! written without one. Where all events are known the flows are too ([`flows`]).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use smallvec::SmallVec;

use crate::event::{Event, FlowId, Interval};

/// Events that are held back, at most: some 16 MB of them.
pub(super) const CAPACITY: usize = 1 << 16;

/// The newest events.
#[derive(Debug)]
pub(super) struct PendingEvents {
    capacity: usize,
    events: VecDeque<Event>,
    ends: BTreeMap<FlowId, FlowEnds>,
}

/// Held events that name a flow.
#[derive(Debug, Default)]
struct FlowEnds {
    raise: usize,
    wait: usize,
    /// Both ends were held at the same time, so that both are written.
    is_flow: bool,
}

impl PendingEvents {
    /// Holds at most so many events.
    pub(super) fn new(capacity: usize) -> PendingEvents {
        PendingEvents { capacity, events: VecDeque::new(), ends: BTreeMap::new() }
    }

    /// Takes an event; gives the oldest if there are too many.
    pub(super) fn push(&mut self, event: Event) -> Option<Event> {
        if let Event::Interval(interval) = &event {
            for (id, raises) in named(interval) {
                let ends = self.ends.entry(id).or_default();
                *(if raises { &mut ends.raise } else { &mut ends.wait }) += 1;
                ends.is_flow |= ends.raise > 0 && ends.wait > 0;
            }
        }
        self.events.push_back(event);
        if self.events.len() > self.capacity { self.pop() } else { None }
    }

    /// The oldest event, with the flows that are written.
    pub(super) fn pop(&mut self) -> Option<Event> {
        let mut event = self.events.pop_front()?;
        if let Event::Interval(interval) = &mut event {
            keep(interval, |id, raises| self.leave(id, raises));
        }
        Some(event)
    }

    /// One end of a flow leaves; whether it is written.
    fn leave(&mut self, id: FlowId, raises: bool) -> bool {
        let Some(ends) = self.ends.get_mut(&id) else { return false };
        let count = if raises { &mut ends.raise } else { &mut ends.wait };
        *count = count.saturating_sub(1);
        let is_flow = ends.is_flow;
        if ends.raise == 0 && ends.wait == 0 {
            self.ends.remove(&id);
        }
        is_flow
    }
}

/// Flows of which some events have one end and others the other.
pub(super) fn flows(events: &[Event]) -> BTreeSet<FlowId> {
    let (mut raised, mut waited) = (BTreeSet::new(), BTreeSet::new());
    for event in events {
        let Event::Interval(interval) = event else { continue };
        for (id, raises) in named(interval) {
            if raises { &mut raised } else { &mut waited }.insert(id);
        }
    }
    raised.intersection(&waited).copied().collect()
}

/// Leaves those ends of flows that are written, told for each whether it raises.
pub(super) fn keep(interval: &mut Interval, mut is_written: impl FnMut(FlowId, bool) -> bool) {
    let all: SmallVec<[(FlowId, bool); 4]> = named(interval).collect();
    interval.signals.clear();
    interval.waits.clear();
    for (id, raises) in all {
        if is_written(id, raises) {
            if raises { &mut interval.signals } else { &mut interval.waits }.push(id);
        }
    }
}

/// Signals that an interval raises, and those that it waits for and another raises.
fn named(interval: &Interval) -> impl Iterator<Item = (FlowId, bool)> {
    let waits = interval.waits.iter().filter(|id| !interval.signals.contains(id));
    interval.signals.iter().map(|id| (*id, true)).chain(waits.map(|id| (*id, false)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::TrackId;

    fn interval(signals: &[u64], waits: &[u64]) -> Event {
        let mut interval = Interval::new(TrackId(0), "x", 0, 1);
        interval.signals.extend(signals.iter().copied().map(FlowId));
        interval.waits.extend(waits.iter().copied().map(FlowId));
        Event::Interval(interval)
    }

    /// Flows that are written with each event, in order.
    fn written(capacity: usize, events: Vec<Event>) -> Vec<Vec<u64>> {
        let mut held = PendingEvents::new(capacity);
        let mut left: Vec<Event> = events.into_iter().filter_map(|event| held.push(event)).collect();
        left.extend(std::iter::from_fn(|| held.pop()));
        let flows = |event: Event| match event {
            Event::Interval(interval) => {
                interval.signals.iter().chain(&interval.waits).map(|id| id.0).collect()
            }
            Event::Sample(_) => Vec::new(),
        };
        left.into_iter().map(flows).collect()
    }

    #[test]
    fn a_signal_that_nobody_waits_for_is_no_flow() {
        let events =
            vec![interval(&[1], &[]), interval(&[2], &[1]), interval(&[3], &[3]), interval(&[], &[9])];
        assert_eq!(written(9, events), [vec![1], vec![1], vec![], vec![]]);
    }

    /// Neither end is written of what is too far apart; what met is written at both, and where more wait for
    /// it while one of them is held.
    #[test]
    fn flows_that_are_too_far_apart_have_no_end() {
        let far = vec![interval(&[1], &[]), interval(&[], &[]), interval(&[], &[]), interval(&[], &[1])];
        assert_eq!(written(2, far), [vec![], vec![], vec![], Vec::<u64>::new()]);
        let near = vec![interval(&[1], &[]), interval(&[], &[1]), interval(&[], &[]), interval(&[], &[1])];
        assert_eq!(written(2, near), [vec![1], vec![1], vec![], vec![1]]);
    }
}
