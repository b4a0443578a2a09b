//! A trace written while the run goes on. Memory is that of the lanes, of the interned strings and of the newest events.

use std::io::Write;
use std::num::NonZeroU64;

use super::annotate::Annotations;
use super::describe::{describe, encode_unit, first_packet, packet, place_below};
use super::field;
use super::held::{Held, ROOM};
use super::intern::Interner;
use super::lanes::Lanes;
use super::wire::Wire;
use super::{exact_names, is_exact, timestamp_ns};
use crate::error::RecordError;
use crate::event::{Event, Interval, Sample};
use crate::layout::Layout;
use crate::sink::Sink;

/// Writes a Perfetto trace as events come, the newest when they are no longer needed to find both ends of flows.
///
/// Writes are small, one an event: give a buffered writer.
#[derive(Debug)]
pub struct Stream<W> {
    out: W,
    held: Held,
    clock_hz: NonZeroU64,
    /// What descriptions of further lanes repeat, by track.
    tracks: Vec<(Lanes, Wire)>,
    counter_uuids: Vec<u64>,
    next_uuid: u64,
    names: Interner,
    annotations: Annotations,
    /// Packets of the event in hand; kept for their capacity, as are the next two.
    packets: Wire,
    event: Wire,
    interned: Wire,
}

impl<W: Write> Stream<W> {
    /// A trace into a writer.
    pub fn new(out: W) -> Stream<W> {
        Stream {
            out,
            held: Held::new(ROOM),
            clock_hz: NonZeroU64::MIN,
            tracks: Vec::new(),
            counter_uuids: Vec::new(),
            next_uuid: 1,
            names: Interner::new(field::INTERNED_EVENT_NAMES),
            annotations: Annotations::new(),
            packets: Wire::default(),
            event: Wire::default(),
            interned: Wire::default(),
        }
    }

    /// Takes an event, and writes one that was held back long enough.
    fn take(&mut self, event: Event) -> Result<(), RecordError> {
        let Some(event) = self.held.push(event) else { return Ok(()) };
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
        self.event.bytes.clear();
        self.interned.bytes.clear();
        self.encode_begin(uuid, interval);
        let start_ns = timestamp_ns(interval.start_cycles, self.clock_hz);
        let (event, interned) = (&self.event.bytes, &self.interned.bytes);
        packet(&mut self.packets, |packet| {
            packet.varint(field::PACKET_TIMESTAMP, start_ns);
            packet.bytes(field::PACKET_TRACK_EVENT, event);
            if !interned.is_empty() {
                packet.bytes(field::PACKET_INTERNED_DATA, interned);
            }
        });
        let end_ns = timestamp_ns(interval.end_cycles, self.clock_hz);
        packet(&mut self.packets, |packet| {
            packet.varint(field::PACKET_TIMESTAMP, end_ns);
            packet.message(field::PACKET_TRACK_EVENT, |event| {
                event.varint(field::EVENT_TYPE, field::TYPE_SLICE_END);
                event.varint(field::EVENT_TRACK_UUID, uuid);
            });
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
        describe(&mut self.packets, uuid, description);
        Ok(uuid)
    }

    fn encode_begin(&mut self, uuid: u64, interval: &Interval) {
        let (event, interned) = (&mut self.event, &mut self.interned);
        event.varint(field::EVENT_TYPE, field::TYPE_SLICE_BEGIN);
        event.varint(field::EVENT_TRACK_UUID, uuid);
        match self.names.iid(&interval.name, interned) {
            Some(iid) => event.varint(field::EVENT_NAME_IID, iid),
            None => event.bytes(field::EVENT_NAME, interval.name.as_bytes()),
        }
        if !is_exact(self.clock_hz) {
            let [start, end] = exact_names(self.clock_hz);
            self.annotations.count(event, interned, start, interval.start_cycles);
            self.annotations.count(event, interned, end, interval.end_cycles);
        }
        for (name, count) in &interval.counts {
            self.annotations.count(event, interned, name, *count);
        }
        if let Some(stage) = interval.binding {
            self.annotations.text(event, interned, "binding", stage);
        }
        if let Some(source) = &interval.source {
            self.annotations.text(event, interned, "source", source);
        }
        for id in interval.signals.iter().chain(&interval.waits) {
            event.fixed64(field::EVENT_FLOW_IDS, id.0);
        }
    }

    fn write_sample(&mut self, sample: Sample) -> Result<(), RecordError> {
        let Some(uuid) = self.counter_uuids.get(sample.counter.0 as usize) else {
            let count = self.counter_uuids.len();
            return Err(RecordError::UnknownCounter { counter: sample.counter, count });
        };
        let at_ns = timestamp_ns(sample.at_cycles, self.clock_hz);
        packet(&mut self.packets, |packet| {
            packet.varint(field::PACKET_TIMESTAMP, at_ns);
            packet.message(field::PACKET_TRACK_EVENT, |event| {
                event.varint(field::EVENT_TYPE, field::TYPE_COUNTER);
                event.varint(field::EVENT_TRACK_UUID, *uuid);
                // The field is signed.
                event.varint(field::EVENT_COUNTER_VALUE, sample.value.min(i64::MAX.cast_unsigned()));
            });
        });
        self.flush_packets()
    }

    fn describe_layout(&mut self, layout: &Layout) {
        self.clock_hz = layout.clock_hz;
        for track in &layout.tracks {
            let mut description = Wire::default();
            place_below(&mut description, &track.name, track.parent, self.next_uuid);
            description.varint(field::TRACK_CHILD_ORDERING, field::ORDERING_EXPLICIT);
            describe(&mut self.packets, self.next_uuid, &description);
            self.tracks.push((Lanes::new(self.next_uuid), description));
            self.next_uuid += 1;
        }
        for counter in &layout.counters {
            let mut description = Wire::default();
            place_below(&mut description, &counter.name, Some(counter.track), self.next_uuid);
            encode_unit(&mut description, counter);
            describe(&mut self.packets, self.next_uuid, &description);
            self.counter_uuids.push(self.next_uuid);
            self.next_uuid += 1;
        }
    }

    fn flush_packets(&mut self) -> Result<(), RecordError> {
        self.out.write_all(&self.packets.bytes)?;
        self.packets.bytes.clear();
        Ok(())
    }
}

impl<W: Write> Sink for Stream<W> {
    fn begin(&mut self, layout: &Layout) -> Result<(), RecordError> {
        first_packet(&mut self.packets);
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
        while let Some(event) = self.held.pop() {
            self.write(&event)?;
        }
        self.out.flush()?;
        Ok(Vec::new())
    }
}
