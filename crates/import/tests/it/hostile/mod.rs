//! Files that are cut off, edited or full of lies: a refusal that names the file, never a panic, never more
//! memory than the file.

#![expect(clippy::cast_possible_truncation, reason = "files of a few hundred bytes")]

mod fuzzed;
mod said_and_meant;
mod silent;

use std::sync::Arc;

use proptest::prelude::*;
use prost::Message as _;
use tilewright_graph::{primitives, verify};
use tilewright_import::hf::safetensors::Tensors;
use tilewright_import::onnx::{self, OnnxOptions, proto};
use tilewright_import::tokenizer::{json, vocabulary::Vocabulary};
use tilewright_import::{ImportResult, Model, gguf, hf, llama2c};

/// A llama2.c checkpoint of a few weights.
fn checkpoint() -> Vec<u8> {
    let header: [i32; 7] = [8, 12, 2, 2, 1, 5, 6];
    let weights = 5 * 8 + 2 * (8 + 64 + 32 + 32 + 64 + 8 + 96 * 3) + 8 + 2 * 6 * 2;
    let mut bytes: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.extend((0..weights).flat_map(|at| (at as f32 * 0.001).to_le_bytes()));
    bytes
}

fn gguf_text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

/// A GGUF file of the same model, one matrix quantised.
fn gguf_file() -> Vec<u8> {
    gguf_with(&[], &[])
}

/// Name, sizes (innermost first), number of the type and bytes of a tensor.
type GgufTensor<'t> = (&'t str, &'t [u64], u32, Vec<u8>);

/// The same with more pairs (key, number of the type, bytes) and tensors.
fn gguf_with(more_pairs: &[(&str, u32, Vec<u8>)], more_tensors: &[GgufTensor<'_>]) -> Vec<u8> {
    let mut pairs: Vec<u8> = Vec::new();
    let mut count = 0_u64;
    let mut pair = |key: &str, kind: u32, value: &[u8]| {
        pairs.extend(gguf_text(key));
        pairs.extend(kind.to_le_bytes());
        pairs.extend(value);
        count += 1;
    };
    pair("general.architecture", 8, &gguf_text("llama"));
    let numbers = [
        ("llama.embedding_length", 32_u32),
        ("llama.feed_forward_length", 32),
        ("llama.block_count", 1),
        ("llama.attention.head_count", 2),
        ("llama.attention.head_count_kv", 1),
        ("llama.context_length", 8),
    ];
    for (key, value) in numbers.iter().filter(|(key, _)| more_pairs.iter().all(|more| more.0 != *key)) {
        pair(key, 4, &value.to_le_bytes());
    }
    more_pairs.iter().for_each(|(key, kind, value)| pair(key, *kind, value));
    let own = |name: &str, dims: Vec<u64>, kind: u32, bytes: usize| {
        let block = name.starts_with("attn") || name.starts_with("ffn");
        let name = if block { format!("blk.0.{name}.weight") } else { format!("{name}.weight") };
        (name, dims, kind, vec![1; bytes])
    };
    let mut tensors = vec![own("token_embd", vec![32, 4], 3, 4 * 20), own("output_norm", vec![32], 0, 128)];
    for (name, dims) in [("attn_q", 32_u64), ("attn_k", 16), ("attn_v", 16), ("attn_output", 32)] {
        tensors.push(own(name, vec![32, dims], 8, dims as usize * 34));
    }
    for name in ["ffn_gate", "ffn_up", "ffn_down"] {
        tensors.push(own(name, vec![32, 32], 2, 32 * 18));
    }
    tensors.extend(["attn_norm", "ffn_norm"].map(|name| own(name, vec![32], 0, 128)));
    tensors.retain(|(name, ..)| more_tensors.iter().all(|more| more.0 != name));
    tensors.extend(
        more_tensors
            .iter()
            .map(|(name, dims, kind, bytes)| ((*name).to_string(), dims.to_vec(), *kind, bytes.clone())),
    );
    let mut bytes = [
        &b"GGUF"[..],
        &3_u32.to_le_bytes(),
        &(tensors.len() as u64).to_le_bytes(),
        &count.to_le_bytes(),
        &pairs,
    ]
    .concat();
    let mut blobs: Vec<u8> = Vec::new();
    for (name, dims, kind, elements) in &tensors {
        bytes.extend(gguf_text(name));
        bytes.extend((dims.len() as u32).to_le_bytes());
        dims.iter().for_each(|dim| bytes.extend(dim.to_le_bytes()));
        bytes.extend(kind.to_le_bytes());
        bytes.extend((blobs.len() as u64).to_le_bytes());
        blobs.extend(elements);
        blobs.resize(blobs.len().next_multiple_of(32), 1);
    }
    bytes.resize(bytes.len().next_multiple_of(32), 1);
    bytes.extend(blobs);
    bytes
}

fn info(name: &str, dims: &[i64]) -> proto::ValueInfoProto {
    let dims = dims.iter().map(|dim| proto::DimensionProto { value: Some(*dim), name: None }).collect();
    let tensor = proto::TensorTypeProto { element: 1, shape: Some(proto::ShapeProto { dims }) };
    proto::ValueInfoProto { name: name.into(), ty: Some(proto::TypeProto { tensor: Some(tensor) }) }
}

fn node(op: &str, inputs: &[&str], output: &str) -> proto::NodeProto {
    let inputs = inputs.iter().map(ToString::to_string).collect();
    proto::NodeProto { op: op.into(), inputs, outputs: vec![output.into()], ..proto::NodeProto::default() }
}

fn onnx_model(nodes: Vec<proto::NodeProto>) -> Vec<u8> {
    let weight = proto::TensorProto {
        dims: vec![4, 4],
        data_type: 1,
        name: "w".into(),
        raw_data: vec![1; 64],
        ..Default::default()
    };
    let graph = proto::GraphProto {
        nodes,
        initializers: vec![weight],
        inputs: vec![info("x", &[2, 4])],
        outputs: vec![info("y", &[2, 4])],
        ..Default::default()
    };
    proto::ModelProto {
        graph: Some(graph),
        opsets: vec![proto::OperatorSetId { domain: String::new(), version: 18 }],
    }
    .encode_to_vec()
}

fn onnx_file() -> Vec<u8> {
    let conv = proto::AttributeProto { name: "axis".into(), i: -1, ..Default::default() };
    let mut softmax = node("Softmax", &["h"], "s");
    softmax.attributes.push(conv);
    onnx_model(vec![
        node("MatMul", &["x", "w"], "h"),
        softmax,
        node("Slice", &["s"], "t"),
        node("Add", &["s", "x"], "y"),
    ])
}

fn safetensors_file() -> Vec<u8> {
    let table = br#"{"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"b":{"dtype":"BF16","shape":[3],"data_offsets":[16,22]}}"#;
    [&(table.len() as u64).to_le_bytes()[..], table, &[0; 22]].concat()
}

fn tokenizer_file() -> Vec<u8> {
    let text = r#"{"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]},"added_tokens":[{"id":3,"content":"<s>"}],
        "pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true}}"#;
    text.as_bytes().to_vec()
}

/// What is read is a graph that verifies and lowers; what is not names the file.
fn answered(model: ImportResult<Model>) -> bool {
    match model {
        Ok(model) => {
            assert_eq!(verify(&model.graph), []);
            if let Ok(lowered) = primitives(&model.graph) {
                assert_eq!(verify(&lowered), []);
            }
            true
        }
        Err(error) => {
            assert!(error.file == "f" || error.file == "config.json", "{error}");
            assert!(!error.what.is_empty());
            false
        }
    }
}

fn read(kind: usize, bytes: Vec<u8>) -> bool {
    let shared = Arc::new(bytes);
    match kind {
        0 => answered(llama2c::read("f", &shared)),
        1 => answered(gguf::read("f", &shared)),
        2 => answered(onnx::read("f", &shared, &OnnxOptions::default())),
        3 => Tensors::open(&|name| (name == "model.safetensors").then(|| Arc::clone(&shared))).is_ok(),
        4 => json::read("f", &shared).map(|tokenizer| tokenizer.encode("a<s>bab")).is_ok(),
        _ => Vocabulary::llama2c("f", &shared).map(|pieces| pieces.encode("Once upon")).is_ok(),
    }
}

fn files() -> [Vec<u8>; 6] {
    let pieces: Vec<u8> = ["<unk>", "s", "/s", " ", "O"]
        .iter()
        .flat_map(|text| {
            [&1.0_f32.to_le_bytes()[..], &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()
        })
        .collect();
    let pieces = [&7_u32.to_le_bytes()[..], &pieces].concat();
    [checkpoint(), gguf_file(), onnx_file(), safetensors_file(), tokenizer_file(), pieces]
}

#[test]
fn whole_files_are_read() {
    for (kind, bytes) in files().into_iter().enumerate() {
        // The ONNX file has a Slice without its operands, which is refused.
        assert_eq!(read(kind, bytes), kind != 2, "kind {kind}");
    }
    assert!(read(2, onnx_model(vec![node("MatMul", &["x", "w"], "h"), node("Add", &["h", "x"], "y")])));
}

proptest! {
    #[test]
    fn cut_files_are_refused(kind in 0..6_usize, at in any::<prop::sample::Index>()) {
        let mut bytes = files()[kind].clone();
        bytes.truncate(at.index(bytes.len()));
        let _ = read(kind, bytes);
    }

    #[test]
    fn edited_files_do_not_panic(
        kind in 0..6_usize,
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = files()[kind].clone();
        for (at, byte) in edits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = read(kind, bytes);
    }

    #[test]
    fn lies_about_sizes_take_no_memory(kind in 0..2_usize, word in 0..7_usize, value in any::<i32>()) {
        let mut bytes = files()[kind].clone();
        bytes[4 * word..4 * word + 4].copy_from_slice(&value.to_le_bytes());
        let _ = read(kind, bytes);
    }
}

#[test]
fn refusals_say_what_and_where() {
    let refused = |bytes: &[u8]| onnx::read("f", bytes, &OnnxOptions::default()).unwrap_err().to_string();
    let cyclic = onnx_model(vec![node("Add", &["y", "x"], "h"), node("Add", &["h", "x"], "y")]);
    assert!(refused(&cyclic).starts_with("f: node `h` (Add): its operand `y` is not defined before it"));
    let unknown = refused(&onnx_model(vec![node("Softmx", &["x"], "y")]));
    assert!(unknown.contains("node `y` (Softmx)") && unknown.contains("near is `Softmax`"), "{unknown}");
    let mut model = proto::ModelProto::decode(&onnx_model(vec![node("Add", &["x", "x"], "y")])[..]).unwrap();
    let weight = &mut model.graph.as_mut().unwrap().initializers[0];
    weight.data_location = 1;
    weight.external_data =
        vec![proto::StringEntry { key: "location".into(), value: "../../etc/passwd".into() }];
    let outside = refused(&model.encode_to_vec());
    assert!(outside.contains("tensor `w`") && outside.contains("outside the model's folder"), "{outside}");
    let cut = llama2c::read("f", &Arc::new(checkpoint()[..200].to_vec())).unwrap_err().to_string();
    assert!(cut.starts_with("f: layer0.attention_norm: needs 8 float32"), "{cut}");
    let config = br#"{"model_type":"llama","hidden_size":8,"num_attention_heads":2,"intermediate_size":8,"num_hidden_layers":1,
        "vocab_size":4,"max_position_embeddings":8}"#;
    let table = br#"{"model.norm.weight":{"dtype":"F32","shape":[8],"data_offsets":[0,32]}}"#;
    let norm_alone = [&(table.len() as u64).to_le_bytes()[..], table, &[0; 32]].concat();
    let folder = |name: &str| match name {
        "config.json" => Some(Arc::new(config.to_vec())),
        "model.safetensors" => Some(Arc::new(norm_alone.clone())),
        _ => None,
    };
    let missing = hf::read(&folder).unwrap_err().to_string();
    assert!(missing.contains("tensor `model.embed_tokens.weight`: is missing"), "{missing}");
}
