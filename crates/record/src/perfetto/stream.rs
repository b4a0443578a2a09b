//! A trace written while the run goes on. Memory is that of the lanes, of the interned strings and of the
//! newest events.

use std::io::Write;
use std::num::NonZeroU64;

use prost::Message as _;

use super::annotate::Annotations;
use super::describe::{counter, described, first_packet, packet, track};
use super::intern::Interner;
use super::lanes::TraceLanes;
use super::message::{EventType, InternedData, Trace, TracePacket, TrackDescriptor, TrackEvent};
use super::pending_events::{CAPACITY, PendingEvents};
use super::{exact_names, is_exact, timestamp_ns};
use crate::error::RecordError;
use crate::event::{Event, Interval, Sample};
use crate::layout::Layout;
use crate::sink::Sink;

/// Writes a Perfetto trace as events come, the newest when they are no longer needed to find both ends of
/// flows.
///
/// Writes are small, one an event: give a buffered writer.
#[derive(Debug)]
pub struct Stream<W> {
    out: W,
    pending: PendingEvents,
    clock_hz: NonZeroU64,
    /// What descriptions of further lanes repeat, by track.
    tracks: Vec<(TraceLanes, TrackDescriptor)>,
    counter_uuids: Vec<u64>,
    next_uuid: u64,
    names: Interner,
    annotations: Annotations,
    /// Packets of the event in hand, and their bytes; both kept for their capacity.
    trace: Trace,
    bytes: Vec<u8>,
}

impl<W: Write> Stream<W> {
    /// A trace into a writer.
    pub fn new(out: W) -> Stream<W> {
        Stream {
            out,
            pending: PendingEvents::new(CAPACITY),
            clock_hz: NonZeroU64::MIN,
            tracks: Vec::new(),
            counter_uuids: Vec::new(),
            next_uuid: 1,
            names: Interner::default(),
            annotations: Annotations::default(),
            trace: Trace::default(),
            bytes: Vec::new(),
        }
    }

    /// Takes an event, and writes one that was held back long enough.
    fn take(&mut self, event: Event) -> Result<(), RecordError> {
        let Some(event) = self.pending.push(event) else { return Ok(()) };
        self.write(&event)
    }

    /// Writes an event with the flows that it has.
    pub(super) fn write(&mut self, event: &Event) -> Result<(), RecordError> {
        match event {
            Event::Interval(interval) => self.write_interval(interval),
            Event::Sample(sample) => self.write_sample(*sample),
        }
    }

    /// Writes the two ends of a slice.
    fn write_interval(&mut self, interval: &Interval) -> Result<(), RecordError> {
        let uuid = self.lane(interval)?;
        let (begin, interned) = self.begin(uuid, interval);
        let is_new = interned != InternedData::default();
        self.trace.packet.push(TracePacket {
            timestamp: Some(timestamp_ns(interval.start_cycles, self.clock_hz)),
            track_event: Some(begin),
            interned_data: is_new.then_some(interned),
            ..packet()
        });
        self.trace.packet.push(TracePacket {
            timestamp: Some(timestamp_ns(interval.end_cycles, self.clock_hz)),
            track_event: Some(track_event(EventType::SliceEnd, uuid)),
            ..packet()
        });
        self.flush_packets()
    }

    /// The Perfetto track that the interval goes to; describes a new one if every lane is taken.
    fn lane(&mut self, interval: &Interval) -> Result<u64, RecordError> {
        let count = self.tracks.len();
        let Some((lanes, description)) = self.tracks.get_mut(interval.track.0 as usize) else {
            return Err(RecordError::UnknownTrack { track: interval.track, count });
        };
        if let Some(uuid) = lanes.place(interval.start_cycles, interval.end_cycles) {
            return Ok(uuid);
        }
        let uuid = self.next_uuid;
        self.next_uuid += 1;
        lanes.open(uuid, interval.end_cycles);
        self.trace.packet.push(described(uuid, description));
        Ok(uuid)
    }

    /// The begin of a slice, and the strings that it names for the first time.
    fn begin(&mut self, uuid: u64, interval: &Interval) -> (TrackEvent, InternedData) {
        let (mut event, mut interned) = (track_event(EventType::SliceBegin, uuid), InternedData::default());
        event.name_iid = self.names.iid(&interval.name, &mut interned.event_names);
        event.name = event.name_iid.is_none().then(|| interval.name.to_string());
        let notes = &mut event.debug_annotations;
        notes.reserve_exact(interval.counts.len() + 4);
        if !is_exact(self.clock_hz) {
            let [start, end] = exact_names(self.clock_hz);
            notes.push(self.annotations.count(&mut interned, start, interval.start_cycles));
            notes.push(self.annotations.count(&mut interned, end, interval.end_cycles));
        }
        for (name, count) in &interval.counts {
            notes.push(self.annotations.count(&mut interned, name, *count));
        }
        if let Some(stage) = interval.binding {
            notes.push(self.annotations.text(&mut interned, "binding", stage));
        }
        if let Some(source) = &interval.source {
            notes.push(self.annotations.text(&mut interned, "source", source));
        }
        event.flow_ids.extend(interval.signals.iter().chain(&interval.waits).map(|id| id.0));
        (event, interned)
    }

    fn write_sample(&mut self, sample: Sample) -> Result<(), RecordError> {
        let Some(uuid) = self.counter_uuids.get(sample.counter.0 as usize) else {
            let count = self.counter_uuids.len();
            return Err(RecordError::UnknownCounter { counter: sample.counter, count });
        };
        // The field is signed.
        let value = i64::try_from(sample.value).unwrap_or(i64::MAX);
        let event = TrackEvent { counter_value: Some(value), ..track_event(EventType::Counter, *uuid) };
        let timestamp = Some(timestamp_ns(sample.at_cycles, self.clock_hz));
        self.trace.packet.push(TracePacket { timestamp, track_event: Some(event), ..packet() });
        self.flush_packets()
    }

    fn describe_layout(&mut self, layout: &Layout) {
        self.clock_hz = layout.clock_hz;
        for each in &layout.tracks {
            let description = track(each, self.next_uuid);
            self.trace.packet.push(described(self.next_uuid, &description));
            self.tracks.push((TraceLanes::new(self.next_uuid), description));
            self.next_uuid += 1;
        }
        for each in &layout.counters {
            self.trace.packet.push(described(self.next_uuid, &counter(each, self.next_uuid)));
            self.counter_uuids.push(self.next_uuid);
            self.next_uuid += 1;
        }
    }

    fn flush_packets(&mut self) -> Result<(), RecordError> {
        self.bytes.clear();
        self.trace.encode(&mut self.bytes).map_err(std::io::Error::other)?;
        self.trace.packet.clear();
        self.out.write_all(&self.bytes)?;
        Ok(())
    }
}

/// An event of a kind on a track.
fn track_event(kind: EventType, uuid: u64) -> TrackEvent {
    TrackEvent { r#type: Some(kind as i32), track_uuid: Some(uuid), ..TrackEvent::default() }
}

impl<W: Write> Sink for Stream<W> {
    fn begin(&mut self, layout: &Layout) -> Result<(), RecordError> {
        self.trace.packet.push(first_packet());
        self.describe_layout(layout);
        self.flush_packets()
    }

    fn interval(&mut self, interval: Interval) -> Result<(), RecordError> {
        self.take(Event::Interval(interval))
    }

    fn sample(&mut self, sample: Sample) -> Result<(), RecordError> {
        self.take(Event::Sample(sample))
    }

    fn finish(&mut self) -> Result<Vec<Event>, RecordError> {
        while let Some(event) = self.pending.pop() {
            self.write(&event)?;
        }
        self.out.flush()?;
        Ok(Vec::new())
    }
}
