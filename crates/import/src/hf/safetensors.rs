//! safetensors: 8 bytes of length, a JSON table of types, sizes and places, then the bytes. Several files
//! have an index.
//!
//! The table is read and checked by the crate of the format's authors ([`Metadata`]). Two things are done
//! here: its refusals name no file and seldom a tensor, so the tensor that is at fault is looked for again
//! ([`blame`]); and whether the table covers the file is asked here, since the crate (0.8) adds sizes without
//! looking for overflow.

use std::collections::BTreeMap;
use std::sync::Arc;

use safetensors::tensor::{Metadata, TensorInfo};
use serde_json::Value;
use tilewright_graph::{Dtype, StoredTensor};

use crate::error::{ImportError, ImportResult};
use crate::hf::FolderReader;

/// Bytes of the table, at most.
const MOST_HEADER_BYTES: u64 = 100 << 20;

/// Tensors of one or several files.
pub struct Tensors {
    tensors: BTreeMap<String, (String, StoredTensor)>,
    /// Types of others, by name and file.
    unknown: BTreeMap<String, (String, String)>,
    /// Which file a tensor is of, as an index says.
    chosen: BTreeMap<String, String>,
}

const WHOLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

impl Tensors {
    /// Opens `model.safetensors`, or the files that `model.safetensors.index.json` names.
    ///
    /// # Errors
    /// If there is neither, or a file is wrong.
    pub fn open(folder: &FolderReader<'_>) -> ImportResult<Tensors> {
        let (tensors, unknown, chosen) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut found = Tensors { tensors, unknown, chosen };
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
        let named = map.iter().filter_map(|(name, file)| Some((name.clone(), file.as_str()?.to_string())));
        found.chosen = named.collect();
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
    pub fn add(&mut self, file: &str, bytes: &Arc<Vec<u8>>) -> ImportResult<()> {
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
        let metadata: Metadata = serde_json::from_slice(table).map_err(|error| blame(file, table, &error))?;
        let (data, named) = (bytes.len() - start, metadata.data_len());
        if data != named {
            let what = format!("has {data} bytes of tensors, and its table names {named}");
            return Err(ImportError::new(file, what).instead("the whole file"));
        }
        for name in metadata.offset_keys() {
            let Some(info) = metadata.info(&name) else { continue };
            if !self.makes_room(file, &name)? {
                continue;
            }
            let Some(dtype) = dtype(info.dtype) else {
                self.unknown.insert(name, (file.to_string(), info.dtype.to_string()));
                continue;
            };
            let dims: Vec<u64> = info.shape.iter().map(|size| *size as u64).collect();
            let (from, to) = info.data_offsets;
            let tensor = StoredTensor::new(dtype, &dims, bytes, start + from, start + to);
            let tensor = tensor.ok_or_else(|| misfit(file, &name, info))?;
            self.tensors.insert(name, (file.to_string(), tensor));
        }
        Ok(())
    }

    /// Whether a tensor is taken from a file. Of one that stands in two the index says which is meant.
    fn makes_room(&mut self, file: &str, name: &str) -> ImportResult<bool> {
        let held = self.tensors.get(name).map(|(file, _)| file);
        let Some(held) = held.or_else(|| self.unknown.get(name).map(|(file, _)| file)) else {
            return Ok(true);
        };
        match self.chosen.get(name) {
            Some(chosen) if chosen == held => Ok(false),
            Some(chosen) if chosen == file => {
                self.tensors.remove(name);
                self.unknown.remove(name);
                Ok(true)
            }
            _ => {
                let what = format!("is in `{held}` too, and {INDEX} does not say which is meant");
                Err(ImportError::about(file, format!("tensor `{name}`"), what)
                    .allowed("each tensor once")
                    .instead("its file in `weight_map`, or one of the two"))
            }
        }
    }

    /// Whether there is a tensor of this name.
    pub fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name) || self.unknown.contains_key(name)
    }

    /// All names, each with its file.
    pub fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        let known = self.tensors.iter().map(|(name, (file, _))| (name.as_str(), file.as_str()));
        known.chain(self.unknown.iter().map(|(name, (file, _))| (name.as_str(), file.as_str())))
    }

    /// A tensor, which must have these sizes.
    ///
    /// # Errors
    /// If it is missing or has others.
    pub fn get(&self, name: &str, dims: &[u64]) -> ImportResult<StoredTensor> {
        if let Some((file, kind)) = self.unknown.get(name) {
            return Err(of_type(file, name, kind));
        }
        let Some((file, tensor)) = self.tensors.get(name) else {
            let near = tilewright_base::nearest::nearest(name, self.tensors.keys().map(String::as_str));
            let missing = ImportError::about(WHOLE, format!("tensor `{name}`"), "is missing");
            return Err(missing.allowed(format!("near is `{near}`")));
        };
        if !tensor.dtype.is_float() {
            return Err(of_type(file, name, tensor.dtype.name()));
        }
        if tensor.dims != dims {
            let what = format!("has sizes {:?}", tensor.dims);
            return Err(
                ImportError::about(file, format!("tensor `{name}`"), what).allowed(format!("{dims:?}"))
            );
        }
        Ok(tensor.clone())
    }

    /// A stored tensor by name and sizes, refused if an element is not finite.
    ///
    /// # Errors
    /// If it is missing, has others, or one of them is not.
    pub fn weight(&self, name: &str, dims: &[u64]) -> ImportResult<StoredTensor> {
        let tensor = self.get(name, dims)?;
        let file = self.tensors.get(name).map_or(WHOLE, |(file, _)| file);
        crate::finite::check(file, name, &tensor)?;
        Ok(tensor)
    }
}

/// Why the crate refuses a table: the first tensor, in the order of their bytes, that is wrong.
fn blame(file: &str, table: &[u8], refusal: &serde_json::Error) -> Box<ImportError> {
    let Ok(entries) = serde_json::from_slice::<BTreeMap<String, Value>>(table) else {
        return ImportError::new(file, format!("its table is no JSON: {refusal}"));
    };
    let mut tensors = Vec::new();
    for (name, entry) in entries.into_iter().filter(|(name, _)| name != "__metadata__") {
        let kind = entry["dtype"].as_str().unwrap_or("").to_string();
        match serde_json::from_value::<TensorInfo>(entry) {
            Ok(info) => tensors.push((name, info)),
            Err(why) if serde_json::from_value::<safetensors::Dtype>(Value::String(kind.clone())).is_ok() => {
                return ImportError::about(file, format!("tensor `{name}`"), format!("its entry: {why}"));
            }
            Err(_) => return of_type(file, &name, &kind),
        }
    }
    tensors.sort_by(|(a, left), (b, right)| left.data_offsets.cmp(&right.data_offsets).then(a.cmp(b)));
    let mut due = 0;
    for (name, info) in &tensors {
        let (from, to) = info.data_offsets;
        let alone = to.checked_sub(from).map(|bytes| TensorInfo { data_offsets: (0, bytes), ..info.clone() });
        if alone.is_none_or(|info| Metadata::new(None, vec![(String::new(), info)]).is_err()) {
            return misfit(file, name, info);
        }
        if from != due {
            let what = format!("begins at byte {from}, where byte {due} is due");
            return ImportError::about(file, format!("tensor `{name}`"), what)
                .allowed("tensors one behind the other");
        }
        due = to;
    }
    ImportError::new(file, format!("its table: {refusal}"))
}

/// A tensor whose sizes are not those of its bytes.
fn misfit(file: &str, name: &str, info: &TensorInfo) -> Box<ImportError> {
    let (from, to) = info.data_offsets;
    let what = format!("sizes {:?} of {} do not fit bytes {from} to {to}", info.shape, info.dtype);
    ImportError::about(file, format!("tensor `{name}`"), what).instead("the whole file")
}

/// A tensor of a type that weights do not have.
fn of_type(file: &str, name: &str, kind: &str) -> Box<ImportError> {
    ImportError::about(file, format!("tensor `{name}`"), format!("is of type {kind}"))
        .allowed("F32, F16, BF16")
}

/// Types of the format that graphs have.
fn dtype(kind: safetensors::Dtype) -> Option<Dtype> {
    match kind {
        safetensors::Dtype::F32 => Some(Dtype::F32),
        safetensors::Dtype::F16 => Some(Dtype::F16),
        safetensors::Dtype::BF16 => Some(Dtype::Bf16),
        safetensors::Dtype::I8 => Some(Dtype::I8),
        safetensors::Dtype::U8 => Some(Dtype::U8),
        safetensors::Dtype::I32 => Some(Dtype::I32),
        safetensors::Dtype::I64 => Some(Dtype::I64),
        safetensors::Dtype::BOOL => Some(Dtype::Bool),
        _ => None,
    }
}
