//! The ONNX backend node tests (pip `onnx` 1.22.0) on the simulated chip: contractions that stage 1 leaves of
//! a test become einsums of the notation, the explorer finds their tactic, and the command program runs with
//! the test's own numbers in bf16.
//!
//! What comes before a contraction is the interpreter's. A result of the chip must be the sum of the products
//! of what it was given, up to roundings of f32, and that of the interpreter up to the rounding of operands
//! to bf16.

#![expect(clippy::disallowed_methods, reason = "reads test data that was downloaded")]

use std::collections::BTreeMap;
use std::path::Path;

use prost::Message as _;
use tilewright_base::SourceId;
use tilewright_explore::tcp::program::lowered;
use tilewright_explore::tcp::{TcpReport, TcpTask};
use tilewright_explore::{Goal, SearchOptions, search};
use tilewright_filetest::node_tests;
use tilewright_graph::graph::GraphOutput;
use tilewright_graph::{Dtype as GraphType, Graph, Op, StoredTensor, primitives};
use tilewright_import::onnx::{self, proto};
use tilewright_machine::Tcp;
use tilewright_notation::problem::Problem;
use tilewright_notation::syntax::parser;
use tilewright_num::{Dtype, RuleSet, convert, decode};
use tilewright_record::KeepLast;
use tilewright_reference::{Interpreter, Tensor};
use tilewright_runtime::{ArrayError, ReadingOptions, read};
use tilewright_tcp_cost::Setup;
use tilewright_tcp_isa::program::Program;
use tilewright_tcp_isa::program::tensor::TensorData;
use tilewright_testkit::tcp;

/// Products of one contraction, at most: larger ones say nothing new.
const MOST_PRODUCTS: u64 = 1 << 18;
/// Tests whose contractions run on the chip, at least.
const LEAST_TESTS: usize = 175;

/// A contraction of two tensors with numbers.
struct Contraction {
    /// Letters of both operands and of the result.
    labels: [Vec<u8>; 3],
    operands: [Tensor; 2],
    wanted: Tensor,
}

impl Contraction {
    /// Sizes by letter.
    fn sizes(&self) -> BTreeMap<u8, u64> {
        let of = |at: usize| {
            self.labels[at].iter().copied().zip(self.operands[at].dims.iter().map(|size| *size as u64))
        };
        of(0).chain(of(1)).collect()
    }

    fn text(&self) -> String {
        let [a, b, out] = self.labels.each_ref().map(|labels| String::from_utf8_lossy(labels).into_owned());
        let sizes: Vec<String> =
            self.sizes().iter().map(|(label, size)| format!("{}={size}", char::from(*label))).collect();
        format!("{a}, {b} -> {out}; dims {}", sizes.join(", "))
    }

    /// An operand's elements as bf16 and what they stand for.
    fn rounded(&self, at: usize) -> Vec<(u32, f32)> {
        let round = |value: &f32| {
            let pattern = convert(&RuleSet::TCP, Dtype::F32, Dtype::Bf16, value.to_bits()).expect("a float");
            (pattern, decode(&RuleSet::TCP, Dtype::Bf16, pattern))
        };
        self.operands[at].as_floats().iter().map(round).collect()
    }
}

/// Where an element of labels is in row-major order, for a coordinate by label.
fn place(labels: &[u8], sizes: &BTreeMap<u8, u64>, at: &BTreeMap<u8, u64>) -> usize {
    let row_major = labels.iter().fold(0, |place, label| place * sizes[label] + at[label]);
    usize::try_from(row_major).expect("an index")
}

/// Every coordinate of some sizes.
fn coordinates(sizes: &BTreeMap<u8, u64>) -> impl Iterator<Item = BTreeMap<u8, u64>> {
    let count: u64 = sizes.values().product();
    let sizes = sizes.clone();
    (0..count).map(move |mut number| {
        let digit = |(label, size): (&u8, &u64)| {
            let digit = number % size;
            number /= size;
            (*label, digit)
        };
        sizes.iter().map(digit).collect()
    })
}

/// A program for the best tactic of a contraction; why there is none.
fn program(machine: &Tcp, text: &str) -> Result<Program, String> {
    let parsed = parser::program(text, SourceId(0)).map_err(|complaint| complaint.message.clone())?;
    let first = |complaints: Vec<tilewright_base::Diagnostic>| {
        complaints.first().map_or(String::new(), |c| c.message.clone())
    };
    let problem = Problem::new(&parsed).map_err(first)?;
    let setup = Setup::new(machine, 1, Dtype::Bf16).map_err(|_| "a setting".to_string())?;
    let task = TcpTask::new(setup, &parsed, &problem).map_err(|complaint| complaint.message.clone())?;
    let found = search(&task, &SearchOptions::exact(Goal::Time, 1), &mut |_, _| false);
    let best = found.kept.best().first().ok_or("no tactic is legal")?;
    let told = TcpReport::new(&task, &found, best).ok_or("no words for it")?;
    lowered(&task, &told.framed, &best.choice, &tilewright_tcp_lower::LowerOptions::default())
        .map(|done| done.program)
        .map_err(first)
}

/// The result by labels in the order of the graph; why there is none.
fn on_chip(machine: &Tcp, program: &Program, contraction: &Contraction) -> Result<Vec<f32>, String> {
    let (sizes, mut program) = (contraction.sizes(), program.clone());
    let own: Vec<Vec<u32>> =
        (0..2).map(|at| contraction.rounded(at).into_iter().map(|(pattern, _)| pattern).collect()).collect();
    let mut result = None;
    for tensor in &mut program.tensors {
        let order: Vec<u8> = tensor.axes.iter().filter_map(|(name, _)| name.bytes().next()).collect();
        let within: BTreeMap<u8, u64> = order.iter().map(|label| (*label, sizes[label])).collect();
        match tensor.name.as_str() {
            "out" => result = Some((order, tensor.dtype)),
            name => {
                let at = usize::from(name == "in1");
                let mut patterns =
                    vec![0; usize::try_from(within.values().product::<u64>()).expect("a size")];
                for here in coordinates(&within) {
                    patterns[place(&order, &sizes, &here)] =
                        own[at][place(&contraction.labels[at], &sizes, &here)];
                }
                tensor.data = TensorData::Patterns(patterns);
            }
        }
    }
    let (order, dtype) = result.ok_or("no result")?;
    let wanted = ReadingOptions { values: true, findings: true, ..ReadingOptions::default() };
    let mut files = |_: &_| Err(ArrayError::Format("no file".to_string()));
    let reading =
        read(machine, &program, &mut files, &wanted, KeepLast::new(0)).map_err(|error| error.to_string())?;
    assert!(reading.findings.is_empty(), "{}: {:?}", contraction.text(), reading.findings);
    let (_, array) = reading.outputs.iter().find(|(name, _)| name == "out").ok_or("no output")?;
    let within: BTreeMap<u8, u64> = order.iter().map(|label| (*label, sizes[label])).collect();
    let mut values = vec![0.0; array.patterns.len()];
    for here in coordinates(&within) {
        let value = decode(&RuleSet::TCP, dtype, array.patterns[place(&order, &sizes, &here)]);
        values[place(&contraction.labels[2], &sizes, &here)] = value;
    }
    Ok(values)
}

/// The chip's numbers against the sums of products, and against the interpreter's.
fn compare(contraction: &Contraction, found: &[f32]) -> Result<(), String> {
    let sizes = contraction.sizes();
    let [a, b] = [contraction.rounded(0), contraction.rounded(1)];
    let mut sums = vec![(0.0_f64, 0.0_f64); found.len()];
    for here in coordinates(&sizes) {
        let of = |at: usize| place(&contraction.labels[at], &sizes, &here);
        let product = f64::from(a[of(0)].1) * f64::from(b[of(1)].1);
        let sum = &mut sums[of(2)];
        *sum = (sum.0 + product, sum.1 + product.abs());
    }
    for (at, ((found, (sum, magnitude)), exact)) in
        found.iter().zip(sums).zip(contraction.wanted.as_floats()).enumerate()
    {
        let (off, rounded) = ((f64::from(*found) - sum).abs(), (f64::from(*found) - f64::from(*exact)).abs());
        // 24 bits in some hundreds of sums; 8 bits in each of two operands.
        if off > magnitude * 1e-5 || rounded > magnitude * 0.01 + 1e-6 {
            return Err(format!("element {at} is {found}, the sum {sum}, the interpreter's {exact}"));
        }
    }
    Ok(())
}

/// Contractions of a test with their numbers; `None` if it has others than the chip's two-operand ones, or
/// none.
fn contractions(folder: &Path) -> Option<Vec<Contraction>> {
    let bytes = std::fs::read(folder.join("model.onnx")).ok()?;
    let model = proto::ModelProto::decode(&bytes[..]).ok()?.graph?;
    let stored = |at: usize| {
        let bytes = std::fs::read(folder.join(format!("test_data_set_0/input_{at}.pb"))).ok()?;
        onnx::tensor::read("tensor", &bytes).ok()
    };
    let inputs: Option<BTreeMap<String, StoredTensor>> =
        model.inputs.iter().enumerate().map(|(at, input)| Some((input.name.clone(), stored(at)?))).collect();
    let inputs = inputs?;
    let whole = |x: &StoredTensor| matches!(x.dtype, GraphType::I64 | GraphType::I32 | GraphType::Bool);
    let known = inputs
        .iter()
        .filter(|(_, x)| whole(x) && x.dims.len() <= 1)
        .map(|(name, x)| (name.clone(), x.clone()));
    let options = onnx::OnnxOptions { known: known.collect(), ..onnx::OnnxOptions::default() };
    let model = onnx::read("model.onnx", &bytes, &options).ok()?;
    let graph = primitives(&model.graph).ok()?;
    let mut all = Vec::new();
    for node in graph.nodes.clone() {
        let Op::Einsum(spec) = &node.op else { continue };
        let labels = labels(spec)?;
        let ids = [node.inputs.first().copied()??, node.inputs.get(1).copied()??, *node.outputs.first()?];
        let mut seen: Graph = graph.clone();
        seen.outputs = ids
            .iter()
            .enumerate()
            .map(|(at, value)| GraphOutput { name: format!("value{at}"), value: *value })
            .collect();
        let interpreter = Interpreter::new(seen, &model.store).ok()?;
        let given: Option<Vec<Tensor>> = interpreter
            .graph()
            .inputs
            .iter()
            .map(|id| Tensor::stored(inputs.get(&interpreter.graph().value(*id)?.name)?))
            .collect();
        let [a, b, wanted] = <[Tensor; 3]>::try_from(interpreter.run(&given?).ok()?).ok()?;
        let contraction = Contraction { labels, operands: [a, b], wanted };
        let plain = contraction.wanted.dtype == GraphType::F32
            && contraction.operands.iter().all(|x| x.dtype == GraphType::F32);
        if !plain
            || contraction.sizes().values().product::<u64>() > MOST_PRODUCTS
            || contraction.wanted.is_empty()
        {
            return None;
        }
        all.push(contraction);
    }
    (!all.is_empty()).then_some(all)
}

/// Letters of both operands and the result; `None` unless there are two, and no letter comes twice in one.
fn labels(spec: &str) -> Option<[Vec<u8>; 3]> {
    let (inputs, out) = spec.split_once("->")?;
    let (a, b) = inputs.split_once(',')?;
    let part = |text: &str| -> Vec<u8> { text.bytes().filter(u8::is_ascii_alphabetic).collect() };
    let parts = [part(a), part(b), part(out)];
    let once =
        |part: &Vec<u8>| part.iter().all(|label| part.iter().filter(|other| *other == label).count() == 1);
    (!b.contains(',') && parts.iter().all(once)).then_some(parts)
}

#[test]
#[expect(clippy::print_stderr, reason = "what was skipped or counted is said")]
fn contractions_of_node_tests_run_on_the_chip() {
    let Some(names) = node_tests::folders() else { return };
    let machine = tcp();
    let mut programs: BTreeMap<String, Result<Program, String>> = BTreeMap::new();
    let (mut passed, mut with, mut refused, mut wrong) =
        (0, 0, BTreeMap::<String, usize>::new(), String::new());
    for folder in names {
        let Some(all) = contractions(&folder) else { continue };
        with += 1;
        let run = |contraction: &Contraction, programs: &mut BTreeMap<String, Result<Program, String>>| {
            let text = contraction.text();
            let found = programs.entry(text.clone()).or_insert_with(|| program(&machine, &text)).clone()?;
            on_chip(&machine, &found, contraction)
        };
        let results: Result<Vec<Vec<f32>>, String> = all.iter().map(|one| run(one, &mut programs)).collect();
        match results {
            Err(why) => *refused.entry(why).or_default() += 1,
            Ok(results) => {
                let compared: Result<(), String> =
                    all.iter().zip(&results).try_for_each(|(one, found)| compare(one, found));
                match compared {
                    Ok(()) => passed += 1,
                    Err(why) => wrong += &format!("{}: {why}\n", folder.display()),
                }
            }
        }
    }
    eprintln!(
        "{passed} of {with} node tests with contractions have all of them on the chip; refused: {refused:#?}"
    );
    assert!(wrong.is_empty(), "{wrong}");
    assert!(passed >= LEAST_TESTS, "{passed} of {with}");
}
