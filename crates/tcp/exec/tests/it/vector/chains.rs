//! Chains that models need: softmax, norms, activations, rotation, requantisation, with results worked out
//! beside them.

use tilewright_num::{Function, RuleSet, add_f32, div_f32, mul_f32, sub_f32};
use tilewright_tcp_exec::vector::apply;
use tilewright_tcp_isa::program::Count;
use tilewright_tcp_isa::program::exec::SliceDigit;
use tilewright_tcp_isa::program::vector::{
    Comparison, InterSliceReduce, OpKind, OperandSource, ReduceLimit, ReduceOp, ReduceOutput, Relation,
    Vector, Word,
};
use tilewright_tcp_isa::vector::check;

use crate::vector::build::{
    RULES, bytes, chain, choice, float, floats, int, machine, op, reduce, reversed, run, stash, vrf, with,
    words,
};

fn legal(vector: Vector) -> Vector {
    assert_eq!(check(machine(), &vector), []);
    vector
}

fn ramp(count: u16) -> Vec<f32> {
    (0..count).map(|index| f32::from(index) * 0.375 - 4.0).collect()
}

#[test]
fn silu_multiplies_what_it_kept() {
    let vector = legal(chain(
        Word::F32,
        vec![stash(op(OpKind::Sigmoid)), with(OpKind::Mul0, vec![OperandSource::Stash])],
    ));
    let x = ramp(24);
    let expected: Vec<f32> =
        x.iter().map(|x| mul_f32(RULES, Function::Sigmoid.apply(RULES, *x), *x)).collect();
    assert_eq!(floats(&run(&vector, words(&x)).unwrap()), expected);
}

#[test]
fn gelu_by_the_error_function() {
    // x * (0.5 + 0.5 * erf(x / sqrt 2))
    let vector = legal(chain(
        Word::F32,
        vec![
            stash(with(OpKind::Mul0, vec![float(std::f32::consts::FRAC_1_SQRT_2)])),
            op(OpKind::Erf),
            with(OpKind::Fma, vec![float(0.5), float(0.5)]),
            with(OpKind::Mul1, vec![OperandSource::Stash]),
        ],
    ));
    let x = ramp(24);
    let result = floats(&run(&vector, words(&x)).unwrap());
    for (x, y) in x.iter().zip(result) {
        let half = f64::from(Function::Erf.apply(RULES, x * std::f32::consts::FRAC_1_SQRT_2)) * 0.5;
        let exact = f64::from(*x) * (0.5 + half);
        assert!((f64::from(y) - exact).abs() <= exact.abs() * 1e-6 + 1e-9, "gelu({x}) = {y}, not {exact}");
    }
}

#[test]
fn softmax_in_three_passes() {
    // Four slices hold 16 columns each of one row.
    let rows: Vec<Vec<f32>> =
        (0..4_u16).map(|slice| ramp(16).iter().map(|x| x * f32::from(slice + 1)).collect()).collect();
    let input: Vec<Vec<u32>> = rows.iter().map(|row| words(row)).collect();
    let over_slices = |op| Some(InterSliceReduce { op, slices: 4, gives: ReduceOutput::Broadcast });
    let mut largest = chain(Word::F32, vec![op(OpKind::Reduce(reduce(ReduceOp::Max, true, &[(4, true)])))]);
    largest.between = over_slices(ReduceOp::Max);
    let maxima = apply(RULES, &legal(largest), input.clone(), &[]).unwrap();
    let most = rows.iter().flatten().copied().fold(f32::NEG_INFINITY, f32::max);
    assert!(maxima.iter().all(|words| f32::from_bits(words[0]) == most && words.len() == 8 && words[1] == 0));

    let files: Vec<Vec<u8>> = maxima.iter().map(|words| bytes(words)).collect();
    let files: Vec<&[u8]> = files.iter().map(Vec::as_slice).collect();
    let shifted = || with(OpKind::FSub, vec![vrf(0, &[(16, 0)])]);
    let mut sum = chain(
        Word::F32,
        vec![shifted(), op(OpKind::Exp), op(OpKind::Reduce(reduce(ReduceOp::Add, true, &[(4, true)])))],
    );
    sum.between = over_slices(ReduceOp::Add);
    let sums = apply(RULES, &legal(sum), input.clone(), &files).unwrap();

    let both: Vec<Vec<u8>> = maxima.iter().zip(&sums).map(|(a, b)| bytes(&[a[0], b[0]])).collect();
    let both: Vec<&[u8]> = both.iter().map(Vec::as_slice).collect();
    let quotient = with(OpKind::Div, vec![vrf(4, &[(16, 0)])]);
    let normal = legal(chain(Word::F32, vec![shifted(), op(OpKind::Exp), quotient]));
    let result = apply(RULES, &normal, input, &both).unwrap();
    let total: f64 = result.iter().flatten().map(|word| f64::from(f32::from_bits(*word))).sum();
    assert!((total - 1.0).abs() < 1e-6, "{total}");
    let exact = |x: f32| {
        let shifted = Function::Exp.apply(RULES, sub_f32(RULES, x, most));
        div_f32(RULES, shifted, f32::from_bits(sums[0][0]))
    };
    for (row, words) in rows.iter().zip(result) {
        assert_eq!(floats(&words), row.iter().map(|x| exact(*x)).collect::<Vec<_>>());
    }
}

#[test]
fn mean_square_of_a_norm_with_a_padded_tail() {
    // 13 of 16 elements count; squares by stash, tree sum, quotient, epsilon in the clip unit.
    let mut sum = reduce(ReduceOp::Add, true, &[(4, true)]);
    sum.limits = vec![ReduceLimit { extent: Count::Fixed(13), slices: vec![], weights: vec![4], element: 1 }];
    let vector = legal(chain(
        Word::F32,
        vec![
            stash(with(OpKind::Mul0, vec![OperandSource::Stash])),
            op(OpKind::Reduce(sum)),
            with(OpKind::Div, vec![float(13.0)]),
            with(OpKind::ClipAdd, vec![float(1e-5)]),
        ],
    ));
    let x = ramp(16);
    let squares: Vec<f32> = x.iter().map(|x| mul_f32(RULES, *x, *x)).collect();
    let add = |a: f32, b: f32| add_f32(RULES, a, b);
    let tree = |four: &[f32]| add(add(four[0], four[1]), add(four[2], four[3]));
    let all = add(add(add(tree(&squares[..4]), tree(&squares[4..8])), tree(&squares[8..12])), squares[12]);
    let mean = add(div_f32(RULES, all, 13.0), 1e-5);
    let result = floats(&run(&vector, words(&x)).unwrap());
    assert_eq!(result[0], mean);
    assert_eq!(result[1..], [1e-5; 7], "the clip unit sees the padding too");
}

#[test]
fn limits_count_slices_and_leave_identities() {
    let mut most = reduce(ReduceOp::Max, true, &[(2, true)]);
    let slices = vec![SliceDigit { stride: 1, size: 4, weight: 8 }];
    most.limits = vec![ReduceLimit { extent: Count::Fixed(10), slices, weights: vec![4], element: 1 }];
    let vector = legal(chain(Word::I32, vec![op(OpKind::Reduce(most))]));
    let row: Vec<u32> = (0..8).map(|x: i32| (x - 20).cast_unsigned()).collect();
    let result = apply(RULES, &vector, vec![row; 3], &[]).unwrap();
    let first: Vec<i32> = result.iter().map(|words| words[0].cast_signed()).collect();
    assert_eq!(first, [-13, -19, i32::MIN]);
}

#[test]
fn rotary_embedding_joins_two_groups() {
    // x * cos + rotated * sin: group 0 meets cosines, group 1 sines, by one walk of the register file.
    let mut vector = chain(
        Word::F32,
        vec![
            with(OpKind::Mul0, vec![vrf(0, &[(2, 8), (2, 16), (8, 1)])]),
            with(OpKind::FAdd, vec![OperandSource::Pair]),
        ],
    );
    vector.pair = true;
    let vector = legal(vector);
    let angles = ramp(16);
    let (cos, sin): (Vec<f32>, Vec<f32>) =
        angles.iter().map(|a| (Function::Cos.apply(RULES, *a), Function::Sin.apply(RULES, *a))).unzip();
    let file = bytes(&words(&[cos.clone(), sin.clone()].concat()));
    let x = ramp(16);
    let rotated: Vec<f32> = (0..16).map(|i| if i < 8 { -x[i + 8] } else { x[i - 8] }).collect();
    let stream = [&x[..8], &rotated[..8], &x[8..], &rotated[8..]].concat();
    let result = apply(RULES, &vector, vec![words(&stream)], &[&file]).unwrap();
    let exact = |i: usize| add_f32(RULES, mul_f32(RULES, x[i], cos[i]), mul_f32(RULES, rotated[i], sin[i]));
    assert_eq!(floats(&result[0]), (0..16).map(exact).collect::<Vec<_>>());
}

#[test]
fn differences_of_pairs_take_the_first_group_first() {
    let mut vector = chain(Word::I32, vec![with(OpKind::Sub, vec![OperandSource::Pair])]);
    vector.pair = true;
    let stream: Vec<u32> = [[10; 8], [3; 8]].concat();
    assert_eq!(run(&vector, stream.clone()).unwrap(), [7; 8]);
    vector.ops = vec![reversed(with(OpKind::Sub, vec![OperandSource::Pair]))];
    assert_eq!(run(&vector, stream).unwrap(), [7_u32.wrapping_neg(); 8]);
}

#[test]
fn requantisation_by_floats_and_by_integers() {
    let by_float = legal(chain(
        Word::I32,
        vec![
            op(OpKind::ToFloat { int_width: 31 }),
            with(OpKind::FMul, vec![float(0.05)]),
            op(OpKind::ToFixed { int_width: 31 }),
            with(OpKind::ClipMax, vec![int(-128)]),
            with(OpKind::ClipMin, vec![int(127)]),
        ],
    ));
    let sums = [0, 10, -10, 29, 30, -5000, 5000, i32::MIN].map(i32::cast_unsigned);
    let result = run(&by_float, sums.to_vec()).unwrap();
    assert_eq!(
        result.iter().map(|word| word.cast_signed()).collect::<Vec<_>>(),
        [0, 1, -1, 1, 2, -128, 127, -128]
    );
    // 0.05 = 0.8 / 16.
    let by_int = legal(chain(
        Word::I32,
        vec![
            with(OpKind::MulQ31, vec![int(1_717_986_918)]),
            with(OpKind::ShrRound, vec![int(4)]),
            with(OpKind::ClipMax, vec![int(-128)]),
            with(OpKind::ClipMin, vec![int(127)]),
        ],
    ));
    let result = run(&by_int, sums.to_vec()).unwrap();
    assert_eq!(
        result.iter().map(|word| word.cast_signed()).collect::<Vec<_>>(),
        [0, 1, 0, 1, 2, -128, 127, -128]
    );
}

#[test]
fn guards_filter_and_pass() {
    // Negatives are doubled, those above 4 become 0, the rest passes.
    let mut vector = chain(Word::I32, vec![with(OpKind::Mul, vec![int(0)])]);
    vector.tags =
        [(Relation::Lt, 0), (Relation::Gt, 4)].map(|(relation, word)| Comparison { relation, word }).to_vec();
    vector.ops[0].operands[0] = choice(vec![(1, 1, int(2)), (2, 2, int(0))]);
    let input: Vec<u32> = [-3, -1, 0, 2, 4, 5, 9, 1].map(i32::cast_unsigned).to_vec();
    let result = run(&legal(vector.clone()), input.clone()).unwrap();
    assert_eq!(result, [-6, -2, 0, 2, 4, 0, 0, 1].map(i32::cast_unsigned));
    vector.ops = vec![op(OpKind::Filter { mask: 3, value: 0 })];
    assert_eq!(run(&legal(vector), input).unwrap(), [0, 2, 4, 1, 0, 0, 0, 0]);
}

#[test]
fn results_widen_as_their_halves_survive() {
    let sum = |steps: &[(u64, bool)], trim| {
        let mut vector = chain(Word::I32, vec![op(OpKind::Reduce(reduce(ReduceOp::Add, false, steps)))]);
        vector.trim = trim;
        run(&legal(vector), (1..=16).collect()).unwrap()
    };
    assert_eq!(sum(&[(2, true), (2, false)], false), [10, 12, 14, 16, 18, 20, 22, 24], "halves join");
    assert_eq!(sum(&[(2, false), (2, true)], false)[..8], [6, 8, 10, 12, 0, 0, 0, 0], "low and high in one");
    assert_eq!(sum(&[(2, true)], true), [10, 12, 14, 16, 0, 0, 0, 0], "the upper halves are padding");
    assert_eq!(sum(&[(4, false)], false), (1..=16).collect::<Vec<u32>>(), "nothing is summed");
}

#[test]
fn scatter_deals_flits_out() {
    let mut vector = chain(Word::I32, vec![]);
    vector.between = Some(InterSliceReduce {
        op: ReduceOp::AddWrap,
        slices: 2,
        gives: ReduceOutput::Scatter { inner: 1 },
    });
    let slice = |add: u32| (0..4).flat_map(|flit| [flit * 100 + add; 8]).collect::<Vec<u32>>();
    let result = apply(&RuleSet::TCP, &legal(vector), vec![slice(1), slice(2)], &[]).unwrap();
    assert_eq!(result[0], [[3; 8], [403; 8]].concat());
    assert_eq!(result[1], [[203; 8], [603; 8]].concat());
}
