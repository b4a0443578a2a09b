//! Field numbers of the Perfetto messages that are written, as in `protos/perfetto/trace` of the public
//! repository google/perfetto at commit ec5d16b14b74 of August 2026. Numbers of released fields never change.
//!
//! | message, file | fields |
//! |---|---|
//! | `Trace`, `trace.proto` | packet 1 |
//! | `TracePacket`, `trace_packet.proto` | timestamp 8, trusted_packet_sequence_id 10, track_event 11, interned_data 12, sequence_flags 13, track_descriptor 60 |
//! | `TrackDescriptor`, `track_event/track_descriptor.proto` | uuid 1, name 2, parent_uuid 5, counter 8, child_ordering 11, sibling_order_rank 12 |
//! | `CounterDescriptor`, `track_event/counter_descriptor.proto` | unit 3, unit_name 6 |
//! | `TrackEvent`, `track_event/track_event.proto` | debug_annotations 4, type 9, name_iid 10, track_uuid 11, name 23, counter_value 30, flow_ids 47 (fixed64) |
//! | `DebugAnnotation`, `track_event/debug_annotation.proto` | name_iid 1, uint_value 3, string_value 6, name 10, string_value_iid 17 |
//! | `InternedData`, `interned_data/interned_data.proto` | event_names 2, debug_annotation_names 3, debug_annotation_string_values 29 |
//! | `EventName`, `DebugAnnotationName`, `InternedString` (`profiling/profile_common.proto`) | iid 1, name or str 2 |

pub(crate) const TRACE_PACKET: u32 = 1;

pub(crate) const PACKET_TIMESTAMP: u32 = 8;
pub(crate) const PACKET_SEQUENCE_ID: u32 = 10;
pub(crate) const PACKET_TRACK_EVENT: u32 = 11;
pub(crate) const PACKET_INTERNED_DATA: u32 = 12;
pub(crate) const PACKET_SEQUENCE_FLAGS: u32 = 13;
pub(crate) const PACKET_TRACK_DESCRIPTOR: u32 = 60;

/// `SEQ_INCREMENTAL_STATE_CLEARED`: interned strings start here.
pub(crate) const FLAG_STATE_CLEARED: u64 = 1;
/// `SEQ_NEEDS_INCREMENTAL_STATE`: interned strings may be used.
pub(crate) const FLAG_NEEDS_STATE: u64 = 2;

pub(crate) const TRACK_UUID: u32 = 1;
pub(crate) const TRACK_NAME: u32 = 2;
pub(crate) const TRACK_PARENT_UUID: u32 = 5;
pub(crate) const TRACK_COUNTER: u32 = 8;
pub(crate) const TRACK_CHILD_ORDERING: u32 = 11;
pub(crate) const TRACK_SIBLING_RANK: u32 = 12;

/// `ChildTracksOrdering.EXPLICIT`: by rank.
pub(crate) const ORDERING_EXPLICIT: u64 = 3;

pub(crate) const COUNTER_UNIT: u32 = 3;
pub(crate) const COUNTER_UNIT_NAME: u32 = 6;

pub(crate) const UNIT_COUNT: u64 = 2;
pub(crate) const UNIT_SIZE_BYTES: u64 = 3;

pub(crate) const EVENT_ANNOTATIONS: u32 = 4;
pub(crate) const EVENT_TYPE: u32 = 9;
pub(crate) const EVENT_NAME_IID: u32 = 10;
pub(crate) const EVENT_TRACK_UUID: u32 = 11;
pub(crate) const EVENT_NAME: u32 = 23;
pub(crate) const EVENT_COUNTER_VALUE: u32 = 30;
pub(crate) const EVENT_FLOW_IDS: u32 = 47;

pub(crate) const TYPE_SLICE_BEGIN: u64 = 1;
pub(crate) const TYPE_SLICE_END: u64 = 2;
pub(crate) const TYPE_COUNTER: u64 = 4;

pub(crate) const ANNOTATION_NAME_IID: u32 = 1;
pub(crate) const ANNOTATION_UINT: u32 = 3;
pub(crate) const ANNOTATION_STRING: u32 = 6;
pub(crate) const ANNOTATION_NAME: u32 = 10;
pub(crate) const ANNOTATION_STRING_IID: u32 = 17;

pub(crate) const INTERNED_EVENT_NAMES: u32 = 2;
pub(crate) const INTERNED_ANNOTATION_NAMES: u32 = 3;
pub(crate) const INTERNED_ANNOTATION_STRINGS: u32 = 29;

pub(crate) const INTERNED_IID: u32 = 1;
pub(crate) const INTERNED_TEXT: u32 = 2;
