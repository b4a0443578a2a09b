//! GGUF files, versions 2 and 3: a header, typed pairs of key and value, descriptions of tensors, then their
//! bytes.
//!
//! - [`file`]: the container; `cursor`: numbers, texts and lists in it;
//! - [`blocks`]: weights quantised in blocks, taken apart into integers and scales;
//! - `config`: sizes and constants of the Llama family;
//! - this file: its weights, and the tokenizer in such a file.

pub mod blocks;
mod config;
mod cursor;
pub mod file;

use std::collections::BTreeSet;
use std::sync::Arc;
use tilewright_base::invariant::OrBroken;

use tilewright_graph::{BuildResult, Builder, TensorStore, ValueId};

use crate::Model;
use crate::error::{ImportError, ImportResult};
use crate::gguf::config::FREQUENCIES;
use crate::gguf::file::{Gguf, MetadataValue};
use crate::llama::{Config, graph};
use crate::tokenizer::Tokenizer;
use crate::tokenizer::pipeline::{ByteSplit, Pipeline};
use crate::tokenizer::vocabulary::Vocabulary;

/// Reads a model; `name` is the file's name for complaints.
///
/// # Errors
/// If the file is cut off or no model of the Llama family.
pub fn read(name: &str, bytes: &Arc<Vec<u8>>) -> ImportResult<Model> {
    let file = Gguf::read(name, bytes)?;
    let config = config::read(&file)?;
    config.check().map_err(|why| ImportError::new(name, why.to_string()))?;
    all_taken(&file, &config)?;
    let mut store = TensorStore::default();
    for role in config.roles() {
        blocks::load(
            &file,
            &tensor_name(&role),
            &role,
            &config.weight_dims(&role).or_broken("every role has its sizes"),
            &mut store,
        )?;
    }
    let parts = store.clone();
    let mut weight =
        |b: &mut Builder, role: &str| -> BuildResult<ValueId> { blocks::weight(b, &parts, role) };
    let graph = graph(&config, &mut store, &mut weight);
    let graph = graph.map_err(|complaint| ImportError::graph(name, "graph", &complaint))?;
    Ok(Model { graph, store })
}

/// What a role is called in the file.
fn tensor_name(role: &str) -> String {
    let (layer, part) = match role.strip_prefix("layer").and_then(|rest| rest.split_once('.')) {
        Some((layer, part)) => (Some(layer), part),
        None => (None, role),
    };
    let part = match part {
        "embedding" => "token_embd",
        "final_norm" => "output_norm",
        "attention_norm" => "attn_norm",
        "wq" => "attn_q",
        "wk" => "attn_k",
        "wv" => "attn_v",
        "wo" => "attn_output",
        "feed_forward_norm" => "ffn_norm",
        "gate" => "ffn_gate",
        "up" => "ffn_up",
        "down" => "ffn_down",
        other => other,
    };
    layer.map_or_else(|| format!("{part}.weight"), |layer| format!("blk.{layer}.{part}.weight"))
}

/// Refuses tensors that the graph would leave out: biases, experts, norms of heads.
fn all_taken(file: &Gguf<'_>, config: &Config) -> ImportResult<()> {
    let taken: BTreeSet<String> = config.roles().iter().map(|role| tensor_name(role)).collect();
    // Files of early converters have tables of positions in every block, which no reader uses.
    let known =
        |name: &str| taken.contains(name) || name == FREQUENCIES || name.ends_with("attn_rot_embd.weight");
    let Some(other) = file.tensors.keys().find(|name| !known(name)) else { return Ok(()) };
    let what = "is no part of a Llama that is known here, and would be left out";
    Err(ImportError::about(file.name, format!("tensor `{other}`"), what)
        .allowed(
            "weights of embedding, norms, attn_q, attn_k, attn_v, attn_output, ffn_gate, ffn_up, \
                  ffn_down and output, without biases",
        )
        .instead("a model without it"))
}

/// The tokenizer of a file.
///
/// # Errors
/// If it has none, or one of a kind that is not known.
pub fn tokenizer(name: &str, bytes: &Arc<Vec<u8>>) -> ImportResult<Tokenizer> {
    let file = Gguf::read(name, bytes)?;
    let lacking = |key: &str| {
        ImportError::about(name, format!("tokenizer.ggml.{key}"), "is missing, of another type or no UTF-8")
    };
    let texts = file.texts("tokenizer.ggml.tokens").ok_or_else(|| lacking("tokens"))?;
    let kinds: Vec<u64> = file.numbers("tokenizer.ggml.token_type", texts.len()).unwrap_or_default();
    let kind_of = |token: u32| kinds.get(token as usize).copied().unwrap_or(1);
    let id = |key: &str| file.number(&format!("tokenizer.ggml.{key}")).and_then(|id| u32::try_from(id).ok());
    let flag = |key: &str, default: bool| match file.pairs.get(&format!("tokenizer.ggml.{key}")) {
        Some(MetadataValue::Bool(value)) => *value,
        _ => default,
    };
    let (begin, end) = (id("bos_token_id"), id("eos_token_id"));
    match file.text("tokenizer.ggml.model") {
        Some("llama") => {
            let scores =
                file.floats("tokenizer.ggml.scores", texts.len()).ok_or_else(|| lacking("scores"))?;
            let texts = texts.iter().map(|text| text.replace('▁', " ").into_bytes()).collect();
            // Kinds: 1 ordinary, 4 defined by users; 2 unknown, 3 control, 5 unused, 6 bytes are not found in
            // texts.
            let mut pieces = Vocabulary::new(texts, scores, |token| matches!(kind_of(token), 1 | 4));
            pieces.begin = begin.or(Some(1)).filter(|_| flag("add_bos_token", true));
            pieces.space_in_front = flag("add_space_prefix", true);
            pieces.ends = end.into_iter().collect();
            Ok(Tokenizer::Vocabulary(pieces))
        }
        Some("gpt2") => {
            let merges = file.texts("tokenizer.ggml.merges").ok_or_else(|| lacking("merges"))?;
            let split = match file.text("tokenizer.ggml.pre").unwrap_or("") {
                "llama-bpe" | "llama3" | "llama-v3" => ByteSplit::Llama3,
                "smollm" | "starcoder" | "refact" | "command-r" => ByteSplit::SingleDigits,
                _ => ByteSplit::Gpt2,
            };
            let count = u32::try_from(texts.len()).unwrap_or(u32::MAX);
            let special: Vec<u32> = (0..count).filter(|token| matches!(kind_of(*token), 3 | 4)).collect();
            let pair = |merge: &&str| {
                let pair = merge.split_once(' ').map(|(left, right)| (left.to_string(), right.to_string()));
                pair.ok_or_else(|| {
                    ImportError::about(name, format!("merge `{merge}`"), "is no pair").allowed("two tokens")
                })
            };
            let merges = merges.iter().map(pair).collect::<ImportResult<Vec<_>>>()?;
            let mut pipeline = Pipeline::byte_level(name, &texts, merges, split, &special)?;
            if flag("add_bos_token", false) {
                pipeline.begin = begin.into_iter().collect();
            }
            pipeline.ends = end.into_iter().collect();
            Ok(Tokenizer::Pipeline(Box::new(pipeline)))
        }
        other => {
            let what = format!("`{}` is not known", other.unwrap_or(""));
            Err(ImportError::about(name, "tokenizer.ggml.model", what).allowed("llama, gpt2"))
        }
    }
}
