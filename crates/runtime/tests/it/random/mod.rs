//! Models with weights from a seed: the Llama family by its graph, BERT by the files of a folder.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use serde_json::{Value, json};
use tilewright_graph::{Dtype, StoredTensor, TensorStore};
use tilewright_import::llama::{Config, graph};
use tilewright_import::{Model, hf};

/// Numbers about zero, the same for the same seed.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        f32::from(u16::try_from(self.0 >> 48).unwrap()) / 32768.0 - 1.0
    }
}

/// A model of the Llama family with weights from a seed.
pub(crate) fn llama(config: &Config, seed: u64) -> Model {
    let mut noise = Noise(seed | 1);
    let mut tensors = TensorStore::default();
    let mut store = TensorStore::default();
    let graph = graph(config, &mut store, &mut |b, role| {
        let dims = config.weight_dims(role).unwrap();
        let count = usize::try_from(dims.iter().product::<u64>()).unwrap();
        let wide = f32::from(u16::try_from(*dims.last().unwrap()).unwrap()).sqrt();
        let scale = if dims.len() == 1 { 1.0 } else { 2.0 / wide };
        let elements: Vec<f32> =
            (0..count).map(|_| noise.next() * scale + f32::from(u8::from(dims.len() == 1))).collect();
        tensors
            .tensors
            .entry(role.to_string())
            .or_insert_with(|| StoredTensor::floats(&dims, &elements).unwrap());
        b.stored(role, Dtype::F32, &dims)
    });
    store.tensors.extend(tensors.tensors);
    Model { graph: graph.unwrap(), store }
}

/// Sizes of an encoder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bert {
    /// Heads, and elements of each.
    pub(crate) heads: (u64, u64),
    /// Elements inside the feed-forward part.
    pub(crate) hidden: u64,
    /// Tokens of the vocabulary.
    pub(crate) vocabulary: u64,
    /// Longest text.
    pub(crate) places: u64,
}

/// Blocks of an encoder.
const LAYERS: u64 = 2;

impl Bert {
    /// Names and sizes of its weights.
    fn weights(&self) -> Vec<(String, Vec<u64>)> {
        let width = self.heads.0 * self.heads.1;
        let mut all = vec![
            ("embeddings.word_embeddings.weight".to_string(), vec![self.vocabulary, width]),
            ("embeddings.position_embeddings.weight".to_string(), vec![self.places, width]),
            ("embeddings.token_type_embeddings.weight".to_string(), vec![2, width]),
        ];
        let mut pair = |name: String, dims: Vec<u64>| {
            all.push((format!("{name}.bias"), vec![dims[0]]));
            all.push((format!("{name}.weight"), dims));
        };
        pair("embeddings.LayerNorm".to_string(), vec![width]);
        for layer in 0..LAYERS {
            let at = |part: &str| format!("encoder.layer.{layer}.{part}");
            for part in ["self.query", "self.key", "self.value", "output.dense"] {
                pair(at(&format!("attention.{part}")), vec![width, width]);
            }
            pair(at("attention.output.LayerNorm"), vec![width]);
            pair(at("intermediate.dense"), vec![self.hidden, width]);
            pair(at("output.dense"), vec![width, self.hidden]);
            pair(at("output.LayerNorm"), vec![width]);
        }
        all
    }

    /// Its weights as a file: a length, a table, elements.
    fn file(&self, noise: &mut Noise) -> Vec<u8> {
        let (mut table, mut data) = (serde_json::Map::new(), Vec::new());
        for (name, dims) in self.weights() {
            let start = data.len();
            let gain = f32::from(u8::from(name.ends_with("LayerNorm.weight")));
            let scale = if dims.len() == 1 { 0.5 } else { 0.3 };
            for _ in 0..dims.iter().product::<u64>() {
                data.extend((noise.next() * scale + gain).to_le_bytes());
            }
            let entry = json!({"dtype": "F32", "shape": dims, "data_offsets": [start, data.len()]});
            table.insert(name, entry);
        }
        let table = Value::Object(table).to_string();
        [&(table.len() as u64).to_le_bytes()[..], table.as_bytes(), &data].concat()
    }

    /// The model.
    pub(crate) fn model(&self, seed: u64) -> Model {
        let config = json!({
            "model_type": "bert",
            "hidden_size": self.heads.0 * self.heads.1,
            "intermediate_size": self.hidden,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": self.heads.0,
            "vocab_size": self.vocabulary,
            "max_position_embeddings": self.places,
        });
        let weights = Arc::new(self.file(&mut Noise(seed | 1)));
        let read = hf::read(&|name: &str| match name {
            "config.json" => Some(Arc::new(config.to_string().into_bytes())),
            "model.safetensors" => Some(Arc::clone(&weights)),
            _ => None,
        });
        read.unwrap()
    }
}
