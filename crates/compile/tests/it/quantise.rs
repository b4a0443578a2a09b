//! Quantised graphs by the interpreter: near the floats, and integers where values are made.

use tilewright_compile::quantise::{
    Format, GraphTypes, QuantisedGraph, Ranges, TypesError, check, quantised, ranges, relative_error,
};
use tilewright_graph::rich::{Attrs, RichOp};
use tilewright_graph::{
    Binary, Builder, Data, Dim, Dtype, Graph, Op, TensorStore, Type, Unary, ValueId, primitives,
};
use tilewright_reference::{Interpreter, Tensor};

fn sizes(dims: &[i64]) -> Vec<Dim> {
    dims.iter().map(|size| Dim::fixed(*size)).collect()
}

/// Numbers between -1 and 1 that look drawn.
fn drawn(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f32::from(u16::try_from(state >> 16).expect("16 bits")) / 32_768.0 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

fn weight(b: &mut Builder, dims: &[i64], seed: u32) -> ValueId {
    let count = usize::try_from(dims.iter().product::<i64>()).expect("a size");
    let patterns = drawn(count, seed).iter().map(|value| value.to_bits()).collect();
    b.constant(Type::new(Dtype::F32, sizes(dims)), Data::Floats(patterns)).expect("a constant")
}

/// A convolution with padding and relu, then rows times a weight, then scores of the rows with each other.
fn network() -> Graph {
    let mut b = Builder::new("network");
    let x = b.input("x", Type::new(Dtype::F32, sizes(&[1, 4, 6, 6]))).expect("an input");
    let (w, v) = (weight(&mut b, &[8, 4, 3, 3], 3), weight(&mut b, &[5, 36], 5));
    let attrs = Attrs::default().ints("pads", &[1; 4]).ints("strides", &[1; 2]).int("groups", 1);
    let y = b.rich_one(RichOp::Conv, &[x, w], attrs).expect("a convolution");
    let y = b.with(Binary::Max, y, 0.0).expect("relu");
    let rows = b.reshape(y, &sizes(&[8, 36])).expect("rows");
    let z = b.einsum("mk,nk->mn", &[rows, v]).expect("products");
    let scores = b.einsum("mk,nk->mn", &[z, z]).expect("scores");
    b.output("scores", scores);
    primitives(&b.finish()).expect("primitives")
}

fn inputs() -> Vec<Tensor> {
    vec![Tensor::floats(Dtype::F32, &[1, 4, 6, 6], drawn(4 * 36, 7))]
}

fn run(graph: &Graph) -> Vec<Tensor> {
    let interpreter = Interpreter::new(graph.clone(), &TensorStore::default()).expect("a graph");
    interpreter.run(&inputs()).expect("results")
}

fn made(graph: &Graph, types: &str) -> QuantisedGraph {
    let types = GraphTypes::parse(types).expect("types");
    check(graph, &types).expect("rules");
    let ranges = ranges(graph, &TensorStore::default(), &types, &[inputs()]).expect("ranges");
    quantised(graph, &types, &ranges).expect("a graph")
}

/// Contractions in a type.
fn count(made: &QuantisedGraph, format: Format) -> usize {
    made.contractions.get(&format).copied().unwrap_or(0)
}

fn roundings(graph: &Graph) -> Vec<Vec<i64>> {
    let rounds = graph.nodes.iter().filter(|node| node.op == Op::Unary(Unary::RoundAway));
    let value = |node: &tilewright_graph::Node| graph.value(node.outputs[0]).expect("a value").ty.clone();
    rounds.map(|node| value(node).fixed_dims().expect("sizes")).collect()
}

#[test]
fn results_are_near_those_of_floats() {
    let graph = network();
    let wanted = run(&graph);
    for (types, counts) in [
        ("int8", [2, 0]),
        ("w8a8", [3, 0]),
        ("f8e4m3", [0, 2]),
        ("f8e4m3,attention=f8e4m3", [0, 3]),
        ("int8,convolution=f8e4m3,attention=bf16", [1, 1]),
        ("head=f8e4m3", [0, 1]),
    ] {
        let made = made(&graph, types);
        let found = [Format::Int8, Format::Float8].map(|format| count(&made, format));
        assert_eq!((found, made.all_contractions), (counts, 3), "{types}");
        let error = relative_error(&run(&made.graph)[0], &wanted[0]).expect("numbers");
        assert!(error > 0.0 && error < 0.08, "{types}: {error}");
    }
}

#[test]
fn values_become_integers_before_they_are_padded_and_cut_into_windows() {
    let made = made(&network(), "int8");
    let mut seen = roundings(&made.graph);
    seen.sort();
    // Both weights, the input as it is given, and what relu gives.
    assert_eq!(seen.len(), 4);
    assert!(seen.contains(&vec![1, 4, 6, 6]), "{seen:?}");
    assert!(seen.iter().all(|dims| dims.iter().product::<i64>() <= 8 * 36), "{seen:?}");
}

#[test]
fn what_is_not_below_zero_is_clamped_there() {
    let graph = network();
    let made = made(&graph, "int8");
    let zero = |id: &Option<ValueId>| {
        let data = made.graph.constants.iter().find(|one| Some(one.value) == *id).map(|one| &one.data);
        data == Some(&Data::Ints(vec![0]))
    };
    let clamps =
        |node: &&tilewright_graph::Node| node.op == Op::Binary(Binary::Max) && node.inputs.iter().any(zero);
    assert_eq!(made.graph.nodes.iter().filter(clamps).count(), 1);
}

#[test]
fn a_value_without_a_range_stays_in_floats() {
    let graph = network();
    let types = GraphTypes::parse("w8a8").expect("types");
    let made = quantised(&graph, &types, &Ranges::new()).expect("a graph");
    assert_eq!((made.contractions.len(), made.all_contractions), (0, 3));
    assert_eq!(run(&made.graph), run(&graph));
}

#[test]
fn an_error_is_a_part_of_what_is_wanted() {
    let of = |values: &[f32]| Tensor::floats(Dtype::F32, &[values.len()], values.to_vec());
    assert_eq!(relative_error(&of(&[3.0, 4.5]), &of(&[3.0, 4.0])), Some(0.1));
    assert_eq!(relative_error(&of(&[1.0]), &of(&[0.0])), None);
}

#[test]
fn a_rule_about_no_contraction_is_refused_with_those_there_are() {
    let refused = check(&network(), &GraphTypes::parse("int8,decoder=bf16").expect("types")).unwrap_err();
    let TypesError::Nothing { class, known } = refused else { panic!("{refused}") };
    assert_eq!(class, "decoder");
    assert!(known.starts_with("classes weights, convolution, attention, head; names "), "{known}");
    let name = known.split("names ").nth(1).and_then(|names| names.split(',').next()).expect("a name");
    check(&network(), &GraphTypes::parse(&format!("{name}=int8")).expect("types"))
        .expect("a name that is there");
}

#[test]
fn f8e4m3_is_rounded_where_values_are_made() {
    let made = made(&network(), "f8e4m3");
    let converts = |node: &&tilewright_graph::Node| node.op == Op::Convert(Dtype::F8E4M3);
    // Both weights, the input as it is given, and what relu gives.
    assert_eq!(made.graph.nodes.iter().filter(converts).count(), 4);
    assert!(roundings(&made.graph).is_empty());
}
