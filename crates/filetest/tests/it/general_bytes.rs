//! Random graphs with contractions of integers of eight bits: every kernel against the reference, results
//! against the interpreter bit for bit, and files against what they were made of.

use proptest::prelude::*;
use tilewright_compile::general::Options;
use tilewright_graph::{Binary, Builder, Dtype, Graph, Type, Unary, ValueId, primitives};
use tilewright_reference::Tensor;

use tilewright_filetest::host::{TestHost, good, tilewright};

use crate::general::from_a_file;
use crate::general_contractions::{Shape, agrees, fixed, shape};

/// What becomes of sums before they are multiplied again.
#[derive(Clone, Copy, Debug)]
struct Tail {
    /// A scale for each column, else one for all.
    by_column: bool,
    bias: bool,
    relu: bool,
    /// Results of floats leave the graph too.
    given: bool,
}

/// A float as an integer of eight bits: scaled, rounded, clamped.
fn quantised(b: &mut Builder, x: ValueId, steps: f64) -> Option<ValueId> {
    let scaled = b.with(Binary::Mul, x, steps).ok()?;
    let near = b.unary(Unary::RoundAway, scaled).ok()?;
    let whole = b.convert(near, Dtype::I32).ok()?;
    let low = b.with(Binary::Max, whole, -127.0).ok()?;
    let inside = b.with(Binary::Min, low, 127.0).ok()?;
    b.convert(inside, Dtype::I8).ok()
}

fn product(b: &mut Builder, spec: &str, operands: [ValueId; 2]) -> Option<ValueId> {
    let [x, y] = operands.map(|operand| b.convert(operand, Dtype::I32));
    b.einsum(spec, &[x.ok()?, y.ok()?]).ok()
}

/// Two contractions of bytes with a chain between them.
fn graph(shape: Shape, tail: Tail) -> Option<Graph> {
    let Shape { batch, rows, columns, summed } = shape;
    let mut b = Builder::new("bytes");
    let bytes = |sizes: &[i64]| Type::new(Dtype::I8, fixed(sizes));
    let x = b.input("x", bytes(&[batch, rows, summed])).ok()?;
    let y = b.input("y", bytes(&[batch, columns, summed])).ok()?;
    let z = b.input("z", bytes(&[batch, rows, columns])).ok()?;
    let scale = b.input("scale", Type::new(Dtype::F32, fixed(&[columns]))).ok()?;
    let sums = product(&mut b, "bmk,bnk->bmn", [x, y])?;
    let floats = b.convert(sums, Dtype::F32).ok()?;
    let mut chain =
        if tail.by_column { b.mul(floats, scale).ok()? } else { b.with(Binary::Mul, floats, 0.0625).ok()? };
    if tail.bias {
        chain = b.add(chain, scale).ok()?;
    }
    if tail.relu {
        chain = b.with(Binary::Max, chain, 0.0).ok()?;
    }
    let narrow = quantised(&mut b, chain, 0.125)?;
    let again = product(&mut b, "bmk,bnk->bmn", [narrow, z])?;
    b.output("again", again);
    if tail.given {
        b.output("chain", chain);
    }
    primitives(&b.finish()).ok()
}

fn inputs(shape: Shape, values: &[i8]) -> [Tensor; 4] {
    let Shape { batch, rows, columns, summed } = shape;
    let size = |size: i64| usize::try_from(size).expect("a size");
    let drawn = |skip: usize, dims: [i64; 3]| {
        let dims = dims.map(size);
        let all = values.iter().map(|value| i64::from(*value)).cycle().skip(skip);
        Tensor::ints(Dtype::I8, &dims, all.take(dims.iter().product()).collect())
    };
    let scales = values.iter().map(|value| f32::from(*value) / 64.0).cycle();
    [
        drawn(0, [batch, rows, summed]),
        drawn(31, [batch, columns, summed]),
        drawn(7, [batch, rows, columns]),
        Tensor::floats(Dtype::F32, &[size(columns)], scales.take(size(columns)).collect()),
    ]
}

fn tail() -> impl Strategy<Value = Tail> {
    any::<[bool; 4]>().prop_map(|[by_column, bias, relu, given]| Tail { by_column, bias, relu, given })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: tilewright_testkit::draws(24, 1000), ..ProptestConfig::default()
    })]

    #[test]
    fn contractions_of_bytes_are_those_of_the_interpreter(
        shape in shape(), tail in tail(), pes in 0..4_u32,
            values in proptest::collection::vec(any::<i8>(), 97),
    ) {
        let graph = graph(shape, tail).expect("a graph");
        agrees(&graph, &inputs(shape, &values), Options { pes: 1 << pes, ..Options::default() })?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: tilewright_testkit::draws(6, 200), ..ProptestConfig::default()
    })]

    #[test]
    fn files_of_bytes_run_as_what_they_were_made_of(
        shape in shape(), tail in tail(), pes in 0..4_u32,
            values in proptest::collection::vec(any::<i8>(), 97),
    ) {
        let graph = graph(shape, tail).expect("a graph");
        from_a_file(&graph, &inputs(shape, &values), 1 << pes)?;
    }
}

/// Scales come from the sets of a folder; a file that was compiled so gives what a run does.
#[test]
fn graphs_are_calibrated_on_sets_of_arrays() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut host = TestHost { root, ..TestHost::default() };
    let graph = "tests/general/int8.graph";
    for (seed, folder) in [(5, "sets/0"), (6, "sets/1"), (5, "one")] {
        // An output of the graph is its input, so that this writes the input.
        good(&format!("run {graph} --seed {seed} --interp -o {folder}"), &mut host);
    }
    let run = good(&format!("run {graph} --seed 3 --dtype int8 --calibrate sets"), &mut host);
    assert!(run.contains("1 of 2 contractions, scales of computed values from 2 sets of `sets`"), "{run}");
    let compiled = good(&format!("compile {graph} --dtype int8 --calibrate one"), &mut host);
    assert!(compiled.contains("scales of computed values from 1 set of `one`"), "{compiled}");
    good(&format!("compile {graph} --dtype int8 --calibrate sets -o g.twb"), &mut host);
    let from_file = good("exec g.twb --seed 3", &mut host);
    assert_eq!(from_file.lines().next(), run.lines().next());
    let primitives = format!("compile {graph} --emit primitives --dtype int8 --calibrate sets");
    let primitives = good(&primitives, &mut host);
    assert!(primitives.contains("round_away"), "{primitives}");
    let other = tilewright(&format!("run {graph} --seed 3 --dtype int8 --calibrate nowhere"), &mut host);
    assert_eq!(other.code, 2, "{}", other.stderr);
}
