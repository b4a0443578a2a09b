//! Random graphs with contractions of f8e4m3: every kernel against the reference, results against the
//! interpreter, bit for bit on numbers whose sums are exact, and files against what they were made of.

use proptest::prelude::*;
use tilewright_compile::general::{Options, plan};
use tilewright_compile::quantise::relative_error;
use tilewright_filetest::host::{TestHost, good, tilewright};
use tilewright_graph::{Binary, Builder, Dtype, Graph, TensorStore, Type, ValueId, primitives};
use tilewright_reference::{Tensor, float8};
use tilewright_tcp_isa::program::exec::ExecBody;

use crate::general::{from_a_file, interpreted, on_chip};
use crate::general_contractions::{Shape, agrees, fixed, shape};

/// What becomes of sums before they are multiplied again, and who else reads what is narrow.
#[derive(Clone, Copy, Debug)]
struct Tail {
    by_column: bool,
    relu: bool,
    /// The sums leave the graph.
    given: bool,
    /// Rounded numbers leave the graph.
    rounded: bool,
    /// The narrow operand is transposed before it is multiplied.
    transposed: bool,
}

fn product(b: &mut Builder, spec: &str, operands: [ValueId; 2]) -> Option<ValueId> {
    let [x, y] = operands.map(|operand| b.convert(operand, Dtype::F32));
    b.einsum(spec, &[x.ok()?, y.ok()?]).ok()
}

/// Two contractions of f8e4m3 with a chain between them.
fn graph(shape: Shape, tail: Tail) -> Option<Graph> {
    let Shape { batch, rows, columns, summed } = shape;
    let mut b = Builder::new("float8");
    let floats = |sizes: &[i64]| Type::new(Dtype::F32, fixed(sizes));
    let x = b.input("x", floats(&[batch, rows, summed])).ok()?;
    let y = b.input("y", Type::new(Dtype::F8E4M3, fixed(&[batch, columns, summed]))).ok()?;
    let z = b.input("z", Type::new(Dtype::F8E4M3, fixed(&[batch, rows, columns]))).ok()?;
    let scale = b.input("scale", floats(&[columns])).ok()?;
    let x = b.convert(x, Dtype::F8E4M3).ok()?;
    let sums = product(&mut b, "bmk,bnk->bmn", [x, y])?;
    let mut chain =
        if tail.by_column { b.mul(sums, scale).ok()? } else { b.with(Binary::Mul, sums, 0.0625).ok()? };
    if tail.relu {
        chain = b.with(Binary::Max, chain, 0.0).ok()?;
    }
    let narrow = b.convert(chain, Dtype::F8E4M3).ok()?;
    let spec = if tail.transposed { "bkm,bkn->bmn" } else { "bmk,bnk->bmn" };
    let again = product(&mut b, spec, [narrow, z])?;
    b.output("again", again);
    if tail.given {
        b.output("chain", chain);
    }
    if tail.rounded {
        let wide = b.convert(narrow, Dtype::F32).ok()?;
        let more = b.with(Binary::Add, wide, 1.0).ok()?;
        b.output("more", more);
        b.output("narrow", narrow);
    }
    primitives(&b.finish()).ok()
}

/// Numbers of few bits: their products and sums are exact, also those that are
/// rounded between two contractions.
fn inputs(shape: Shape, values: &[i8]) -> [Tensor; 4] {
    let Shape { batch, rows, columns, summed } = shape;
    let size = |size: i64| usize::try_from(size).expect("a size");
    let drawn = |skip: usize, dtype: Dtype, dims: [i64; 3]| {
        let dims = dims.map(size);
        let all = values.iter().map(|value| f32::from(*value)).cycle().skip(skip);
        Tensor::floats(dtype, &dims, all.take(dims.iter().product()).collect())
    };
    let scales = values.iter().map(|value| if value % 2 == 0 { 0.25 } else { -0.5 }).cycle();
    [
        drawn(0, Dtype::F32, [batch, rows, summed]),
        drawn(31, Dtype::F8E4M3, [batch, columns, summed]),
        drawn(7, Dtype::F8E4M3, [batch, rows, columns]),
        Tensor::floats(Dtype::F32, &[size(columns)], scales.take(size(columns)).collect()),
    ]
}

fn tail() -> impl Strategy<Value = Tail> {
    any::<[bool; 5]>().prop_map(|[by_column, relu, given, rounded, transposed]| Tail {
        by_column,
        relu,
        given,
        rounded,
        transposed,
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: tilewright_testkit::draws(24, 1000), ..ProptestConfig::default()
    })]

    #[test]
    fn contractions_of_f8e4m3_are_those_of_the_interpreter(
        shape in shape(), tail in tail(), pes in 0..4_u32,
            values in proptest::collection::vec(-20..=20_i8, 97),
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
    fn files_of_f8e4m3_run_as_what_they_were_made_of(
        shape in shape(), tail in tail(), pes in 0..4_u32,
            values in proptest::collection::vec(-20..=20_i8, 97),
    ) {
        let graph = graph(shape, tail).expect("a graph");
        from_a_file(&graph, &inputs(shape, &values), 1 << pes)?;
    }
}

/// A convolution with padding and relu, then a product with a weight, both quantised by ranges.
fn network(types: &str, inputs: &[Tensor]) -> Graph {
    use tilewright_compile::quantise::{GraphTypes, check, quantised, ranges};
    use tilewright_graph::Data;
    use tilewright_graph::rich::{Attrs, RichOp};
    let mut b = Builder::new("network");
    let weight = |b: &mut Builder, dims: &[i64]| {
        let count = dims.iter().product::<i64>();
        let number = |at: i64| f32::from(i16::try_from(at * 37 % 101 - 50).expect("small")) / 64.0;
        let patterns = (0..count).map(|at| number(at).to_bits()).collect();
        b.constant(Type::new(Dtype::F32, fixed(dims)), Data::Floats(patterns)).expect("a constant")
    };
    let x = b.input("x", Type::new(Dtype::F32, fixed(&[1, 8, 6, 6]))).expect("an input");
    let (w, v) = (weight(&mut b, &[16, 8, 3, 3]), weight(&mut b, &[24, 16]));
    let attrs = Attrs::default().ints("pads", &[1; 4]).ints("strides", &[1; 2]).int("groups", 1);
    let y = b.rich_one(RichOp::Conv, &[x, w], attrs).expect("a convolution");
    let y = b.with(Binary::Max, y, 0.0).expect("relu");
    let z = b.einsum("ncyx,mc->nmyx", &[y, v]).expect("products");
    b.output("z", z);
    let graph = primitives(&b.finish()).expect("primitives");
    let types = GraphTypes::parse(types).expect("types");
    check(&graph, &types).expect("rules");
    let found = ranges(&graph, &TensorStore::default(), &types, &[inputs.to_vec()]).expect("ranges");
    quantised(&graph, &types, &found).expect("a graph").graph
}

/// Windows and padding move narrow elements, in one type and in several.
#[test]
fn networks_in_mixed_types_are_those_of_the_interpreter() {
    let values = (0..8 * 36_u16).map(|at| f32::from(at * 29 % 97) / 48.0 - 1.0).collect();
    let inputs = [Tensor::floats(Dtype::F32, &[1, 8, 6, 6], values)];
    for types in ["f8e4m3", "int8,head=f8e4m3"] {
        let graph = network(types, &inputs);
        let wanted = interpreted(&graph, &inputs);
        for pes in [1, 4] {
            let found = on_chip(&graph, &inputs, Options { pes, ..Options::default() }).expect("a run");
            let error = relative_error(&found[0], &wanted[0]).expect("numbers");
            // A sum that differs in its last bit can be rounded to the next f8e4m3.
            assert!(error < 0.01, "{types} on {pes} PEs: {error}");
        }
    }
}

/// The interpreter rounds to f8e4m3 as the cast engine does; it knows nothing of it.
#[test]
fn the_interpreter_rounds_as_the_chip() {
    use tilewright_num::{Dtype as Pattern, RuleSet, convert, decode};
    for high in 0..=u16::MAX {
        for low in [0_u32, 1, 0x8000, 0xFFFF] {
            let word = u32::from(high) << 16 | low;
            let byte = convert(&RuleSet::TCP, Pattern::F32, Pattern::F8E4M3Fn, word).expect("a conversion");
            let chip = decode(&RuleSet::TCP, Pattern::F8E4M3Fn, byte);
            let plain = float8::rounded(f32::from_bits(word));
            assert!(chip.to_bits() == plain.to_bits() || chip.is_nan() && plain.is_nan(), "{word:#x}");
        }
    }
}

/// What the contraction engine multiplies is f8e4m3, not a wider type that gives the same.
#[test]
fn the_contraction_engine_takes_f8e4m3() {
    let shape = Shape { batch: 1, rows: 64, columns: 64, summed: 64 };
    let tail = Tail { by_column: false, relu: true, given: false, rounded: false, transposed: false };
    let graph = graph(shape, tail).expect("a graph");
    let planned = plan(&crate::general::tcp(), &graph, &TensorStore::default(), &Options::default());
    let planned = planned.expect("a plan");
    let contracted = |body: &ExecBody| match body {
        ExecBody::Stream(stream) => stream.contract.as_ref().map(|contract| contract.dtype.name()),
        _ => None,
    };
    let types: Vec<&str> = planned.program.execs.iter().filter_map(|exec| contracted(&exec.body)).collect();
    assert!(types.len() >= 2 && types.iter().all(|name| *name == "f8e4m3fn"), "{types:?}");
}

fn host() -> TestHost {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    TestHost { root, ..TestHost::default() }
}

/// A file that was compiled in mixed types gives what a run does.
#[test]
fn files_keep_the_types_of_their_contractions() {
    let (mut host, graph) = (host(), "tests/general/int8.graph");
    good(&format!("run {graph} --seed 5 --interp -o set"), &mut host);
    for types in ["f8e4m3", "f8e4m3,attention=int8", "bf16,head=f8e4m3"] {
        let run = good(&format!("run {graph} --seed 3 --dtype {types} --calibrate set"), &mut host);
        assert!(run.contains("error against float32"), "{run}");
        let compile = format!("compile {graph} --dtype {types} --calibrate set");
        let said = good(&compile, &mut host);
        assert!(said.contains("f8e4m3"), "{said}");
        good(&format!("{compile} -o g.twb"), &mut host);
        assert_eq!(good("exec g.twb --seed 3", &mut host).lines().next(), run.lines().next(), "{types}");
    }
}

/// An ONNX model: rows times a weight, relu, times another.
fn onnx() -> Vec<u8> {
    use prost::Message as _;
    use tilewright_import::onnx::proto;
    let info = |name: &str, sizes: [i64; 2]| {
        let size = |size: i64| proto::DimensionProto { value: Some(size), name: None };
        let shape = proto::ShapeProto { dims: sizes.map(size).to_vec() };
        let tensor = proto::TensorTypeProto { element: 1, shape: Some(shape) };
        proto::ValueInfoProto { name: name.to_string(), ty: Some(proto::TypeProto { tensor: Some(tensor) }) }
    };
    let node = |op: &str, inputs: &[&str], output: &str| proto::NodeProto {
        op: op.to_string(),
        inputs: inputs.iter().map(|name| (*name).to_string()).collect(),
        outputs: vec![output.to_string()],
        ..proto::NodeProto::default()
    };
    let weight = |name: &str, dims: [i64; 2]| {
        let number = |at: i64| f32::from(i16::try_from(at * 53 % 127 - 63).expect("small")) / 256.0;
        let float_data = (0..dims[0] * dims[1]).map(number).collect();
        let (name, dims) = (name.to_string(), dims.to_vec());
        proto::TensorProto { name, dims, data_type: 1, float_data, ..proto::TensorProto::default() }
    };
    let graph = proto::GraphProto {
        name: "mlp".to_string(),
        nodes: vec![
            node("MatMul", &["x", "w"], "h"),
            node("Relu", &["h"], "r"),
            node("MatMul", &["r", "v"], "y"),
        ],
        initializers: vec![weight("w", [64, 96]), weight("v", [96, 32])],
        inputs: vec![info("x", [16, 64])],
        outputs: vec![info("y", [16, 32])],
        values: Vec::new(),
    };
    let opsets = vec![proto::OperatorSetId { domain: String::new(), version: 13 }];
    proto::ModelProto { graph: Some(graph), opsets }.encode_to_vec()
}

/// A model from an ONNX file, in f8e4m3 and with its last product in int8: run, compiled, from a file.
#[test]
fn an_onnx_model_runs_in_f8e4m3() {
    let mut host = host();
    host.written.insert("mlp.onnx".to_string(), onnx());
    let run = good("run mlp.onnx --seed 3 --dtype f8e4m3 --pes 2 --json", &mut host);
    let said: serde_json::Value = serde_json::from_str(&run).expect("json");
    assert_eq!(said["quantised"]["by_type"], serde_json::json!({ "f8e4m3": 2 }));
    let error = said["quantised"]["errors"][0]["relative_error"].as_f64().expect("an error");
    // Two products, one behind the other, of operands with three bits of mantissa.
    assert!(error > 0.0 && error < 0.1, "{error}");
    let mixed = good("run mlp.onnx --seed 3 --dtype f8e4m3,y=int8", &mut host);
    assert!(mixed.contains("f8e4m3 1, int8 1: 2 of 2 contractions"), "{mixed}");
}

/// What graphs are not compiled in is refused with what there is.
#[test]
fn types_that_mean_nothing_are_refused() {
    let (mut host, graph) = (host(), "tests/general/int8.graph");
    for (types, said) in [
        ("w8a16", "a graph that takes arrays is not compiled in `w8a16`"),
        ("f8e5m2", "is not compiled in `f8e5m2`"),
        ("int8,head=w8a8", "`head=w8a8`: contractions are not multiplied in `w8a8`"),
        ("int8,convolution=bf16", "no contraction of the graph has this class or name"),
        ("int8,head", "`head=`: contractions are not multiplied in ``"),
        ("w4a16", "is not compiled in `w4a16`"),
    ] {
        let refused = tilewright(&format!("run {graph} --seed 3 --dtype {types}"), &mut host);
        assert_eq!(refused.code, 2, "{types}");
        assert!(refused.stderr.contains(said), "{types}: {}", refused.stderr);
        assert!(refused.stderr.contains("= allowed: "), "{types}: {}", refused.stderr);
    }
}
