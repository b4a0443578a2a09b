//! The container: little-endian, strings as a 64-bit length and bytes, tensors at aligned offsets behind the descriptions.

use std::collections::BTreeMap;
use std::sync::Arc;

use tilewright_graph::{Dtype, Stored};

use crate::error::{ImportError, Imported};

/// A value of a pair.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
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
    List(Vec<Item>),
}

/// Where a tensor is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Sizes, outermost first.
    pub dims: Vec<u64>,
    /// Number of the element type.
    pub kind: u32,
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

/// Element types by number: name, elements of a block, bytes of a block.
const KINDS: [(u32, &str, u64, u64); 6] = [
    (0, "F32", 1, 4),
    (1, "F16", 1, 2),
    (2, "Q4_0", 32, 18),
    (3, "Q4_1", 32, 20),
    (8, "Q8_0", 32, 34),
    (30, "BF16", 1, 2),
];

/// A file taken apart.
pub struct Gguf<'g> {
    /// Its name for complaints.
    pub name: &'g str,
    /// Its bytes.
    pub bytes: &'g Arc<Vec<u8>>,
    /// Keys and values.
    pub pairs: BTreeMap<String, Item>,
    /// Tensors by name.
    pub tensors: BTreeMap<String, Described>,
}

struct Cursor<'c> {
    name: &'c str,
    bytes: &'c [u8],
    at: usize,
    item: String,
}

impl Cursor<'_> {
    fn wrong(&self, what: impl Into<String>) -> Box<ImportError> {
        ImportError::about(self.name, self.item.clone(), what)
    }

    fn take(&mut self, count: usize) -> Imported<&[u8]> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.bytes.len());
        let Some(end) = end else {
            return Err(self.wrong(format!("the file ends at byte {}, in the middle", self.bytes.len())));
        };
        let part = &self.bytes[self.at..end];
        self.at = end;
        Ok(part)
    }

    fn array<const N: usize>(&mut self) -> Imported<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn u32(&mut self) -> Imported<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Imported<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A count of things that take at least so many bytes each.
    fn count(&mut self, least_bytes: u64) -> Imported<u64> {
        let count = self.u64()?;
        let left = (self.bytes.len() - self.at) as u64;
        if count.saturating_mul(least_bytes) > left {
            return Err(self.wrong(format!("claims {count} entries where {left} bytes are left")));
        }
        Ok(count)
    }

    fn text(&mut self) -> Imported<String> {
        let length = self.count(1)?;
        let bytes = self.take(usize::try_from(length).unwrap_or(usize::MAX))?;
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }

    fn value(&mut self, kind: u32, depth: u32) -> Imported<Item> {
        Ok(match kind {
            0 => Item::Unsigned(u64::from(self.array::<1>()?[0])),
            1 => Item::Signed(i64::from(i8::from_le_bytes(self.array()?))),
            2 => Item::Unsigned(u64::from(u16::from_le_bytes(self.array()?))),
            3 => Item::Signed(i64::from(i16::from_le_bytes(self.array()?))),
            4 => Item::Unsigned(u64::from(self.u32()?)),
            5 => Item::Signed(i64::from(i32::from_le_bytes(self.array()?))),
            6 => Item::Float(f64::from(f32::from_le_bytes(self.array()?))),
            7 => Item::Bool(self.array::<1>()?[0] != 0),
            8 => Item::Text(self.text()?),
            9 if depth < 2 => {
                let inner = self.u32()?;
                let count = self.count(1)?;
                let mut items = Vec::new();
                for _ in 0..count {
                    items.push(self.value(inner, depth + 1)?);
                }
                Item::List(items)
            }
            10 => Item::Unsigned(self.u64()?),
            11 => Item::Signed(i64::from_le_bytes(self.array()?)),
            12 => Item::Float(f64::from_le_bytes(self.array()?)),
            other => return Err(self.wrong(format!("value type {other} is not known")).allowed("0 to 12")),
        })
    }
}

impl<'g> Gguf<'g> {
    /// Reads header, pairs and descriptions, and checks that every tensor lies inside the file.
    ///
    /// # Errors
    /// If something does not.
    pub fn read(name: &'g str, bytes: &'g Arc<Vec<u8>>) -> Imported<Gguf<'g>> {
        let mut cursor = Cursor { name, bytes, at: 0, item: "header".to_string() };
        if cursor.take(4)? != b"GGUF" {
            return Err(ImportError::new(name, "does not begin with GGUF").allowed("a GGUF file"));
        }
        let version = cursor.u32()?;
        if !(2..=3).contains(&version) {
            return Err(ImportError::new(name, format!("GGUF version {version}")).allowed("2, 3"));
        }
        let tensors = cursor.count(24)?;
        let pairs = cursor.count(12)?;
        let mut file = Gguf { name, bytes, pairs: BTreeMap::new(), tensors: BTreeMap::new() };
        for at in 0..pairs {
            cursor.item = format!("pair {at}");
            let key = cursor.text()?;
            cursor.item = format!("key `{key}`");
            let kind = cursor.u32()?;
            let value = cursor.value(kind, 0)?;
            file.pairs.insert(key, value);
        }
        let mut described = Vec::new();
        for at in 0..tensors {
            cursor.item = format!("tensor {at}");
            let tensor = cursor.text()?;
            cursor.item = format!("tensor `{tensor}`");
            let rank = cursor.u32()?;
            if rank > 8 {
                return Err(cursor.wrong(format!("has {rank} axes")).allowed("at most 8"));
            }
            let mut dims = Vec::new();
            for _ in 0..rank {
                dims.push(cursor.u64()?);
            }
            dims.reverse();
            described.push((tensor, dims, cursor.u32()?, cursor.u64()?));
        }
        let alignment = file.number("general.alignment").unwrap_or(32).clamp(1, 1 << 20);
        let data = (cursor.at as u64).div_ceil(alignment).saturating_mul(alignment);
        for (tensor, dims, kind, offset) in described {
            let placed = place(&file, &tensor, dims, kind, data.saturating_add(offset))?;
            file.tensors.insert(tensor, placed);
        }
        Ok(file)
    }

    /// A pair as a number.
    pub fn number(&self, key: &str) -> Option<u64> {
        match self.pairs.get(key)? {
            Item::Unsigned(number) => Some(*number),
            Item::Signed(number) => u64::try_from(*number).ok(),
            _ => None,
        }
    }

    /// A pair as a float.
    pub fn float(&self, key: &str) -> Option<f64> {
        match self.pairs.get(key)? {
            Item::Float(number) => Some(*number),
            _ => None,
        }
    }

    /// A pair as a text.
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.pairs.get(key)? {
            Item::Text(text) => Some(text),
            _ => None,
        }
    }

    fn list<'i, T>(&'i self, key: &str, each: impl Fn(&'i Item) -> Option<T>) -> Option<Vec<T>> {
        match self.pairs.get(key)? {
            Item::List(items) => items.iter().map(each).collect(),
            _ => None,
        }
    }

    /// A pair as texts.
    pub fn texts(&self, key: &str) -> Option<Vec<&str>> {
        self.list(key, |item| if let Item::Text(text) = item { Some(text.as_str()) } else { None })
    }

    /// A pair as floats.
    #[expect(clippy::cast_possible_truncation, reason = "stored as f32")]
    pub fn floats(&self, key: &str) -> Option<Vec<f32>> {
        self.list(key, |item| if let Item::Float(number) = item { Some(*number as f32) } else { None })
    }

    /// A pair as numbers.
    pub fn numbers(&self, key: &str) -> Option<Vec<u64>> {
        self.list(key, |item| match item {
            Item::Unsigned(number) => Some(*number),
            Item::Signed(number) => u64::try_from(*number).ok(),
            _ => None,
        })
    }

    /// A tensor that is not quantised, where it lies; `None` if it is.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn plain(&self, tensor: &str) -> Imported<Option<Stored>> {
        let found = self.tensors.get(tensor).ok_or_else(|| {
            ImportError::about(self.name, format!("tensor `{tensor}`"), "is missing")
                .instead("the whole model")
        })?;
        let dtype = match found.kind {
            0 => Dtype::F32,
            1 => Dtype::F16,
            30 => Dtype::Bf16,
            _ => return Ok(None),
        };
        Ok(Stored::new(dtype, &found.dims, self.bytes, found.start, found.end))
    }
}

/// The bytes of a tensor, which must be inside the file.
fn place(file: &Gguf<'_>, tensor: &str, dims: Vec<u64>, kind: u32, start: u64) -> Imported<Described> {
    let wrong = |what: String| ImportError::about(file.name, format!("tensor `{tensor}`"), what);
    let Some((_, name, block, bytes)) = KINDS.iter().find(|known| known.0 == kind) else {
        let names: Vec<&str> = KINDS.iter().map(|known| known.1).collect();
        return Err(wrong(format!("element type {kind} is not known")).allowed(names.join(", ")));
    };
    let width = dims.last().copied().unwrap_or(1);
    if width % block != 0 {
        return Err(wrong(format!("rows of {width} are not whole blocks of {name}"))
            .allowed(format!("multiples of {block}")));
    }
    let count = dims.iter().try_fold(1_u64, |count, dim| count.checked_mul(*dim));
    let size = count.map(|count| count / block).and_then(|blocks| blocks.checked_mul(*bytes));
    let end = size.and_then(|size| start.checked_add(size)).filter(|end| *end <= file.bytes.len() as u64);
    let Some(end) = end.and_then(|end| usize::try_from(end).ok()) else {
        let what = format!(
            "sizes {dims:?} of {name} from byte {start} do not fit a file of {} bytes",
            file.bytes.len()
        );
        return Err(wrong(what).instead("the whole file"));
    };
    Ok(Described { dims, kind, start: usize::try_from(start).unwrap_or(usize::MAX), end })
}
