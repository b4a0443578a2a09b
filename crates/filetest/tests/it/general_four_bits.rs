//! Random graphs with constants of four bits: every kernel against the reference, results against the
//! interpreter bit for bit, and files against what they were made of.

use proptest::prelude::*;
use tilewright_compile::general::{Options, Parts, four_bits, plan};
use tilewright_compile::quantise::{GraphTypes, quantised, ranges};
use tilewright_graph::rich::{Attrs, RichOp};
use tilewright_graph::{Binary, Builder, Data, Dtype, Graph, TensorStore, Type, ValueId, primitives};
use tilewright_reference::Tensor;

use crate::general::{from_a_file, tcp};
use crate::general_contractions::{agrees, fixed};

/// Rows of an input, columns of two weights, and the sum of the first.
#[derive(Clone, Copy, Debug)]
struct Shape {
    rows: i64,
    columns: i64,
    again: i64,
    summed: i64,
}

/// What else a graph has.
#[derive(Clone, Copy, Debug)]
struct Form {
    relu: bool,
    /// Weights come before rows.
    weights_first: bool,
    /// A second contraction reads the same rows.
    shared: bool,
}

fn size(dims: &[i64]) -> usize {
    usize::try_from(dims.iter().product::<i64>()).expect("a size")
}

fn weight(b: &mut Builder, dims: &[i64], values: &[f32], skip: usize) -> Option<ValueId> {
    let all = values.iter().cycle().skip(skip).take(size(dims));
    let data = Data::Floats(all.map(|value| value.to_bits()).collect());
    b.constant(Type::new(Dtype::F32, fixed(dims)), data).ok()
}

/// Two contractions with weights, one behind the other, and perhaps one beside the first.
fn graph(shape: Shape, form: Form, values: &[f32]) -> Option<Graph> {
    let Shape { rows, columns, again, summed } = shape;
    let mut b = Builder::new("four bits");
    let x = b.input("x", Type::new(Dtype::F32, fixed(&[rows, summed]))).ok()?;
    let w = weight(&mut b, &[columns, summed], values, 3)?;
    let v = weight(&mut b, &[again, columns], values, 17)?;
    let h = if form.weights_first {
        b.einsum("nk,mk->mn", &[w, x]).ok()?
    } else {
        b.einsum("mk,nk->mn", &[x, w]).ok()?
    };
    let h = if form.relu { b.with(Binary::Max, h, 0.0).ok()? } else { h };
    let y = b.einsum("mk,nk->mn", &[h, v]).ok()?;
    b.output("y", y);
    if form.shared {
        let beside = weight(&mut b, &[columns, summed], values, 29)?;
        let z = b.einsum("mk,nk->mn", &[x, beside]).ok()?;
        let z = b.with(Binary::Mul, z, 0.5).ok()?;
        b.output("z", z);
    }
    primitives(&b.finish()).ok()
}

/// The graph in `w4a8`, with scales from its inputs.
fn in_four_bits(graph: &Graph, inputs: &[Tensor]) -> Graph {
    let types = GraphTypes::parse("w4a8").expect("types");
    let store = TensorStore::default();
    let ranges = ranges(graph, &store, &types, &[inputs.to_vec()]).expect("ranges");
    quantised(graph, &types, &ranges).expect("a graph").graph
}

fn inputs(shape: Shape, values: &[f32]) -> Vec<Tensor> {
    let dims = [shape.rows, shape.summed];
    let all = values.iter().copied().cycle().take(size(&dims)).collect();
    vec![Tensor::floats(Dtype::F32, &dims.map(|size| usize::try_from(size).expect("a size")), all)]
}

fn shape() -> impl Strategy<Value = Shape> {
    let whole = |[rows, columns, again, summed]: [i64; 4]| Shape { rows, columns, again, summed };
    prop_oneof![
        [2..20_i64, 2..20_i64, 2..20_i64, 2..40_i64].prop_map(whole),
        [2..40_i64, 1..9_i64, 1..20_i64, 1..9_i64].prop_map(move |[m, n, l, k]| whole([
            m,
            16 * n,
            2 * l,
            16 * k
        ])),
        [1..3_i64, 1..5_i64, 1..5_i64, 1..5_i64].prop_map(move |[m, n, l, k]| whole([
            32 * m,
            64 * n,
            32 * l,
            128 * k
        ])),
    ]
}

fn form() -> impl Strategy<Value = Form> {
    any::<[bool; 3]>().prop_map(|[relu, weights_first, shared]| Form { relu, weights_first, shared })
}

fn drawn() -> impl Strategy<Value = Vec<f32>> {
    proptest::collection::vec(-2.0..2.0_f32, 97)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: tilewright_testkit::draws(16, 1000), ..ProptestConfig::default()
    })]

    #[test]
    fn weights_of_four_bits_are_those_of_the_interpreter(
        shape in shape(), form in form(), pes in [0..4_u32, 0..3_u32, 0..4_u32], values in drawn(),
    ) {
        let graph = graph(shape, form, &values).expect("a graph");
        let inputs = inputs(shape, &values);
        let graph = in_four_bits(&graph, &inputs);
        let [pes, fused, parts] = pes;
        let options = Options {
            pes: 1 << pes,
            fused: (fused > 0).then_some(1 << fused.min(pes)),
            parts: [None, None, Some(Parts::InTurn(2)), Some(Parts::Beside(2))][parts as usize],
            ..Options::default()
        };
        agrees(&graph, &inputs, options)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: tilewright_testkit::draws(6, 200), ..ProptestConfig::default()
    })]

    #[test]
    fn files_with_weights_of_four_bits_run_as_what_they_were_made_of(
        shape in shape(), form in form(), pes in 0..4_u32, values in drawn(),
    ) {
        let graph = graph(shape, form, &values).expect("a graph");
        let inputs = inputs(shape, &values);
        from_a_file(&in_four_bits(&graph, &inputs), &inputs, 1 << pes)?;
    }
}

/// What weights lie in, and the bytes of constants in HBM.
#[test]
fn weights_take_half_the_bytes() {
    let values: Vec<f32> = (0..89_u8).map(|at| f32::from(at % 23) - 11.0).collect();
    let shape = Shape { rows: 8, columns: 256, again: 64, summed: 512 };
    let form = Form { relu: true, weights_first: false, shared: false };
    let graph = graph(shape, form, &values).expect("a graph");
    let inputs = inputs(shape, &values);
    let options = Options { pes: 4, ..Options::default() };
    let planned = plan(&tcp(), &in_four_bits(&graph, &inputs), &TensorStore::default(), &options);
    let planned = planned.expect("a plan");
    let found = four_bits(&planned.kernels);
    assert_eq!((found.paired.len(), found.in_bytes.len()), (2, 0), "{found:?}");
    let constants = planned.kernels.values.iter().filter(|value| value.dtype == Dtype::I4);
    let bytes: u64 = constants.map(|value| value.count() * value.element_bytes()).sum();
    assert_eq!(bytes, (256 * 512 + 64 * 256) / 2);
}

/// A convolution has its weights in four bits too.
#[test]
fn convolutions_take_weights_of_four_bits() {
    let values: Vec<f32> = (0..101_u8).map(|at| f32::from(at % 31) / 8.0 - 2.0).collect();
    let mut b = Builder::new("convolution");
    let x = b.input("x", Type::new(Dtype::F32, fixed(&[1, 16, 10, 10]))).expect("an input");
    let w = weight(&mut b, &[32, 16, 3, 3], &values, 5).expect("a weight");
    let attrs = Attrs::default().ints("pads", &[1; 4]).ints("strides", &[1; 2]).int("groups", 1);
    let y = b.rich_one(RichOp::Conv, &[x, w], attrs).expect("a convolution");
    b.output("y", y);
    let graph = primitives(&b.finish()).expect("primitives");
    let all: Vec<f32> = values.iter().copied().cycle().take(1600).collect();
    let inputs = [Tensor::floats(Dtype::F32, &[1, 16, 10, 10], all)];
    let graph = in_four_bits(&graph, &inputs);
    for pes in [1, 4] {
        let options = Options { pes, ..Options::default() };
        let planned = plan(&tcp(), &graph, &TensorStore::default(), &options).expect("a plan");
        assert_eq!(four_bits(&planned.kernels).paired.len(), 1);
        agrees(&graph, &inputs, options).expect("what the interpreter gives");
    }
}
