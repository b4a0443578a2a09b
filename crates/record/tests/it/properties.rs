//! Random runs: totals against brute force, and the same totals and bytes whatever is kept.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::num::NonZeroU64;

use proptest::prelude::*;
use tilewright_record::perfetto::{self, Stream};
use tilewright_record::{
    ComponentId, CounterId, Event, FlowId, Interval, KeepAll, KeepLast, Layout, Record, Recorder, Sample,
    Sink, TrackId, TrackKind, Unit,
};

use crate::decode;

const TRACKS: u32 = 3;
const LAST_CYCLE: u64 = 200;

fn layout(clock_hz: u64) -> Layout {
    let mut layout = Layout::new(NonZeroU64::new(clock_hz).unwrap());
    for index in 0..TRACKS {
        let parent = index.checked_sub(1).map(TrackId);
        layout.add_track(parent, TrackKind::Engine, format!("track{index}"));
    }
    layout.add_counter(TrackId(0), "occupancy", Unit::Bytes);
    layout.add_counter(TrackId(1), "queued", Unit::Count);
    layout.add_component("all");
    layout
}

fn interval() -> impl Strategy<Value = Interval> {
    let flows = || proptest::collection::vec((0..8_u64).prop_map(FlowId), 0..2);
    (0..TRACKS, 0..LAST_CYCLE, 0..40_u64, "[a-c]{0,2}", any::<u64>(), flows(), flows()).prop_map(
        |(track, start, length, name, count, signals, waits)| Interval {
            binding: count.is_multiple_of(2).then_some("hbm"),
            source: count.is_multiple_of(3).then(|| "a line".into()),
            signals: signals.into_iter().collect(),
            waits: waits.into_iter().collect(),
            ..Interval::new(TrackId(track), name, start, start + length).with_count("bytes", count)
        },
    )
}

/// Events in any order of intervals, and samples in order of time.
fn events() -> impl Strategy<Value = Vec<Event>> {
    let sample = (0..2_u32, 0..LAST_CYCLE, any::<u64>());
    let event = prop_oneof![interval().prop_map(Ok), sample.prop_map(Err)];
    proptest::collection::vec(event, 0..60).prop_map(|drawn| {
        let mut cycles: Vec<u64> =
            drawn.iter().filter_map(|event| event.as_ref().err().map(|s| s.1)).collect();
        cycles.sort_unstable();
        let mut cycles = cycles.into_iter();
        let mut sample = |(counter, _, value)| Sample {
            counter: CounterId(counter),
            at_cycles: cycles.next().unwrap(),
            value,
        };
        drawn
            .into_iter()
            .map(|event| event.map_or_else(|drawn| Event::Sample(sample(drawn)), Event::Interval))
            .collect()
    })
}

/// Records events; `advancing` settles time as far as what comes later allows.
fn record(events: &[Event], sink: impl Sink, clock_hz: u64, advancing: bool) -> Record {
    let mut recorder = Recorder::new(layout(clock_hz), sink).unwrap();
    for (place, event) in events.iter().enumerate() {
        if advancing {
            let starts = events[place..].iter().filter_map(|event| match event {
                Event::Interval(interval) => Some(interval.start_cycles),
                Event::Sample(_) => None,
            });
            recorder.advance(starts.min().unwrap_or(0));
        }
        match event {
            Event::Interval(interval) => recorder.interval(interval.clone()).unwrap(),
            Event::Sample(sample) => recorder.sample(*sample).unwrap(),
        }
        recorder.energy(ComponentId(0), place as u64).unwrap();
    }
    recorder.finish().unwrap()
}

fn brute_force_busy(record: &Record, track: TrackId) -> u64 {
    let busy = |cycle: &u64| {
        let mut intervals = record.intervals().filter(|interval| interval.track == track);
        intervals.any(|interval| (interval.start_cycles..interval.end_cycles).contains(cycle))
    };
    (0..record.totals.cycles).filter(busy).count() as u64
}

/// The sum of a counter over all cycles, cycle by cycle.
fn brute_force_value_cycles(record: &Record, counter: CounterId) -> u128 {
    let value_at = |cycle: u64| {
        let samples =
            record.samples().filter(|sample| sample.counter == counter && sample.at_cycles <= cycle);
        samples.last().map_or(0, |sample| u128::from(sample.value))
    };
    (0..record.totals.cycles).map(value_at).sum()
}

proptest! {
    #[test]
    fn totals_equal_a_count_cycle_by_cycle(events in events(), advancing: bool) {
        let record = record(&events, KeepAll::default(), 1, advancing);
        prop_assert_eq!(&record.events, &events);
        for (totals, index) in record.totals.tracks.iter().zip(0..) {
            prop_assert_eq!(totals.busy_cycles, brute_force_busy(&record, TrackId(index)));
        }
        for (totals, index) in record.totals.counters.iter().zip(0..) {
            prop_assert_eq!(totals.value_cycles, brute_force_value_cycles(&record, CounterId(index)));
        }
    }

    #[test]
    fn totals_do_not_depend_on_what_is_kept(events in events(), most in 0_usize..20) {
        let full = record(&events, KeepAll::default(), 1, false);
        let ring = record(&events, KeepLast::new(most), 1, true);
        let stream = record(&events, Stream::new(Vec::new()), 1, false);
        prop_assert_eq!(&ring.totals, &full.totals);
        prop_assert_eq!(&stream.totals, &full.totals);
        let last = full.intervals().count().saturating_sub(most);
        prop_assert!(ring.intervals().eq(full.intervals().skip(last)));
        for counter in [CounterId(0), CounterId(1)] {
            let kept: Vec<_> = ring.samples().filter(|sample| sample.counter == counter).collect();
            let all: Vec<_> = full.samples().filter(|sample| sample.counter == counter).collect();
            prop_assert!(all.ends_with(&kept));
            prop_assert_eq!(kept.is_empty(), all.is_empty());
        }
    }

    #[test]
    fn streamed_bytes_equal_bytes_written_afterwards(events in events(), clock_hz in 1_u64..3_000_000_000) {
        let (mut streamed, mut written) = (Vec::new(), Vec::new());
        let record = record(&events, (KeepAll::default(), Stream::new(&mut streamed)), clock_hz, true);
        perfetto::write(&record, &mut written).unwrap();
        prop_assert_eq!(streamed, written);
    }

    #[test]
    fn every_interval_is_one_slice_with_its_own_ends(events in events(), clock_hz in 1_u64..3_000_000_000) {
        let mut bytes = Vec::new();
        let record = record(&events, (KeepAll::default(), Stream::new(&mut bytes)), clock_hz, false);
        let trace = decode::trace(&bytes);
        let ns = |cycles| perfetto::timestamp_ns(cycles, record.layout.clock_hz);
        // A flow has an end that raises it and another one that waits for it.
        let raised = |id: &FlowId| record.intervals().any(|interval| interval.signals.contains(id));
        let waits = |interval: &Interval, id: &FlowId| {
            interval.waits.contains(id) && !interval.signals.contains(id)
        };
        let is_flow = |id: &FlowId| raised(id) && record.intervals().any(|interval| waits(interval, id));
        let mut expected: Vec<_> = record
            .intervals()
            .map(|interval| {
                let track = record.layout.tracks[interval.track.0 as usize].name.clone();
                let waited = interval.waits.iter().filter(|id| waits(interval, id));
                let flows = interval.signals.iter().chain(waited).filter(|id| is_flow(id));
                let flows: Vec<u64> = flows.map(|id| id.0).collect();
                let count = interval.counts[0].1.to_string();
                (track, interval.name.to_string(), ns(interval.start_cycles), ns(interval.end_cycles), flows,
                    count)
            })
            .collect();
        let mut slices: Vec<_> = trace
            .slices
            .into_iter()
            .map(|slice| {
                let track = trace.tracks[&slice.track_uuid].name.clone();
                let count = slice.annotations.iter().find(|(name, _)| name == "bytes").unwrap().1.clone();
                (track, slice.name, slice.start_ns, slice.end_ns, slice.flow_ids, count)
            })
            .collect();
        expected.sort();
        slices.sort();
        prop_assert_eq!(slices, expected);
    }
}
