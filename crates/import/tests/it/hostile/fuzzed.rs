//! Readers on thousands of drawn files: bytes of no format, and whole files with parts cut out, doubled,
//! exchanged or overwritten by the numbers that lies about sizes are made of. The same draws every time.
//!
//! Every reader gives a model that verifies or a refusal that names a file and what is wrong, and all of them
//! together take little memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use tilewright_graph::{primitives, verify};
use tilewright_import::error::ImportError;
use tilewright_import::onnx::{self, OnnxOptions, proto};
use tilewright_import::tokenizer::{Tokenizer, json, vocabulary::Vocabulary};
use tilewright_import::{ImportResult, Model, gguf, hf, llama2c};

use prost::Message as _;

/// Draws from a seed.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        tilewright_base::random::next(&mut self.0)
    }

    fn below(&mut self, most: usize) -> usize {
        (self.next() % most.max(1) as u64) as usize
    }
}

/// Numbers at the edges of what fields hold.
const EDGES: [u64; 12] = [
    0,
    1,
    0x7F,
    0xFFFF,
    0x7FFF_FFFF,
    0x8000_0000,
    0xFFFF_FFFF,
    1 << 32,
    1 << 40,
    i64::MAX as u64,
    1 << 63,
    u64::MAX,
];

/// A file with some of its bytes changed.
fn changed(file: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = file.to_vec();
    for _ in 0..=dice.below(3) {
        let at = dice.below(bytes.len());
        let length = dice.below(40).min(bytes.len() - at);
        match dice.below(7) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..at + length)),
            2 => {
                let again = bytes[at..at + length].to_vec();
                let to = dice.below(bytes.len());
                bytes.splice(to..to, again);
            }
            3 => {
                let width = [1, 4, 8][dice.below(3)].min(bytes.len() - at);
                let edge = EDGES[dice.below(EDGES.len())].to_le_bytes();
                bytes[at..at + width].copy_from_slice(&edge[..width]);
            }
            4 => number(&mut bytes, at, dice),
            5 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << dice.below(8)),
            _ => bytes.iter_mut().skip(at).take(length).for_each(|byte| *byte = dice.next() as u8),
        }
    }
    bytes
}

/// Overwrites the next number of a text.
fn number(bytes: &mut Vec<u8>, at: usize, dice: &mut Dice) {
    let Some(start) = bytes.iter().skip(at).position(u8::is_ascii_digit).map(|more| at + more) else {
        return;
    };
    let digits = bytes.iter().skip(start).take_while(|byte| byte.is_ascii_digit()).count();
    let sign = if dice.below(4) == 0 { "-" } else { "" };
    let text = format!("{sign}{}", EDGES[dice.below(EDGES.len())]);
    bytes.splice(start..start + digits, text.into_bytes());
}

/// A file of safetensors with these tensors, all of f32.
pub(super) fn safetensors(tensors: &[(&str, &[u64])]) -> Vec<u8> {
    let (mut table, mut at) = (BTreeMap::new(), 0);
    for (name, dims) in tensors {
        let end = at + 4 * dims.iter().product::<u64>();
        table.insert(*name, format!(r#"{{"dtype":"F32","shape":{dims:?},"data_offsets":[{at},{end}]}}"#));
        at = end;
    }
    let entries: Vec<String> = table.iter().map(|(name, entry)| format!(r#""{name}":{entry}"#)).collect();
    let table = format!("{{{}}}", entries.join(","));
    let weights = (0..at / 4).flat_map(|word| (word as f32 * 0.01).to_le_bytes());
    (table.len() as u64).to_le_bytes().into_iter().chain(table.into_bytes()).chain(weights).collect()
}

/// Files of a folder by name.
pub(super) type Files = BTreeMap<&'static str, Vec<u8>>;

/// A whole Llama in two files with an index.
pub(super) fn llama_folder() -> Files {
    let config = r#"{"model_type":"llama","hidden_size":8,"num_attention_heads":2,"num_key_value_heads":1,"intermediate_size":12,
        "num_hidden_layers":1,"vocab_size":4,"max_position_embeddings":8,"rms_norm_eps":1e-5,"rope_theta":10000.0,
        "rope_scaling":{"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,
        "original_max_position_embeddings":4},"tie_word_embeddings":true}"#;
    let index =
        r#"{"weight_map":{"model.norm.weight":"a.safetensors","model.embed_tokens.weight":"b.safetensors"}}"#;
    let layer = |part: &str| format!("model.layers.0.{part}.weight");
    let names: Vec<String> = ["input_layernorm", "post_attention_layernorm"]
        .into_iter()
        .chain(["self_attn.q_proj", "self_attn.o_proj", "self_attn.k_proj", "self_attn.v_proj"])
        .chain(["mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"])
        .map(layer)
        .collect();
    let dims: [&[u64]; 9] = [&[8], &[8], &[8, 8], &[8, 8], &[4, 8], &[4, 8], &[12, 8], &[12, 8], &[8, 12]];
    let second: Vec<(&str, &[u64])> = names.iter().map(String::as_str).zip(dims).collect();
    let second = [second, vec![("model.embed_tokens.weight", &[4, 8])]].concat();
    BTreeMap::from([
        ("config.json", config.as_bytes().to_vec()),
        ("model.safetensors.index.json", index.as_bytes().to_vec()),
        ("a.safetensors", safetensors(&[("model.norm.weight", &[8])])),
        ("b.safetensors", safetensors(&second)),
    ])
}

/// An encoder's configuration, and a part of its tensors.
fn bert_folder() -> Files {
    let config = r#"{"model_type":"bert","hidden_size":8,"num_attention_heads":2,"intermediate_size":12,"num_hidden_layers":1,
        "vocab_size":4,"max_position_embeddings":8,"type_vocab_size":2,"layer_norm_eps":1e-12,"hidden_act":"gelu"}"#;
    let words = safetensors(&[("embeddings.word_embeddings.weight", &[4, 8])]);
    BTreeMap::from([("config.json", config.as_bytes().to_vec()), ("model.safetensors", words)])
}

pub(super) fn folder(files: &Files) -> ImportResult<Model> {
    let shared: BTreeMap<&str, Arc<Vec<u8>>> =
        files.iter().map(|(name, bytes)| (*name, Arc::new(bytes.clone()))).collect();
    hf::read(&|name| shared.get(name).map(Arc::clone))
}

/// ONNX with operators whose operands say how large results are, and elements in a file beside it.
fn sized_onnx() -> Vec<u8> {
    let words = |name: &str, words: &[i64]| proto::TensorProto {
        dims: vec![words.len() as i64],
        data_type: 7,
        name: name.into(),
        int64_data: words.to_vec(),
        ..Default::default()
    };
    let mut outside = words("elements", &[]);
    outside.dims = vec![2];
    outside.data_location = 1;
    outside.external_data = vec![
        proto::StringEntry { key: "location".into(), value: "data.bin".into() },
        proto::StringEntry { key: "offset".into(), value: "16".into() },
        proto::StringEntry { key: "length".into(), value: "16".into() },
    ];
    let graph = proto::GraphProto {
        nodes: vec![
            super::node("ConstantOfShape", &["shape"], "filled"),
            super::node("Expand", &["filled", "wide"], "expanded"),
            super::node("Tile", &["expanded", "times"], "tiled"),
            super::node("Reshape", &["tiled", "elements"], "y"),
        ],
        initializers: vec![
            words("shape", &[2, 4]),
            words("wide", &[3, 2, 4]),
            words("times", &[1, 2, 1]),
            outside,
        ],
        outputs: vec![super::info("y", &[6, 8])],
        ..Default::default()
    };
    proto::ModelProto {
        graph: Some(graph),
        opsets: vec![proto::OperatorSetId { domain: String::new(), version: 18 }],
    }
    .encode_to_vec()
}

fn read_onnx(bytes: &[u8]) -> ImportResult<Model> {
    let beside = |name: &str| {
        let bytes = [6_u64, 8].repeat(3).iter().flat_map(|word| word.to_le_bytes()).collect();
        if name == "data.bin" { Ok(Arc::new(bytes)) } else { Err("is not there".to_string()) }
    };
    onnx::read("f", bytes, &OnnxOptions { beside: &beside, ..OnnxOptions::default() })
}

/// Whether there is a model, which verifies before and after stage 1; what there is not has a file and a
/// reason.
fn model(found: ImportResult<Model>) -> bool {
    match found {
        Ok(model) => {
            assert_eq!(verify(&model.graph), []);
            if let Ok(lowered) = primitives(&model.graph) {
                assert_eq!(verify(&lowered), []);
            }
            true
        }
        Err(error) => refused(&error),
    }
}

fn tokenizer(found: ImportResult<Tokenizer>) -> bool {
    match found {
        Ok(tokenizer) => {
            if let Ok(tokens) = tokenizer.encode("Once upon a time, 2026: <s>abba\u{301}\0") {
                let _ = tokenizer.decode(&tokens);
            }
            let _ = tokenizer.decode(&[0, 1, u32::MAX]);
            true
        }
        Err(error) => refused(&error),
    }
}

fn refused(error: &ImportError) -> bool {
    assert!(!error.file.is_empty() && !error.what.is_empty(), "{error:?}");
    assert!(error.to_string().starts_with(&format!("{}: ", error.file)), "{error}");
    false
}

/// Every stage of a `tokenizer.json` that changes a text.
const STAGES: &str = r###"{"added_tokens":[{"id":4,"content":"<s>","lstrip":true,"single_word":true,"special":false}],
    "normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"_"},{"type":"NFKC"},{"type":"StripAccents"},
    {"type":"Replace","pattern":{"String":" "},"content":"_"},{"type":"Replace","pattern":{"Regex":"x*"},"content":"y"}]},
    "pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Metaspace","replacement":"_","prepend_scheme":"first","split":true},
    {"type":"Split","pattern":{"Regex":"a|b*"},"behavior":"MergedWithNext","invert":false},{"type":"Punctuation","behavior":"Isolated"},
    {"type":"Digits","individual_digits":true}]},
    "post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}}],"special_tokens":{"<s>":{"id":"<s>","ids":[1],"tokens":["<s>"]}}},
    "decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"_"},"content":" "},{"type":"ByteFallback"},
    {"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":1}]},
    "model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"_":3},"merges":[["a","b"]],"byte_fallback":true,"fuse_unk":true,
    "unk_token":"a"},"padding":{"strategy":{"Fixed":1000000000},"direction":"Right","pad_id":0,"pad_type_id":0,"pad_token":"a"}}"###;

/// A model of pieces with probabilities.
const UNIGRAM: &str = r#"{"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0.0],["O",-1.5],["n",-2],["ce",-2.5],["a",-3],["aa",-3.5]],
    "byte_fallback":false},"pre_tokenizer":{"type":"WhitespaceSplit"},"decoder":{"type":"Metaspace","replacement":"_"}}"#;

/// A reader by name, and a file that it takes.
type Reader = (&'static str, Vec<u8>, fn(&[u8]) -> bool);

fn readers() -> Vec<Reader> {
    let [checkpoint, gguf_file, _, safetensors_file, tokenizer_file, pieces] = super::files();
    let words =
        br###"{"model":{"type":"WordPiece","vocab":{"[UNK]":0,"[CLS]":1,"[SEP]":2,"a":3,"##b":4}}}"###;
    vec![
        ("llama2.c", checkpoint, |bytes| model(llama2c::read("f", &Arc::new(bytes.to_vec())))),
        ("gguf", gguf_file.clone(), |bytes| model(gguf::read("f", &Arc::new(bytes.to_vec())))),
        ("gguf tokenizer", gguf_file, |bytes| {
            tokenizer(gguf::tokenizer("f", &Arc::new(bytes.to_vec())));
            true
        }),
        ("onnx", sized_onnx(), |bytes| model(read_onnx(bytes))),
        ("safetensors", safetensors_file, |bytes| super::read(3, bytes.to_vec())),
        ("byte pairs", tokenizer_file, |bytes| tokenizer(json::read("f", bytes))),
        ("word pieces", words.to_vec(), |bytes| tokenizer(json::read("f", bytes))),
        ("stages", STAGES.as_bytes().to_vec(), |bytes| tokenizer(json::read("f", bytes))),
        ("unigram", UNIGRAM.as_bytes().to_vec(), |bytes| tokenizer(json::read("f", bytes))),
        ("pieces", pieces, |bytes| tokenizer(Vocabulary::llama2c("f", bytes).map(Tokenizer::Vocabulary))),
    ]
}

/// Most bytes that the process ever had, if the host says so.
#[expect(clippy::disallowed_methods, reason = "what the host knows of this process")]
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

/// More than all readers together may take beside one another, tables of positions included.
const MOST_BYTES: u64 = 512 << 20;

/// Draws of each reader.
const DRAWS: u64 = 200;

#[test]
fn drawn_files_are_models_or_refused() {
    for (at, (name, file, read)) in (0..).zip(readers()) {
        assert!(read(&file), "{name}: the file that is changed is whole");
        let (mut dice, mut taken) = (Dice(at), 0);
        for _ in 0..DRAWS {
            taken += u64::from(read(&changed(&file, &mut dice)));
            let noise: Vec<u8> = (0..dice.below(300)).map(|_| dice.next() as u8).collect();
            read(&noise);
            read(&[&file[..file.len().min(8)], &noise].concat());
        }
        assert!(name.ends_with("tokenizer") || taken < DRAWS, "{name}: no change was ever noticed");
    }
    for files in [llama_folder(), bert_folder()] {
        let whole = files["config.json"].starts_with(br#"{"model_type":"llama""#);
        assert_eq!(model(folder(&files)), whole);
        let mut dice = Dice(99);
        for _ in 0..DRAWS {
            let mut drawn = files.clone();
            let at = dice.below(drawn.len());
            if let Some(bytes) = drawn.values_mut().nth(at) {
                *bytes = changed(bytes, &mut dice);
            }
            model(folder(&drawn));
        }
    }
    if let Some(peak) = peak_bytes() {
        assert!(peak < MOST_BYTES, "{} MiB", peak >> 20);
    }
}

/// A list costs what it costs in the file, whatever its elements are.
#[test]
fn long_lists_take_no_memory() {
    const COUNT: usize = 24 << 20;
    let listed = |key: &str, kind: u32, count: usize, element: &[u8]| {
        let head = [&b"GGUF"[..], &3_u32.to_le_bytes(), &0_u64.to_le_bytes(), &1_u64.to_le_bytes()].concat();
        let list = [&9_u32.to_le_bytes()[..], &kind.to_le_bytes(), &(count as u64).to_le_bytes()].concat();
        Arc::new([head, super::gguf_text(key), list, element.repeat(count)].concat())
    };
    let elements: [(u32, &[u8]); 4] = [(0, &[1]), (4, &[1; 4]), (8, &[0; 8]), (9, &[0; 12])];
    for (kind, element) in elements {
        let file = listed("tokenizer.ggml.token_type", kind, COUNT / element.len(), element);
        let refused = gguf::read("f", &file).unwrap_err().to_string();
        assert!(refused.starts_with("f: general.architecture: "), "{refused}");
        assert!(gguf::tokenizer("f", &file).is_err());
    }
    if let Some(peak) = peak_bytes() {
        assert!(peak < MOST_BYTES, "{} MiB", peak >> 20);
    }
    let deep: Vec<u8> = [9_u32.to_le_bytes(), 1_u32.to_le_bytes(), [0; 4]].concat();
    let deep = gguf::read("f", &listed("x", 9, 1, &deep.repeat(2))).unwrap_err().to_string();
    assert!(deep.starts_with("f: key `x`: has lists in lists in a list"), "{deep}");
    let many =
        [&b"GGUF"[..], &3_u32.to_le_bytes(), &0_u64.to_le_bytes(), &(1_u64 << 20).to_le_bytes()].concat();
    let many = gguf::read("f", &Arc::new([many, vec![0; 16 << 20]].concat())).unwrap_err().to_string();
    assert!(many.starts_with("f: header: 1048576 pairs\n  = allowed: at most 65536"), "{many}");
}

#[test]
fn lies_are_refused_by_name() {
    let mut files = llama_folder();
    files.insert("model.safetensors.index.json", br#"{"weight_map":{"a":"../b.safetensors"}}"#.to_vec());
    let outside = folder(&files).unwrap_err().to_string();
    assert!(
        outside.contains("model.safetensors.index.json: weight_map: names `../b.safetensors`"),
        "{outside}"
    );
    let mut files = llama_folder();
    files.insert("a.safetensors", safetensors(&[("model.norm.weight", &[9])]));
    let sizes = folder(&files).unwrap_err().to_string();
    assert!(sizes.starts_with("a.safetensors: tensor `model.norm.weight`: has sizes [9]"), "{sizes}");
    for (kind, named) in [("I32", "i32"), ("U32", "U32"), ("", "")] {
        let mut files = llama_folder();
        let norm = safetensors(&[("model.norm.weight", &[8])]);
        let table = String::from_utf8_lossy(&norm[8..norm.len() - 32]).replace("F32", kind);
        let weights = [&(table.len() as u64).to_le_bytes()[..], table.as_bytes(), &[0; 32]].concat();
        files.insert("a.safetensors", weights);
        let refused = folder(&files).unwrap_err().to_string();
        let wanted = format!("a.safetensors: tensor `model.norm.weight`: is of type {named}\n");
        assert!(refused.starts_with(&wanted) && refused.contains("F32, F16, BF16"), "{refused}");
    }
    let mut files = llama_folder();
    let config = String::from_utf8(files["config.json"].clone()).unwrap();
    files.insert(
        "config.json",
        config.replace(r#""num_hidden_layers":1"#, r#""num_hidden_layers":4000000000"#).into_bytes(),
    );
    let layers = folder(&files).unwrap_err().to_string();
    assert!(layers.starts_with("config.json: layers is 4000000000; allowed is 1 to 1024"), "{layers}");
    let large = |field: &str, words: [i64; 3]| {
        let mut file = proto::ModelProto::decode(&sized_onnx()[..]).unwrap();
        let graph = file.graph.as_mut().unwrap();
        let tensor = graph.initializers.iter_mut().find(|tensor| tensor.name == field).unwrap();
        let count = tensor.int64_data.len();
        tensor.int64_data = words[..count].to_vec();
        read_onnx(&file.encode_to_vec()).unwrap_err().to_string()
    };
    for field in ["shape", "wide", "times"] {
        let bomb = large(field, [1 << 40; 3]);
        assert!(bomb.starts_with("f: node `"), "{field}: {bomb}");
    }
}
