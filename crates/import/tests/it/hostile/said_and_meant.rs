//! Models that say one thing and would be taken for another: poolings, heads, axes and tokens.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use prost::Message as _;
use serde_json::{Value, json};
use tilewright_graph::{Dtype, primitives};
use tilewright_import::onnx::{self, OnnxOptions, proto};
use tilewright_import::tokenizer;
use tilewright_import::{Model, hf};
use tilewright_reference::{Interpreter, Tensor};

use super::{info, node};

const WIDTH: u64 = 4;

/// A BERT of one layer, with some files and tensors besides its own.
fn bert(files: &[(&str, Value)], more: &[(&str, u64)]) -> Result<Model, String> {
    let config = json!({"model_type": "bert", "hidden_size": WIDTH, "intermediate_size": 6,
        "num_hidden_layers": 1,
        "num_attention_heads": 2, "vocab_size": 8, "max_position_embeddings": 8});
    let mut tensors: Vec<(String, Vec<u64>)> = vec![
        ("embeddings.word_embeddings.weight".into(), vec![8, WIDTH]),
        ("embeddings.position_embeddings.weight".into(), vec![8, WIDTH]),
        ("embeddings.token_type_embeddings.weight".into(), vec![2, WIDTH]),
    ];
    let mut pair = |name: &str, weight: Vec<u64>, bias: u64| {
        tensors.push((format!("{name}.weight"), weight));
        tensors.push((format!("{name}.bias"), vec![bias]));
    };
    pair("embeddings.LayerNorm", vec![WIDTH], WIDTH);
    for part in ["self.query", "self.key", "self.value", "output.dense"] {
        pair(&format!("encoder.layer.0.attention.{part}"), vec![WIDTH, WIDTH], WIDTH);
    }
    pair("encoder.layer.0.attention.output.LayerNorm", vec![WIDTH], WIDTH);
    pair("encoder.layer.0.intermediate.dense", vec![6, WIDTH], 6);
    pair("encoder.layer.0.output.dense", vec![WIDTH, 6], WIDTH);
    pair("encoder.layer.0.output.LayerNorm", vec![WIDTH], WIDTH);
    tensors.extend(more.iter().map(|(name, size)| ((*name).to_string(), vec![*size])));
    let mut found: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    found.insert("config.json".into(), config.to_string().into_bytes());
    found.insert("model.safetensors".into(), safetensors(&tensors));
    found.extend(files.iter().map(|(name, value)| ((*name).to_string(), value.to_string().into_bytes())));
    hf::read(&|name: &str| found.get(name).cloned().map(Arc::new)).map_err(|error| error.to_string())
}

/// Tensors whose elements differ.
fn safetensors(tensors: &[(String, Vec<u64>)]) -> Vec<u8> {
    let (mut table, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, shape) in tensors {
        let start = data.len();
        let elements = shape.iter().product::<u64>();
        data.extend((0..elements).flat_map(|at| {
            let mixed = (at * 7 + name.len() as u64 * 3) % 11;
            (mixed as f32 * 0.1 - 0.4).to_le_bytes()
        }));
        table.insert(
            name.clone(),
            json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]}),
        );
    }
    let table = Value::Object(table).to_string();
    [&(table.len() as u64).to_le_bytes()[..], table.as_bytes(), &data].concat()
}

/// States of all tokens and the vector of the text.
fn encoded(model: &Model) -> (Vec<f32>, Vec<f32>) {
    let graph = primitives(&model.graph).expect("a graph of primitives");
    let interpreter = Interpreter::new(graph, &model.store).expect("all weights");
    let tokens = Tensor::ints(Dtype::I64, &[1, 3], vec![1, 5, 2]);
    let mask = Tensor::ints(Dtype::I64, &[1, 3], vec![1; 3]);
    let outputs = interpreter.run(&[tokens, mask]).expect("it runs");
    (outputs[0].as_floats().to_vec(), outputs[1].as_floats().to_vec())
}

fn unit(vector: &[f32]) -> Vec<f32> {
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    vector.iter().map(|x| x / length).collect()
}

fn near(one: &[f32], other: &[f32]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| (one - other).abs() < 1e-5)
}

#[test]
fn a_sentence_is_pooled_as_its_folder_says() {
    let file = "1_Pooling/config.json";
    let plain = encoded(&bert(&[], &[]).unwrap());
    let mean = json!({"pooling_mode_cls_token": false, "pooling_mode_mean_tokens": true});
    assert_eq!(encoded(&bert(&[(file, mean)], &[]).unwrap()), plain);
    let first = json!({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false});
    let (hidden, embedding) = encoded(&bert(&[(file, first)], &[]).unwrap());
    assert!(near(&embedding, &unit(&hidden[..4])), "{embedding:?} of {hidden:?}");
    assert!(!near(&embedding, &plain.1), "the mean and the first token are told apart");
    let both = json!({"pooling_mode_cls_token": true, "pooling_mode_max_tokens": true});
    let text = bert(&[(file, both)], &[]).unwrap_err();
    let said = "1_Pooling/config.json: pooling_mode_cls_token and pooling_mode_max_tokens: is true";
    assert!(text.starts_with(said), "{text}");
}

#[test]
fn heads_of_a_bert_are_refused_by_name() {
    for name in ["classifier.weight", "cls.predictions.bias", "qa_outputs.bias"] {
        let text = bert(&[], &[(name, 4)]).unwrap_err();
        let said = format!("model.safetensors: tensor `{name}`: is no part of a BERT encoder");
        assert!(text.starts_with(&said), "{text}");
    }
    for name in ["pooler.dense.bias", "embeddings.position_ids"] {
        bert(&[], &[(name, 4)]).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn sizes_are_of_axes_that_the_model_has() {
    let mut input = info("x", &[1, 4, 2]);
    let shape = input.ty.as_mut().unwrap().tensor.as_mut().unwrap().shape.as_mut().unwrap();
    shape.dims[0] = proto::DimensionProto { name: Some("DynamicDimension.0".into()), ..Default::default() };
    let graph = proto::GraphProto {
        nodes: vec![node("Neg", &["x"], "y")],
        inputs: vec![input],
        outputs: vec![info("y", &[1, 4, 2])],
        ..Default::default()
    };
    let opsets = vec![proto::OperatorSetId { domain: String::new(), version: 13 }];
    let bytes = proto::ModelProto { graph: Some(graph), opsets }.encode_to_vec();
    let with = |name: &str| {
        let axes = BTreeMap::from([(name.to_string(), (3, 3))]);
        onnx::read("f", &bytes, &OnnxOptions { axes, ..OnnxOptions::default() })
    };
    for name in ["DynamicDimension.0", "DynamicDimension_0"] {
        let model = with(name).unwrap_or_else(|error| panic!("{error}"));
        assert!(model.graph.axes.is_empty(), "{name} stays open");
    }
    let text = with("batch").unwrap_err().to_string();
    assert!(text.starts_with("f: axis `batch`: is of no input\n"), "{text}");
    assert!(text.contains("= allowed: DynamicDimension_0"), "{text}");
}

/// A model of one input whose sizes are named, or not if the name is empty.
fn with_axes(names: &[&str]) -> Vec<u8> {
    let mut input = info("x", &vec![1; names.len()]);
    let shape = input.ty.as_mut().and_then(|ty| ty.tensor.as_mut()?.shape.as_mut());
    for (dim, name) in shape.into_iter().flat_map(|shape| &mut shape.dims).zip(names) {
        let name = (!name.is_empty()).then(|| (*name).to_string());
        *dim = proto::DimensionProto { name, ..Default::default() };
    }
    let graph = proto::GraphProto {
        nodes: vec![node("Neg", &["x"], "y")],
        inputs: vec![input],
        outputs: vec![info("y", &vec![1; names.len()])],
        ..Default::default()
    };
    let opsets = vec![proto::OperatorSetId { domain: String::new(), version: 13 }];
    proto::ModelProto { graph: Some(graph), opsets }.encode_to_vec()
}

#[test]
fn axes_that_differ_in_the_file_differ_in_the_graph() {
    // The last has no name, and would be called after its input.
    let bytes = with_axes(&["a.0", "a_0", "a-0", "x_4", ""]);
    let sizes = |axes: &[(&str, u64)]| {
        let axes = axes.iter().map(|(name, size)| ((*name).to_string(), (*size, *size))).collect();
        let model = onnx::read("f", &bytes, &OnnxOptions { axes, most: 8, ..OnnxOptions::default() });
        let model = model.map_err(|error| error.to_string())?;
        let value = model.graph.value(model.graph.inputs[0]).unwrap();
        Ok::<_, String>(value.ty.dims.iter().map(|dim| dim.text(&model.graph.axes)).collect::<Vec<_>>())
    };
    assert_eq!(sizes(&[]).unwrap(), ["a_0_3", "a_0", "a_0_2", "x_4", "x_4_2"]);
    let some = [("a.0", 3), ("a_0", 4), ("x_4_2", 5)];
    assert_eq!(sizes(&some).unwrap(), ["3", "4", "a_0_2", "x_4", "5"]);
    let twice = sizes(&[("a.0", 3), ("a_0_3", 4)]).unwrap_err();
    assert!(twice.contains("is given with two sizes"), "{twice}");
    let (inputs, names) = onnx::inputs("f", &bytes, &BTreeSet::new()).unwrap();
    assert_eq!(names.find("a-0"), Some("a_0_2"));
    assert_eq!(names.find("a/0"), Some("a_0"), "spelled as neither, taken for the one that is a word");
    assert_eq!(inputs[0].sizes[4], onnx::DeclaredSize::Named("x_4_2".to_string()));
}

fn read_tokens(vocab: &str, merges: &Value) -> Result<(), String> {
    let text =
        format!(r#"{{"model": {{"type": "BPE", "unk_token": null, "vocab": {vocab}, "merges": {merges}}}}}"#);
    tokenizer::json::read("t", text.as_bytes()).map(drop).map_err(|error| error.to_string())
}

#[test]
fn tokens_and_merges_are_what_they_say() {
    let vocab = r#"{"a": 0, "b": 1, "ab": 2}"#;
    read_tokens(vocab, &json!(["a b"])).unwrap();
    read_tokens(vocab, &json!([["a", "b"]])).unwrap();
    let text = read_tokens(r#"{"a": 0, "b": 1, "ab": 1}"#, &json!([])).unwrap_err();
    assert!(text.contains("has the id 1, as"), "{text}");
    for merges in [json!(["ab"]), json!([["a"]]), json!([7])] {
        let text = read_tokens(vocab, &merges).unwrap_err();
        assert!(text.starts_with("t: model.merges[0]: is "), "{text}");
    }
    let text = read_tokens(vocab, &json!(["a c"])).unwrap_err();
    assert!(text.starts_with("t: merge `a c`: `c` is no token of the vocabulary"), "{text}");
    // Both are tokens, and what they join to is longer than any.
    let text = read_tokens(r#"{"a": 0, "b": 1}"#, &json!(["a b"])).unwrap_err();
    assert!(text.starts_with("t: merge `a b`: `ab` is no token of the vocabulary"), "{text}");
}
