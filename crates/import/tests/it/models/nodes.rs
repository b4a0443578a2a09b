//! The ONNX backend node tests (pip `onnx` 1.22.0) through importer, stage 1 and interpreter.
//!
//! Which tests are the first target is said by the index beside the checkout: operators of language models
//! and convolutional networks in float32, int32, int64 and bool. A refusal with a reason is no failure; a
//! wrong number is, also in all other tests.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use prost::Message as _;
use serde::Deserialize;
use tilewright_graph::{Dtype, StoredTensor, primitives};
use tilewright_import::onnx::{self, OnnxOptions, proto};
use tilewright_reference::{Interpreter, Tensor};

use crate::models::shared::{downloaded, folder, say};

#[derive(Deserialize)]
struct Entry {
    types: Vec<String>,
    group: String,
}

/// How a test ended.
enum End {
    Passed,
    Refused(String),
    Failed(String),
}

#[test]
fn node_tests_of_the_first_target_pass() {
    let (Some(index), Some(data)) =
        (folder("onnx-node-tests"), downloaded("onnx-1.22.0/onnx/backend/test/data/node"))
    else {
        return;
    };
    let index: BTreeMap<String, Entry> =
        serde_json::from_slice(&std::fs::read(index.join("index.json")).expect("an index"))
            .expect("as its README says");
    let mut table: BTreeMap<String, [usize; 3]> = BTreeMap::new();
    let (mut refused, mut failed) = (String::new(), String::new());
    for (name, entry) in &index {
        let first = if first_target(entry) { "first target" } else { "others" };
        let row = table.entry(format!("{first}, {}", entry.group)).or_default();
        match run(&data.join(name)) {
            End::Passed => row[0] += 1,
            End::Refused(why) => {
                row[1] += 1;
                if first_target(entry) {
                    let _ = writeln!(refused, "  {name}: {why}");
                }
            }
            End::Failed(why) => {
                row[2] += 1;
                let _ = writeln!(failed, "  {name}: {why}");
            }
        }
    }
    let mut words = String::from("group: passed, refused, failed\n");
    for (group, [passed, refused, failed]) in &table {
        let _ = writeln!(words, "  {group}: {passed}, {refused}, {failed}");
    }
    say(&format!("{words}refused of the first target:\n{refused}"));
    let passed: usize =
        table.iter().filter(|(group, _)| group.starts_with("first")).map(|(_, row)| row[0]).sum();
    assert!(failed.is_empty(), "wrong results:\n{failed}");
    assert!(passed >= 749, "{passed} of 753 pass\n{words}{refused}");
}

fn first_target(entry: &Entry) -> bool {
    let groups = ["transformer", "cnn", "expanded-in-scope"];
    let types = ["FLOAT", "INT32", "INT64", "BOOL"];
    groups.contains(&entry.group.as_str()) && entry.types.iter().all(|ty| types.contains(&ty.as_str()))
}

fn run(folder: &Path) -> End {
    let file = folder.join("model.onnx");
    let name = "model.onnx";
    let bytes = std::fs::read(&file).expect("a test has its model");
    let model = proto::ModelProto::decode(&bytes[..]).expect("a model");
    let graph = model.graph.expect("a graph");
    let case = folder.join("test_data_set_0");
    let mut inputs = BTreeMap::new();
    for (at, input) in graph.inputs.iter().enumerate() {
        match tensor(&case.join(format!("input_{at}.pb"))) {
            Ok(x) => inputs.insert(input.name.clone(), x),
            Err(why) => return End::Refused(why),
        };
    }
    let wanted = (0..graph.outputs.len()).map(|at| tensor(&case.join(format!("output_{at}.pb"))));
    let wanted: Vec<StoredTensor> = match wanted.collect() {
        Ok(wanted) => wanted,
        Err(why) => return End::Refused(why),
    };
    let mut why = String::new();
    for known in [none as fn(&StoredTensor) -> bool, small_whole, small] {
        let known =
            inputs.iter().filter(|(_, x)| known(x)).map(|(name, x)| (name.clone(), x.clone())).collect();
        let options = OnnxOptions { known, ..OnnxOptions::default() };
        match onnx::read(name, &bytes, &options) {
            Err(error) => why = error.to_string().replace('\n', " "),
            Ok(model) => {
                let graph = match primitives(&model.graph) {
                    Ok(graph) => graph,
                    Err(complaint) => return End::Failed(format!("stage 1: {}", complaint.message)),
                };
                if let Some((_, complaint)) = tilewright_graph::verify(&graph).first() {
                    return End::Failed(format!("verifier: {}", complaint.message));
                }
                return compare(graph, &model.store, &inputs, &wanted);
            }
        }
    }
    End::Refused(why)
}

fn none(_: &StoredTensor) -> bool {
    false
}

fn small_whole(x: &StoredTensor) -> bool {
    x.dims.len() <= 1 && x.bytes().len() <= 256 && matches!(x.dtype, Dtype::I64 | Dtype::I32 | Dtype::Bool)
}

fn small(x: &StoredTensor) -> bool {
    x.dims.len() <= 1 && x.bytes().len() <= 256
}

fn tensor(path: &PathBuf) -> Result<StoredTensor, String> {
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    onnx::tensor::read("tensor", &bytes).map_err(|error| error.to_string())
}

fn compare(
    graph: tilewright_graph::Graph,
    store: &tilewright_graph::TensorStore,
    inputs: &BTreeMap<String, StoredTensor>,
    wanted: &[StoredTensor],
) -> End {
    let interpreter = match Interpreter::new(graph, store) {
        Ok(interpreter) => interpreter,
        Err(error) => return End::Failed(error.to_string()),
    };
    let graph = interpreter.graph();
    let given: Vec<Tensor> = graph
        .inputs
        .iter()
        .map(|id| Tensor::stored(&inputs[&graph.values[id.index()].name]).expect("an input"))
        .collect();
    let outputs = match interpreter.run(&given) {
        Ok(outputs) => outputs,
        Err(error) => return End::Failed(error.to_string()),
    };
    for (at, (output, wanted)) in outputs.iter().zip(wanted).enumerate() {
        let wanted = Tensor::stored(wanted).expect("an output");
        if (output.dtype, &output.dims) != (wanted.dtype, &wanted.dims) {
            return End::Failed(format!("output {at} is {}, not {}", output.ty(), wanted.ty()));
        }
        // What should cancel is off by the rounding of what does.
        let finite = wanted.as_floats().iter().filter(|y| y.is_finite());
        let rounding = finite.fold(0.0_f32, |most, y| most.max(y.abs())) * f32::EPSILON;
        let close = |(x, y): (&f32, &f32)| {
            x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= 1e-7 + rounding + 1e-3 * y.abs()
        };
        let floats = output.as_floats().iter().zip(wanted.as_floats());
        if let Some((x, y)) = floats.clone().find(|(x, y)| !close((x, y))) {
            return End::Failed(format!("output {at} has {x} for {y}"));
        }
        if output.as_ints() != wanted.as_ints() {
            return End::Failed(
                format!("output {at} has {:?} for {:?}", output.as_ints(), wanted.as_ints())
                    .chars()
                    .take(200)
                    .collect(),
            );
        }
    }
    End::Passed
}
