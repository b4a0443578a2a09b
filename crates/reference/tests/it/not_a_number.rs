//! Where NaN stands among the elements of a row: `arg_best` gives the first (or last) NaN as
//! `numpy.argmax` and `numpy.argmin` do, `topk` takes NaN for greater than any number as `torch.topk` does,
//! and every place is one of the axis.

use proptest::prelude::*;
use tilewright_base::SourceId;
use tilewright_graph::{Dtype, primitives, text};
use tilewright_reference::{Interpreter, Tensor};

/// Elements of a row.
const WIDTH: usize = 5;

fn results(operators: &str, x: &[f32]) -> Vec<Tensor> {
    let rows = x.len() / WIDTH;
    let text = format!("graph 1\ninput x: f32[{rows}, {WIDTH}]\n{operators}\n");
    let graph = text::read(&text, SourceId(0)).unwrap_or_else(|complaints| panic!("{complaints:?}"));
    let graph = primitives(&graph).unwrap_or_else(|complaint| panic!("{complaint:?}"));
    let interpreter = Interpreter::new(graph, &Default::default()).expect("a graph of primitives");
    let y = interpreter.run(&[Tensor::floats(Dtype::F32, &[rows, WIDTH], x.to_vec())]);
    y.unwrap_or_else(|error| panic!("{error}"))
}

fn place(row: &[f32], least: bool, last: bool) -> usize {
    let is_better = |one: f32, best: f32| match (one.is_nan(), best.is_nan()) {
        (true, false) => true,
        (_, true) => false,
        _ => {
            if least {
                one < best
            } else {
                one > best
            }
        }
    };
    let mut best = 0;
    for at in 1..row.len() {
        let is_equal = row[at] == row[best] || row[at].is_nan() && row[best].is_nan();
        if is_better(row[at], row[best]) || last && is_equal {
            best = at;
        }
    }
    best
}

/// Places in the order of a stable sort with NaN above all.
fn sorted(row: &[f32], least: bool) -> Vec<usize> {
    let mut order: Vec<usize> = (0..row.len()).collect();
    order.sort_by(|one, other| {
        let (a, b) = (row[*one], row[*other]);
        let up = a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()));
        if least { up } else { up.reverse() }
    });
    order
}

proptest! {
    #[test]
    fn places_are_those_of_the_definition(
        which in proptest::collection::vec(0..6_usize, WIDTH..=4 * WIDTH),
    ) {
        let numbers = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, 1.5, -f32::NAN];
        let x: Vec<f32> = which.iter().map(|at| numbers[*at]).collect();
        let x = &x[..x.len() / WIDTH * WIDTH];
        for (least, last) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let rows = x.len() / WIDTH;
            let operators = format!(
                "let y: i64[{rows}, 1] = arg_best(x) axis=1 least={least} last={last}\noutput y = y"
            );
            let wanted = x.chunks(WIDTH).map(|row| place(row, least == 1, last == 1) as i64);
            let found = results(&operators, x);
            prop_assert_eq!(found[0].as_ints(), wanted.collect::<Vec<_>>());
            let operators = format!(
                "let v: f32[{rows}, 4], p: i64[{rows}, 4] = topk(x) axis=1 k=4 least={least}\n\
                 output v = v\noutput p = p"
            );
            let found = results(&operators, x);
            for (at, row) in x.chunks(WIDTH).enumerate() {
                let order = &sorted(row, least == 1)[..4];
                let places = order.iter().map(|place| *place as i64).collect::<Vec<_>>();
                prop_assert_eq!(&found[1].as_ints()[at * 4..][..4], &places, "{:?}", row);
                for (value, place) in found[0].as_floats()[at * 4..].iter().zip(order) {
                    let wanted = row[*place];
                    prop_assert!(*value == wanted || value.is_nan() && wanted.is_nan(), "{:?}", row);
                }
            }
        }
    }
}
