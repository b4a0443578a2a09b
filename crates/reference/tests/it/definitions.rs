//! Operators that go another way where rows are long or strides are there, against their definitions: sums up
//! to each element, the best few of many, and transposed convolutions.

use proptest::prelude::*;
use tilewright_base::SourceId;
use tilewright_graph::{Dtype, primitives, text};
use tilewright_reference::{Interpreter, Tensor};

fn run(text: &str, inputs: &[Tensor]) -> Vec<Tensor> {
    let graph = text::read(text, SourceId(0)).unwrap_or_else(|complaints| panic!("{complaints:?}\n{text}"));
    let graph = primitives(&graph).unwrap_or_else(|complaint| panic!("{complaint:?}\n{text}"));
    let interpreter = Interpreter::new(graph, &Default::default()).expect("a graph of primitives");
    interpreter.run(inputs).unwrap_or_else(|error| panic!("{error}"))
}

/// Whole numbers, so that sums are exact in any order.
fn numbers(count: usize) -> impl Strategy<Value = Vec<f32>> {
    proptest::collection::vec((-8..9_i8).prop_map(f32::from), count)
}

/// A transposed convolution of one image: channels, filters of each group, groups; of rows and of columns
/// size, window, stride, pads and positions behind.
#[derive(Clone, Debug)]
struct Transposed {
    channels: usize,
    filters: usize,
    groups: usize,
    axes: [Axis; 2],
}

#[derive(Clone, Debug)]
struct Axis {
    size: usize,
    window: usize,
    stride: usize,
    pads: [usize; 2],
    behind: usize,
}

impl Axis {
    /// Positions of the result; none if pads leave nothing.
    fn result(&self) -> Option<usize> {
        let all = (self.size - 1) * self.stride + self.window + self.behind;
        all.checked_sub(self.pads[0] + self.pads[1]).filter(|left| *left > 0)
    }
}

fn axis() -> impl Strategy<Value = Axis> {
    let pads = [0..3_usize, 0..3_usize];
    (1..6_usize, 1..6_usize, 1..4_usize, pads, 0..3_usize).prop_map(|(size, window, stride, pads, behind)| {
        Axis { size, window, stride, pads, behind: behind.min(stride - 1) }
    })
}

fn transposed() -> impl Strategy<Value = Transposed> {
    let all = (1..3_usize, 1..4_usize, 1..3_usize, [axis(), axis()]);
    let all = all.prop_map(|(each, filters, groups, axes)| Transposed {
        channels: each * groups,
        filters,
        groups,
        axes,
    });
    all.prop_filter("pads leave something", |all| all.axes.iter().all(|axis| axis.result().is_some()))
}

/// Every element of the input adds its window, as the operator is defined.
fn scattered(of: &Transposed, x: &[f32], w: &[f32], [height, width]: [usize; 2]) -> Vec<f32> {
    let [rows, columns] = &of.axes;
    let mut y = vec![0.0; of.groups * of.filters * height * width];
    for channel in 0..of.channels {
        let group = channel / (of.channels / of.groups);
        for (row, column) in (0..rows.size).flat_map(|row| (0..columns.size).map(move |at| (row, at))) {
            let element = x[(channel * rows.size + row) * columns.size + column];
            for filter in 0..of.filters {
                for (i, j) in (0..rows.window).flat_map(|i| (0..columns.window).map(move |j| (i, j))) {
                    let weight = w[((channel * of.filters + filter) * rows.window + i) * columns.window + j];
                    let to = [(row, i, rows), (column, j, columns)]
                        .map(|(at, tap, axis)| (at * axis.stride + tap).checked_sub(axis.pads[0]));
                    if let [Some(to_row), Some(to_column)] = to
                        && to_row < height
                        && to_column < width
                    {
                        let plane = group * of.filters + filter;
                        y[(plane * height + to_row) * width + to_column] += element * weight;
                    }
                }
            }
        }
    }
    y
}

proptest! {
    #[test]
    fn sums_up_to_each_element_of_long_rows(
        (width, x) in (1..300_usize).prop_flat_map(|width| (Just(width), numbers(2 * width))),
    ) {
        for (exclusive, reverse) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
            let text = format!(
                "graph 1\ninput x: f32[2, {width}]\n\
                 let y: f32[2, {width}] = cumsum(x) axis=1 exclusive={exclusive} reverse={reverse}\n\
                 output y = y\n"
            );
            let found = run(&text, &[Tensor::floats(Dtype::F32, &[2, width], x.clone())]);
            let wanted = x.chunks(width).flat_map(|row| (0..width).map(move |at| {
                let counts = |other: &usize| match (exclusive, reverse) {
                    (0, 0) => *other <= at,
                    (_, 0) => *other < at,
                    (0, _) => *other >= at,
                    _ => *other > at,
                };
                (0..width).filter(counts).map(|other| row[other]).sum::<f32>()
            }));
            prop_assert_eq!(found[0].as_floats(), wanted.collect::<Vec<f32>>());
        }
    }

    #[test]
    fn the_best_few_of_many(
        (width, which) in (32..160_usize).prop_flat_map(|width| {
            (Just(width), proptest::collection::vec(0..9_usize, width))
        }),
    ) {
        let numbers = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 1.5, -3.0, 2.0, f32::MIN];
        let x: Vec<f32> = which.iter().map(|at| numbers[*at]).collect();
        let count = width / 32;
        for least in [0, 1] {
            let text = format!(
                "graph 1\ninput x: f32[1, {width}]\n\
                 let v: f32[1, {count}], p: i64[1, {count}] = topk(x) axis=1 k={count} least={least}\n\
                 output v = v\noutput p = p\n"
            );
            let found = run(&text, &[Tensor::floats(Dtype::F32, &[1, width], x.clone())]);
            let mut order: Vec<usize> = (0..width).collect();
            order.sort_by(|one, other| {
                let (a, b) = (x[*one], x[*other]);
                let up = a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()));
                if least == 1 { up } else { up.reverse() }
            });
            let places: Vec<i64> = order[..count].iter().map(|place| *place as i64).collect();
            prop_assert_eq!(found[1].as_ints(), &places[..], "{:?}", &x);
            for (value, place) in found[0].as_floats().iter().zip(&order) {
                prop_assert!(*value == x[*place] || value.is_nan() && x[*place].is_nan());
            }
        }
    }

    #[test]
    fn transposed_convolutions_are_sums_of_windows(
        (of, x, w) in transposed().prop_flat_map(|of| {
            let [rows, columns] = of.axes.clone();
            let x = of.channels * rows.size * columns.size;
            let w = of.channels * of.filters * rows.window * columns.window;
            (Just(of), numbers(x), numbers(w))
        }),
    ) {
        let [rows, columns] = &of.axes;
        let sizes = [rows, columns].map(|axis| axis.result().expect("something is left"));
        let [height, width] = sizes;
        let (channels, filters, groups) = (of.channels, of.filters, of.groups);
        let [high, wide] = [rows, columns].map(|axis| (axis.size, axis.window));
        let text = format!(
            "graph 1\ninput x: f32[1, {channels}, {}, {}]\ninput w: f32[{channels}, {filters}, {}, {}]\n\
             let y: f32[1, {}, {height}, {width}] = conv_transpose(x, w) groups={groups} strides=[{}, {}] \
             pads=[{}, {}, {}, {}] output_padding=[{}, {}]\noutput y = y\n",
            high.0, wide.0, high.1, wide.1, groups * filters, rows.stride, columns.stride,
            rows.pads[0], columns.pads[0], rows.pads[1], columns.pads[1], rows.behind, columns.behind,
        );
        let inputs = [
            Tensor::floats(Dtype::F32, &[1, channels, high.0, wide.0], x.clone()),
            Tensor::floats(Dtype::F32, &[channels, filters, high.1, wide.1], w.clone()),
        ];
        let found = run(&text, &inputs);
        prop_assert_eq!(found[0].as_floats(), scattered(&of, &x, &w, sizes), "{:?}", &of);
    }
}
