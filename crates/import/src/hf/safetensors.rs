//! safetensors: 8 bytes of length, a JSON table of types, sizes and places, then the bytes. Several files have an index.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use tilewright_graph::{Dtype, Stored};

use crate::error::{ImportError, Imported};
use crate::hf::Folder;

/// Bytes of the table, at most.
const MOST_HEADER_BYTES: u64 = 100 << 20;

/// Tensors of one or several files.
pub struct Tensors {
    tensors: BTreeMap<String, (String, Stored)>,
    /// Types of others, by name and file.
    unknown: BTreeMap<String, (String, String)>,
}

const WHOLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

impl Tensors {
    /// Opens `model.safetensors`, or the files that `model.safetensors.index.json` names.
    ///
    /// # Errors
    /// If there is neither, or a file is wrong.
    pub fn open(folder: &Folder<'_>) -> Imported<Tensors> {
        let mut found = Tensors { tensors: BTreeMap::new(), unknown: BTreeMap::new() };
        if let Some(bytes) = folder(WHOLE) {
            found.add(WHOLE, &bytes)?;
            return Ok(found);
        }
        let index = folder(INDEX).ok_or_else(|| {
            ImportError::new(WHOLE, "cannot be read").allowed(format!("{WHOLE} or {INDEX}"))
        })?;
        let index: Value = serde_json::from_slice(&index)
            .map_err(|error| ImportError::new(INDEX, format!("is no JSON: {error}")))?;
        let map = index["weight_map"].as_object();
        let map = map.ok_or_else(|| ImportError::about(INDEX, "weight_map", "is no table"))?;
        let mut files: Vec<&str> = map.values().filter_map(Value::as_str).collect();
        files.sort_unstable();
        files.dedup();
        for file in files {
            if file.contains(['/', '\\', ':']) || file.starts_with('.') {
                let what = format!("names `{file}`, outside the folder");
                return Err(ImportError::about(INDEX, "weight_map", what).allowed("files of the same folder"));
            }
            let bytes = folder(file).ok_or_else(|| ImportError::new(file, "cannot be read"))?;
            found.add(file, &bytes)?;
        }
        Ok(found)
    }

    /// Adds the tensors of a file.
    ///
    /// # Errors
    /// If its table is wrong, or a tensor is outside the file.
    pub fn add(&mut self, file: &str, bytes: &Arc<Vec<u8>>) -> Imported<()> {
        let cut = || ImportError::new(file, format!("is cut off after {} bytes", bytes.len()));
        let length =
            bytes.get(..8).and_then(|head| head.try_into().ok()).map(u64::from_le_bytes).ok_or_else(cut)?;
        if length > MOST_HEADER_BYTES {
            return Err(
                ImportError::new(file, format!("its table has {length} bytes")).allowed("at most 100 MiB")
            );
        }
        let start = 8 + usize::try_from(length).unwrap_or(usize::MAX - 8);
        let table = bytes.get(8..start).ok_or_else(cut)?;
        let table: serde_json::Map<String, Value> = serde_json::from_slice(table)
            .map_err(|error| ImportError::new(file, format!("its table is no JSON: {error}")))?;
        for (name, entry) in table.iter().filter(|(name, _)| *name != "__metadata__") {
            let wrong = |what: String| ImportError::about(file, format!("tensor `{name}`"), what);
            let kind = entry["dtype"].as_str().unwrap_or("");
            let Some(dtype) = dtype(kind) else {
                self.unknown.insert(name.clone(), (file.to_string(), kind.to_string()));
                continue;
            };
            let numbers = |key: &str| -> Option<Vec<u64>> {
                entry[key].as_array()?.iter().map(Value::as_u64).collect()
            };
            let dims = numbers("shape").ok_or_else(|| wrong("has no shape".to_string()))?;
            let place = numbers("data_offsets").and_then(|place| <[u64; 2]>::try_from(place).ok());
            let place = place.ok_or_else(|| wrong("has no data_offsets".to_string()))?;
            let [from, to] = place.map(|at| usize::try_from(at).ok().and_then(|at| at.checked_add(start)));
            let tensor = from.zip(to).and_then(|(from, to)| Stored::new(dtype, &dims, bytes, from, to));
            let tensor = tensor.ok_or_else(|| {
                let what = format!(
                    "sizes {dims:?} of {kind} at {place:?} do not fit a file of {} bytes",
                    bytes.len()
                );
                wrong(what).instead("the whole file")
            })?;
            self.tensors.insert(name.clone(), (file.to_string(), tensor));
        }
        Ok(())
    }

    /// Whether there is a tensor of this name.
    pub fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name) || self.unknown.contains_key(name)
    }

    /// A tensor, which must have these sizes.
    ///
    /// # Errors
    /// If it is missing or has others.
    pub fn get(&self, name: &str, dims: &[u64]) -> Imported<Stored> {
        let wrong = |file: &str, kind: &str| {
            let what = format!("is of type {kind}");
            ImportError::about(file, format!("tensor `{name}`"), what).allowed("F32, F16, BF16")
        };
        if let Some((file, kind)) = self.unknown.get(name) {
            return Err(wrong(file, kind));
        }
        let Some((file, tensor)) = self.tensors.get(name) else {
            let near = tilewright_base::nearest::nearest(name, self.tensors.keys().map(String::as_str));
            let missing = ImportError::about(WHOLE, format!("tensor `{name}`"), "is missing");
            return Err(missing.allowed(format!("near is `{near}`")));
        };
        if !tensor.dtype.is_float() {
            return Err(wrong(file, tensor.dtype.name()));
        }
        if tensor.dims != dims {
            let what = format!("has sizes {:?}", tensor.dims);
            return Err(
                ImportError::about(file, format!("tensor `{name}`"), what).allowed(format!("{dims:?}"))
            );
        }
        Ok(tensor.clone())
    }

    /// The same for a weight, whose elements must be finite.
    ///
    /// # Errors
    /// If it is missing, has others, or one of them is not.
    pub fn weight(&self, name: &str, dims: &[u64]) -> Imported<Stored> {
        let tensor = self.get(name, dims)?;
        let file = self.tensors.get(name).map_or(WHOLE, |(file, _)| file);
        crate::finite::check(file, name, &tensor)?;
        Ok(tensor)
    }
}

fn dtype(name: &str) -> Option<Dtype> {
    match name {
        "F32" => Some(Dtype::F32),
        "F16" => Some(Dtype::F16),
        "BF16" => Some(Dtype::Bf16),
        "I8" => Some(Dtype::I8),
        "U8" => Some(Dtype::U8),
        "I32" => Some(Dtype::I32),
        "I64" => Some(Dtype::I64),
        "BOOL" => Some(Dtype::Bool),
        _ => None,
    }
}
