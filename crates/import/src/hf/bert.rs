//! BERT encoders: embeddings of tokens and places, then blocks of attention and feed-forward, each with a
//! norm behind it.
//!
//! Inputs `tokens` and `mask` (1 where there is a token); outputs `hidden` of all places and `embedding`, the
//! mean over the tokens, or the first of them where the folder asks for it, scaled to length 1, as sentence
//! encoders use it.

use serde_json::Value;
use tilewright_graph::rich::{Attrs, RichOp};
use tilewright_graph::{Binary, BuildResult, Builder, Dim, Dtype, Fold, TensorStore, Type, ValueId};

use crate::Model;
use crate::error::{ImportError, ImportResult};
use crate::hf::keys::Keys;
use crate::hf::safetensors::Tensors;
use crate::hf::{FolderReader, stored};
use crate::llama::MOST_BATCH;

struct BertConfig {
    width: u64,
    hidden: u64,
    layers: u64,
    heads: u64,
    vocabulary: u64,
    places: u64,
    kinds: u64,
    eps: f32,
    gelu: &'static str,
}

pub(super) fn read(folder: &FolderReader<'_>, root: &Value) -> ImportResult<Model> {
    let config = config(root)?;
    let pooling = pooling(folder)?;
    let tensors = Tensors::open(folder)?;
    let prefix = if tensors.has("bert.embeddings.word_embeddings.weight") { "bert." } else { "" };
    let mut store = TensorStore::default();
    for (name, dims) in weights(&config) {
        let tensor = tensors.weight(&format!("{prefix}{name}"), &dims)?;
        store.tensors.insert(name, tensor);
    }
    all_taken(&tensors, prefix, &store)?;
    let graph = BertBuilder { config: &config, store: &store, pooling }.graph();
    let graph = graph.map_err(|complaint| ImportError::graph("config.json", "graph", &complaint))?;
    Ok(Model { graph, store })
}

/// How the vector of a text comes from those of its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pooling {
    /// The mean over the tokens.
    Mean,
    /// The first token, `[CLS]`.
    First,
}

/// Where sentence encoders say how they pool.
const POOLING_FILE: &str = "1_Pooling/config.json";

/// What the folder says of pooling; without a word of it the mean.
fn pooling(folder: &FolderReader<'_>) -> ImportResult<Pooling> {
    let Some(bytes) = folder(POOLING_FILE) else { return Ok(Pooling::Mean) };
    let root: Value = serde_json::from_slice(&bytes)
        .map_err(|error| ImportError::new(POOLING_FILE, format!("is no JSON: {error}")))?;
    let modes: Vec<&str> = root
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, value)| key.starts_with("pooling_mode_") && value.as_bool() == Some(true))
        .map(|(key, _)| key.as_str())
        .collect();
    match modes.as_slice() {
        [] | ["pooling_mode_mean_tokens"] => Ok(Pooling::Mean),
        ["pooling_mode_cls_token"] => Ok(Pooling::First),
        others => {
            let what = "is true, which is not known here";
            Err(ImportError::about(POOLING_FILE, others.join(" and "), what)
                .allowed("pooling_mode_mean_tokens or pooling_mode_cls_token"))
        }
    }
}

/// Refuses tensors that the graph would leave out, such as heads of classifiers. The pooler is for training,
/// and buffers of places are counted again.
fn all_taken(tensors: &Tensors, prefix: &str, store: &TensorStore) -> ImportResult<()> {
    let spare = ["pooler.", "embeddings.position_ids", "embeddings.token_type_ids"];
    let known = |name: &str| {
        let own = name.strip_prefix(prefix).unwrap_or(name);
        store.tensors.contains_key(own) || spare.iter().any(|part| own.starts_with(part))
    };
    let Some((other, file)) = tensors.names().find(|(name, _)| !known(name)) else { return Ok(()) };
    let what = "is no part of a BERT encoder, and would be left out";
    Err(ImportError::about(file, format!("tensor `{other}`"), what)
        .allowed("embeddings, encoder and pooler")
        .instead("the encoder alone, saved without its head"))
}

fn config(root: &Value) -> ImportResult<BertConfig> {
    let keys = Keys::root(root);
    let gelu = match keys.word("hidden_act")?.unwrap_or("gelu") {
        "gelu" => "none",
        "gelu_new" | "gelu_pytorch_tanh" => "tanh",
        other => {
            let what = format!("`{other}` is not known");
            return Err(ImportError::about("config.json", "hidden_act", what).allowed("gelu, gelu_new"));
        }
    };
    let config = BertConfig {
        width: keys.whole("hidden_size")?,
        hidden: keys.whole("intermediate_size")?,
        layers: keys.whole("num_hidden_layers")?,
        heads: keys.whole("num_attention_heads")?,
        vocabulary: keys.whole("vocab_size")?,
        places: keys.whole("max_position_embeddings")?,
        kinds: keys.maybe_whole("type_vocab_size")?.unwrap_or(2),
        eps: keys.norm_eps("layer_norm_eps", 1e-12)?,
        gelu,
    };
    let fits = config.heads > 0 && config.width.is_multiple_of(config.heads) && config.layers <= 1024;
    let small = [config.width, config.hidden, config.vocabulary, config.places, config.kinds];
    if !fits || small.iter().any(|size| *size == 0 || *size > 1 << 24) {
        return Err(ImportError::new("config.json", "sizes that no BERT has").allowed("sizes of 1 to 2^24"));
    }
    Ok(config)
}

/// Names and sizes of all weights.
fn weights(config: &BertConfig) -> Vec<(String, Vec<u64>)> {
    let (width, hidden) = (config.width, config.hidden);
    let mut all: Vec<(String, Vec<u64>)> = vec![
        ("embeddings.word_embeddings.weight".into(), vec![config.vocabulary, width]),
        ("embeddings.position_embeddings.weight".into(), vec![config.places, width]),
        ("embeddings.token_type_embeddings.weight".into(), vec![config.kinds, width]),
    ];
    let mut pair = |name: String, weight: Vec<u64>, bias: u64| {
        all.push((format!("{name}.weight"), weight));
        all.push((format!("{name}.bias"), vec![bias]));
    };
    pair("embeddings.LayerNorm".into(), vec![width], width);
    for layer in 0..config.layers {
        let at = |part: &str| format!("encoder.layer.{layer}.{part}");
        for part in ["query", "key", "value"] {
            pair(at(&format!("attention.self.{part}")), vec![width, width], width);
        }
        pair(at("attention.output.dense"), vec![width, width], width);
        pair(at("attention.output.LayerNorm"), vec![width], width);
        pair(at("intermediate.dense"), vec![hidden, width], hidden);
        pair(at("output.dense"), vec![width, hidden], width);
        pair(at("output.LayerNorm"), vec![width], width);
    }
    all
}

struct BertBuilder<'p> {
    config: &'p BertConfig,
    store: &'p TensorStore,
    pooling: Pooling,
}

fn fixed(number: u64) -> Dim {
    Dim::fixed(i64::try_from(number).unwrap_or(i64::MAX))
}

impl BertBuilder<'_> {
    fn graph(&self) -> BuildResult<tilewright_graph::Graph> {
        let mut b = Builder::new("bert");
        let batch = b.axis("batch", 1, MOST_BATCH);
        let seq = b.axis("seq", 1, self.config.places);
        let tokens = b.input("tokens", Type::new(Dtype::I64, [batch.clone(), seq.clone()]))?;
        let mask = b.input("mask", Type::new(Dtype::I64, [batch.clone(), seq.clone()]))?;
        let mut x = self.embed(&mut b, tokens, &seq)?;
        let seen = b.with(Binary::Ne, mask, 0.0)?;
        let seen = b.reshape(seen, &[batch, 1.into(), 1.into(), seq])?;
        for layer in 0..self.config.layers {
            x = self.block(&mut b, layer, x, seen)?;
        }
        b.output("hidden", x);
        let embedding = match self.pooling {
            Pooling::Mean => mean(&mut b, x, mask)?,
            Pooling::First => first(&mut b, x)?,
        };
        let unit = Attrs::default().int("axis", -1).int("p", 2);
        let embedding = b.called("embedding").rich_one(RichOp::LpNorm, &[embedding], unit)?;
        b.output("embedding", embedding);
        Ok(b.finish())
    }

    fn weight(&self, b: &mut Builder, name: &str) -> BuildResult<ValueId> {
        stored(b, self.store, name)
    }

    fn embed(&self, b: &mut Builder, tokens: ValueId, seq: &Dim) -> BuildResult<ValueId> {
        let words = self.weight(b, "embeddings.word_embeddings.weight")?;
        let words = b.gather(words, 0, tokens)?;
        let places = self.weight(b, "embeddings.position_embeddings.weight")?;
        let places = b.slice(places, 0, 0.into(), seq.clone(), 1)?;
        let kinds = self.weight(b, "embeddings.token_type_embeddings.weight")?;
        let kind = b.slice(kinds, 0, 0.into(), 1.into(), 1)?;
        let sum = b.add(words, places)?;
        let sum = b.add(sum, kind)?;
        self.norm(b, sum, "embeddings.LayerNorm")
    }

    fn norm(&self, b: &mut Builder, x: ValueId, name: &str) -> BuildResult<ValueId> {
        let (scale, bias) =
            (self.weight(b, &format!("{name}.weight"))?, self.weight(b, &format!("{name}.bias"))?);
        let attrs = Attrs::default().int("axis", -1).float("eps", self.config.eps);
        b.called(format!("{name}.y")).rich_one(RichOp::LayerNorm, &[x, scale, bias], attrs)
    }

    fn linear(&self, b: &mut Builder, x: ValueId, name: &str) -> BuildResult<ValueId> {
        let (weight, bias) =
            (self.weight(b, &format!("{name}.weight"))?, self.weight(b, &format!("{name}.bias"))?);
        let product = b.einsum("bse,fe->bsf", &[x, weight])?;
        b.called(format!("{name}.y")).add(product, bias)
    }

    fn block(&self, b: &mut Builder, layer: u64, x: ValueId, seen: ValueId) -> BuildResult<ValueId> {
        let at = |part: &str| format!("encoder.layer.{layer}.{part}");
        let dims = b.dims(x).to_vec();
        let heads = fixed(self.config.heads);
        let each = fixed(self.config.width / self.config.heads);
        let mut parts = Vec::new();
        for part in ["query", "key", "value"] {
            let flat = self.linear(b, x, &at(&format!("attention.self.{part}")))?;
            let split = b.reshape(flat, &[dims[0].clone(), dims[1].clone(), heads.clone(), each.clone()])?;
            parts.push(b.transpose(split, &[0, 2, 1, 3])?);
        }
        parts.push(seen);
        let y = b.called(at("attention.y")).rich_one(RichOp::Attention, &parts, Attrs::default())?;
        let y = b.transpose(y, &[0, 2, 1, 3])?;
        let y = b.reshape(y, &dims)?;
        let y = self.linear(b, y, &at("attention.output.dense"))?;
        let sum = b.add(x, y)?;
        let x = self.norm(b, sum, &at("attention.output.LayerNorm"))?;
        let wide = self.linear(b, x, &at("intermediate.dense"))?;
        let attrs = Attrs::default().word("approximate", self.config.gelu);
        let wide = b.rich_one(RichOp::Gelu, &[wide], attrs)?;
        let y = self.linear(b, wide, &at("output.dense"))?;
        let sum = b.add(x, y)?;
        self.norm(b, sum, &at("output.LayerNorm"))
    }
}

/// The vector of the first token.
fn first(b: &mut Builder, x: ValueId) -> BuildResult<ValueId> {
    let dims = b.dims(x).to_vec();
    let first = b.slice(x, 1, 0.into(), 1.into(), 1)?;
    b.reshape(first, &[dims[0].clone(), dims[2].clone()])
}

/// The mean over the tokens that the mask keeps.
fn mean(b: &mut Builder, x: ValueId, mask: ValueId) -> BuildResult<ValueId> {
    let mask = b.convert(mask, Dtype::F32)?;
    let sum = b.einsum("bse,bs->be", &[x, mask])?;
    let count = b.reduce(Fold::Sum, mask, &[1], true)?;
    let count = b.with(Binary::Max, count, 1e-9)?;
    b.div(sum, count)
}
