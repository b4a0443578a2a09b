//! Numbers, texts and lists of a GGUF file, one behind the other. Lists stay where they are in the file: an
//! element costs nothing until somebody asks for it, so that a file takes little more memory than it has
//! bytes.

use crate::error::{ImportError, ImportResult};

/// A value of a pair.
#[derive(Clone, Debug, PartialEq)]
pub enum MetadataValue {
    /// A number without a sign.
    Unsigned(u64),
    /// A number with a sign.
    Signed(i64),
    /// A number with a point.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// A text.
    Text(String),
    /// Several of one type.
    Array(MetadataArray),
}

impl MetadataValue {
    /// What it is, in complaints.
    pub(super) fn named(&self) -> String {
        match self {
            MetadataValue::Unsigned(number) => format!("the number {number}"),
            MetadataValue::Signed(number) => format!("the number {number}"),
            MetadataValue::Float(number) => format!("the number {number:?}"),
            MetadataValue::Bool(value) => format!("{value}"),
            MetadataValue::Text(text) => format!("the text `{}`", text.chars().take(40).collect::<String>()),
            MetadataValue::Array(list) => format!("a list of {}", list.count),
        }
    }
}

/// Where the elements of a list are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataArray {
    /// Number of the elements' type.
    pub(super) kind: u32,
    pub(super) count: u64,
    /// First byte of the first element.
    pub(super) start: usize,
    /// One past the last byte.
    pub(super) end: usize,
}

/// Numbers of types that are looked at by name.
pub(super) const FLOAT32: u32 = 6;
pub(super) const TEXT: u32 = 8;
pub(super) const LIST: u32 = 9;
pub(super) const FLOAT64: u32 = 12;

/// Bytes of a value of a type; `None` if each value says itself.
pub(super) const fn width_bytes(kind: u32) -> Option<usize> {
    match kind {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4 | 5 | FLOAT32 => Some(4),
        10 | 11 | FLOAT64 => Some(8),
        _ => None,
    }
}

/// A place in a file, with what is being read for complaints.
pub(super) struct Cursor<'c> {
    pub(super) name: &'c str,
    pub(super) bytes: &'c [u8],
    pub(super) at: usize,
    pub(super) item: String,
}

impl<'c> Cursor<'c> {
    pub(super) fn wrong(&self, what: impl Into<String>) -> Box<ImportError> {
        ImportError::about(self.name, self.item.clone(), what)
    }

    pub(super) fn take(&mut self, count: usize) -> ImportResult<&'c [u8]> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.bytes.len());
        let Some(end) = end else {
            return Err(self.wrong(format!("the file ends at byte {}, in the middle", self.bytes.len())));
        };
        let part = &self.bytes[self.at..end];
        self.at = end;
        Ok(part)
    }

    fn array<const N: usize>(&mut self) -> ImportResult<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(super) fn u32(&mut self) -> ImportResult<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> ImportResult<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A count of things that take at least so many bytes each.
    pub(super) fn count(&mut self, least_bytes: u64) -> ImportResult<u64> {
        let count = self.u64()?;
        let left = (self.bytes.len() - self.at) as u64;
        if count.saturating_mul(least_bytes) > left {
            return Err(self.wrong(format!("claims {count} entries where {left} bytes are left")));
        }
        Ok(count)
    }

    /// The bytes of a text.
    pub(super) fn spelled(&mut self) -> ImportResult<&'c [u8]> {
        let length = self.count(1)?;
        self.take(usize::try_from(length).unwrap_or(usize::MAX))
    }

    pub(super) fn text(&mut self) -> ImportResult<String> {
        Ok(String::from_utf8_lossy(self.spelled()?).into_owned())
    }

    /// A value of a type.
    pub(super) fn value(&mut self, kind: u32) -> ImportResult<MetadataValue> {
        Ok(match kind {
            0 => MetadataValue::Unsigned(u64::from(self.array::<1>()?[0])),
            1 => MetadataValue::Signed(i64::from(i8::from_le_bytes(self.array()?))),
            2 => MetadataValue::Unsigned(u64::from(u16::from_le_bytes(self.array()?))),
            3 => MetadataValue::Signed(i64::from(i16::from_le_bytes(self.array()?))),
            4 => MetadataValue::Unsigned(u64::from(self.u32()?)),
            5 => MetadataValue::Signed(i64::from(i32::from_le_bytes(self.array()?))),
            FLOAT32 => MetadataValue::Float(f64::from(f32::from_le_bytes(self.array()?))),
            7 => MetadataValue::Bool(self.array::<1>()?[0] != 0),
            TEXT => MetadataValue::Text(self.text()?),
            LIST => MetadataValue::Array(self.list(0)?),
            10 => MetadataValue::Unsigned(self.u64()?),
            11 => MetadataValue::Signed(i64::from_le_bytes(self.array()?)),
            FLOAT64 => MetadataValue::Float(f64::from_le_bytes(self.array()?)),
            other => return Err(self.unknown(other)),
        })
    }

    fn unknown(&self, kind: u32) -> Box<ImportError> {
        self.wrong(format!("value type {kind} is not known")).allowed("0 to 12")
    }

    /// Where a list is; its elements are gone through, not kept.
    fn list(&mut self, depth: u32) -> ImportResult<MetadataArray> {
        let kind = self.u32()?;
        let width = width_bytes(kind);
        let count = self.count(width.unwrap_or(8) as u64)?;
        let start = self.at;
        match (width, kind) {
            (Some(width), _) => {
                let bytes = usize::try_from(count).ok().and_then(|count| count.checked_mul(width));
                self.take(bytes.unwrap_or(usize::MAX))?;
            }
            (None, TEXT) => {
                for _ in 0..count {
                    self.spelled()?;
                }
            }
            (None, LIST) if depth == 0 => {
                for _ in 0..count {
                    self.list(depth + 1)?;
                }
            }
            (None, LIST) => {
                return Err(self.wrong("has lists in lists in a list").allowed("lists in a list"));
            }
            (None, other) => return Err(self.unknown(other)),
        }
        Ok(MetadataArray { kind, count, start, end: self.at })
    }
}
