//! The interpreter's fast paths against plain loops over every coordinate.

use proptest::prelude::*;
use tilewright_graph::{Binary, Dtype, Fold, Subscripts};
use tilewright_reference::einsum::einsum;
use tilewright_reference::elementwise::{binary, select};
use tilewright_reference::index::{concat, gather, iota, pad, scatter};
use tilewright_reference::reduce::reduce;
use tilewright_reference::view::{broadcast, slice, transpose, window};
use tilewright_reference::{EvalError, Tensor};

/// Every coordinate of a shape, row-major.
fn coordinates(dims: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for dim in dims {
        all = all
            .into_iter()
            .flat_map(|at: Vec<usize>| (0..*dim).map(move |x| [&at[..], &[x]].concat()))
            .collect();
    }
    all
}

fn at(x: &Tensor, coordinate: &[usize]) -> i64 {
    let skip = coordinate.len() - x.dims.len();
    let flat = x
        .dims
        .iter()
        .zip(&coordinate[skip..])
        .fold(0, |flat, (dim, x)| flat * dim + if *dim == 1 { 0 } else { *x });
    x.as_ints()[flat]
}

fn made(dims: &[usize], element: impl Fn(&[usize]) -> i64) -> Tensor {
    Tensor::ints(Dtype::I64, dims, coordinates(dims).iter().map(|at| element(at)).collect())
}

fn filled(dims: &[usize], seed: i64) -> Tensor {
    let mut state = seed.cast_unsigned();
    made(dims, |_| 0);
    let count = dims.iter().product();
    let elements = (0..count).map(|_: usize| tilewright_base::random::below(&mut state, 100).cast_signed());
    Tensor::ints(Dtype::I64, dims, elements.collect())
}

fn dims() -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(0..5_usize, 1..4)
}

proptest! {
    #[test]
    fn einsum_is_sums_of_products(
        sizes in proptest::array::uniform5(1..4_usize),
        which in 0..6_usize,
        seed in any::<i64>(),
    ) {
        let spec = ["ab,cb->ac", "abc,bd->adc", "aab,b->a", "ab,bc,cd->ad", "abcd,ec->bea", "ab,cd->"][which];
        let parts = Subscripts::parse(spec).unwrap();
        let size = |label: u8| sizes[usize::from(label - b'a')];
        let shape = |labels: &[u8]| labels.iter().map(|label| size(*label)).collect::<Vec<_>>();
        let inputs: Vec<Tensor> = parts.inputs.iter().enumerate()
            .map(|(n, labels)| filled(&shape(labels), seed.wrapping_add(n as i64))).collect();
        let seen = einsum(spec, &inputs.iter().collect::<Vec<_>>()).unwrap();
        let mut labels: Vec<u8> = parts.inputs.concat();
        labels.sort_unstable();
        labels.dedup();
        let mut wanted = made(&shape(&parts.output), |_| 0).as_ints().to_vec();
        let outputs = coordinates(&shape(&parts.output));
        for place in coordinates(&shape(&labels)) {
            let value = |label: &u8| place[labels.iter().position(|known| known == label).unwrap()];
            let product: i64 = parts.inputs.iter().zip(&inputs)
                .map(|(own, x)| at(x, &own.iter().map(value).collect::<Vec<_>>())).product();
            let to: Vec<usize> = parts.output.iter().map(value).collect();
            wanted[outputs.iter().position(|known| *known == to).unwrap()] += product;
        }
        prop_assert_eq!(seen.as_ints(), &wanted[..]);
    }

    #[test]
    fn float_products_are_near_exact_sums(
        rows in 1..6_usize,
        columns in 1..9_usize,
        width in 0..40_usize,
        seed in any::<i64>(),
    ) {
        let floats = |x: &Tensor| {
            Tensor::floats(Dtype::F32, &x.dims, x.as_ints().iter().map(|x| *x as f32).collect())
        };
        let (x, y) = (filled(&[rows, width], seed), filled(&[columns, width], !seed));
        let seen = einsum("nk,mk->nm", &[&floats(&x), &floats(&y)]).unwrap();
        let exact = einsum("nk,mk->nm", &[&x, &y]).unwrap();
        // Whole numbers below 2^24 are exact in float32.
        let exact: Vec<f32> = exact.as_ints().iter().map(|x| *x as f32).collect();
        prop_assert_eq!(seen.as_floats(), &exact[..]);
    }

    #[test]
    fn views_read_what_they_say(dims in dims(), seed in any::<i64>(), turn in 0..3_usize) {
        let x = filled(&dims, seed);
        let mut order: Vec<usize> = (0..dims.len()).collect();
        order.rotate_left(turn % dims.len());
        let moved: Vec<usize> = order.iter().map(|axis| dims[*axis]).collect();
        let wanted = made(&moved, |place| {
            let mut from = vec![0; place.len()];
            order.iter().zip(place).for_each(|(axis, x)| from[*axis] = *x);
            at(&x, &from)
        });
        prop_assert_eq!(transpose(&x, &order).unwrap(), wanted);
        let mut wide = vec![3];
        wide.extend(dims.iter().map(|dim| if *dim == 1 { 4 } else { *dim }));
        prop_assert_eq!(broadcast(&x, &wide).unwrap(), made(&wide, |place| at(&x, place)));
    }

    #[test]
    fn slices_and_windows_step(
        size in 1..12_usize,
        inner in 1..3_usize,
        step in 1..4_usize,
        seed in any::<i64>(),
        back in any::<bool>(),
    ) {
        let x = filled(&[size, inner], seed);
        let count = size.div_ceil(step);
        let place = |n: usize| if back { size - 1 - n * step } else { n * step };
        let wanted = made(&[count, inner], |p| at(&x, &[place(p[0]), p[1]]));
        let (start, step) = if back { (size as i64 - 1, -(step as i64)) } else { (0, step as i64) };
        prop_assert_eq!(slice(&x, 0, start, count, step).unwrap(), wanted);
        let (length, stride, dilation) = (2.min(size), 2, (size - 1).clamp(1, 2));
        let reach = (length - 1) * dilation + 1;
        let windows = (size - reach) / stride + 1;
        let wanted = made(&[windows, length, inner], |p| at(&x, &[p[0] * stride + p[1] * dilation, p[2]]));
        prop_assert_eq!(window(&x, 0, (length, stride, dilation)).unwrap(), wanted);
    }

    #[test]
    fn reductions_fold_every_element(
        dims in dims(),
        axis in 0..3_usize,
        seed in any::<i64>(),
        keep in any::<bool>(),
    ) {
        let x = filled(&dims, seed);
        let axis = axis % dims.len();
        let mut kept = dims.clone();
        kept[axis] = 1;
        let folded = |fold: fn(i64, i64) -> i64, first: i64| made(&kept, |place| {
            (0..dims[axis]).fold(first, |sum, along| {
                let mut from = place.to_vec();
                from[axis] = along;
                fold(sum, at(&x, &from))
            })
        });
        let folds = [(Fold::Sum, folded(|a, b| a + b, 0)), (Fold::Max, folded(i64::max, i64::MIN))];
        for (fold, wanted) in folds {
            let seen = reduce(fold, &x, &[axis], keep).unwrap();
            prop_assert_eq!(seen.as_ints(), wanted.as_ints());
            prop_assert_eq!(seen.dims.len(), if keep { dims.len() } else { dims.len() - 1 });
        }
    }

    #[test]
    fn pairs_stretch(dims in dims(), mask in any::<u8>(), seed in any::<i64>()) {
        let small: Vec<usize> = dims.iter().enumerate()
            .map(|(n, dim)| if mask >> n & 1 == 1 { 1 } else { *dim }).collect();
        let (x, y) = (filled(&dims, seed), filled(&small, !seed));
        prop_assert_eq!(binary(Binary::Sub, &x, &y).unwrap(),
            made(&dims, |place| at(&x, place) - at(&y, place)));
        prop_assert_eq!(binary(Binary::Sub, &y, &x).unwrap(),
            made(&dims, |place| at(&y, place) - at(&x, place)));
        let less = binary(Binary::Lt, &x, &y).unwrap();
        prop_assert_eq!(select(&less, &x, &y).unwrap(),
            made(&dims, |place| at(&x, place).min(at(&y, place))));
    }

    #[test]
    fn rows_are_moved_by_number(
        rows in 1..6_usize,
        inner in 1..3_usize,
        picks in proptest::collection::vec(-3..9_i64, 0..6),
        seed in any::<i64>(),
    ) {
        let x = filled(&[rows, inner], seed);
        let indices = Tensor::ints(Dtype::I64, &[picks.len()], picks.clone());
        let place = |pick: i64| if pick < 0 { pick + rows as i64 } else { pick };
        let row = |pick: i64| usize::try_from(place(pick)).unwrap();
        let inside = picks.iter().all(|pick| (0..rows as i64).contains(&place(*pick)));
        let seen = gather(&x, 0, &indices);
        let new = filled(&[picks.len(), inner], !seed);
        let written = scatter(Some(Fold::Sum), &x, &indices, &new);
        if !inside {
            let refused = matches!(seen, Err(EvalError::Index { .. }))
                && matches!(written, Err(EvalError::Index { .. }));
            prop_assert!(refused);
            return Ok(());
        }
        prop_assert_eq!(seen.unwrap(), made(&[picks.len(), inner], |p| at(&x, &[row(picks[p[0]]), p[1]])));
        let wanted = made(&[rows, inner], |p| {
            let hits = picks.iter().enumerate().filter(|(_, pick)| place(**pick) == p[0] as i64);
            at(&x, p) + hits.map(|(n, _)| at(&new, &[n, p[1]])).sum::<i64>()
        });
        prop_assert_eq!(written.unwrap(), wanted);
    }

    #[test]
    fn joining_and_padding_keep_elements(dims in dims(), axis in 0..3_usize, seed in any::<i64>()) {
        let axis = axis % dims.len();
        let (x, y) = (filled(&dims, seed), filled(&dims, !seed));
        let joined = concat(axis, &[&x, &y]).unwrap();
        let size = dims[axis];
        prop_assert_eq!(&slice(&joined, axis, 0, size, 1).unwrap(), &x);
        prop_assert_eq!(slice(&joined, axis, size as i64, size, 1).unwrap(), y);
        let seven = Tensor::ints(Dtype::I64, &[], vec![7]);
        let padded = pad(&x, axis, 1, 2, &seven).unwrap();
        let places = iota(Dtype::I64, &padded.dims, axis).unwrap();
        prop_assert_eq!(slice(&padded, axis, 1, size, 1).unwrap(), x);
        let outside = |(place, value): (&i64, &i64)| (1..=size as i64).contains(place) || *value == 7;
        prop_assert!(places.as_ints().iter().zip(padded.as_ints()).all(outside));
    }
}

#[test]
fn bits_do_not_depend_on_threads() {
    let element = |at: usize| ((at * 2_654_435_761) % 1009) as f32 / 101.0 - 5.0;
    let tensor =
        |dims: &[usize]| Tensor::floats(Dtype::F32, dims, (0..dims.iter().product()).map(element).collect());
    let cases = [
        ("nk,mk->nm", vec![70, 301], vec![333, 301]),
        ("k,mk->m", vec![301], vec![3000, 301]),
        ("bnk,bmk->bnm", vec![3, 40, 65], vec![3, 90, 65]),
    ];
    for (spec, left, right) in cases {
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
            let product =
                pool.install(|| einsum(spec, &[&tensor(&left), &tensor(&right)])).expect("a product");
            product.as_floats().iter().map(|x| x.to_bits()).collect::<Vec<u32>>()
        };
        let alone = run(1);
        assert!([2, 3, 7].iter().all(|threads| run(*threads) == alone), "{spec}");
    }
}

/// A graph of three nodes names a billion elements: it is refused before memory is taken for them, and its
/// twin of a thousand runs.
#[test]
fn what_is_held_is_in_proportion_to_what_was_given() {
    let run = |size: i64| {
        let mut b = tilewright_graph::Builder::new("large");
        let x = b.input("x", tilewright_graph::Type::new(Dtype::F32, [1.into()])).expect("an input");
        let wide = b.broadcast(x, &[size.into()]).expect("a broadcast");
        let sum = b.reduce(Fold::Sum, wide, &[0], false).expect("a sum");
        b.output("y", sum);
        let store = tilewright_graph::TensorStore::default();
        let interpreter = tilewright_reference::Interpreter::new(b.finish(), &store).expect("primitives");
        interpreter.run(&[Tensor::floats(Dtype::F32, &[1], vec![1.0])])
    };
    assert_eq!(run(1000).expect("it runs")[0].as_floats(), [1000.0]);
    let error = run(1 << 27).expect_err("too many elements").to_string();
    assert!(error.contains("would be held at once"), "{error}");
}
