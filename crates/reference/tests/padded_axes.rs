//! Columns of contractions in whole units: the padded graph gives what the graph gives.

use proptest::prelude::*;
use tilewright_graph::rich::{Attrs, RichOp};
use tilewright_graph::{
    AxisUnits, Binary, BuildResult, Builder, Dim, Dtype, Fold, Graph, Op, TensorStore, Type, Unary, ValueId,
    padded_axes, primitives,
};
use tilewright_reference::{Elements, Interpreter, Tensor};

const UNITS: AxisUnits = AxisUnits { unit: 8, least_elements: 1 };

/// One more value from what is there, by three drawn numbers; nothing where they do not fit.
fn grown(b: &mut Builder, pool: &[ValueId], [kind, a, c]: [u8; 3]) -> BuildResult<ValueId> {
    let pick = |number: u8| pool[usize::from(number) % pool.len()];
    let (x, y) = (pick(a), pick(c));
    let rank = b.rank(x);
    let axis = usize::from(c) % rank.max(1);
    // Of a scalar there is none, which is refused.
    let end = rank.saturating_sub(1);
    let last = Attrs::default().int("axis", -1);
    match kind % 16 {
        0 => b.binary([Binary::Add, Binary::Sub, Binary::Max, Binary::Mul][usize::from(c) % 4], x, y),
        1 => b.with([Binary::Mul, Binary::Add, Binary::Div][usize::from(c) % 3], x, 0.5),
        2 => b.unary([Unary::Neg, Unary::Tanh, Unary::Abs, Unary::Cos][usize::from(c) % 4], x),
        3 => b.reduce(Fold::ALL[usize::from(a) % 4], x, &[axis], c % 2 == 0),
        4 | 5 => b.rich_one(RichOp::Softmax, &[x], last),
        6 => {
            let mean = b.mean(x, &[end], true)?;
            let centred = b.sub(x, mean)?;
            let squares = b.mul(centred, centred)?;
            let spread = b.mean(squares, &[end], true)?;
            let spread = b.with(Binary::Add, spread, 0.5)?;
            b.div(centred, spread)
        }
        7 => {
            let mut order: Vec<usize> = (0..rank).collect();
            order.rotate_left(1.min(rank));
            b.transpose(x, &order)
        }
        8 => b.slice(x, axis, 1.into(), b.dim(x, axis)?.minus(&1.into()).unwrap_or_default(), 1),
        9 => {
            let mut dims = b.dims(x).to_vec();
            dims.insert(axis, 1.into());
            b.reshape(x, &dims)
        }
        10 => {
            let all = Dim::product(b.dims(x)).unwrap_or_default();
            b.reshape(x, &[1.into(), all])
        }
        11 => {
            let largest = b.reduce(Fold::Max, x, &[end], true)?;
            let keep = b.binary(Binary::Lt, x, largest)?;
            b.select(keep, x, y)
        }
        12 => b.emit(Op::Window { axis, size: 2, stride: 1, dilation: 1 }, &[x]),
        13 => b.concat(axis, &[x, y]),
        14 => b.einsum("ab,bc->ac", &[x, y]),
        _ => b.einsum("ab,cb->ac", &[x, y]),
    }
}

fn graph(drawn: &[[u8; 3]], sizes: [i64; 2]) -> Graph {
    let mut b = Builder::new("random");
    let [n, m] = sizes.map(Dim::fixed);
    let mut pool = Vec::new();
    for (name, dims) in [("x", [n.clone(), m.clone()]), ("y", [n, m.clone()]), ("z", [m.clone(), m])] {
        pool.push(b.input(name, Type::new(Dtype::F32, dims)).expect("a well-formed graph"));
    }
    for numbers in drawn {
        pool.extend(grown(&mut b, &pool.clone(), *numbers));
    }
    for (at, value) in pool.iter().rev().take(3).enumerate() {
        b.output(&format!("out{at}"), *value);
    }
    primitives(&b.finish()).expect("a well-formed graph")
}

fn results(graph: &Graph, values: &[f32]) -> Vec<Vec<f32>> {
    let interpreter = Interpreter::new(graph.clone(), &TensorStore::default()).expect("a well-formed graph");
    let given = |(at, id): (usize, &ValueId)| {
        let dims = graph.values[id.index()].ty.fixed_dims().expect("sizes that are numbers");
        let dims: Vec<usize> = dims.iter().map(|dim| usize::try_from(*dim).expect("a size")).collect();
        let elements = values.iter().copied().cycle().skip(7 * at).take(dims.iter().product()).collect();
        Tensor::floats(Dtype::F32, &dims, elements)
    };
    let inputs: Vec<Tensor> = graph.inputs.iter().enumerate().map(given).collect();
    let found = interpreter.run(&inputs).expect("a run");
    let floats = |tensor: &Tensor| match &tensor.elements {
        Elements::Floats(all) => all.to_vec(),
        Elements::Ints(_) => Vec::new(),
    };
    found.iter().map(floats).collect()
}

/// Compares a drawn graph with its padded form; whether it has one.
fn compared(drawn: &[[u8; 3]], sizes: [i64; 2], values: &[f32]) -> bool {
    let graph = graph(drawn, sizes);
    let Some(padded) = padded_axes(&graph, UNITS).expect("a graph of primitives") else { return false };
    let (wanted, found) = (results(&graph, values), results(&padded, values));
    for (wanted, found) in wanted.iter().zip(&found) {
        assert_eq!(wanted.len(), found.len());
        for (wanted, found) in wanted.iter().zip(found) {
            let near = (wanted - found).abs() <= 1e-4 * wanted.abs().max(1.0);
            let text = tilewright_graph::text::print(&padded);
            assert!(near || !wanted.is_finite(), "{wanted} and {found} of\n{text}");
        }
    }
    true
}

#[test]
fn random_graphs_give_the_same() {
    let count = std::cell::Cell::new(0);
    let values = proptest::collection::vec(-2.0_f32..2.0, 97);
    let drawn = proptest::collection::vec(any::<[u8; 3]>(), 2..12);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(1500));
    let case = (drawn, (2_i64..19, 3_i64..19), values);
    let run = runner.run(&case, |(drawn, (n, m), values)| {
        count.set(count.get() + u32::from(compared(&drawn, [n, m], &values)));
        Ok(())
    });
    run.expect("every graph gives the same");
    assert!(count.get() > 250, "{} of 1500 have axes to pad", count.get());
}

/// Attention over seven positions: scores stay eight long from the first contraction to the second, and meet
/// minus infinity before the maximum alone.
#[test]
fn attention_is_padded_once() {
    let mut b = Builder::new("attention");
    let ty = || Type::new(Dtype::F32, [7.into(), 8.into()]);
    let [q, k, v] = ["q", "k", "v"].map(|name| b.input(name, ty()).expect("an input"));
    let scores = b.einsum("qd,kd->qk", &[q, k]).expect("scores");
    let scaled = b.with(Binary::Mul, scores, 0.5).expect("scaled scores");
    let shares = b.rich_one(RichOp::Softmax, &[scaled], Attrs::default().int("axis", -1)).expect("shares");
    let mixed = b.einsum("qk,kd->qd", &[shares, v]).expect("a mixture");
    b.output("y", mixed);
    let graph = primitives(&b.finish()).expect("a well-formed graph");
    let padded = padded_axes(&graph, UNITS).expect("a graph of primitives").expect("columns to pad");
    let names: Vec<&str> = padded.nodes.iter().map(|node| node.op.name()).collect();
    let wanted = ["pad", "einsum", "mul", "add", "reduce", "sub", "exp", "reduce", "div", "pad", "einsum"];
    assert_eq!(names, wanted);
    let values: Vec<f32> = (0..56_u8).map(|at| f32::from(at % 9) - 4.0).collect();
    let (wanted, found) = (results(&graph, &values), results(&padded, &values));
    let near = |(x, y): (&f32, &f32)| (x - y).abs() < 1e-5;
    assert!(wanted[0].iter().zip(&found[0]).all(near), "{wanted:?} {found:?}");
}
