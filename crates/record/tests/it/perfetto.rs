//! Traces, read back with a decoder that shares nothing with the encoder.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::num::NonZeroU64;

use tilewright_record::perfetto::{self, Stream};
use tilewright_record::{
    CounterId, Event, FlowId, Interval, KeepAll, Layout, Record, RecordError, Recorder, Sample, Sink,
    TrackId, TrackKind,
};

use crate::decode;
use crate::tiny;

fn tiny_trace(clock_hz: u64) -> decode::Trace {
    let mut bytes = Vec::new();
    let layout = tiny::layout(NonZeroU64::new(clock_hz).unwrap());
    let mut recorder = Recorder::new(layout, Stream::new(&mut bytes)).unwrap();
    tiny::run(&mut recorder).unwrap();
    assert!(recorder.finish().unwrap().events.is_empty());
    decode::trace(&bytes)
}

#[test]
fn tracks_and_counters_keep_their_tree() {
    let trace = tiny_trace(1_000_000_000);
    let rows: Vec<_> =
        trace.tracks.iter().map(|(uuid, track)| (*uuid, track.parent_uuid, &*track.name)).collect();
    let expected = [
        (1, None, "chip0"),
        (2, Some(1), "pe0"),
        (3, Some(2), "main"),
        (4, Some(2), "contraction"),
        (5, Some(2), "tdma"),
        (6, Some(2), "dm"),
        (7, Some(6), "occupancy"),
        (8, Some(1), "power"),
        (9, Some(2), "tdma"),
    ];
    assert_eq!(rows, expected, "a second lane of the DMA comes last");
    assert_eq!(trace.tracks[&7].unit.as_deref(), Some("3"));
    assert_eq!(trace.tracks[&8].unit.as_deref(), Some("mW"));
}

#[test]
fn slices_have_their_times_counts_and_flows() {
    let trace = tiny_trace(1_000_000_000);
    let rows: Vec<_> = trace
        .slices
        .iter()
        .map(|slice| (slice.track_uuid, &*slice.name, slice.start_ns, slice.end_ns, &*slice.flow_ids))
        .collect();
    let expected: [(u64, &str, u64, u64, &[u64]); 6] = [
        (5, "dma in0", 0, 64, &[1]),
        (9, "dma in1", 32, 96, &[2]),
        (3, "wait_d", 96, 97, &[1, 2]),
        (3, "exec", 97, 1121, &[]),
        (4, "exec", 97, 1121, &[]),
        (3, "commit", 1121, 1185, &[]),
    ];
    assert_eq!(rows, expected);
    let annotations: Vec<_> =
        trace.slices[3].annotations.iter().map(|(name, text)| (&**name, &**text)).collect();
    let source = "exec qk: (q, d), (k, d) -> (q, k)";
    assert_eq!(annotations, [("macs", "1048576"), ("binding", "contraction"), ("source", source)]);
    let samples = [(8, 0, 900), (7, 64, 8192), (7, 96, 16_384), (8, 97, 2500), (8, 1121, 900)];
    assert_eq!(trace.samples, samples);
}

#[test]
fn a_clock_off_the_nanosecond_keeps_its_cycles_in_annotations() {
    let trace = tiny_trace(1_400_000_000);
    let exec = &trace.slices[3];
    assert_eq!((&*exec.name, exec.start_ns, exec.end_ns), ("exec", 69, 800));
    let cycles =
        [("start_cycles".to_string(), "97".to_string()), ("end_cycles".to_string(), "1121".to_string())];
    assert_eq!(exec.annotations[..2], cycles);
    let slow = tiny_trace(500_000_000);
    assert_eq!((slow.slices[3].start_ns, slow.slices[3].end_ns), (194, 2242));
    assert_eq!(slow.slices[3].annotations.len(), 3);
}

/// A record of one track, with whatever events.
fn made_by_hand(events: Vec<Event>) -> Record {
    let mut layout = Layout::new(NonZeroU64::MIN);
    layout.add_track(None, TrackKind::Chip, "chip");
    let record = Recorder::new(layout, KeepAll::default()).unwrap().finish().unwrap();
    Record { events, ..record }
}

#[test]
fn strange_names_and_numbers_survive() {
    let name = "é\n\"\0\u{10ffff}".repeat(40);
    let interval = Interval::new(TrackId(0), name.as_str(), 3, u64::MAX).with_count("", u64::MAX);
    let mut bytes = Vec::new();
    perfetto::write(&made_by_hand(vec![Event::Interval(interval)]), &mut bytes).unwrap();
    let slice = &decode::trace(&bytes).slices[0];
    assert_eq!((&slice.name, slice.end_ns), (&name, i64::MAX.cast_unsigned()));
    let last = (String::new(), u64::MAX.to_string());
    assert_eq!(slice.annotations.last(), Some(&last));
}

#[test]
fn unknown_ids_are_refused() {
    let interval = Event::Interval(Interval::new(TrackId(1), "x", 0, 1));
    let refused = perfetto::write(&made_by_hand(vec![interval]), Vec::new());
    assert!(matches!(refused, Err(RecordError::UnknownTrack { count: 1, .. })));
    let sample = Event::Sample(Sample { counter: CounterId(0), at_cycles: 0, value: 0 });
    let refused = perfetto::write(&made_by_hand(vec![sample]), Vec::new());
    assert!(matches!(refused, Err(RecordError::UnknownCounter { count: 0, .. })));
}

#[test]
fn a_writer_that_fails_is_reported() {
    let mut small = [0; 8];
    let refused = perfetto::write(&made_by_hand(Vec::new()), small.as_mut_slice());
    assert!(matches!(refused, Err(RecordError::Write(_))));
}

/// What is written afterwards has flows of any length; what is written on the way has none with one end.
#[test]
fn ends_of_a_flow_may_be_far_apart_in_a_record() {
    let mut events: Vec<Interval> =
        (0..70_000).map(|at| Interval::new(TrackId(0), "x", at, at + 1)).collect();
    events[0].signals.push(FlowId(1));
    events[69_999].waits.push(FlowId(1));
    events[69_998].signals.push(FlowId(2));
    events[69_999].waits.push(FlowId(2));
    let record = made_by_hand(events.into_iter().map(Event::Interval).collect());
    let (mut written, mut streamed) = (Vec::new(), Vec::new());
    perfetto::write(&record, &mut written).unwrap();
    let mut stream = Stream::new(&mut streamed);
    stream.begin(&record.layout).unwrap();
    record.intervals().for_each(|interval| stream.interval(interval.clone()).unwrap());
    stream.finish().unwrap();
    let flows = |bytes: &[u8]| -> Vec<u64> {
        decode::trace(bytes).slices.into_iter().flat_map(|slice| slice.flow_ids).collect()
    };
    assert_eq!(flows(&written), [1, 2, 1, 2]);
    assert_eq!(flows(&streamed), [2, 2]);
}
