//! Hugging Face folders: `config.json`, safetensors in one file or several, for the Llama family and BERT.
//!
//! - [`safetensors`]: the container;
//! - [`bert`]: the graph of BERT encoders;
//! - `ends`: tokens that end a text;
//! - `keys`: values of the configuration by type;
//! - `rope`: its rotary positions;
//! - this file: which model a folder holds, and the Llama family.

pub mod bert;
mod ends;
mod keys;
mod rope;
pub mod safetensors;

use std::collections::BTreeSet;
use std::sync::Arc;
use tilewright_base::invariant::OrBroken;

use serde_json::Value;
use tilewright_graph::{BuildResult, Builder, Dtype, TensorStore, ValueId};

use crate::Model;
use crate::error::{ImportError, ImportResult};
use crate::hf::keys::Keys;
use crate::hf::safetensors::Tensors;
use crate::llama::{Config, graph};

pub use ends::ends;

const FILE: &str = "config.json";

/// Gives the bytes of a file of the folder.
pub type FolderReader<'f> = dyn Fn(&str) -> Option<Arc<Vec<u8>>> + 'f;

/// Reads the model of a folder.
///
/// # Errors
/// If a file is missing or wrong, or the model is of a kind that is not known.
pub fn read(folder: &FolderReader<'_>) -> ImportResult<Model> {
    let bytes = folder(FILE).ok_or_else(|| ImportError::new(FILE, "cannot be read"))?;
    let root: Value = serde_json::from_slice(&bytes)
        .map_err(|error| ImportError::new(FILE, format!("is no JSON: {error}")))?;
    let kind = root["model_type"].as_str().unwrap_or("");
    match kind {
        "llama" | "mistral" | "smollm" => llama(folder, &root, kind),
        "bert" => bert::read(folder, &root),
        other => {
            let what = format!("`{other}` is not known");
            Err(ImportError::about(FILE, "model_type", what).allowed("llama, mistral, bert"))
        }
    }
}

/// Sizes and constants of a Llama, from its `config.json`.
///
/// # Errors
/// If a key is missing or has a value that is not known.
pub fn llama_config(root: &Value, name: &str) -> ImportResult<Config> {
    let keys = Keys::root(root);
    if let Some(function) = keys.word("hidden_act")?.filter(|function| *function != "silu") {
        return Err(
            ImportError::about(FILE, "hidden_act", format!("`{function}` is not known")).allowed("silu")
        );
    }
    for key in ["attention_bias", "mlp_bias"] {
        if keys.flag(key)? {
            return Err(ImportError::about(FILE, key, "is true, which is not known").allowed("false"));
        }
    }
    let (width, heads) = (keys.whole("hidden_size")?, keys.whole("num_attention_heads")?);
    let config = Config {
        name: name.to_string(),
        width,
        hidden: keys.whole("intermediate_size")?,
        layers: keys.whole("num_hidden_layers")?,
        heads,
        kv_heads: keys.maybe_whole("num_key_value_heads")?.unwrap_or(heads),
        head_width: match keys.maybe_whole("head_dim")? {
            Some(head_width) => head_width,
            None => width.checked_div(heads).unwrap_or(0),
        },
        vocabulary: keys.whole("vocab_size")?,
        // Within a sliding window every key is seen; longer contexts are not offered.
        context: keys
            .whole("max_position_embeddings")?
            .min(keys.maybe_whole("sliding_window")?.unwrap_or(u64::MAX)),
        norm_eps: keys.norm_eps("rms_norm_eps", 1e-6)?,
        rope: rope::read(root)?,
        tied: keys.flag("tie_word_embeddings")?,
    };
    config.check().map_err(|why| ImportError::new(FILE, why.to_string()))?;
    Ok(config)
}

/// What a role is called in a checkpoint.
fn tensor_name(role: &str) -> String {
    let Some((layer, part)) = role.strip_prefix("layer").and_then(|rest| rest.split_once('.')) else {
        return match role {
            "embedding" => "model.embed_tokens.weight".to_string(),
            "final_norm" => "model.norm.weight".to_string(),
            _ => "lm_head.weight".to_string(),
        };
    };
    let part = match part {
        "attention_norm" => "input_layernorm",
        "wq" => "self_attn.q_proj",
        "wk" => "self_attn.k_proj",
        "wv" => "self_attn.v_proj",
        "wo" => "self_attn.o_proj",
        "feed_forward_norm" => "post_attention_layernorm",
        "gate" => "mlp.gate_proj",
        "up" => "mlp.up_proj",
        _ => "mlp.down_proj",
    };
    format!("model.layers.{layer}.{part}.weight")
}

fn llama(folder: &FolderReader<'_>, root: &Value, kind: &str) -> ImportResult<Model> {
    let mut config = llama_config(root, kind)?;
    let tensors = Tensors::open(folder)?;
    // Some checkpoints leave the output matrix out without saying that it is tied; one that says it is not
    // must have it.
    config.tied |= root["tie_word_embeddings"].is_null() && !tensors.has("lm_head.weight");
    all_taken(&tensors, &config)?;
    let mut store = TensorStore::default();
    for role in config.roles() {
        let name = tensor_name(&role);
        let tensor =
            tensors.weight(&name, &config.weight_dims(&role).or_broken("every role has its sizes"))?;
        store.tensors.insert(role, tensor);
    }
    let parts = store.clone();
    let mut weight = |b: &mut Builder, role: &str| -> BuildResult<ValueId> { stored(b, &parts, role) };
    let graph = graph(&config, &mut store, &mut weight);
    let graph = graph.map_err(|complaint| ImportError::graph(FILE, "graph", &complaint))?;
    Ok(Model { graph, store })
}

/// Refuses tensors that the graph would leave out: biases, norms of heads, layers beyond those of the
/// configuration.
fn all_taken(tensors: &Tensors, config: &Config) -> ImportResult<()> {
    let taken: BTreeSet<String> = config.roles().iter().map(|role| tensor_name(role)).collect();
    // A matrix that is tied may be there as well, and old checkpoints have the frequencies of positions in
    // every block.
    let known = |name: &str| {
        taken.contains(name) || name == "lm_head.weight" || name.ends_with("rotary_emb.inv_freq")
    };
    let Some((other, file)) = tensors.names().find(|(name, _)| !known(name)) else { return Ok(()) };
    let what = "is no part of a Llama that is known here, and would be left out";
    Err(ImportError::about(file, format!("tensor `{other}`"), what)
        .allowed(format!("weights of {} layers, without biases", config.layers))
        .instead("a model without it, or its own config.json"))
}

/// A tensor of a store in f32.
pub(crate) fn stored(b: &mut Builder, store: &TensorStore, name: &str) -> BuildResult<ValueId> {
    let found = store.tensors.get(name);
    let missing =
        || tilewright_graph::infer::shape_error(format!("no weight `{name}`"), "a weight of the model");
    let found = found.ok_or_else(missing)?;
    let value = b.stored(name, found.dtype, &found.dims)?;
    b.convert(value, Dtype::F32)
}
