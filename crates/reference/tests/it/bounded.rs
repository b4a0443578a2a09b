//! Graphs of open sizes at their bounds: whatever size a run has, the bounded graph gives the bits that the
//! open one gives at that size.

use proptest::prelude::*;
use tilewright_graph::rich::{Attrs, RichOp};
use tilewright_graph::{
    Binary, BoundedGraph, BuildResult, Builder, Dim, Dtype, Fold, Graph, Op, OpenSizes, TensorStore, Type,
    Unary, ValueId, bounded, primitives,
};
use tilewright_reference::{Elements, Interpreter, Tensor};

/// Bounds of the two open axes; the first is longer than the lanes of any sum.
const MOST: [u64; 2] = [17, 3];

/// One more value from what is there, by three drawn numbers; nothing where they do not fit. Whole numbers
/// stay whole if `whole`.
fn grown(b: &mut Builder, pool: &[ValueId], [kind, a, c]: [u8; 3], whole: bool) -> BuildResult<ValueId> {
    let pick = |number: u8| pool[usize::from(number) % pool.len()];
    let (x, y) = (pick(a), pick(c));
    let rank = b.rank(x);
    let axis = usize::from(c) % rank.max(1);
    let axis_attrs = Attrs::default().int("axis", i64::try_from(axis).unwrap_or(0));
    match kind % 18 {
        0 => b.binary([Binary::Add, Binary::Sub, Binary::Max, Binary::Min][usize::from(c) % 4], x, y),
        1 => b.mul(x, y),
        2 if whole => b.unary([Unary::Neg, Unary::Abs, Unary::Sign][usize::from(c) % 3], x),
        // What these give of padding is infinite, or no number.
        2 => b.unary([Unary::Recip, Unary::Ln, Unary::Rsqrt, Unary::Exp, Unary::Cos][usize::from(c) % 5], x),
        3 | 4 => b.reduce(Fold::ALL[usize::from(a) % 4], x, &[axis], c % 2 == 0),
        5 if whole => {
            let all: Vec<usize> = (0..rank).collect();
            b.reduce(Fold::Sum, x, &all, false)
        }
        5 => b.mean(x, &[axis], true),
        6 if whole => b.rich_one(RichOp::CumSum, &[x], axis_attrs.int("exclusive", i64::from(c / 8 % 2))),
        6 => b.rich_one(RichOp::Softmax, &[x], axis_attrs),
        7 => {
            let mut order: Vec<usize> = (0..rank).collect();
            order.rotate_left(1.min(rank.saturating_sub(1)));
            b.transpose(x, &order)
        }
        8 => {
            // From the front, or from the end: one, all but one, or all in reverse.
            let size = b.dim(x, axis)?;
            let last = size.minus(&1.into()).unwrap_or_default();
            match a % 4 {
                0 => b.slice(x, axis, 0.into(), 1.into(), 1),
                1 => b.slice(x, axis, last, 1.into(), 1),
                2 => b.slice(x, axis, 1.into(), last, 1),
                _ => b.slice(x, axis, last, size, -1),
            }
        }
        9 => b.concat(axis, &[x, y]),
        10 => {
            let fill = b.scalar(Dtype::F32, f64::from(a % 3))?;
            b.pad(x, axis, i64::from(c % 2).into(), i64::from(a % 3).into(), fill)
        }
        11 => {
            let window = Op::Window { axis, size: 1 + u64::from(a) % 2, stride: 1, dilation: 1 };
            b.emit(window, &[x])
        }
        12 if whole => {
            let all = Dim::product(b.dims(x)).unwrap_or_default();
            b.reshape(x, &[all])
        }
        12 => {
            let dims: Vec<Dim> = b.dims(x).iter().cloned().chain([1.into()]).collect();
            b.reshape(x, &dims)
        }
        13 => {
            let rows = b.integers(Dtype::I64, &[0, -1])?;
            b.gather(x, axis, rows)
        }
        14 => {
            let dims = b.dims(x).to_vec();
            let places = b.iota(Dtype::I64, &dims, axis)?;
            let places = b.convert(places, Dtype::F32)?;
            b.add(x, places)
        }
        // Nothing has no largest element.
        15 if b.dim(x, axis)?.range(b.axes()).0 > 0 => {
            let place = b.rich_one(RichOp::ArgBest, &[x], axis_attrs.int("last", i64::from(a % 2)))?;
            b.convert(place, Dtype::F32)
        }
        16 => b.einsum("ab,cb->ac", &[x, y]),
        _ => b.einsum("ab,bc->ac", &[x, y]),
    }
}

/// A graph from drawn numbers, with two open axes.
fn graph(drawn: &[[u8; 3]], whole: bool) -> Graph {
    let mut b = Builder::new("random");
    let (n, m) = (b.axis("n", 1, MOST[0]), b.axis("m", 1, MOST[1]));
    let mut pool = Vec::new();
    for (name, dims) in [("x", [n.clone(), m.clone()]), ("y", [n, 4.into()]), ("z", [4.into(), m])] {
        pool.push(b.input(name, Type::new(Dtype::F32, dims)).expect("a well-formed graph"));
    }
    for numbers in drawn {
        pool.extend(grown(&mut b, &pool.clone(), *numbers, whole));
    }
    for (at, value) in pool.iter().rev().take(3).enumerate() {
        b.output(&format!("out{at}"), *value);
    }
    primitives(&b.finish()).expect("a well-formed graph")
}

/// Inputs of these sizes.
fn inputs(open: &Graph, sizes: [u64; 2], values: &[f32]) -> Vec<Tensor> {
    let sizes = sizes.map(Some);
    let mut skip = 0;
    let one = |id: &ValueId| {
        let dims = open.values[id.index()].ty.dims.iter();
        let dims: Vec<usize> = dims
            .map(|dim| {
                usize::try_from(dim.value(&sizes).expect("a well-formed graph")).expect("a well-formed graph")
            })
            .collect();
        skip += 7;
        let elements = values.iter().copied().cycle().skip(skip).take(dims.iter().product()).collect();
        Tensor::floats(Dtype::F32, &dims, elements)
    };
    open.inputs.iter().map(one).collect()
}

/// Inputs at their bounds, with the sizes behind them.
fn padded(sizes: &OpenSizes, inputs: &[Tensor]) -> (Vec<Option<u64>>, Vec<Tensor>) {
    let shapes: Vec<Vec<u64>> =
        inputs.iter().map(|tensor| tensor.dims.iter().map(|dim| *dim as u64).collect()).collect();
    let shapes: Vec<&[u64]> = shapes.iter().map(Vec::as_slice).collect();
    let now = sizes.axis_sizes(&shapes).expect("a well-formed graph");
    let most: Vec<Option<u64>> = sizes.axes.iter().map(|axis| Some(axis.most)).collect();
    let arrays = sizes.inputs.iter().zip(inputs).map(|(open, tensor)| {
        let shape = sizes.shape(open, &most).expect("a well-formed graph");
        let dims: Vec<usize> =
            shape.iter().map(|size| usize::try_from(*size).expect("a well-formed graph")).collect();
        match &tensor.elements {
            Elements::Floats(all) => Tensor::floats(
                tensor.dtype,
                &dims,
                sizes.padded(open, &now, all, 0.0).expect("a well-formed graph"),
            ),
            Elements::Ints(all) => Tensor::ints(
                tensor.dtype,
                &dims,
                sizes.padded(open, &now, all, 0).expect("a well-formed graph"),
            ),
        }
    });
    let scalars = sizes.sizes.iter().map(|input| {
        Tensor::ints(Dtype::I32, &[], vec![sizes.size(input, &now).expect("a well-formed graph")])
    });
    (now.clone(), arrays.chain(scalars).collect())
}

/// Elements as bits; all that are no number are one.
fn bits(tensor: &Elements) -> Vec<u64> {
    let float = |x: &f32| u64::from(if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() });
    match tensor {
        Elements::Floats(all) => all.iter().map(float).collect(),
        Elements::Ints(all) => all.iter().map(|x| x.cast_unsigned()).collect(),
    }
}

/// Runs a graph at every size, open and bounded, and compares all bits.
fn assert_every_size(open: &Graph, made: &BoundedGraph, values: &[f32]) {
    let store = TensorStore::default();
    let exact = Interpreter::new(open.clone(), &store).expect("a well-formed graph");
    let bounded = Interpreter::new(made.graph.clone(), &store).expect("a well-formed graph");
    for n in 1..=MOST[0] {
        for m in 1..=MOST[1] {
            let given = inputs(open, [n, m], values);
            // Something may ask for an element of nothing at this size.
            let Ok(wanted) = exact.run(&given) else { continue };
            let (now, arrays) = padded(&made.sizes, &given);
            let found = bounded.run(&arrays).expect("a well-formed graph");
            for ((output, wanted), found) in made.sizes.outputs.iter().zip(&wanted).zip(&found) {
                let name = &output.name;
                let shape = made.sizes.shape(output, &now).expect("a well-formed graph");
                let dims: Vec<u64> = wanted.dims.iter().map(|dim| *dim as u64).collect();
                assert_eq!(shape, dims, "`{name}` at {n}, {m}");
                let cropped = match &found.elements {
                    Elements::Floats(all) => Elements::Floats(
                        made.sizes.cropped(output, &now, all).expect("a well-formed graph").into(),
                    ),
                    Elements::Ints(all) => Elements::Ints(
                        made.sizes.cropped(output, &now, all).expect("a well-formed graph").into(),
                    ),
                };
                let (found, wanted) = (bits(&cropped), bits(&wanted.elements));
                assert_eq!(found, wanted, "`{name}` at {n}, {m} of\n{}", tilewright_graph::text::print(open));
            }
        }
    }
}

/// Compares a drawn graph at every size, unless it is refused; whether it was compared.
fn compared(drawn: &[[u8; 3]], whole: bool, values: &[f32]) -> bool {
    let open = graph(drawn, whole);
    match bounded(&open) {
        Ok(made) => {
            assert_every_size(&open, &made, values);
            true
        }
        Err(refused) => {
            assert_eq!(refused.code, "graph/open", "{refused:?}");
            assert!(refused.message.contains("node `"), "{refused:?}");
            false
        }
    }
}

/// The refusal of a graph of one node on `x: f32[n, m]`.
fn refused(node: impl FnOnce(&mut Builder, ValueId, &Dim) -> BuildResult<ValueId>) -> String {
    let mut b = Builder::new("refused");
    let (n, m) = (b.axis("n", 1, 4), b.axis("m", 1, 4));
    let x = b.input("x", Type::new(Dtype::F32, [n.clone(), m])).expect("a well-formed graph");
    let y = node(&mut b, x, &n).expect("a well-formed graph");
    b.output("y", y);
    let why =
        bounded(&primitives(&b.finish()).expect("a well-formed graph")).expect_err("an axis that stays open");
    format!(
        "{}: {} ({}) {}",
        why.code,
        why.message,
        why.allowed.expect("a well-formed graph"),
        why.instead.expect("a well-formed graph")
    )
}

#[test]
fn what_cannot_be_open_is_refused_with_its_node_and_axis() {
    let flat = |b: &mut Builder, x| {
        let all = Dim::product(b.dims(x)).expect("a well-formed graph");
        b.reshape(x, &[all])
    };
    let merged = "is n x m merged, with padding between";
    let why = refused(|b, x, _| {
        let flat = flat(b, x)?;
        b.called("y").slice(flat, 0, 0.into(), 1.into(), 1)
    });
    assert!(why.starts_with("graph/open: node `y` (slice): axis 0") && why.contains(merged), "{why}");
    let why = refused(|b, x, n| {
        let (zero, flat) = (b.scalar(Dtype::F32, 0.0)?, b.slice(x, 1, 0.into(), 1.into(), 1)?);
        b.called("y").pad(flat, 1, n.clone(), 0.into(), zero)
    });
    assert!(why.starts_with("graph/open: node `y` (pad): n elements before axis 1"), "{why}");
    assert!(why.ends_with("(a fixed size of `n`) a number for `n`"), "{why}");
    let why = refused(|b, x, _| {
        let turned = b.transpose(x, &[1, 0])?;
        let (rows, columns) = (flat(b, x)?, flat(b, turned)?);
        b.called("y").add(rows, columns)
    });
    assert!(why.contains("axes of n x m and of m x n meet, whose padding lies differently"), "{why}");
}

#[test]
fn sizes_that_do_not_fit_are_refused_by_name() {
    let made = bounded(&graph(&[[0, 0, 0]], true)).expect("a well-formed graph");
    let said = |shapes: [&[u64]; 3]| match made.sizes.axis_sizes(&shapes) {
        Ok(sizes) => format!("{sizes:?}"),
        Err(why) => format!("{}: {} ({})", why.code, why.message, why.allowed.unwrap_or_default()),
    };
    assert_eq!(said([&[2, 3], &[2, 4], &[4, 3]]), "[Some(2), Some(3)]");
    assert_eq!(said([&[18, 3], &[2, 4], &[4, 3]]), "graph/bounds: input `x` has 18 along `n` (1 to 17)");
    assert_eq!(said([&[0, 3], &[0, 4], &[4, 3]]), "graph/bounds: input `x` has 0 along `n` (1 to 17)");
    let two = "graph/bounds: input `y` has 5 along `n`, and input `x` 2 (one size of `n` in all inputs)";
    assert_eq!(said([&[2, 3], &[5, 4], &[4, 3]]), two);
    assert_eq!(said([&[2, 3], &[2, 5], &[4, 3]]), "graph/bounds: input `y` has sizes [2, 5] ([n, 4])");
    assert_eq!(said([&[2], &[2, 4], &[4, 3]]), "graph/bounds: input `x` has sizes [2] ([n, m])");
}

fn steps() -> impl Strategy<Value = Vec<[u8; 3]>> {
    proptest::collection::vec(any::<[u8; 3]>(), 1..9)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Sums of small whole numbers are exact, so that their order does not matter: axes may be merged.
    #[test]
    fn whole_numbers_at_every_size(drawn in steps(), values in proptest::collection::vec(-2..3_i8, 31)) {
        let values: Vec<f32> = values.into_iter().map(f32::from).collect();
        compared(&drawn, true, &values);
    }

    /// Sums of floats over one axis: zeros behind its elements change no bit.
    #[test]
    fn floats_at_every_size(drawn in steps(), values in proptest::collection::vec(-2.0..2.0_f32, 31)) {
        compared(&drawn, false, &values);
    }
}
