//! Protobuf as it lies in bytes: fields with numbers, of four wire types (protobuf.dev, "Encoding").
//!
//! Written anew and not shared with what writes traces, so that one checks the other. Any bytes give fields
//! or an error.

use super::TraceError;

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WireValue<'a> {
    /// A varint, or a number of fixed width.
    Number(u64),
    /// Bytes: a message, a text.
    Bytes(&'a [u8]),
}

impl<'a> WireValue<'a> {
    /// A number; 0 for bytes.
    pub(super) fn number(self) -> u64 {
        match self {
            WireValue::Number(number) => number,
            WireValue::Bytes(_) => 0,
        }
    }

    /// Bytes; none for a number.
    pub(super) fn bytes(self) -> &'a [u8] {
        match self {
            WireValue::Number(_) => &[],
            WireValue::Bytes(bytes) => bytes,
        }
    }

    /// A text, whatever its bytes are.
    pub(super) fn text(self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }
}

/// The fields of a message, in order.
#[derive(Clone, Debug)]
pub(super) struct WireFields<'a> {
    whole: usize,
    rest: &'a [u8],
}

impl<'a> WireFields<'a> {
    /// Of the bytes of a message.
    pub(super) fn new(bytes: &'a [u8]) -> WireFields<'a> {
        WireFields { whole: bytes.len(), rest: bytes }
    }

    fn cut(&self) -> TraceError {
        TraceError::Cut { at_byte: self.whole - self.rest.len() }
    }

    fn take(&mut self, count: u64) -> Result<&'a [u8], TraceError> {
        let count = usize::try_from(count).ok().filter(|count| *count <= self.rest.len());
        let (taken, rest) = self.rest.split_at(count.ok_or_else(|| self.cut())?);
        self.rest = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, TraceError> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.take(1)? else { return Err(self.cut()) };
            value |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(TraceError::Varint { at_byte: self.whole - self.rest.len() })
    }

    fn field(&mut self) -> Result<(u64, WireValue<'a>), TraceError> {
        let key = self.varint()?;
        let little = |bytes: &[u8]| bytes.iter().rev().fold(0_u64, |all, byte| (all << 8) | u64::from(*byte));
        let value = match key & 7 {
            0 => WireValue::Number(self.varint()?),
            1 => WireValue::Number(little(self.take(8)?)),
            2 => {
                let length = self.varint()?;
                WireValue::Bytes(self.take(length)?)
            }
            5 => WireValue::Number(little(self.take(4)?)),
            kind => return Err(TraceError::WireType { kind, at_byte: self.whole - self.rest.len() }),
        };
        Ok((key >> 3, value))
    }
}

impl<'a> Iterator for WireFields<'a> {
    type Item = Result<(u64, WireValue<'a>), TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}
