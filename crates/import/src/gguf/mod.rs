//! GGUF files, versions 2 and 3: a header, typed pairs of key and value, descriptions of tensors, then their bytes.
//!
//! - [`file`]: the container; `cursor`: numbers, texts and lists in it;
//! - [`blocks`]: weights quantised in blocks, taken apart into integers and scales;
//! - this file: the Llama family and the tokenizer in such a file.

pub mod blocks;
mod cursor;
pub mod file;

use std::sync::Arc;

use tilewright_graph::{Builder, Built, Dtype, Store, ValueId};

use crate::Model;
use crate::error::{ImportError, Imported};
use crate::gguf::file::{Gguf, Item};
use crate::llama::{Config, Rope, Scaling, graph};
use crate::tokenizer::Tokenizer;
use crate::tokenizer::bytes::{BytePairs, Units};
use crate::tokenizer::pieces::Pieces;
use crate::tokenizer::split::Pattern;

/// Reads a model; `name` is the file's name for complaints.
///
/// # Errors
/// If the file is cut off or no model of the Llama family.
pub fn read(name: &str, bytes: &Arc<Vec<u8>>) -> Imported<Model> {
    let file = Gguf::read(name, bytes)?;
    let config = config(&file)?;
    config.check().map_err(|why| ImportError::new(name, why))?;
    let mut store = Store::default();
    for role in config.roles() {
        blocks::load(
            &file,
            &tensor_name(&role),
            &role,
            &config.weight_dims(&role).unwrap_or_default(),
            &mut store,
        )?;
    }
    let parts = store.clone();
    let mut weight = |b: &mut Builder, role: &str| -> Built<ValueId> { blocks::weight(b, &parts, role) };
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

fn config(file: &Gguf<'_>) -> Imported<Config> {
    let kind = file.text("general.architecture").unwrap_or("");
    if kind != "llama" {
        let what = format!("architecture `{kind}` is not known");
        return Err(ImportError::about(file.name, "general.architecture", what).allowed("llama"));
    }
    let number = |key: &str| file.number(&format!("llama.{key}"));
    let needed = |key: &str| {
        number(key)
            .ok_or_else(|| ImportError::about(file.name, format!("llama.{key}"), "is missing or no number"))
    };
    let (width, heads) = (needed("embedding_length")?, needed("attention.head_count")?);
    let vocabulary = file.tensors.get("token_embd.weight").and_then(|tensor| tensor.dims.first().copied());
    let head_width = number("attention.key_length").or_else(|| number("rope.dimension_count"));
    #[expect(clippy::cast_possible_truncation, reason = "stored as f32")]
    let norm_eps = file.float("llama.attention.layer_norm_rms_epsilon").unwrap_or(1e-5) as f32;
    let scaling = match (file.text("llama.rope.scaling.type"), file.float("llama.rope.scaling.factor")) {
        (Some("linear"), Some(factor)) => Scaling::Linear(factor),
        (None | Some("none"), _) => Scaling::None,
        (Some(other), _) => {
            let what = format!("`{other}` is not known");
            return Err(
                ImportError::about(file.name, "llama.rope.scaling.type", what).allowed("none, linear")
            );
        }
    };
    let scaling = match factors(file)? {
        Some(factors) => Scaling::Factors(factors),
        None => scaling,
    };
    Ok(Config {
        name: file.text("general.name").unwrap_or("llama").to_string(),
        width,
        hidden: needed("feed_forward_length")?,
        layers: needed("block_count")?,
        heads,
        kv_heads: number("attention.head_count_kv").unwrap_or(heads),
        head_width: head_width.unwrap_or_else(|| width.checked_div(heads).unwrap_or(0)),
        vocabulary: vocabulary.unwrap_or(0),
        context: needed("context_length")?,
        norm_eps,
        rope: Rope {
            theta: file.float("llama.rope.freq_base").unwrap_or(10000.0),
            interleaved: true,
            scaling,
        },
        tied: !file.tensors.contains_key("output.weight"),
    })
}

/// Divisors of the frequencies, as Llama 3 files have them.
fn factors(file: &Gguf<'_>) -> Imported<Option<Vec<f64>>> {
    if !file.tensors.contains_key("rope_freqs.weight") {
        return Ok(None);
    }
    let stored = file.plain("rope_freqs.weight")?;
    let stored = stored.filter(|stored| stored.dtype == Dtype::F32);
    let wrong = || ImportError::about(file.name, "tensor `rope_freqs.weight`", "is not of f32");
    let words = stored.ok_or_else(wrong)?;
    Ok(Some(
        words.bytes().as_chunks::<4>().0.iter().map(|word| f64::from(f32::from_le_bytes(*word))).collect(),
    ))
}

/// The tokenizer of a file.
///
/// # Errors
/// If it has none, or one of a kind that is not known.
pub fn tokenizer(name: &str, bytes: &Arc<Vec<u8>>) -> Imported<Tokenizer> {
    let file = Gguf::read(name, bytes)?;
    let lacking = |key: &str| {
        ImportError::about(name, format!("tokenizer.ggml.{key}"), "is missing, of another type or no UTF-8")
    };
    let texts = file.texts("tokenizer.ggml.tokens").ok_or_else(|| lacking("tokens"))?;
    let kinds: Vec<u64> = file.numbers("tokenizer.ggml.token_type", texts.len()).unwrap_or_default();
    let kind_of = |token: u32| kinds.get(token as usize).copied().unwrap_or(1);
    let id = |key: &str| file.number(&format!("tokenizer.ggml.{key}")).and_then(|id| u32::try_from(id).ok());
    let flag = |key: &str, default: bool| match file.pairs.get(&format!("tokenizer.ggml.{key}")) {
        Some(Item::Bool(value)) => *value,
        _ => default,
    };
    let (begin, end) = (id("bos_token_id"), id("eos_token_id"));
    match file.text("tokenizer.ggml.model") {
        Some("llama") => {
            let scores =
                file.floats("tokenizer.ggml.scores", texts.len()).ok_or_else(|| lacking("scores"))?;
            let texts = texts.iter().map(|text| text.replace('▁', " ").into_bytes()).collect();
            // Kinds: 1 ordinary, 4 defined by users; 2 unknown, 3 control, 5 unused, 6 bytes are not found in texts.
            let mut pieces = Pieces::new(texts, scores, |token| matches!(kind_of(token), 1 | 4));
            pieces.begin = begin.or(Some(1)).filter(|_| flag("add_bos_token", true));
            pieces.space_in_front = flag("add_space_prefix", true);
            pieces.ends = end.into_iter().collect();
            Ok(Tokenizer::Pieces(pieces))
        }
        Some("gpt2") => {
            let merges = file.texts("tokenizer.ggml.merges").ok_or_else(|| lacking("merges"))?;
            let pattern = match file.text("tokenizer.ggml.pre").unwrap_or("") {
                "llama-bpe" | "llama3" | "llama-v3" => Pattern::Llama3,
                "smollm" | "starcoder" | "refact" | "command-r" => Pattern::Gpt2 { single_digits: true },
                _ => Pattern::Gpt2 { single_digits: false },
            };
            let count = u32::try_from(texts.len()).unwrap_or(u32::MAX);
            let special: Vec<u32> = (0..count).filter(|token| matches!(kind_of(*token), 3 | 4)).collect();
            let texts = texts.iter().map(ToString::to_string).collect();
            let pairs = merges.iter().filter_map(|merge| merge.split_once(' '));
            let mut pairs = BytePairs::new(texts, pairs, Units::Bytes(pattern), &special);
            if flag("add_bos_token", false) {
                pairs.begin = begin.into_iter().collect();
            }
            pairs.ends = end.into_iter().collect();
            Ok(Tokenizer::BytePairs(pairs))
        }
        other => {
            let what = format!("`{}` is not known", other.unwrap_or(""));
            Err(ImportError::about(name, "tokenizer.ggml.model", what).allowed("llama, gpt2"))
        }
    }
}
