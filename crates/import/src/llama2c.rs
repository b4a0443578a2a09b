//! Checkpoints of llama2.c, version 0: seven int32, then float32 arrays without padding.
//!
//! Little-endian: width, hidden, layers, heads, key heads, vocabulary (negative: an output matrix of its own
//! comes last), context. Then for all layers of a kind together: embedding, attention norm, wq, wk, wv, wo,
//! feed-forward norm, gate, down, up; final norm; two tables of rotary positions, which are not used.

use std::collections::BTreeMap;
use std::sync::Arc;
use tilewright_base::invariant::OrBroken;

use tilewright_graph::{Builder, Dtype, StoredTensor, TensorStore};

use crate::Model;
use crate::error::{ImportError, ImportResult};
use crate::finite;
use crate::llama::{Config, Rope, Scaling, graph};

const HEADER_BYTES: usize = 28;

/// Reads a checkpoint; `file` is its name for complaints.
pub fn read(file: &str, bytes: &Arc<Vec<u8>>) -> ImportResult<Model> {
    let config = config(file, bytes)?;
    config.check().map_err(|why| ImportError::new(file, format!("not a llama2.c checkpoint: {why}")))?;
    let mut store = TensorStore { tensors: tensors(file, &config, bytes)? };
    let dims = |role: &str| config.weight_dims(role).or_broken("every role has its sizes");
    let mut weight = |b: &mut Builder, role: &str| b.stored(role, Dtype::F32, &dims(role));
    let graph = graph(&config, &mut store, &mut weight);
    let graph = graph.map_err(|complaint| ImportError::graph(file, "graph", &complaint))?;
    Ok(Model { graph, store })
}

fn config(file: &str, bytes: &[u8]) -> ImportResult<Config> {
    let header = bytes.get(..HEADER_BYTES).ok_or_else(|| {
        let what = format!("{} bytes are no llama2.c checkpoint", bytes.len());
        ImportError::new(file, what).allowed(format!("a header of {HEADER_BYTES} bytes"))
    })?;
    let mut words = header.as_chunks::<4>().0.iter().map(|word| i32::from_le_bytes(*word));
    let mut next = || i64::from(words.next().unwrap_or(0));
    let mut number = |name: &str| -> ImportResult<u64> {
        let value = next();
        u64::try_from(value).map_err(|_| {
            ImportError::about(file, "header", format!("{name} is {value}")).allowed("a number from 1")
        })
    };
    let (width, hidden, layers) = (number("width")?, number("hidden width")?, number("layers")?);
    let (heads, kv_heads) = (number("heads")?, number("key heads")?);
    let vocabulary = next();
    let context = next();
    let head_width = width.checked_div(heads).unwrap_or(0);
    if heads == 0 || width % heads != 0 {
        let what = format!("a width of {width} for {heads} heads");
        return Err(ImportError::about(file, "header", what).allowed("a multiple of the heads"));
    }
    Ok(Config {
        name: "llama2c".to_string(),
        width,
        hidden,
        layers,
        heads,
        kv_heads,
        head_width,
        vocabulary: vocabulary.unsigned_abs(),
        context: u64::try_from(context).unwrap_or(0),
        norm_eps: 1e-5,
        rope: Rope { theta: 10000.0, interleaved: true, scaling: Scaling::None },
        tied: vocabulary > 0,
    })
}

fn tensors(
    file: &str,
    config: &Config,
    bytes: &Arc<Vec<u8>>,
) -> ImportResult<BTreeMap<String, StoredTensor>> {
    let mut found = BTreeMap::new();
    let mut at = HEADER_BYTES;
    let mut take = |name: String, dims: &[u64]| -> ImportResult<Option<StoredTensor>> {
        let elements = dims.iter().fold(1_u64, |count, dim| count.saturating_mul(*dim));
        let end = usize::try_from(elements.saturating_mul(4)).ok().and_then(|size| at.checked_add(size));
        let tensor = end.and_then(|end| StoredTensor::new(Dtype::F32, dims, bytes, at, end));
        let Some(tensor) = tensor else {
            let left = bytes.len().saturating_sub(at);
            let what = format!("needs {elements} float32, but {left} bytes are left of the file");
            return Err(ImportError::about(file, name, what).instead("the whole file"));
        };
        at = end.unwrap_or(at);
        Ok(Some(tensor))
    };
    let mut all = |parts: &[&str], layers: Option<u64>| -> ImportResult<()> {
        for part in parts {
            for layer in 0..layers.unwrap_or(1) {
                let role = layers.map_or_else(|| (*part).to_string(), |_| format!("layer{layer}.{part}"));
                let dims = config.weight_dims(&role).or_broken("every role has its sizes");
                if let Some(tensor) = take(role.clone(), &dims)? {
                    finite::check(file, &role, &tensor)?;
                    found.insert(role, tensor);
                }
            }
        }
        Ok(())
    };
    all(&["embedding"], None)?;
    let kinds = ["attention_norm", "wq", "wk", "wv", "wo", "feed_forward_norm", "gate", "down", "up"];
    all(&kinds, Some(config.layers))?;
    all(&["final_norm"], None)?;
    let table = [config.context, config.head_width / 2];
    take("cosines of positions".to_string(), &table)?;
    take("sines of positions".to_string(), &table)?;
    if !config.tied {
        let dims = config.weight_dims("output").or_broken("every role has its sizes");
        if let Some(tensor) = take("output".to_string(), &dims)? {
            finite::check(file, "output", &tensor)?;
            found.insert("output".to_string(), tensor);
        }
    }
    if at != bytes.len() {
        let what = format!("{} bytes follow the last weight", bytes.len() - at);
        return Err(ImportError::new(file, what).allowed("a file of version 0 that ends with its weights"));
    }
    Ok(found)
}
