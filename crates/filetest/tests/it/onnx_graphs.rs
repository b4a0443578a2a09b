//! The ONNX backend node tests (pip `onnx` 1.22.0), whole, on the simulated chip: graph to kernels to one
//! program, run with the test's own inputs, results compared with the test's.
//!
//! Each kernel is compared by what it read: bit for bit but for contractions, which sum bf16 products in f32.
//! Results of graphs with contractions must be near the test's by the rounding of operands to bf16, all
//! others by that of f32. What is not lowered is refused with a reason, and counted.

#![expect(clippy::disallowed_methods, reason = "reads test data that was downloaded")]

use std::collections::BTreeMap;
use std::path::Path;

use prost::Message as _;
use tilewright_compile::general::reference::{Expected, expected};
use tilewright_compile::general::{Options, plan, tensors};
use tilewright_filetest::node_tests;
use tilewright_graph::{Dtype, StoredTensor, primitives};
use tilewright_import::onnx::{self, proto};
use tilewright_machine::Tcp;
use tilewright_num::RuleSet;
use tilewright_record::KeepLast;
use tilewright_reference::Tensor;
use tilewright_runtime::ReadingOptions;
use tilewright_runtime::graph::GraphDevice;
use tilewright_testkit::tcp;

/// Tests that run whole on the chip, at least.
const LEAST_TESTS: usize = 1314;

/// How a test ended.
enum End {
    Passed {
        kernels: bool,
    },
    /// The importer or the test's data.
    Unread,
    Refused(String),
    Failed(String),
}

fn tensor(path: &Path) -> Option<StoredTensor> {
    onnx::tensor::read("tensor", &std::fs::read(path).ok()?).ok()
}

fn small_whole(x: &StoredTensor) -> bool {
    x.dims.len() <= 1 && x.bytes().len() <= 256 && matches!(x.dtype, Dtype::I64 | Dtype::I32 | Dtype::Bool)
}

fn small(x: &StoredTensor) -> bool {
    x.dims.len() <= 1 && x.bytes().len() <= 256
}

fn run(machine: &Tcp, folder: &Path) -> End {
    let Ok(bytes) = std::fs::read(folder.join("model.onnx")) else { return End::Unread };
    let Some(graph) = proto::ModelProto::decode(&bytes[..]).ok().and_then(|model| model.graph) else {
        return End::Unread;
    };
    let case = folder.join("test_data_set_0");
    let inputs = graph.inputs.iter().enumerate();
    let inputs: Option<BTreeMap<String, StoredTensor>> = inputs
        .map(|(at, input)| Some((input.name.clone(), tensor(&case.join(format!("input_{at}.pb")))?)))
        .collect();
    let wanted = (0..graph.outputs.len()).map(|at| tensor(&case.join(format!("output_{at}.pb"))));
    let (Some(inputs), Some(wanted)) = (inputs, wanted.collect::<Option<Vec<StoredTensor>>>()) else {
        return End::Unread;
    };
    // Integers that shapes follow from become constants where nothing else does, floats where they must.
    for known in [|_: &StoredTensor| false, small_whole, small] {
        let known = inputs.iter().filter(|(_, x)| known(x)).map(|(name, x)| (name.clone(), x.clone()));
        let options = onnx::OnnxOptions { known: known.collect(), ..onnx::OnnxOptions::default() };
        let Ok(model) = onnx::read("model.onnx", &bytes, &options) else { continue };
        let Ok(graph) = primitives(&model.graph) else { return End::Unread };
        return match plan(machine, &graph, &model.store, &Options { keep: true, ..Options::default() }) {
            Ok(planned) => on_chip(machine, planned, &inputs, &wanted),
            Err(refusal) => End::Refused(refusal.why),
        };
    }
    End::Unread
}

fn on_chip(
    machine: &Tcp,
    planned: tilewright_compile::general::Planned,
    inputs: &BTreeMap<String, StoredTensor>,
    wanted: &[StoredTensor],
) -> End {
    let names = planned.kernels.inputs.iter().map(|number| &planned.kernels.values[*number].name);
    let given: Option<Vec<Vec<u32>>> =
        names.map(|name| tensors::words(&Tensor::stored(inputs.get(name)?)?)).collect();
    let Some(given) = given else { return End::Refused("an input beyond 32 bits".to_string()) };
    let mut device = match GraphDevice::new(machine, planned) {
        Ok(device) => device,
        Err(error) => return End::Failed(format!("refused: {error:?}")),
    };
    let asked = ReadingOptions { values: true, findings: true, ..ReadingOptions::default() };
    match device.run(&given, &asked, KeepLast::new(0)) {
        Err(error) => return End::Failed(error.to_string()),
        Ok(reading) if reading.findings.iter().any(|finding| finding.code != "tcp/cycles-low") => {
            return End::Failed(format!("{:?}", reading.findings[0]));
        }
        Ok(_) => {}
    }
    let kernels = &device.planned().kernels;
    let mut magnitude = 0.0_f64;
    for (number, kernel) in kernels.kernels.iter().enumerate() {
        let read = |value: usize| device.value(value).expect("a value");
        for (value, wanted) in kernel.results.iter().zip(expected(&RuleSet::TCP, kernels, number, &read)) {
            let found = read(*value);
            if let Expected::Near(sums) = &wanted {
                magnitude = sums.iter().fold(magnitude, |most, (_, size)| most.max(*size));
            }
            if let Some(at) = wanted.differs(&found) {
                let name = &kernels.values[*value].name;
                return End::Failed(format!(
                    "kernel {number} ({}) gives `{name}` wrong at {at}",
                    kernel.name()
                ));
            }
        }
    }
    let results = device.results().expect("results");
    for ((result, words), wanted) in kernels.results.iter().zip(&results).zip(wanted) {
        let found = tensors::tensor(result.dtype, &result.dims, words);
        let wanted = Tensor::stored(wanted).expect("an output");
        if let Some(why) = differs(&found, &wanted, magnitude) {
            return End::Failed(format!("output `{}`: {why}", result.name));
        }
    }
    End::Passed { kernels: !kernels.kernels.is_empty() }
}

/// Why a result is not what the test wants.
fn differs(found: &Tensor, wanted: &Tensor, magnitude: f64) -> Option<String> {
    if (found.dtype, &found.dims) != (wanted.dtype, &wanted.dims) {
        return Some(format!("{} instead of {}", found.ty(), wanted.ty()));
    }
    // Two operands are each rounded to 8 bits; what comes behind a sum makes it larger by no more than
    // results are.
    let largest =
        wanted.as_floats().iter().filter(|x| x.is_finite()).fold(0.0_f64, |most, x| most.max(x.abs().into()));
    let rounded = if magnitude > 0.0 { 0.01 * magnitude.max(largest) } else { 0.0 };
    let close = |x: f32, y: f32| {
        let slack = rounded + 1e-6 + 1e-3 * f64::from(y.abs());
        x == y || (x.is_nan() && y.is_nan()) || f64::from((x - y).abs()) <= slack
    };
    let floats = found.as_floats().iter().zip(wanted.as_floats()).find(|(x, y)| !close(**x, **y));
    if let Some((x, y)) = floats {
        return Some(format!("{x} instead of {y}"));
    }
    let ints = found.as_ints().iter().zip(wanted.as_ints()).find(|(x, y)| x != y);
    ints.map(|(x, y)| format!("{x} instead of {y}"))
}

#[test]
#[expect(clippy::print_stderr, reason = "what was skipped or counted is said")]
fn node_tests_run_whole_on_the_chip() {
    let Some(names) = node_tests::folders() else { return };
    let machine = tcp();
    let only = std::env::var("ONLY").unwrap_or_default();
    let (mut passed, mut computed, mut unread, mut refused, mut wrong) =
        (0, 0, 0, BTreeMap::<String, usize>::new(), String::new());
    for folder in names.iter().filter(|name| name.to_string_lossy().contains(&only)) {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match run(&machine, folder) {
            End::Passed { kernels } => {
                passed += 1;
                computed += usize::from(kernels);
            }
            End::Unread => unread += 1,
            End::Refused(why) => *refused.entry(why).or_default() += 1,
            End::Failed(why) => wrong += &format!("{name}: {why}\n"),
        }
    }
    let all: usize = refused.values().sum();
    eprintln!(
        "{passed} node tests run whole on the chip, {computed} of them with kernels; {all} are refused, \
         {unread} not read"
    );
    for (why, count) in &refused {
        eprintln!("  {count} {why}");
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(!only.is_empty() || passed >= LEAST_TESTS, "{passed}");
}
