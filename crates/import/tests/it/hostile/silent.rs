//! What could be passed over in silence and would change every token: a refusal that names key or tensor, and
//! a twin that is read.

use std::sync::Arc;

use prost::Message as _;
use tilewright_graph::Data;
use tilewright_import::onnx::{self, OnnxOptions, proto};
use tilewright_import::{gguf, llama2c};

use super::{GgufTensor, gguf_with, info, node};

fn read_gguf(pairs: &[(&str, u32, Vec<u8>)], tensors: &[GgufTensor<'_>]) -> Result<(), String> {
    let read = gguf::read("f", &Arc::new(gguf_with(pairs, tensors)));
    read.map(drop).map_err(|error| error.to_string())
}

fn whole(number: u32) -> Vec<u8> {
    number.to_le_bytes().to_vec()
}

fn floats(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Heads of the file have 16 elements, 8 pairs.
#[test]
fn pairs_of_gguf_that_do_not_fit_are_refused() {
    let refused = [
        ("llama.rope.dimension_count", 4, whole(8), "is 8 where heads have 16 elements"),
        ("llama.attention.value_length", 4, whole(8), "is 8 where heads have 16 elements"),
        ("llama.rope.freq_base", 6, floats(&[-1.0]), "is the number -1.0"),
        ("llama.rope.freq_base", 6, floats(&[f32::NAN]), "is the number NaN"),
        ("llama.rope.freq_base", 8, super::gguf_text("1e4"), "is the text `1e4`"),
        ("llama.attention.layer_norm_rms_epsilon", 6, floats(&[0.0]), "is the number 0.0"),
        ("llama.rope.scale_linear", 6, floats(&[0.0]), "is the number 0.0"),
        (
            "llama.attention.head_count_kv",
            9,
            [whole(4), 1_u64.to_le_bytes().to_vec(), whole(1)].concat(),
            "is a list of 1",
        ),
        ("llama.block_count", 5, (-1_i32).to_le_bytes().to_vec(), "is the number -1"),
    ];
    for (key, kind, value, said) in refused {
        let text = read_gguf(&[(key, kind, value)], &[]).unwrap_err();
        assert!(text.starts_with(&format!("f: {key}: {said}\n  = allowed: ")), "{text}");
    }
    let linear = ("llama.rope.scaling.type", 8, super::gguf_text("linear"));
    let text = read_gguf(std::slice::from_ref(&linear), &[]).unwrap_err();
    assert!(text.starts_with("f: llama.rope.scaling.factor: is missing\n  = allowed: "), "{text}");
    let taken = [
        vec![("llama.rope.dimension_count", 4, whole(16)), ("llama.attention.value_length", 4, whole(16))],
        vec![linear, ("llama.rope.scaling.factor", 6, floats(&[2.0]))],
        vec![("llama.rope.freq_base", 6, floats(&[5e5])), ("llama.rope.scale_linear", 6, floats(&[4.0]))],
    ];
    for pairs in taken {
        read_gguf(&pairs, &[]).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// Keys beyond a window are not seen, so that no context is longer; 0 is written for none.
#[test]
fn windows_of_gguf_bound_the_positions() {
    let key = "llama.attention.sliding_window";
    let positions = |pairs: &[(&str, u32, Vec<u8>)]| {
        let model =
            gguf::read("f", &Arc::new(gguf_with(pairs, &[]))).unwrap_or_else(|error| panic!("{error}"));
        model.graph.axes.iter().map(|axis| (axis.name.clone(), axis.most)).collect::<Vec<_>>()
    };
    let none = positions(&[]);
    assert_eq!(none, positions(&[(key, 4, whole(0))]));
    assert_eq!(none, positions(&[(key, 4, whole(4096))]), "longer than the context");
    assert_eq!(positions(&[(key, 4, whole(5))]), positions(&[("llama.context_length", 4, whole(5))]));
    assert_ne!(positions(&[(key, 4, whole(5))]), none);
    let text = read_gguf(&[(key, 8, [&1_u64.to_le_bytes()[..], b"x"].concat())], &[]).unwrap_err();
    assert!(text.starts_with("f: llama.attention.sliding_window: is "), "{text}");
}

#[test]
fn tensors_of_gguf_that_would_be_dropped_are_refused() {
    let frequencies = |numbers: &[f32]| {
        read_gguf(&[], &[("rope_freqs.weight", &[numbers.len() as u64], 0, floats(numbers))])
    };
    frequencies(&[2.0; 8]).unwrap_or_else(|error| panic!("{error}"));
    let text = frequencies(&[2.0; 3]).unwrap_err();
    assert!(text.starts_with("f: tensor `rope_freqs.weight`: has sizes [3]\n  = allowed: [8], "), "{text}");
    for (number, said) in [(0.0, "0"), (f32::NAN, "NaN"), (-1.0, "-1")] {
        let text = frequencies(&[1.0, number, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]).unwrap_err();
        assert!(text.starts_with(&format!("f: tensor `rope_freqs.weight`: element 1 is {said}\n")), "{text}");
    }
    for name in ["blk.0.attn_q.bias", "blk.0.ffn_gate_inp.weight", "blk.1.attn_q.weight"] {
        let text = read_gguf(&[], &[(name, &[32], 0, floats(&[1.0; 32]))]).unwrap_err();
        assert!(text.starts_with(&format!("f: tensor `{name}`: is no part of a Llama")), "{text}");
        assert!(text.contains("= allowed: ") && text.contains("= instead: "), "{text}");
    }
}

/// The offset of a tensor of a GGUF file, changed; sizes of `output_norm` have one axis.
fn moved(offset: u64) -> Result<(), String> {
    let mut bytes = gguf_with(&[], &[]);
    let name = b"output_norm.weight";
    let at =
        bytes.windows(name.len()).position(|part| part == name).expect("its name") + name.len() + 4 + 8 + 4;
    bytes[at..at + 8].copy_from_slice(&offset.to_le_bytes());
    gguf::read("f", &Arc::new(bytes)).map(drop).map_err(|error| error.to_string())
}

#[test]
fn tensors_of_gguf_that_share_bytes_are_refused() {
    // Behind the embedding: 4 rows of a block of 20 bytes, padded.
    moved(96).unwrap_or_else(|error| panic!("{error}"));
    let text = moved(64).unwrap_err();
    assert!(text.contains("inside `token_embd.weight`, which ends at"), "{text}");
    let text = moved(97).unwrap_err();
    let said = "f: tensor `output_norm.weight`: begins at 97\n  = allowed: multiples of 32, the alignment of \
                the file";
    assert!(text.starts_with(said), "{text}");
}

#[test]
fn types_of_gguf_that_are_not_read_are_named() {
    let text = read_gguf(&[], &[("output_norm.weight", &[256], 12, vec![1; 144])]).unwrap_err();
    let said =
        "f: tensor `output_norm.weight`: element type 12 (Q4_K) is not known\n  = allowed: F32, F16, Q4_0";
    assert!(text.starts_with(said), "{text}");
}

#[test]
fn weights_that_are_no_numbers_are_refused() {
    let mut norm = [1.0; 32];
    norm[5] = f32::INFINITY;
    let text = read_gguf(&[], &[("output_norm.weight", &[32], 0, floats(&norm))]).unwrap_err();
    assert!(text.starts_with("f: tensor `output_norm.weight`: element 5 is infinite\n"), "{text}");
    // The scale of the second block.
    let mut blocks = vec![1; 32 * 34];
    blocks[34..36].copy_from_slice(&0x7E00_u16.to_le_bytes());
    let text = read_gguf(&[], &[("blk.0.attn_q.weight", &[32, 32], 8, blocks)]).unwrap_err();
    assert!(text.starts_with("f: tensor `blk.0.attn_q.weight.d`: element 1 is NaN\n"), "{text}");
    let mut checkpoint = super::checkpoint();
    checkpoint[28 + 8..28 + 12].copy_from_slice(&f32::NAN.to_le_bytes());
    let text = llama2c::read("f", &Arc::new(checkpoint)).unwrap_err().to_string();
    assert!(
        text.starts_with("f: tensor `embedding`: element 2 is NaN\n  = allowed: finite numbers"),
        "{text}"
    );
    let mut files = super::fuzzed::llama_folder();
    let last = files.get_mut("a.safetensors").unwrap();
    let end = last.len();
    last[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    let text = super::fuzzed::folder(&files).unwrap_err().to_string();
    assert!(text.starts_with("a.safetensors: tensor `model.norm.weight`: element 7 is NaN\n"), "{text}");
}

#[test]
fn tensors_of_a_llama_folder_that_would_be_dropped_are_refused() {
    let with = |name: &'static str| {
        let mut files = super::fuzzed::llama_folder();
        let tensors: [(&str, &[u64]); 2] = [("model.norm.weight", &[8]), (name, &[8])];
        files.insert("a.safetensors", super::fuzzed::safetensors(&tensors));
        super::fuzzed::folder(&files).map_err(|error| error.to_string())
    };
    for name in [
        "model.layers.0.self_attn.q_proj.bias",
        "model.layers.0.self_attn.q_norm.weight",
        "model.layers.1.input_layernorm.weight",
    ] {
        let text = with(name).map(|_| ()).unwrap_err();
        let said = format!("a.safetensors: tensor `{name}`: is no part of a Llama that is known here");
        assert!(text.starts_with(&said), "{text}");
        assert!(text.contains("= allowed: weights of 1 layers") && text.contains("= instead: "), "{text}");
    }
    for name in ["lm_head.weight", "model.layers.0.self_attn.rotary_emb.inv_freq"] {
        with(name).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn an_output_matrix_that_is_said_not_to_be_tied_must_be_there() {
    let mut files = super::fuzzed::llama_folder();
    let config = String::from_utf8(files["config.json"].clone()).unwrap();
    let mut said = |words: &str| {
        let other = config.replace(",\"tie_word_embeddings\":true", words);
        files.insert("config.json", other.into_bytes());
        super::fuzzed::folder(&files).map(drop).map_err(|error| error.to_string())
    };
    said("").unwrap_or_else(|error| panic!("{error}"));
    let text = said(",\"tie_word_embeddings\":false").unwrap_err();
    assert!(text.contains("tensor `lm_head.weight`: is missing"), "{text}");
}

/// A model of an opset; every node gives a value, the last one `y`.
fn model(opset: i64, nodes: Vec<proto::NodeProto>, weights: Vec<proto::TensorProto>) -> Vec<u8> {
    let graph = proto::GraphProto {
        nodes,
        initializers: weights,
        inputs: vec![info("x", &[1, 4, 2])],
        outputs: vec![info("y", &[1, 4, 2])],
        ..Default::default()
    };
    let opsets = vec![proto::OperatorSetId { domain: String::new(), version: opset }];
    proto::ModelProto { graph: Some(graph), opsets }.encode_to_vec()
}

fn read_onnx(bytes: &[u8]) -> Result<tilewright_import::Model, String> {
    onnx::read("f", bytes, &OnnxOptions::default()).map_err(|error| error.to_string())
}

fn weight(name: &str, count: usize) -> proto::TensorProto {
    let (dims, raw_data) = (vec![count as i64], floats(&vec![1.0; count]));
    proto::TensorProto { name: name.into(), dims, data_type: 1, raw_data, ..Default::default() }
}

#[test]
fn opsets_of_other_rules_are_refused() {
    let of = |opset: i64, op: &str| {
        let inputs: &[&str] = if op == "Add" { &["x", "x"] } else { &["x"] };
        read_onnx(&model(opset, vec![node(op, inputs, "y")], Vec::new()))
    };
    for (opset, op) in [(7, "Add"), (13, "Add"), (27, "Add"), (1, "Neg")] {
        of(opset, op).unwrap_or_else(|error| panic!("{error}"));
    }
    for (opset, op) in [(5, "Add"), (6, "Softmax"), (99, "Add"), (28, "Neg"), (-1, "Add")] {
        let text = of(opset, op).unwrap_err();
        let said = format!("f: node `y` ({op}): is of opset {opset}, whose rules are not known here\n");
        assert!(
            text.starts_with(&said) && text.contains("= allowed: opset 7 to 27\n  = instead: "),
            "{text}"
        );
    }
}

#[test]
fn names_that_are_defined_twice_are_refused() {
    let twice = model(18, vec![node("Neg", &["x"], "y"), node("Abs", &["x"], "y")], Vec::new());
    let text = read_onnx(&twice).unwrap_err();
    assert!(text.starts_with("f: node `y` (Abs): its result `y`: is there twice\n"), "{text}");
    let text = read_onnx(&model(18, vec![node("Neg", &["x"], "x")], Vec::new())).unwrap_err();
    assert!(text.starts_with("f: node `x` (Neg): its result `x`: is there twice\n"), "{text}");
    let weights = vec![weight("w", 2), weight("w", 2)];
    let text = read_onnx(&model(18, vec![node("Mul", &["x", "w"], "y")], weights)).unwrap_err();
    assert!(
        text.starts_with("f: tensor `w`: is there twice\n  = allowed: every name defined once"),
        "{text}"
    );
    // An input with a default is a weight.
    let mut file =
        proto::ModelProto::decode(&model(18, vec![node("Neg", &["x"], "y")], vec![weight("x", 8)])[..])
            .unwrap();
    file.graph.as_mut().unwrap().initializers[0].dims = vec![1, 4, 2];
    assert!(read_onnx(&file.encode_to_vec()).unwrap().graph.inputs.is_empty());
}

#[test]
fn groups_of_nothing_are_refused() {
    let of = |groups: i64| {
        let mut node = node("GroupNormalization", &["x", "w", "w"], "y");
        node.attributes.push(proto::AttributeProto {
            name: "num_groups".into(),
            i: groups,
            ..Default::default()
        });
        read_onnx(&model(21, vec![node], vec![weight("w", 4)]))
    };
    of(2).unwrap_or_else(|error| panic!("{error}"));
    for groups in [0, -2] {
        let text = of(groups).unwrap_err();
        let said = format!("f: node `y` (GroupNormalization): `num_groups` is {groups}\n  = allowed: ");
        assert!(text.starts_with(&said), "{text}");
    }
}

#[test]
fn elements_in_another_file_are_where_they_are_said_to_be() {
    let read = |entries: &[(&str, &str)]| {
        let mut outside = weight("w", 2);
        outside.raw_data.clear();
        outside.data_location = 1;
        let entry =
            |(key, value): &(&str, &str)| proto::StringEntry { key: (*key).into(), value: (*value).into() };
        outside.external_data = entries.iter().map(entry).collect();
        let bytes = model(18, vec![node("Mul", &["x", "w"], "y")], vec![outside]);
        let beside = |name: &str| match name {
            "w.bin" => Ok(Arc::new(floats(&[5.0, 6.0, 7.0]))),
            _ => Err("leads to `/elsewhere`, outside".to_string()),
        };
        onnx::read("f", &bytes, &OnnxOptions { beside: &beside, ..OnnxOptions::default() })
            .map_err(|error| error.to_string())
    };
    let found = read(&[("location", "w.bin"), ("offset", "4")]).unwrap();
    let patterns = vec![6.0_f32.to_bits(), 7.0_f32.to_bits()];
    assert!(found.graph.constants.iter().any(|constant| constant.data == Data::Floats(patterns.clone())));
    for (key, value) in [("offset", "-5"), ("offset", "x"), ("length", "-8"), ("length", "1e1")] {
        let text = read(&[("location", "w.bin"), (key, value)]).unwrap_err();
        let said = format!("f: tensor `w`: `{key}` of its elements in `w.bin` is `{value}`\n  = allowed: ");
        assert!(text.starts_with(&said), "{text}");
    }
    let text = read(&[("location", "link.bin")]).unwrap_err();
    assert!(
        text.starts_with("f: tensor `w`: its elements are in `link.bin`, which leads to `/elsewhere`"),
        "{text}"
    );
}

/// A name is near only if it is nearly the same; families without one say what to do.
#[test]
fn operators_without_a_near_name_say_what_to_do() {
    let of = |op: &str| read_onnx(&model(18, vec![node(op, &["x"], "y")], Vec::new())).unwrap_err();
    assert!(of("SoftMax").contains("near is `Softmax`"));
    for (op, said) in [("RandomNormal", "draw the numbers"), ("SequenceAt", "in place of sequences")] {
        let text = of(op);
        assert!(text.contains("none has a near name") && text.contains(said), "{text}");
    }
}
