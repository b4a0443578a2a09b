//! Graphs of open sizes on the chip: compiled once at their bounds, run at every size, and compared with the
//! interpreter at that very size.

use proptest::prelude::*;
use tilewright_compile::general::Options;
use tilewright_graph::rich::{Attrs, RichOp};
use tilewright_graph::{
    Binary, BoundedGraph, BuildResult, Builder, Dim, Dtype, Fold, Graph, Op, TensorStore, Type, Unary,
    ValueId, bounded, primitives,
};
use tilewright_reference::{Elements, Interpreter, Tensor};

use crate::general::{largest, on_chip};

/// Bounds of the two open axes.
const MOST: [u64; 2] = [6, 10];

/// A graph on `x: f32[n, m]`, `y: f32[m, 8]` and whole numbers `t: i32[n, m]`.
fn graph(build: impl FnOnce(&mut Builder, [ValueId; 3]) -> BuildResult<Vec<ValueId>>) -> Graph {
    let mut b = Builder::new("open");
    let (n, m) = (b.axis("n", 1, MOST[0]), b.axis("m", 1, MOST[1]));
    let x = b.input("x", Type::new(Dtype::F32, [n.clone(), m.clone()])).expect("an input");
    let y = b.input("y", Type::new(Dtype::F32, [m.clone(), 8.into()])).expect("an input");
    let t = b.input("t", Type::new(Dtype::I32, [n, m])).expect("an input");
    let outputs = build(&mut b, [x, y, t]).expect("a graph");
    for (at, output) in outputs.into_iter().enumerate() {
        b.output(&format!("out{at}"), output);
    }
    primitives(&b.finish()).expect("primitives")
}

/// Inputs of these sizes, from numbers over and over.
fn inputs(open: &Graph, [n, m]: [u64; 2], values: &[f32]) -> Vec<Tensor> {
    let sizes = [Some(n), Some(m)];
    let one = |(at, id): (usize, &ValueId)| {
        let ty = &open.values[id.index()].ty;
        let size = |dim: &Dim| usize::try_from(dim.value(&sizes).expect("a size")).expect("a size");
        let dims: Vec<usize> = ty.dims.iter().map(size).collect();
        let elements = values.iter().copied().cycle().skip(11 * at).take(dims.iter().product());
        #[expect(clippy::cast_possible_truncation, reason = "small whole numbers")]
        match ty.dtype.is_float() {
            true => Tensor::floats(ty.dtype, &dims, elements.collect()),
            false => Tensor::ints(ty.dtype, &dims, elements.map(|value| value as i64).collect()),
        }
    };
    open.inputs.iter().enumerate().map(one).collect()
}

/// The results at the sizes of arrays, by a function that runs the bounded graph.
fn at_sizes<E>(
    made: &BoundedGraph,
    inputs: &[Tensor],
    run: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>, E>,
) -> Result<Vec<Tensor>, E> {
    let sizes = &made.sizes;
    let whole = |dims: &[u64]| dims.iter().map(|dim| usize::try_from(*dim).expect("a size")).collect();
    let shapes: Vec<Vec<u64>> =
        inputs.iter().map(|tensor| tensor.dims.iter().map(|dim| *dim as u64).collect()).collect();
    let shapes: Vec<&[u64]> = shapes.iter().map(Vec::as_slice).collect();
    let now = sizes.axis_sizes(&shapes).expect("sizes");
    let arrays = sizes.inputs.iter().zip(inputs).map(|(open, tensor)| {
        let dims: Vec<usize> = whole(&sizes.shape(open, &sizes.most()).expect("bounds"));
        match &tensor.elements {
            Elements::Floats(all) => {
                Tensor::floats(tensor.dtype, &dims, sizes.padded(open, &now, all, 0.0).expect("room"))
            }
            Elements::Ints(all) => {
                Tensor::ints(tensor.dtype, &dims, sizes.padded(open, &now, all, 0).expect("room"))
            }
        }
    });
    let scalars = sizes
        .sizes
        .iter()
        .map(|input| Tensor::ints(Dtype::I32, &[], vec![sizes.size(input, &now).expect("a size")]));
    let arrays: Vec<Tensor> = arrays.chain(scalars).collect();
    let cropped = run(&arrays)?.into_iter().zip(&sizes.outputs).map(|(tensor, output)| {
        let dims: Vec<usize> = whole(&sizes.shape(output, &now).expect("a shape"));
        match &tensor.elements {
            Elements::Floats(all) => {
                Tensor::floats(tensor.dtype, &dims, sizes.cropped(output, &now, all).expect("elements"))
            }
            Elements::Ints(all) => {
                Tensor::ints(tensor.dtype, &dims, sizes.cropped(output, &now, all).expect("elements"))
            }
        }
    });
    Ok(cropped.collect())
}

/// Runs a graph on the chip at these sizes, with what the interpreter of the open graph gives.
fn both(
    open: &Graph,
    made: &BoundedGraph,
    given: &[Tensor],
    pes: u64,
) -> Result<(Vec<Tensor>, Vec<Tensor>), TestCaseError> {
    let wanted = Interpreter::new(open.clone(), &TensorStore::default()).expect("a graph").run(given);
    let wanted = wanted.map_err(|error| TestCaseError::reject(error.to_string()))?;
    let options = Options { pes, ..Options::default() };
    let found = at_sizes(made, given, |arrays| on_chip(&made.graph, arrays, options))?;
    Ok((found, wanted))
}

/// Every size of a graph of small whole numbers, to the bit.
fn assert_every_size(open: &Graph) {
    let made = bounded(open).expect("a bounded graph");
    let values = [1.0, -2.0, 3.0, 0.0, 2.0, -1.0, 1.0, 2.0, -3.0, 1.0, 0.0, -2.0, 2.0];
    for n in 1..=MOST[0] {
        for m in 1..=MOST[1] {
            let (found, wanted) = both(open, &made, &inputs(open, [n, m], &values), 1).expect("a run");
            for (found, wanted) in found.iter().zip(&wanted) {
                assert_eq!(found.dims, wanted.dims, "at {n}, {m}");
                assert_eq!(found.elements, wanted.elements, "at {n}, {m}");
            }
        }
    }
}

#[test]
fn sums_and_products_over_open_axes_are_exact_at_every_size() {
    assert_every_size(&graph(|b, [x, y, t]| {
        let product = b.einsum("nm,mk->nk", &[x, y])?;
        let sum = b.reduce(Fold::Sum, t, &[0, 1], false)?;
        let least = b.reduce(Fold::Min, t, &[1], true)?;
        Ok(vec![product, sum, least])
    }));
}

#[test]
fn the_last_row_and_joined_rows_are_exact_at_every_size() {
    assert_every_size(&graph(|b, [x, y, _]| {
        let size = b.dim(y, 0)?;
        let last = b.slice(y, 0, size.minus(&1.into()).unwrap_or_default(), 1.into(), 1)?;
        let joined = b.concat(0, &[y, last])?;
        let flat = b.reshape(x, &[b.dim(x, 0)?.times(&size).unwrap_or_default()])?;
        let best = b.rich_one(RichOp::ArgBest, &[x], Attrs::default().int("axis", 1))?;
        Ok(vec![joined, flat, best])
    }));
}

/// Softmax and means are those of the interpreter as near as products of bf16 let them be.
#[test]
fn attention_over_an_open_length_is_near_at_every_size() {
    let open = graph(|b, [x, y, _]| {
        let scores = b.einsum("md,kd->mk", &[y, y])?;
        let weights = b.rich_one(RichOp::Softmax, &[scores], Attrs::default().int("axis", -1))?;
        let mixed = b.einsum("mk,kd->md", &[weights, y])?;
        let pooled = b.mean(mixed, &[0], false)?;
        let rows = b.mean(x, &[1], true)?;
        Ok(vec![mixed, pooled, rows])
    });
    let made = bounded(&open).expect("a bounded graph");
    let values = [0.5, -0.25, 1.0, 0.75, -1.0, 0.125, 0.25, -0.5, 1.5];
    for (n, m) in [(1, 1), (2, 7), (6, 10), (3, 9), (5, 2)] {
        let (found, wanted) = both(&open, &made, &inputs(&open, [n, m], &values), 1).expect("a run");
        for (found, wanted) in found.iter().zip(&wanted) {
            assert_eq!(found.dims, wanted.dims, "at {n}, {m}");
            for (found, wanted) in found.as_floats().iter().zip(wanted.as_floats()) {
                assert!((found - wanted).abs() < 0.02, "{found} instead of {wanted} at {n}, {m}");
            }
        }
    }
}

/// One more value from what is there, by three drawn numbers; nothing where they do not fit.
fn grown(b: &mut Builder, pool: &[ValueId], [kind, a, c]: [u8; 3]) -> BuildResult<ValueId> {
    let pick = |number: u8| pool[usize::from(number) % pool.len()];
    let (x, y) = (pick(a), pick(c));
    let axis = usize::from(c) % b.rank(x).max(1);
    match kind % 13 {
        0 => b.binary([Binary::Add, Binary::Sub, Binary::Max, Binary::Min][usize::from(c) % 4], x, y),
        1 => b.unary(Unary::Neg, x),
        2 | 3 => b.reduce([Fold::Sum, Fold::Max, Fold::Min][usize::from(a) % 3], x, &[axis], c % 2 == 0),
        4 => {
            let mut order: Vec<usize> = (0..b.rank(x)).collect();
            order.reverse();
            b.transpose(x, &order)
        }
        5 => {
            let size = b.dim(x, axis)?;
            let last = size.minus(&1.into()).unwrap_or_default();
            match a % 3 {
                0 => b.slice(x, axis, 0.into(), 1.into(), 1),
                1 => b.slice(x, axis, last, 1.into(), 1),
                _ => b.slice(x, axis, last, size, -1),
            }
        }
        6 => b.concat(axis, &[x, y]),
        7 => {
            let fill = b.scalar(b.dtype(x), f64::from(a % 3))?;
            b.pad(x, axis, i64::from(c % 2).into(), i64::from(a % 3).into(), fill)
        }
        8 => b.emit(Op::Window { axis, size: 1 + u64::from(a) % 2, stride: 1, dilation: 1 }, &[x]),
        9 => {
            let all = Dim::product(b.dims(x)).unwrap_or_default();
            b.reshape(x, &[all])
        }
        10 => {
            let rows = b.integers(Dtype::I32, &[0, -1])?;
            b.gather(x, axis, rows)
        }
        11 => b.einsum("ab,cb->ac", &[x, y]),
        _ => b.einsum("ab,bc->ac", &[x, y]),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(tilewright_testkit::draws(150, 3000)))]

    #[test]
    fn whole_numbers_of_random_graphs_are_those_of_the_interpreter(
        drawn in proptest::collection::vec(any::<[u8; 3]>(), 1..8), pes in 0..4_u32,
        (n, m) in (1..=MOST[0], 1..=MOST[1]), values in proptest::collection::vec(-3..4_i8, 97),
    ) {
        let open = graph(|b, [x, y, _]| {
            let mut pool = vec![x, y];
            for numbers in drawn {
                pool.extend(grown(b, &pool.clone(), numbers));
            }
            Ok(pool.into_iter().rev().take(2).collect())
        });
        // What cannot be open is refused, which other tests look at.
        let Ok(made) = bounded(&open) else { return Ok(()) };
        let values: Vec<f32> = values.into_iter().map(f32::from).collect();
        let given = inputs(&open, [n, m], &values);
        let (found, wanted) = both(&open, &made, &given, 1 << pes)?;
        for (found, wanted) in found.iter().zip(&wanted) {
            prop_assert_eq!(&found.dims, &wanted.dims);
            // bf16 has eight bits: larger whole numbers are rounded before they are multiplied.
            if found.elements != wanted.elements {
                let large = largest(&open, &given);
                prop_assert!(large > 256.0, "{:?} instead of {:?}", found.elements, wanted.elements);
            }
        }
    }
}
