//! Packets of the one sequence, and the descriptions of tracks and counters in them.

use super::message::{
    ChildTracksOrdering, CounterDescriptor, CounterUnit, SEQ_INCREMENTAL_STATE_CLEARED,
    SEQ_NEEDS_INCREMENTAL_STATE, TracePacket, TrackDescriptor,
};
use crate::layout::{Counter, Track, TrackId, Unit};

/// Every packet belongs to one sequence.
const SEQUENCE_ID: u32 = 1;

/// The first packet: interned strings start here.
pub(super) fn first_packet() -> TracePacket {
    TracePacket { sequence_flags: Some(SEQ_INCREMENTAL_STATE_CLEARED), ..packet() }
}

/// A further packet of the sequence, without content.
pub(super) fn packet() -> TracePacket {
    TracePacket {
        trusted_packet_sequence_id: Some(SEQUENCE_ID),
        sequence_flags: Some(SEQ_NEEDS_INCREMENTAL_STATE),
        ..TracePacket::default()
    }
}

/// A packet that describes a track under a number.
pub(super) fn described(uuid: u64, description: &TrackDescriptor) -> TracePacket {
    let description = TrackDescriptor { uuid: Some(uuid), ..description.clone() };
    TracePacket { track_descriptor: Some(Box::new(description)), ..packet() }
}

/// A track for slices.
pub(super) fn track(track: &Track, rank: u64) -> TrackDescriptor {
    let child_ordering = Some(ChildTracksOrdering::Explicit as i32);
    TrackDescriptor { child_ordering, ..place_below(&track.name, track.parent, rank) }
}

/// A track for the values of a counter.
pub(super) fn counter(counter: &Counter, rank: u64) -> TrackDescriptor {
    let unit = |unit: CounterUnit| CounterDescriptor { unit: Some(unit as i32), unit_name: None };
    let descriptor = match counter.unit {
        Unit::Bytes => unit(CounterUnit::SizeBytes),
        Unit::Count => unit(CounterUnit::Count),
        Unit::Milliwatts => CounterDescriptor { unit: None, unit_name: Some("mW".to_string()) },
    };
    TrackDescriptor { counter: Some(descriptor), ..place_below(&counter.name, Some(counter.track), rank) }
}

/// Name, parent and rank, which keeps siblings in the order of the layout. Track uuids are track ids plus
/// one: zero means the root of a trace. Ranks beyond the field's range share its last.
fn place_below(name: &str, parent: Option<TrackId>, rank: u64) -> TrackDescriptor {
    TrackDescriptor {
        name: Some(name.to_string()),
        parent_uuid: parent.map(|parent| u64::from(parent.0) + 1),
        sibling_order_rank: Some(i32::try_from(rank).unwrap_or(i32::MAX)),
        ..TrackDescriptor::default()
    }
}
