//! Packets of the one sequence, and the descriptions of tracks and counters in them.

use super::field;
use super::wire::Wire;
use crate::layout::{Counter, TrackId, Unit};

/// Every packet belongs to one sequence.
const SEQUENCE_ID: u64 = 1;

/// The first packet: interned strings start here.
pub(super) fn first_packet(packets: &mut Wire) {
    packets.message(field::TRACE_PACKET, |packet| {
        packet.varint(field::PACKET_SEQUENCE_ID, SEQUENCE_ID);
        packet.varint(field::PACKET_SEQUENCE_FLAGS, field::FLAG_STATE_CLEARED);
    });
}

/// A further packet of the sequence.
pub(super) fn packet(packets: &mut Wire, body: impl FnOnce(&mut Wire)) {
    packets.message(field::TRACE_PACKET, |packet| {
        packet.varint(field::PACKET_SEQUENCE_ID, SEQUENCE_ID);
        packet.varint(field::PACKET_SEQUENCE_FLAGS, field::FLAG_NEEDS_STATE);
        body(packet);
    });
}

/// A packet with a track descriptor.
pub(super) fn describe(packets: &mut Wire, uuid: u64, description: &Wire) {
    packet(packets, |packet| {
        packet.message(field::PACKET_TRACK_DESCRIPTOR, |track| {
            track.varint(field::TRACK_UUID, uuid);
            track.bytes.extend_from_slice(&description.bytes);
        });
    });
}

/// Name, parent and rank, which keeps siblings in the order of the layout. Track uuids are track ids plus one: zero means the root of a trace.
pub(super) fn place_below(description: &mut Wire, name: &str, parent: Option<TrackId>, rank: u64) {
    description.bytes(field::TRACK_NAME, name.as_bytes());
    if let Some(parent) = parent {
        description.varint(field::TRACK_PARENT_UUID, u64::from(parent.0) + 1);
    }
    description.varint(field::TRACK_SIBLING_RANK, rank);
}

pub(super) fn encode_unit(description: &mut Wire, counter: &Counter) {
    description.message(field::TRACK_COUNTER, |descriptor| match counter.unit {
        Unit::Bytes => descriptor.varint(field::COUNTER_UNIT, field::UNIT_SIZE_BYTES),
        Unit::Count => descriptor.varint(field::COUNTER_UNIT, field::UNIT_COUNT),
        Unit::Milliwatts => descriptor.bytes(field::COUNTER_UNIT_NAME, b"mW"),
    });
}
