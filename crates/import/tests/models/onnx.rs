//! stories260K from its two ONNX files.

use tilewright_import::onnx::{self, Options};

use crate::shared::{bytes, folder, golden, interpreter, reproduces};

fn all_ids(file: &str) {
    let Some(folder) = folder("stories260K") else { return };
    let model = onnx::read(file, &bytes(&folder.join(file)), &Options::default());
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
