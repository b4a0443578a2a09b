//! The protobuf wire format, as far as traces need it: varints, 64-bit words, texts and nested messages.

const VARINT: u64 = 0;
const WORD: u64 = 1;
const LENGTH_DELIMITED: u64 = 2;

/// Encoded fields of one message.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wire {
    pub(crate) bytes: Vec<u8>,
}

impl Wire {
    /// An unsigned, enum or non-negative signed field.
    pub(crate) fn varint(&mut self, field: u32, value: u64) {
        self.tag(field, VARINT);
        self.push(value);
    }

    /// A `fixed64` field.
    pub(crate) fn fixed64(&mut self, field: u32, value: u64) {
        self.tag(field, WORD);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// A string or bytes field, or a message encoded elsewhere.
    pub(crate) fn bytes(&mut self, field: u32, value: &[u8]) {
        self.tag(field, LENGTH_DELIMITED);
        self.push(value.len() as u64);
        self.bytes.extend_from_slice(value);
    }

    /// A message field. The body is written first and its length moved in front of it.
    pub(crate) fn message(&mut self, field: u32, body: impl FnOnce(&mut Wire)) {
        self.tag(field, LENGTH_DELIMITED);
        let start = self.bytes.len();
        body(self);
        let end = self.bytes.len();
        self.push((end - start) as u64);
        let length_bytes = self.bytes.len() - end;
        self.bytes[start..].rotate_right(length_bytes);
    }

    fn tag(&mut self, field: u32, wire_type: u64) {
        self.push(u64::from(field) << 3 | wire_type);
    }

    fn push(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.bytes.push(value.to_le_bytes()[0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_the_documented_bytes() {
        let mut wire = Wire::default();
        wire.varint(1, 150);
        wire.bytes(2, b"testing");
        wire.message(3, |inner| inner.varint(1, 150));
        wire.fixed64(47, 1);
        let expected = b"\x08\x96\x01\x12\x07testing\x1a\x03\x08\x96\x01\xf9\x02\x01\0\0\0\0\0\0\0";
        assert_eq!(wire.bytes, expected);
    }

    #[test]
    fn long_messages_have_long_lengths() {
        let mut wire = Wire::default();
        wire.message(1, |inner| inner.bytes(2, &[b'x'; 300]));
        assert_eq!(&wire.bytes[..6], b"\x0a\xaf\x02\x12\xac\x02");
        assert_eq!(wire.bytes.len(), 306);
        wire.bytes.clear();
        wire.varint(1, u64::MAX);
        assert_eq!(wire.bytes.len(), 11);
    }
}
