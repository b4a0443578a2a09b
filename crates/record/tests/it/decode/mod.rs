//! A decoder of the protobuf wire format and of the trace fields, written apart from the encoder:
//! numbers are spelled out here again.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::collections::BTreeMap;

/// A field as it stands on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Number(u64),
    Bytes(Vec<u8>),
}

/// Fields in order; a field number may repeat.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message(Vec<(u64, Value)>);

impl Message {
    pub(crate) fn decode(mut bytes: &[u8]) -> Message {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let tag = varint(&mut bytes);
            let value = match tag & 7 {
                0 => Value::Number(varint(&mut bytes)),
                1 => Value::Number(u64::from_le_bytes(take(&mut bytes, 8).try_into().unwrap())),
                2 => {
                    let length = usize::try_from(varint(&mut bytes)).unwrap();
                    Value::Bytes(take(&mut bytes, length).to_vec())
                }
                other => panic!("wire type {other}"),
            };
            fields.push((tag >> 3, value));
        }
        Message(fields)
    }

    fn all(&self, field: u64) -> impl Iterator<Item = &Value> {
        self.0.iter().filter(move |(number, _)| *number == field).map(|(_, value)| value)
    }

    pub(crate) fn numbers(&self, field: u64) -> Vec<u64> {
        let number = |value: &Value| match value {
            Value::Number(number) => *number,
            Value::Bytes(_) => panic!("field {field} is no number"),
        };
        self.all(field).map(number).collect()
    }

    pub(crate) fn number(&self, field: u64) -> Option<u64> {
        self.numbers(field).first().copied()
    }

    pub(crate) fn messages(&self, field: u64) -> Vec<Message> {
        self.bytes(field).iter().map(|bytes| Message::decode(bytes)).collect()
    }

    pub(crate) fn message(&self, field: u64) -> Option<Message> {
        self.messages(field).into_iter().next()
    }

    pub(crate) fn text(&self, field: u64) -> Option<String> {
        self.bytes(field).into_iter().next().map(|bytes| String::from_utf8(bytes).unwrap())
    }

    fn bytes(&self, field: u64) -> Vec<Vec<u8>> {
        let bytes = |value: &Value| match value {
            Value::Bytes(bytes) => bytes.clone(),
            Value::Number(_) => panic!("field {field} is a number"),
        };
        self.all(field).map(bytes).collect()
    }
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = take(bytes, 1)[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    value
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(count);
    *bytes = rest;
    taken
}

/// A track descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Track {
    pub(crate) parent_uuid: Option<u64>,
    pub(crate) name: String,
    /// The unit's number or name, of a counter.
    pub(crate) unit: Option<String>,
}

/// A slice whose begin and end were matched as a viewer does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    pub(crate) track_uuid: u64,
    pub(crate) name: String,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) annotations: Vec<(String, String)>,
    pub(crate) flow_ids: Vec<u64>,
}

/// A trace as a viewer understands it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trace {
    pub(crate) tracks: BTreeMap<u64, Track>,
    pub(crate) slices: Vec<Slice>,
    /// Track, time and value.
    pub(crate) samples: Vec<(u64, u64, u64)>,
}

/// Interned strings by kind (the field of the interned data) and number.
type Strings = BTreeMap<(u64, u64), String>;

/// Reads a trace as a viewer does: descriptions first, then events by time, equals in the order of the file.
pub(crate) fn trace(bytes: &[u8]) -> Trace {
    let packets = Message::decode(bytes).messages(1);
    let mut trace = Trace::default();
    let mut strings = Strings::new();
    let mut events = Vec::new();
    for (place, packet) in packets.iter().enumerate() {
        assert_eq!(packet.number(10), Some(1), "one sequence");
        assert_eq!(packet.number(13), Some(if place == 0 { 1 } else { 2 }), "flags of packet {place}");
        if let Some(track) = packet.message(60) {
            let seen = trace.tracks.insert(track.number(1).unwrap(), describe(&track));
            assert_eq!(seen, None, "a uuid is described once");
        }
        learn(&mut strings, packet);
        events.extend(packet.message(11).map(|event| (packet.number(8).unwrap(), event)));
    }
    events.sort_by_key(|(at_ns, _)| *at_ns);
    let mut open: BTreeMap<u64, Vec<Slice>> = BTreeMap::new();
    for (at_ns, event) in &events {
        let uuid = event.number(11).unwrap();
        assert!(trace.tracks.contains_key(&uuid), "track {uuid} is described");
        let stack = open.entry(uuid).or_default();
        match event.number(9) {
            Some(1) => stack.push(slice(&strings, uuid, *at_ns, event)),
            Some(2) => {
                let begun = stack.pop().expect("an end has a begin");
                trace.slices.push(Slice { end_ns: *at_ns, ..begun });
            }
            Some(4) => trace.samples.push((uuid, *at_ns, event.number(30).unwrap())),
            other => panic!("event type {other:?}"),
        }
    }
    assert!(open.values().all(Vec::is_empty), "every begin has an end");
    trace
}

fn describe(track: &Message) -> Track {
    let unit = |counter: &Message| counter.number(3).map(|unit| unit.to_string()).or(counter.text(6));
    Track {
        parent_uuid: track.number(5),
        name: track.text(2).unwrap(),
        unit: track.message(8).and_then(|counter| unit(&counter)),
    }
}

fn learn(strings: &mut Strings, packet: &Message) {
    let Some(interned) = packet.message(12) else { return };
    for kind in [2, 3, 29] {
        for entry in interned.messages(kind) {
            let seen = strings.insert((kind, entry.number(1).unwrap()), entry.text(2).unwrap());
            assert_eq!(seen, None, "a number names one string");
        }
    }
}

fn slice(strings: &Strings, track_uuid: u64, start_ns: u64, event: &Message) -> Slice {
    let string = |message: &Message, iid: u64, kind: u64, text: u64| {
        message.number(iid).map(|iid| strings[&(kind, iid)].clone()).or(message.text(text))
    };
    let annotation = |message: &Message| {
        let value = message.number(3).map(|count| count.to_string());
        (string(message, 1, 3, 10).unwrap(), value.or(string(message, 17, 29, 6)).unwrap())
    };
    Slice {
        track_uuid,
        name: string(event, 10, 2, 23).unwrap(),
        start_ns,
        end_ns: start_ns,
        annotations: event.messages(4).iter().map(annotation).collect(),
        flow_ids: event.numbers(47),
    }
}
