//! The Perfetto messages that are written, as in `protos/perfetto/trace` of the public repository
//! google/perfetto at commit ec5d16b14b74 of August 2026. Numbers of released fields never change.
//!
//! Each message is in the file of its name in snake case: `trace_packet.proto`,
//! `track_event/track_event.proto`, `track_event/debug_annotation.proto`, `interned_data/interned_data.proto`
//! and so on. Fields that are not written are not here.

use prost::Message;

/// A trace, or a part of one: parts written one after the other are one trace.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Trace {
    #[prost(message, repeated, tag = "1")]
    pub(super) packet: Vec<TracePacket>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TracePacket {
    #[prost(uint64, optional, tag = "8")]
    pub(super) timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    pub(super) trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "11")]
    pub(super) track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "12")]
    pub(super) interned_data: Option<InternedData>,
    #[prost(uint32, optional, tag = "13")]
    pub(super) sequence_flags: Option<u32>,
    #[prost(message, optional, boxed, tag = "60")]
    pub(super) track_descriptor: Option<Box<TrackDescriptor>>,
}

/// `SEQ_INCREMENTAL_STATE_CLEARED`: interned strings start here.
pub(super) const SEQ_INCREMENTAL_STATE_CLEARED: u32 = 1;
/// `SEQ_NEEDS_INCREMENTAL_STATE`: interned strings may be used.
pub(super) const SEQ_NEEDS_INCREMENTAL_STATE: u32 = 2;

#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    pub(super) uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub(super) name: Option<String>,
    #[prost(uint64, optional, tag = "5")]
    pub(super) parent_uuid: Option<u64>,
    #[prost(message, optional, tag = "8")]
    pub(super) counter: Option<CounterDescriptor>,
    #[prost(enumeration = "ChildTracksOrdering", optional, tag = "11")]
    pub(super) child_ordering: Option<i32>,
    #[prost(int32, optional, tag = "12")]
    pub(super) sibling_order_rank: Option<i32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
pub(super) enum ChildTracksOrdering {
    Unknown = 0,
    /// By rank.
    Explicit = 3,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CounterDescriptor {
    #[prost(enumeration = "CounterUnit", optional, tag = "3")]
    pub(super) unit: Option<i32>,
    #[prost(string, optional, tag = "6")]
    pub(super) unit_name: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
pub(super) enum CounterUnit {
    Unspecified = 0,
    Count = 2,
    SizeBytes = 3,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    pub(super) debug_annotations: Vec<DebugAnnotation>,
    #[prost(enumeration = "EventType", optional, tag = "9")]
    pub(super) r#type: Option<i32>,
    #[prost(uint64, optional, tag = "10")]
    pub(super) name_iid: Option<u64>,
    #[prost(uint64, optional, tag = "11")]
    pub(super) track_uuid: Option<u64>,
    #[prost(string, optional, tag = "23")]
    pub(super) name: Option<String>,
    #[prost(int64, optional, tag = "30")]
    pub(super) counter_value: Option<i64>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub(super) flow_ids: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
pub(super) enum EventType {
    Unspecified = 0,
    SliceBegin = 1,
    SliceEnd = 2,
    Counter = 4,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DebugAnnotation {
    #[prost(uint64, optional, tag = "1")]
    pub(super) name_iid: Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    pub(super) uint_value: Option<u64>,
    #[prost(string, optional, tag = "6")]
    pub(super) string_value: Option<String>,
    #[prost(string, optional, tag = "10")]
    pub(super) name: Option<String>,
    #[prost(uint64, optional, tag = "17")]
    pub(super) string_value_iid: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct InternedData {
    #[prost(message, repeated, tag = "2")]
    pub(super) event_names: Vec<InternedString>,
    #[prost(message, repeated, tag = "3")]
    pub(super) debug_annotation_names: Vec<InternedString>,
    #[prost(message, repeated, tag = "29")]
    pub(super) debug_annotation_string_values: Vec<InternedString>,
}

/// `EventName`, `DebugAnnotationName` and `InternedString`, which are alike: a number and a text.
#[derive(Clone, PartialEq, Message)]
pub(super) struct InternedString {
    #[prost(uint64, optional, tag = "1")]
    pub(super) iid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub(super) text: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_the_documented_bytes() {
        let event = TrackEvent {
            r#type: Some(EventType::Counter as i32),
            track_uuid: Some(150),
            counter_value: Some(7),
            flow_ids: vec![1],
            ..TrackEvent::default()
        };
        let packet = TracePacket {
            timestamp: Some(0),
            trusted_packet_sequence_id: Some(1),
            track_event: Some(event),
            ..TracePacket::default()
        };
        let expected =
            b"\x0a\x18\x40\x00\x50\x01\x5a\x12\x48\x04\x58\x96\x01\xf0\x01\x07\xf9\x02\x01\0\0\0\0\0\0\0";
        assert_eq!(Trace { packet: vec![packet] }.encode_to_vec(), expected);
    }
}
