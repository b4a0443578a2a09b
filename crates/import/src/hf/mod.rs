//! Hugging Face folders: `config.json`, safetensors in one file or several, for the Llama family and BERT.
//!
//! - [`safetensors`]: the container;
//! - [`bert`]: the graph of BERT encoders;
//! - this file: which model a folder holds, and the Llama family.

pub mod bert;
pub mod safetensors;

use std::sync::Arc;

use serde_json::Value;
use tilewright_graph::{Builder, Built, Dtype, Store, ValueId};

use crate::Model;
use crate::error::{ImportError, Imported};
use crate::hf::safetensors::Tensors;
use crate::llama::{Config, Rope, Scaling, graph};

/// Gives the bytes of a file of the folder.
pub type Folder<'f> = dyn Fn(&str) -> Option<Arc<Vec<u8>>> + 'f;

/// Reads the model of a folder.
///
/// # Errors
/// If a file is missing or wrong, or the model is of a kind that is not known.
pub fn read(folder: &Folder<'_>) -> Imported<Model> {
    const FILE: &str = "config.json";
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

/// A whole number of the configuration.
pub(crate) fn number(root: &Value, key: &str) -> Imported<u64> {
    root[key].as_u64().ok_or_else(|| ImportError::about("config.json", key, "is missing or no whole number"))
}

/// Sizes and constants of a Llama, from its `config.json`.
///
/// # Errors
/// If a key is missing or has a value that is not known.
pub fn llama_config(root: &Value, name: &str) -> Imported<Config> {
    const FILE: &str = "config.json";
    if let Some(function) = root["hidden_act"].as_str().filter(|function| *function != "silu") {
        return Err(
            ImportError::about(FILE, "hidden_act", format!("`{function}` is not known")).allowed("silu")
        );
    }
    for key in ["attention_bias", "mlp_bias"] {
        if root[key].as_bool() == Some(true) {
            return Err(ImportError::about(FILE, key, "is true, which is not known").allowed("false"));
        }
    }
    let (width, heads) = (number(root, "hidden_size")?, number(root, "num_attention_heads")?);
    #[expect(clippy::cast_possible_truncation, reason = "used as f32")]
    let norm_eps = root["rms_norm_eps"].as_f64().unwrap_or(1e-6) as f32;
    let config = Config {
        name: name.to_string(),
        width,
        hidden: number(root, "intermediate_size")?,
        layers: number(root, "num_hidden_layers")?,
        heads,
        kv_heads: root["num_key_value_heads"].as_u64().unwrap_or(heads),
        head_width: root["head_dim"].as_u64().unwrap_or_else(|| width.checked_div(heads).unwrap_or(0)),
        vocabulary: number(root, "vocab_size")?,
        // Within a sliding window every key is seen; longer contexts are not offered.
        context: number(root, "max_position_embeddings")?
            .min(root["sliding_window"].as_u64().unwrap_or(u64::MAX)),
        norm_eps,
        rope: Rope {
            theta: root["rope_theta"].as_f64().unwrap_or(10000.0),
            interleaved: false,
            scaling: scaling(&root["rope_scaling"])?,
        },
        tied: root["tie_word_embeddings"].as_bool().unwrap_or(false),
    };
    config.check().map_err(|why| ImportError::new(FILE, why))?;
    Ok(config)
}

fn scaling(value: &Value) -> Imported<Scaling> {
    if value.is_null() {
        return Ok(Scaling::None);
    }
    let number = |key: &str| {
        value[key]
            .as_f64()
            .ok_or_else(|| ImportError::about("config.json", format!("rope_scaling.{key}"), "is missing"))
    };
    let kind = value["rope_type"].as_str().or_else(|| value["type"].as_str()).unwrap_or("default");
    match kind {
        "default" => Ok(Scaling::None),
        "linear" => Ok(Scaling::Linear(number("factor")?)),
        "llama3" => Ok(Scaling::Llama3 {
            factor: number("factor")?,
            low: number("low_freq_factor")?,
            high: number("high_freq_factor")?,
            original: number("original_max_position_embeddings")?,
        }),
        other => Err(ImportError::about("config.json", "rope_scaling", format!("`{other}` is not known"))
            .allowed("default, linear, llama3")),
    }
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

fn llama(folder: &Folder<'_>, root: &Value, kind: &str) -> Imported<Model> {
    let mut config = llama_config(root, kind)?;
    let tensors = Tensors::open(folder)?;
    // Some checkpoints leave the output matrix out without saying that it is tied.
    config.tied |= !tensors.has("lm_head.weight");
    let mut store = Store::default();
    for role in config.roles() {
        let tensor = tensors.get(&tensor_name(&role), &config.weight_dims(&role).unwrap_or_default())?;
        store.tensors.insert(role, tensor);
    }
    let parts = store.clone();
    let mut weight = |b: &mut Builder, role: &str| -> Built<ValueId> { stored(b, &parts, role) };
    let graph = graph(&config, &mut store, &mut weight);
    let graph = graph.map_err(|complaint| ImportError::graph("config.json", "graph", &complaint))?;
    Ok(Model { graph, store })
}

/// A tensor of a store in f32.
pub(crate) fn stored(b: &mut Builder, store: &Store, name: &str) -> Built<ValueId> {
    let found = store.tensors.get(name);
    let missing =
        || tilewright_graph::infer::shape_error(format!("no weight `{name}`"), "a weight of the model");
    let found = found.ok_or_else(missing)?;
    let value = b.stored(name, found.dtype, &found.dims)?;
    b.convert(value, Dtype::F32)
}
