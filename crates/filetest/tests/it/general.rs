//! Small random graphs on the chip: every kernel against the reference, whole numbers against the interpreter
//! bit for bit, and files against what they were made of.

use proptest::prelude::*;
use tilewright_artifact::{CompiledFile, GraphPlan, write_graph};
use tilewright_compile::general::interface::interface;
use tilewright_compile::general::reference::expected;
use tilewright_compile::general::{Choice, Options, Parts, Weighing, Without, plan, tensors};
use tilewright_graph::{
    Binary, Builder, Dim, Dtype, Fold, Graph, Op, TensorStore, Type, Unary, ValueId, primitives,
};
use tilewright_machine::Tcp;
use tilewright_num::RuleSet;
use tilewright_record::KeepLast;
use tilewright_reference::{Interpreter, Tensor};
use tilewright_runtime::ReadingOptions;
use tilewright_runtime::executable::ExecutableGraph;
use tilewright_runtime::graph::{GraphDevice, executable};
pub(crate) use tilewright_testkit::tcp;

/// Sizes of a value.
fn dims(b: &Builder, x: ValueId) -> Vec<i64> {
    b.dims(x).iter().filter_map(Dim::as_fixed).collect()
}

/// One more value from what is there, by three drawn numbers; nothing where they do not fit. `whole` leaves
/// out what gives other than whole numbers.
fn grown(b: &mut Builder, pool: &[ValueId], [kind, a, c]: [u8; 3], whole: bool) -> Option<ValueId> {
    let pick = |number: u8| pool.get(usize::from(number) % pool.len()).copied();
    let (x, y) = (pick(a)?, pick(c)?);
    let sizes = dims(b, x);
    let rank = sizes.len();
    let axis = usize::from(c) % rank.max(1);
    match kind % 14 {
        0 => b.binary(Binary::Add, x, y).ok(),
        1 => b.binary(Binary::Max, x, y).ok(),
        2 => b.binary(Binary::Sub, x, y).ok(),
        3 if whole => b.unary(Unary::Neg, x).ok(),
        3 => b
            .unary([Unary::Exp, Unary::Tanh, Unary::Sigmoid, Unary::Abs, Unary::Floor][usize::from(c) % 5], x)
            .ok(),
        4 => {
            let limit = b.scalar(Dtype::F32, 0.0).ok()?;
            let positive = b.binary(Binary::Gt, x, limit).ok()?;
            b.select(positive, x, limit).ok()
        }
        5 => b.reduce([Fold::Sum, Fold::Max, Fold::Min][usize::from(c) % 3], x, &[axis], c % 2 == 0).ok(),
        6 => {
            let mut order: Vec<usize> = (0..rank).collect();
            order.rotate_left(1.min(rank.saturating_sub(1)));
            b.transpose(x, &order).ok()
        }
        7 => {
            let size = *sizes.get(axis)?;
            b.slice(x, axis, (size / 3).into(), (size - size / 3).into(), 1).ok()
        }
        8 => {
            let fill = b.scalar(Dtype::F32, 2.0).ok()?;
            b.pad(x, axis, 1.into(), i64::from(a % 3).into(), fill).ok()
        }
        10 => {
            let size = u64::try_from(*sizes.get(axis)?).ok()?;
            let (size, stride) = (1 + u64::from(a) % size.min(3), 1 + u64::from(c) % 2);
            b.emit(Op::Window { axis, size, stride, dilation: 1 + u64::from(a) % 2 }, &[x]).ok()
        }
        9 => {
            let all: i64 = sizes.iter().product();
            b.reshape(x, &[all.into()]).ok()
        }
        // Heads of an attention: rows of both lie apart, and a batch is inside of them.
        13 => {
            let (first, second) = (dims(b, x), dims(b, y));
            let [[m, k], [n, other]] =
                [<[i64; 2]>::try_from(first).ok()?, <[i64; 2]>::try_from(second).ok()?];
            let heads = [2, 4, 3][usize::from(a) % 3];
            (k == other && k % heads == 0).then_some(())?;
            let split = |b: &mut Builder, value: ValueId, rows: i64| {
                b.reshape(value, &[rows.into(), heads.into(), (k / heads).into()]).ok()
            };
            let (x, y) = (split(b, x, m)?, split(b, y, n)?);
            b.einsum("mhk,nhk->hmn", &[x, y]).ok()
        }
        _ => {
            let (rank, other) = (dims(b, x), dims(b, y));
            (rank.len() == 2 && other.len() == 2).then_some(())?;
            if rank[1] == other[1] {
                b.einsum("mk,nk->mn", &[x, y]).ok()
            } else if rank[1] == other[0] {
                b.einsum("mk,kn->mn", &[x, y]).ok()
            } else {
                None
            }
        }
    }
}

/// A graph from drawn numbers.
pub(crate) fn graph(rows: i64, columns: i64, drawn: &[[u8; 3]], whole: bool) -> Option<Graph> {
    let mut b = Builder::new("random");
    let ty = |dims: [i64; 2]| Type::new(Dtype::F32, dims.map(Dim::fixed).to_vec());
    let mut pool = vec![b.input("x", ty([rows, columns])).ok()?, b.input("y", ty([rows, columns])).ok()?];
    for numbers in drawn {
        if let Some(value) = grown(&mut b, &pool, *numbers, whole) {
            pool.push(value);
        }
    }
    let last = pool[2..].iter().rev().take(2);
    last.enumerate().for_each(|(at, value)| b.output(&format!("out{at}"), *value));
    primitives(&b.finish()).ok()
}

/// Nothing in half of the draws, else one part of the compiler.
fn left_out(how: u32) -> Without {
    let all = Choice::ALL.len();
    let part = (how as usize).checked_sub(all).and_then(|at| Choice::ALL.get(at));
    part.map_or(Without::default(), |part| Without::from(*part))
}

/// So many PEs, which work together where contractions can, operands by strides and sums in parts, or as cost
/// says.
fn spread([pes, fused, how]: [u32; 3]) -> Options {
    let cost = Options::default();
    Options {
        pes: 1 << pes,
        fused: (fused > 0).then_some(1 << fused.min(pes)),
        weighing: [None, Some(Weighing::Warm), Some(Weighing::Scarce(1))][how as usize % 3],
        least_products: if how % 2 == 0 { cost.least_products } else { 0 },
        parts: [None, Some(Parts::InTurn(2)), Some(Parts::Beside(2)), Some(Parts::Beside(4))]
            [how as usize % 4],
        without: left_out(how),
        ..cost
    }
}

/// Runs a graph on the chip; every kernel is compared by what it read. Gives the results.
pub(crate) fn on_chip(
    graph: &Graph,
    inputs: &[Tensor],
    options: Options,
) -> Result<Vec<Tensor>, TestCaseError> {
    let machine = tcp();
    let options = Options { keep: true, ..options };
    let planned = plan(&machine, graph, &TensorStore::default(), &options);
    if planned.is_err() && !options.without.is_empty() {
        let whole = Options { without: Without::default(), ..options };
        let whole = plan(&machine, graph, &TensorStore::default(), &whole);
        prop_assert!(whole.is_err(), "refused without {} alone: {:?}", options.without, planned.err());
    }
    let planned = planned.map_err(|refusal| TestCaseError::reject(refusal.to_string()))?;
    let words: Vec<Vec<u32>> = inputs.iter().filter_map(tensors::words).collect();
    let mut device =
        GraphDevice::new(&machine, planned).map_err(|error| TestCaseError::fail(format!("{error:?}")))?;
    let wanted = ReadingOptions { values: true, findings: true, ..ReadingOptions::default() };
    let reading = device.run(&words, &wanted, KeepLast::new(0));
    let reading = reading.map_err(|error| TestCaseError::fail(error.to_string()))?;
    // Prices that are low are no fault of a program.
    let wrong = reading.findings.iter().find(|finding| finding.code != "tcp/cycles-low");
    prop_assert!(wrong.is_none(), "{wrong:?}");
    let kernels = &device.planned().kernels;
    for (number, kernel) in kernels.kernels.iter().enumerate() {
        let read = |value: usize| device.value(value).expect("a value");
        for (value, wanted) in kernel.results.iter().zip(expected(&RuleSet::TCP, kernels, number, &read)) {
            let differs = wanted.differs(&read(*value));
            prop_assert_eq!(differs, None, "kernel {} ({})", number, kernel.name());
        }
    }
    let words = device.results().expect("results");
    prop_assert_eq!(
        &words,
        &joined(&machine, graph, inputs, options)?,
        "commands that are joined give others"
    );
    let results = kernels.results.iter().zip(&words);
    Ok(results.map(|(result, words)| tensors::tensor(result.dtype, &result.dims, words)).collect())
}

/// The results of a graph whose values leave data memory only where they must.
fn joined(
    machine: &Tcp,
    graph: &Graph,
    inputs: &[Tensor],
    options: Options,
) -> Result<Vec<Vec<u32>>, TestCaseError> {
    let options = Options { keep: false, ..options };
    let planned = plan(machine, graph, &TensorStore::default(), &options);
    let planned = planned.map_err(|refusal| TestCaseError::fail(refusal.to_string()))?;
    let words: Vec<Vec<u32>> = inputs.iter().filter_map(tensors::words).collect();
    let mut device =
        GraphDevice::new(machine, planned).map_err(|error| TestCaseError::fail(format!("{error:?}")))?;
    let wanted = ReadingOptions { values: true, findings: true, ..ReadingOptions::default() };
    let reading = device.run(&words, &wanted, KeepLast::new(0));
    let reading = reading.map_err(|error| TestCaseError::fail(error.to_string()))?;
    let wrong = reading.findings.iter().find(|finding| finding.code != "tcp/cycles-low");
    prop_assert!(wrong.is_none(), "{wrong:?}");
    Ok(device.results().expect("results"))
}

/// Runs a graph as it was planned and from the bytes of its file; values, cycles and energy are the same.
pub(crate) fn from_a_file(graph: &Graph, inputs: &[Tensor], pes: u64) -> Result<(), TestCaseError> {
    let machine = tcp();
    let options = Options { pes, ..Options::default() };
    let planned = plan(&machine, graph, &TensorStore::default(), &options);
    let planned = planned.map_err(|refusal| TestCaseError::reject(refusal.to_string()))?;
    let outside = interface(&machine, &planned, pes).expect("a place for every result");
    let plan = GraphPlan { chip: "tcp".to_string(), interface: outside, ..GraphPlan::default() };
    let file = write_graph(&planned, plan);
    let Ok(CompiledFile::Graph(read)) = CompiledFile::read(&file) else {
        return Err(TestCaseError::fail("what was written is no file"));
    };
    let program = read.program().expect("a program");
    let mut loaded = ExecutableGraph::new(&machine, read.plan.interface.clone(), program).expect("a graph");
    for (base, bytes) in &read.constants {
        loaded.write_constant(*base, bytes).expect("a constant");
    }
    let mut made = executable(&machine, &planned, pes).expect("a graph");
    prop_assert_eq!(made.interface(), loaded.interface());
    let words: Vec<Vec<u32>> = inputs.iter().filter_map(tensors::words).collect();
    let wanted = ReadingOptions { values: true, findings: true, ..ReadingOptions::default() };
    let [made_run, loaded_run] =
        [&mut made, &mut loaded].map(|graph| graph.run(&words, &wanted, KeepLast::new(0)).expect("a run"));
    prop_assert_eq!(made_run.outcome.cycles, loaded_run.outcome.cycles);
    prop_assert_eq!(made_run.outcome.energy_fj, loaded_run.outcome.energy_fj);
    prop_assert_eq!(made.results().expect("results"), loaded.results().expect("results"));
    Ok(())
}

/// Both inputs of a graph, from drawn numbers over and over.
pub(crate) fn inputs(sizes: [i64; 2], values: &[f32]) -> [Tensor; 2] {
    let sizes = sizes.map(|size| usize::try_from(size).expect("a size"));
    let count = sizes.iter().product();
    [0, 31].map(|skip| {
        Tensor::floats(Dtype::F32, &sizes, values.iter().copied().cycle().skip(skip).take(count).collect())
    })
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<[u8; 3]>> {
    proptest::collection::vec(any::<[u8; 3]>(), 1..9)
}

/// Sizes of the inputs: any, and those that transfers take whole.
fn sizes() -> impl Strategy<Value = [i64; 2]> {
    prop_oneof![
        [1..9_i64, 1..20_i64],
        [1..9_i64, 1..9_i64].prop_map(|[rows, columns]| [4 * rows, 8 * columns]),
        [1..80_i64, 0..3_i64].prop_map(|[rows, log2]| [rows, 16 << log2]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: tilewright_testkit::draws(1000, 10_000), ..ProptestConfig::default()
    })]

    #[test]
    fn kernels_give_what_the_reference_says(
        [rows, columns] in sizes(), pes in [0..4_u32, 0..3_u32, 0..34_u32], drawn in steps(),
        values in proptest::collection::vec(-2.0..2.0_f32, 97),
    ) {
        let Some(graph) = graph(rows, columns, &drawn, false) else { return Ok(()) };
        let inputs = inputs([rows, columns], &values);
        on_chip(&graph, &inputs, spread(pes))?;
    }

    #[test]
    fn whole_numbers_are_those_of_the_interpreter(
        [rows, columns] in sizes(), pes in [0..4_u32, 0..3_u32, 0..34_u32], drawn in steps(),
        values in proptest::collection::vec(-3..4_i8, 97),
    ) {
        let Some(graph) = graph(rows, columns, &drawn, true) else { return Ok(()) };
        let floats: Vec<f32> = values.iter().map(|value| f32::from(*value)).collect();
        let inputs = inputs([rows, columns], &floats);
        let wanted = interpreted(&graph, &inputs);
        let found = on_chip(&graph, &inputs, spread(pes))?;
        for (found, wanted) in found.iter().zip(&wanted) {
            // bf16 has eight bits: larger whole numbers are rounded before they are multiplied.
            let exact = wanted.as_floats().iter().all(|value| value.abs() <= 256.0);
            if exact && found.as_floats() != wanted.as_floats() {
                let large = largest(&graph, &inputs);
                prop_assert!(large > 256.0, "{:?} instead of {:?}", found.as_floats(), wanted.as_floats());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: tilewright_testkit::draws(200, 2000), ..ProptestConfig::default()
    })]

    #[test]
    fn a_file_runs_as_what_it_was_made_of(
        [rows, columns] in sizes(), pes in 0..4_u32, drawn in steps(),
            values in proptest::collection::vec(-2.0..2.0_f32, 97),
    ) {
        let Some(graph) = graph(rows, columns, &drawn, false) else { return Ok(()) };
        let inputs = inputs([rows, columns], &values);
        from_a_file(&graph, &inputs, 1 << pes)?;
    }
}

/// What the interpreter gives.
pub(crate) fn interpreted(graph: &Graph, inputs: &[Tensor]) -> Vec<Tensor> {
    let interpreter = Interpreter::new(graph.clone(), &TensorStore::default()).expect("a graph");
    interpreter.run(inputs).expect("results")
}

/// The largest number of all values of a graph.
pub(crate) fn largest(graph: &Graph, inputs: &[Tensor]) -> f32 {
    let mut seen = graph.clone();
    let values = graph.nodes.iter().flat_map(|node| node.outputs.iter().copied());
    seen.outputs = values.map(|value| tilewright_graph::GraphOutput { name: String::new(), value }).collect();
    interpreted(&seen, inputs)
        .iter()
        .flat_map(|tensor| tensor.as_floats().iter())
        .fold(0.0, |most: f32, value| most.max(value.abs()))
}
