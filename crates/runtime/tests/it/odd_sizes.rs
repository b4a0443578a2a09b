//! Sizes that are no multiples of anything: transposes, contractions and convolutions whose rows are no whole
//! granules give what the interpreter gives, and take no transfer for each element.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use proptest::prelude::*;
use tilewright_compile::general::{Options, plan, tensors};
use tilewright_graph::rich::{Attrs, RichOp};
use tilewright_graph::{Binary, Builder, Dim, Dtype, Fold, Graph, TensorStore, Type, primitives};
use tilewright_record::KeepLast;
use tilewright_reference::{Interpreter, Tensor};
use tilewright_runtime::ReadingOptions;
use tilewright_runtime::graph::GraphDevice;
use tilewright_testkit::tcp;

pub(crate) fn ty(dims: &[u64]) -> Type {
    let dims: Vec<Dim> = dims.iter().map(|size| Dim::fixed(i64::try_from(*size).unwrap())).collect();
    Type::new(Dtype::F32, dims)
}

/// Small whole numbers: products and sums of them are exact in every type and order.
pub(crate) fn numbers(dims: &[u64], salt: u64) -> Tensor {
    let own: Vec<usize> = dims.iter().map(|size| usize::try_from(*size).unwrap()).collect();
    let count = dims.iter().product::<u64>();
    Tensor::floats(Dtype::F32, &own, (0..count).map(|at| ((at * 7 + at / salt) % 5) as f32 - 2.0).collect())
}

/// Runs a graph on the chip and by the interpreter; cycles, if both give the same.
pub(crate) fn cycles(graph: &Graph, inputs: &[Tensor], pes: u64) -> u64 {
    near_cycles(graph, inputs, pes, 0.0)
}

/// The same if what both give differs by no more than a tolerance.
pub(crate) fn near_cycles(graph: &Graph, inputs: &[Tensor], pes: u64, tolerance: f32) -> u64 {
    let (machine, graph) = (tcp(), primitives(graph).unwrap());
    let options = Options { pes, check: true, ..Options::default() };
    let planned = plan(&machine, &graph, &TensorStore::default(), &options).unwrap();
    let words: Vec<Vec<u32>> = inputs.iter().map(|input| tensors::words(input).unwrap()).collect();
    let mut device = GraphDevice::new(&machine, planned).unwrap();
    let wanted = ReadingOptions { values: true, findings: true, ..ReadingOptions::default() };
    let reading = device.run(&words, &wanted, KeepLast::new(0)).unwrap();
    assert!(reading.findings.iter().all(|finding| !finding.certain), "{:?}", reading.findings.first());
    let expected = Interpreter::new(graph, &TensorStore::default()).unwrap().run(inputs).unwrap();
    for (found, expected) in device.results().unwrap().iter().zip(&expected) {
        // A zero may have another sign; what is rounded to bf16 on the way is near.
        let found: Vec<f32> = found.iter().map(|word| f32::from_bits(*word)).collect();
        let near = |(x, y): (&f32, &f32)| (x - y).abs() <= tolerance;
        assert_eq!(found.len(), expected.as_floats().len());
        assert!(found.iter().zip(expected.as_floats()).all(near), "{found:?} {:?}", expected.as_floats());
    }
    reading.outcome.cycles
}

fn transposed([batch, rows, columns]: [u64; 3], pes: u64) -> u64 {
    let mut b = Builder::new("transpose");
    let x = b.input("x", ty(&[batch, rows, columns])).unwrap();
    let y = b.transpose(x, &[0, 2, 1]).unwrap();
    b.output("y", y);
    cycles(&b.finish(), &[numbers(&[batch, rows, columns], 11)], pes)
}

fn contracted([batch, rows, columns, summed]: [u64; 4], pes: u64) -> u64 {
    let mut b = Builder::new("contraction");
    let (left, right) = ([batch, rows, summed], [batch, columns, summed]);
    let x = b.input("x", ty(&left)).unwrap();
    let y = b.input("y", ty(&right)).unwrap();
    let product = b.einsum("bmk,bnk->bmn", &[x, y]).unwrap();
    b.output("out", product);
    cycles(&b.finish(), &[numbers(&left, 13), numbers(&right, 29)], pes)
}

fn convolved([channels, size, features, window, stride]: [u64; 5], pes: u64) -> u64 {
    let mut b = Builder::new("convolution");
    let (image, filters) = ([1, channels, size, size], [features, channels, window, window]);
    let x = b.input("x", ty(&image)).unwrap();
    let w = b.input("w", ty(&filters)).unwrap();
    let whole = |number: u64| i64::try_from(number).unwrap();
    let attrs = Attrs::default()
        .ints("strides", &[whole(stride), whole(stride)])
        .ints("pads", &[whole(window / 2); 4]);
    let y = b.rich_one(RichOp::Conv, &[x, w], attrs).unwrap();
    b.output("y", y);
    cycles(&b.finish(), &[numbers(&image, 17), numbers(&filters, 5)], pes)
}

/// Attention over positions with so many heads of so many features, of queries from so many positions.
fn attended([batch, heads, queries, keys, features]: [u64; 5], pes: u64) -> u64 {
    let mut b = Builder::new("attention");
    let (rows, others) = ([batch, heads, queries, features], [batch, heads, keys, features]);
    let q = b.input("q", ty(&rows)).unwrap();
    let k = b.input("k", ty(&others)).unwrap();
    let v = b.input("v", ty(&others)).unwrap();
    let scores = b.einsum("bhqd,bhkd->bhqk", &[q, k]).unwrap();
    let scores = b.with(Binary::Mul, scores, 0.125).unwrap();
    let shares = b.rich_one(RichOp::Softmax, &[scores], Attrs::default().int("axis", -1)).unwrap();
    let mixed = b.einsum("bhqk,bhkd->bhqd", &[shares, v]).unwrap();
    b.output("y", mixed);
    let inputs = [numbers(&rows, 11), numbers(&others, 13), numbers(&others, 7)];
    near_cycles(&b.finish(), &inputs, pes, 0.03)
}

/// Rows of 197 scores are no whole access units of HBM: written as they are, each costs a read besides.
#[test]
fn attention_over_an_odd_number_of_positions_takes_little_more_than_over_an_even_one() {
    let (odd, even) = (attended([2, 4, 197, 197, 64], 8), attended([2, 4, 256, 256, 64], 8));
    assert!(odd < 2 * even, "{odd} cycles of 197 positions, {even} of 256");
}

fn softmaxed([rows, columns]: [u64; 2], pes: u64) -> u64 {
    let mut b = Builder::new("softmax");
    let x = b.input("x", ty(&[rows, columns])).unwrap();
    let y = b.rich_one(RichOp::Softmax, &[x], Attrs::default().int("axis", -1)).unwrap();
    b.output("y", y);
    near_cycles(&b.finish(), &[numbers(&[rows, columns], 11)], pes, 1e-5)
}

/// Two statistics of rows are a granule; an odd number of rows stays in data memory all the same.
#[test]
fn an_odd_number_of_rows_takes_no_longer_than_an_even_one() {
    for rows in [655, 197, 77] {
        let (odd, even) = (softmaxed([rows, 384], 8), softmaxed([rows + 1, 384], 8));
        assert!(4 * odd < 5 * even, "{odd} cycles of {rows} rows, {even} of one more");
    }
}

/// A move of one element takes about a cycle of every PE's transfers, and forty of one PE's.
#[test]
fn odd_rows_take_no_transfer_for_each_element() {
    assert!(transposed([2, 999, 65], 8) < 2 * 999 * 65);
    assert!(contracted([1, 77, 333, 555], 8) < 100_000);
    assert!(convolved([3, 113, 32, 3, 2], 8) < 300_000);
    // Few columns: rows of three words.
    assert!(contracted([1, 5001, 3, 20], 8) < 100_000);
    assert!(convolved([16, 61, 3, 3, 1], 8) < 150_000);
}

/// A contraction with a number of its own for each row, so that rows which change places are seen.
fn with_row_values([rows, columns, summed]: [u64; 3], is_narrow: bool, pes: u64) {
    let mut b = Builder::new("rows");
    let (left, right) = ([rows, summed], [summed, columns]);
    let x = b.input("x", ty(&left)).unwrap();
    let y = b.input("y", ty(&right)).unwrap();
    let z = b.input("z", ty(&[rows, 1])).unwrap();
    let product = b.einsum("mk,kn->mn", &[x, y]).unwrap();
    let sum = b.add(product, z).unwrap();
    let result = if is_narrow { b.einsum("mn,pn->mp", &[sum, sum]).unwrap() } else { sum };
    b.output("out", result);
    let own = usize::try_from(rows).unwrap();
    let each = Tensor::floats(Dtype::F32, &[own, 1], (0..rows).map(|row| (row % 131) as f32).collect());
    let sparse: Vec<f32> = (0..rows * summed).map(|at| if at % 7 == 0 { 1.0 } else { 0.0 }).collect();
    let inputs = [
        Tensor::floats(Dtype::F32, &[own, usize::try_from(summed).unwrap()], sparse),
        numbers(&right, 29),
        each,
    ];
    // Sums are whole numbers below 256, which bf16 has, and their products add up below 2^24: a row in the
    // place of its neighbour is seen, however near both are.
    cycles(&b.finish(), &inputs, pes);
}

/// Shapes whose tiles had rows of several slices pass a ring in turn, with values in another order: few draws
/// come to such a shape.
#[test]
fn values_of_rows_that_pass_a_ring_in_turn_meet_their_rows() {
    for shape in [[16, 12, 64], [16, 60, 64], [64, 20, 64], [64, 52, 64], [96, 100, 96]] {
        for pes in [1, 2, 4, 8] {
            with_row_values(shape, false, pes);
            with_row_values(shape, true, pes);
        }
    }
}

/// The first layers of a network for images: few channels, then maxima of windows, and what reads them in
/// bf16.
fn pooled([channels, size, features, window, stride]: [u64; 5], pes: u64) -> u64 {
    let mut b = Builder::new("pooled");
    let (image, filters, more) =
        ([2, channels, size, size], [features, channels, window, window], [8, features, 1, 1]);
    let x = b.input("x", ty(&image)).unwrap();
    let w = b.input("w", ty(&filters)).unwrap();
    let v = b.input("v", ty(&more)).unwrap();
    let whole = |number: u64| i64::try_from(number).unwrap();
    let attrs = Attrs::default()
        .ints("strides", &[whole(stride), whole(stride)])
        .ints("pads", &[whole(window / 2); 4]);
    let y = b.rich_one(RichOp::Conv, &[x, w], attrs).unwrap();
    let attrs = Attrs::default().ints("kernel", &[3; 2]).ints("strides", &[2; 2]).ints("pads", &[1; 4]);
    let y = b.rich(RichOp::MaxPool, &[Some(y)], attrs).unwrap()[0];
    let y = b.rich_one(RichOp::Conv, &[y, v], Attrs::default()).unwrap();
    b.output("y", y);
    // Sums of windows stay below 256 or are even: bf16 has them.
    let ones = |dims: &[u64]| {
        let own: Vec<usize> = dims.iter().map(|size| usize::try_from(*size).unwrap()).collect();
        let count = dims.iter().product::<u64>();
        Tensor::floats(Dtype::F32, &own, (0..count).map(|at| f32::from(u8::from(at % 5 == 0))).collect())
    };
    cycles(&b.finish(), &[numbers(&image, 17), ones(&filters), ones(&more)], pes)
}

/// Sums and maxima of rows, and rows less their maximum.
fn folded([rows, columns]: [u64; 2], pes: u64) -> u64 {
    let mut b = Builder::new("folds");
    let x = b.input("x", ty(&[rows, columns])).unwrap();
    let most = b.reduce(Fold::Max, x, &[1], true).unwrap();
    let sum = b.reduce(Fold::Sum, x, &[1], true).unwrap();
    let less = b.binary(Binary::Sub, x, most).unwrap();
    b.output("less", less);
    b.output("sum", sum);
    cycles(&b.finish(), &[numbers(&[rows, columns], 11)], pes)
}

/// Rows without a divisor take about what rows with one do, and a value that goes to all places of its row no
/// write for each of them.
#[test]
fn rows_of_any_length_are_folded_in_turns() {
    let (odd, even) = (folded([3, 30_011], 1), folded([3, 30_720], 1));
    assert!(odd < 8 * even, "{odd} cycles of rows of 30,011, {even} of 30,720");
    assert!(folded([150, 150], 1) < 150_000);
    // Rows of which data memory holds not all that a slice has.
    folded([1501, 2500], 1);
    folded([1501, 4099], 1);
}

/// Windows of three channels are taken where they lie: nothing writes them one by one.
#[test]
fn windows_of_few_channels_take_no_copy() {
    let (three, eight) = (pooled([3, 64, 32, 7, 2], 8), pooled([8, 64, 32, 7, 2], 8));
    assert!(three < 2 * eight, "{three} cycles of three channels, {eight} of eight");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: u32::try_from(tilewright_testkit::draws(8, 400)).unwrap(),
        ..ProptestConfig::default()
    })]

    #[test]
    fn transposes_of_any_size_are_right(
        sizes in (1_u64..4, 3_u64..300, 3_u64..300), pes in prop_oneof![Just(1_u64), Just(8)],
    ) {
        transposed([sizes.0, sizes.1, sizes.2], pes);
    }

    #[test]
    fn contractions_of_any_size_are_right(
        sizes in (1_u64..3, 2_u64..200, 2_u64..200, 2_u64..300), pes in prop_oneof![Just(1_u64), Just(8)],
    ) {
        contracted([sizes.0, sizes.1, sizes.2, sizes.3], pes);
    }

    #[test]
    fn attention_of_any_size_is_right(
        sizes in (1_u64..3, 1_u64..5, 1_u64..200, 100_u64..300, 8_u64..72),
        pes in prop_oneof![Just(1_u64), Just(8)],
    ) {
        attended([sizes.0, sizes.1, sizes.2, sizes.3, sizes.4], pes);
    }

    #[test]
    fn contractions_with_few_columns_are_right(
        sizes in (2000_u64..9000, 2_u64..9, 2_u64..40), pes in prop_oneof![Just(1_u64), Just(8)],
    ) {
        contracted([1, sizes.0, sizes.1, sizes.2], pes);
    }

    #[test]
    fn softmax_of_any_size_is_right(
        sizes in (1_u64..400, 2_u64..300), pes in prop_oneof![Just(1_u64), Just(8)],
    ) {
        softmaxed([sizes.0, sizes.1], pes);
    }

    #[test]
    fn convolutions_of_any_size_are_right(
        sizes in (1_u64..9, 9_u64..64, 1_u64..40, prop_oneof![Just(1_u64), Just(3), Just(5)], 1_u64..3),
        pes in prop_oneof![Just(1_u64), Just(8)],
    ) {
        convolved([sizes.0, sizes.1, sizes.2, sizes.3, sizes.4], pes);
    }

    #[test]
    fn values_of_rows_meet_their_rows(
        sizes in (1_u64..130, 1_u64..130, prop_oneof![8_u64..200, Just(64), Just(96), Just(192)]),
        is_narrow in any::<bool>(), pes in prop_oneof![Just(1_u64), Just(2), Just(4), Just(8)],
    ) {
        with_row_values([sizes.0, sizes.1, sizes.2], is_narrow, pes);
    }

    #[test]
    fn pooled_windows_of_few_channels_are_right(
        sizes in (1_u64..6, 9_u64..50, 1_u64..40),
        (window, stride) in (prop_oneof![Just(2_u64), Just(3), Just(5), Just(7)], 1_u64..3),
        pes in prop_oneof![Just(1_u64), Just(8)],
    ) {
        pooled([sizes.0, sizes.1, sizes.2, window, stride], pes);
    }

    #[test]
    fn folds_of_any_length_are_right(
        sizes in (1_u64..12, prop_oneof![2_u64..300, 4000_u64..20_000]),
        pes in prop_oneof![Just(1_u64), Just(8)],
    ) {
        folded([sizes.0, sizes.1], pes);
    }
}
