//! The container: little-endian, strings as a 64-bit length and bytes, tensors at aligned offsets behind the
//! descriptions.

use std::collections::BTreeMap;
use std::sync::Arc;

use tilewright_graph::{Dtype, StoredTensor};

use crate::error::{ImportError, ImportResult};
use crate::gguf::cursor::{Cursor, FLOAT32, FLOAT64, MetadataArray, TEXT, width_bytes};

pub use crate::gguf::cursor::MetadataValue;

/// Pairs and tensors of a file, at most; files of the largest models have a few thousand.
const MOST_ENTRIES: u64 = 1 << 16;

/// Where a tensor is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
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

/// Names of element types that are not read, for complaints.
const OTHERS: [(u32, &str); 10] = [
    (6, "Q5_0"),
    (7, "Q5_1"),
    (9, "Q8_1"),
    (10, "Q2_K"),
    (11, "Q3_K"),
    (12, "Q4_K"),
    (13, "Q5_K"),
    (14, "Q6_K"),
    (16, "IQ2_XXS"),
    (28, "F64"),
];

/// A file taken apart.
pub struct Gguf<'g> {
    /// Its name for complaints.
    pub name: &'g str,
    /// Its bytes.
    pub bytes: &'g Arc<Vec<u8>>,
    /// Keys and values.
    pub pairs: BTreeMap<String, MetadataValue>,
    /// Tensors by name.
    pub tensors: BTreeMap<String, TensorInfo>,
}

impl<'g> Gguf<'g> {
    /// Reads header, pairs and descriptions, and checks that every tensor lies inside the file.
    ///
    /// # Errors
    /// If something does not.
    pub fn read(name: &'g str, bytes: &'g Arc<Vec<u8>>) -> ImportResult<Gguf<'g>> {
        let mut cursor = Cursor { name, bytes, at: 0, item: "header".to_string() };
        if cursor.take(4)? != b"GGUF" {
            return Err(ImportError::new(name, "does not begin with GGUF").allowed("a GGUF file"));
        }
        let version = cursor.u32()?;
        if !(2..=3).contains(&version) {
            return Err(ImportError::new(name, format!("GGUF version {version}")).allowed("2, 3"));
        }
        let (tensors, pairs) = (cursor.count(24)?, cursor.count(12)?);
        for (what, count) in [("tensors", tensors), ("pairs", pairs)] {
            if count > MOST_ENTRIES {
                return Err(cursor
                    .wrong(format!("{count} {what}"))
                    .allowed(format!("at most {MOST_ENTRIES}")));
            }
        }
        let mut file = Gguf { name, bytes, pairs: BTreeMap::new(), tensors: BTreeMap::new() };
        for at in 0..pairs {
            cursor.item = format!("pair {at}");
            let key = cursor.text()?;
            cursor.item = format!("key `{key}`");
            let kind = cursor.u32()?;
            let value = cursor.value(kind)?;
            if file.pairs.insert(key, value).is_some() {
                return Err(cursor.wrong("is there twice").allowed("each key once"));
            }
        }
        let mut described = Vec::new();
        for at in 0..tensors {
            cursor.item = format!("tensor {at}");
            described.push(describe(&mut cursor)?);
        }
        let alignment = file.number("general.alignment").unwrap_or(32).clamp(1, 1 << 20);
        let data = (cursor.at as u64).div_ceil(alignment).saturating_mul(alignment);
        for (tensor, dims, kind, offset) in described {
            if offset % alignment != 0 {
                return Err(ImportError::about(
                    name,
                    format!("tensor `{tensor}`"),
                    format!("begins at {offset}"),
                )
                .allowed(format!("multiples of {alignment}, the alignment of the file")));
            }
            let placed = place(&file, &tensor, dims, kind, data.saturating_add(offset))?;
            if file.tensors.insert(tensor.clone(), placed).is_some() {
                return Err(ImportError::about(name, format!("tensor `{tensor}`"), "is there twice")
                    .allowed("each name once"));
            }
        }
        file.apart()?;
        Ok(file)
    }

    /// Refuses tensors that share bytes.
    fn apart(&self) -> ImportResult<()> {
        let mut placed: Vec<(&String, &TensorInfo)> = self.tensors.iter().collect();
        placed.sort_by_key(|(_, tensor)| (tensor.start, tensor.end));
        for pair in placed.windows(2) {
            let [(first, one), (second, other)] = pair else { continue };
            if other.start < one.end {
                let what =
                    format!("begins at byte {}, inside `{first}`, which ends at {}", other.start, one.end);
                return Err(ImportError::about(self.name, format!("tensor `{second}`"), what)
                    .allowed("tensors one behind the other")
                    .instead("the whole file, as it was made"));
            }
        }
        Ok(())
    }

    /// A pair as a number.
    pub fn number(&self, key: &str) -> Option<u64> {
        match self.pairs.get(key)? {
            MetadataValue::Unsigned(number) => Some(*number),
            MetadataValue::Signed(number) => u64::try_from(*number).ok(),
            _ => None,
        }
    }

    /// A pair as a text.
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.pairs.get(key)? {
            MetadataValue::Text(text) => Some(text),
            _ => None,
        }
    }

    fn list(&self, key: &str) -> Option<(&MetadataArray, &'g [u8])> {
        match self.pairs.get(key)? {
            MetadataValue::Array(list) => Some((list, self.bytes.get(list.start..list.end)?)),
            _ => None,
        }
    }

    /// Numbers of a list, at most so many.
    fn items(&self, key: &str, most: usize) -> Option<impl Iterator<Item = MetadataValue>> {
        let (list, bytes) = self.list(key)?;
        let (name, kind) = (self.name, list.kind);
        let each = bytes.chunks_exact(width_bytes(kind)?).take(most);
        Some(
            each.filter_map(move |bytes| Cursor { name, bytes, at: 0, item: String::new() }.value(kind).ok()),
        )
    }

    /// A pair as texts; `None` also if one of them is no UTF-8.
    pub fn texts(&self, key: &str) -> Option<Vec<&'g str>> {
        let (list, bytes) = self.list(key)?;
        if list.kind != TEXT {
            return None;
        }
        let mut cursor = Cursor { name: self.name, bytes, at: 0, item: String::new() };
        (0..list.count).map(|_| std::str::from_utf8(cursor.spelled().ok()?).ok()).collect()
    }

    /// A pair as floats, the first of them.
    pub fn floats(&self, key: &str, most: usize) -> Option<Vec<f32>> {
        self.list(key).filter(|(list, _)| matches!(list.kind, FLOAT32 | FLOAT64))?;
        #[expect(clippy::cast_possible_truncation, reason = "stored as f32")]
        let float = |item: MetadataValue| {
            if let MetadataValue::Float(number) = item { Some(number as f32) } else { None }
        };
        self.items(key, most)?.map(float).collect()
    }

    /// A pair as numbers, the first of them.
    pub fn numbers(&self, key: &str, most: usize) -> Option<Vec<u64>> {
        let number = |item: MetadataValue| match item {
            MetadataValue::Unsigned(number) => Some(number),
            MetadataValue::Signed(number) => u64::try_from(number).ok(),
            _ => None,
        };
        self.items(key, most)?.map(number).collect()
    }

    /// A tensor that is not quantised, where it lies; `None` if it is.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn plain(&self, tensor: &str) -> ImportResult<Option<StoredTensor>> {
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
        Ok(StoredTensor::new(dtype, &found.dims, self.bytes, found.start, found.end))
    }
}

/// Name, sizes, type and offset of a tensor.
fn describe(cursor: &mut Cursor<'_>) -> ImportResult<(String, Vec<u64>, u32, u64)> {
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
    Ok((tensor, dims, cursor.u32()?, cursor.u64()?))
}

/// The bytes of a tensor, which must be inside the file.
fn place(file: &Gguf<'_>, tensor: &str, dims: Vec<u64>, kind: u32, start: u64) -> ImportResult<TensorInfo> {
    let wrong = |what: String| ImportError::about(file.name, format!("tensor `{tensor}`"), what);
    let Some((_, name, block, bytes)) = KINDS.iter().find(|known| known.0 == kind) else {
        let names: Vec<&str> = KINDS.iter().map(|known| known.1).collect();
        let other = OTHERS
            .iter()
            .find(|other| other.0 == kind)
            .map_or(String::new(), |(_, name)| format!(" ({name})"));
        return Err(wrong(format!("element type {kind}{other} is not known")).allowed(names.join(", ")));
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
    Ok(TensorInfo { dims, kind, start: usize::try_from(start).unwrap_or(usize::MAX), end })
}
