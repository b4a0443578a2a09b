//! Every path of the contraction kernels gives what the scalar rules of `tilewright_num` give, bit for bit.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use proptest::prelude::*;
use tilewright_num::{Dtype, RuleSet, decode_slice, mul_f32, store, tree_sum, unpack_ints};
use tilewright_tcp_exec::values::{
    AccumulatorRows, ContractError, ContractionShape, OperandRows, SimdPath, StationaryOperand, TreeReduce,
    contract,
};

const RULES: &RuleSet = &RuleSet::TCP;

fn paths() -> impl Iterator<Item = SimdPath> {
    SimdPath::ALL.into_iter().filter(|path| path.is_available())
}

fn rows(dtype: Dtype, bytes: &[u8]) -> OperandRows<'_> {
    OperandRows { dtype, bytes }
}

fn shape(
    rows_a: usize,
    rows_b: usize,
    k: usize,
    tree_elements: usize,
    reduce: TreeReduce,
) -> ContractionShape {
    ContractionShape { rows_a, rows_b, k, tree_elements, reduce }
}

fn bytes_of(words: &[u16]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn bits_of(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// The maximum of IEEE 754-2019, by cases.
fn max_f32(a: f32, b: f32) -> f32 {
    let [a, b] = [a, b].map(|x| f32::from_bits(RULES.settle_f32(x.to_bits())));
    if a.is_nan() || b.is_nan() {
        f32::from_bits(0x7FC0_0000)
    } else if a > b || (a == b && b.is_sign_negative()) {
        a
    } else {
        b
    }
}

fn expected_float(shape: &ContractionShape, a: &[f32], b: &[f32], start: &[f32]) -> Vec<u32> {
    let mut out = start.to_vec();
    for (index, out) in out.iter_mut().enumerate() {
        let (i, j) = (index / shape.rows_b, index % shape.rows_b);
        let products: Vec<f32> =
            (0..shape.k).map(|k| mul_f32(RULES, a[i * shape.k + k], b[j * shape.k + k])).collect();
        *out = match shape.reduce {
            TreeReduce::Add => tree_sum(RULES, *out, &products, shape.tree_elements),
            TreeReduce::Max => products.into_iter().fold(*out, max_f32),
        };
    }
    bits_of(&out)
}

/// Compares all paths, in one block and one row at a time.
fn assert_float(shape: &ContractionShape, dtype: Dtype, a: &[u8], b: &[u8], start: &[f32]) {
    let decoded = |bytes: &[u8], rows: usize| {
        let mut values = vec![0.0; rows * shape.k];
        decode_slice(RULES, dtype, bytes, &mut values);
        values
    };
    let expected = expected_float(shape, &decoded(a, shape.rows_a), &decoded(b, shape.rows_b), start);
    for path in paths() {
        let packed = StationaryOperand::pack(path, shape, dtype, rows(dtype, b)).unwrap();
        let mut out = start.to_vec();
        packed.contract_rows(shape.rows_a, a, AccumulatorRows::F32(&mut out)).unwrap();
        assert_eq!(bits_of(&out), expected, "{path:?} {dtype} {shape:?}");
        let mut out = start.to_vec();
        let row_bytes = dtype.size_bytes(shape.k).max(1);
        for (a, out) in a.chunks(row_bytes).zip(out.chunks_mut(shape.rows_b.max(1))) {
            packed.contract_rows(1, a, AccumulatorRows::F32(out)).unwrap();
        }
        assert_eq!(bits_of(&out), expected, "row by row, {path:?} {dtype} {shape:?}");
    }
}

/// Rows of elements whose low bits are given, each row from a byte boundary on.
fn int_rows(dtype: Dtype, k: usize, words: &[u16]) -> (Vec<u8>, Vec<i32>) {
    let (mut bytes, mut values) = (Vec::new(), Vec::new());
    for row in words.chunks(k.max(1)) {
        let mut row_bytes = vec![0; dtype.size_bytes(k)];
        for (index, &word) in row.iter().enumerate() {
            store(dtype, &mut row_bytes, index, u32::from(word));
        }
        let mut row_values = vec![0; k];
        unpack_ints(dtype, &row_bytes, &mut row_values).unwrap();
        bytes.extend(row_bytes);
        values.extend(row_values);
    }
    (bytes, values)
}

fn assert_int(
    shape: &ContractionShape,
    (dtype_a, dtype_b): (Dtype, Dtype),
    a: &[u16],
    b: &[u16],
    start: &[i32],
) {
    let (a, values_a) = int_rows(dtype_a, shape.k, a);
    let (b, values_b) = int_rows(dtype_b, shape.k, b);
    let mut expected = start.to_vec();
    for (index, sum) in expected.iter_mut().enumerate() {
        let (i, j) = (index / shape.rows_b, index % shape.rows_b);
        for k in 0..shape.k {
            let product = values_a[i * shape.k + k] * values_b[j * shape.k + k];
            *sum = match shape.reduce {
                TreeReduce::Add => sum.wrapping_add(product),
                TreeReduce::Max => (*sum).max(product),
            };
        }
    }
    for path in paths() {
        let mut out = start.to_vec();
        let packed = StationaryOperand::pack(path, shape, dtype_a, rows(dtype_b, &b)).unwrap();
        packed.contract_rows(shape.rows_a, &a, AccumulatorRows::I32(&mut out)).unwrap();
        assert_eq!(out, expected, "{path:?} {dtype_a} {dtype_b} {shape:?}");
    }
}

/// Words with subnormal products, products at the edge of normal, overflow, cancellation, NaN, signed zeros.
fn edge_word() -> impl Strategy<Value = u16> {
    const EDGES: [u16; 24] = [
        0x0000, 0x8000, 0x0001, 0x807F, 0x0080, 0x8080, 0x00FF, 0x7F80, 0xFF80, 0x7FC0, 0xFF81, 0x7F7F,
        0xFF7F, 0x2000, 0xA000, 0x2080, 0x1FFF, 0x207F, 0x3F80, 0xBF80, 0x3F81, 0xBF7F, 0x5F80, 0x6000,
    ];
    prop_oneof![any::<u16>(), prop::sample::select(&EDGES[..])]
}

/// Rows of edges, of products around the least normal and around the largest f32, and of ordinary values.
fn bf16_words(len: usize) -> impl Strategy<Value = Vec<u16>> {
    let signed = |range: std::ops::Range<u16>| {
        (range, any::<bool>()).prop_map(|(word, negative)| word | u16::from(negative) << 15)
    };
    prop_oneof![
        prop::collection::vec(edge_word(), len),
        prop::collection::vec(signed(0x1E00..0x2200), len),
        prop::collection::vec(signed(0x3C00..0x4200), len),
        prop::collection::vec(signed(0x5E00..0x6080), len),
    ]
}

fn start_value() -> impl Strategy<Value = f32> {
    let small = (0_u32..0x0D00_0000, any::<bool>());
    prop_oneof![
        6 => Just(0.0_f32),
        1 => any::<u32>().prop_map(f32::from_bits),
        1 => small.prop_map(|(bits, sign)| f32::from_bits(bits | u32::from(sign) << 31)),
        1 => prop::sample::select(vec![-0.0, f32::NAN, f32::INFINITY, f32::MIN_POSITIVE, f32::from_bits(1)]),
    ]
}

/// All starts ordinary, so that no flush is needed on their account, or any.
fn starts(len: usize) -> impl Strategy<Value = Vec<f32>> {
    prop_oneof![Just(vec![0.0; len]), prop::collection::vec(start_value(), len)]
}

prop_compose! {
    fn sizes(largest_depth: u32)(
        m in 0_usize..7, n in 0_usize..20, k in 0_usize..150, depth in 0..=largest_depth, max in 0..5,
    ) -> ContractionShape {
        shape(m, n, k, 1 << depth, if max == 0 { TreeReduce::Max } else { TreeReduce::Add })
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn bf16_equals_the_scalar_tree(
        (shape, a, b, start) in sizes(5).prop_flat_map(|s| (
            Just(s), bf16_words(s.rows_a * s.k), bf16_words(s.rows_b * s.k), starts(s.rows_a * s.rows_b))),
    ) {
        assert_float(&shape, Dtype::Bf16, &bytes_of(&a), &bytes_of(&b), &start);
    }

    #[test]
    fn f8_equals_the_scalar_tree(
        dtype in prop::sample::select(vec![Dtype::F8E4M3Fn, Dtype::F8E5M2]),
        (shape, mut a, mut b, start) in sizes(6).prop_flat_map(|s| (
            Just(s),
            prop::collection::vec(any::<u8>(), s.rows_a * s.k),
            prop::collection::vec(any::<u8>(), s.rows_b * s.k),
            starts(s.rows_a * s.rows_b))),
        finite in any::<bool>(),
    ) {
        if finite {
            a.iter_mut().chain(&mut b).for_each(|byte| *byte &= 0xBB);
        }
        assert_float(&shape, dtype, &a, &b, &start);
    }

    #[test]
    fn integers_wrap_like_scalars(
        dtypes in prop::sample::select(vec![
            (Dtype::I4, Dtype::I4), (Dtype::I5, Dtype::I4), (Dtype::I8, Dtype::I8), (Dtype::I9, Dtype::I8),
            (Dtype::I8, Dtype::I9), (Dtype::I9, Dtype::I9)]),
        (shape, a, b, start) in sizes(6).prop_flat_map(|s| (
            Just(s),
            prop::collection::vec(any::<u16>(), s.rows_a * s.k),
            prop::collection::vec(any::<u16>(), s.rows_b * s.k),
            prop::collection::vec(any::<i32>(), s.rows_a * s.rows_b))),
    ) {
        assert_int(&shape, dtypes, &a, &b, &start);
    }
}

/// A fixed sequence of words.
fn sequence(len: usize, seed: u64) -> Vec<u16> {
    let mut state = seed;
    let mut next = || u16::try_from(tilewright_base::random::next(&mut state) >> 48).unwrap();
    (0..len).map(|_| next()).collect()
}

#[test]
fn long_rows_and_many_rows_cross_blocks() {
    for (m, n, k) in [(70, 33, 40), (5, 17, 1600), (65, 3, 2100), (3, 2, 4099)] {
        for reduce in [TreeReduce::Add, TreeReduce::Max] {
            let shape = shape(m, n, k, 32, reduce);
            let [a, b] = [(m, 1), (n, 2)].map(|(rows, seed)| sequence(rows * k, seed));
            assert_int(&shape, (Dtype::I8, Dtype::I8), &a, &b, &vec![i32::MAX - 5; m * n]);
            assert_int(&shape, (Dtype::I4, Dtype::I5), &a, &b, &vec![0; m * n]);
            assert_int(&shape, (Dtype::I9, Dtype::I9), &a, &b, &vec![-3; m * n]);
            for mask in [0x8FFF, 0xBFFF, 0xFFFF] {
                let bytes = |words: &[u16]| {
                    words.iter().flat_map(|word| ((word & mask) | 0x3000).to_le_bytes()).collect::<Vec<u8>>()
                };
                assert_float(&shape, Dtype::Bf16, &bytes(&a), &bytes(&b), &vec![0.0; m * n]);
            }
        }
    }
}

#[test]
fn extreme_integers_are_exact_up_to_the_wrap() {
    let shape = shape(9, 17, 1030, 64, TreeReduce::Add);
    for (word, other) in [(0x80, 0x80), (0x80, 0x7F), (0x7F, 0x80), (0x7F, 0x7F), (0x80, 0xFF)] {
        let (a, b) = (vec![word; 9 * 1030], vec![other; 17 * 1030]);
        assert_int(&shape, (Dtype::I8, Dtype::I8), &a, &b, &[i32::MIN; 9 * 17]);
    }
}

#[test]
fn i9_rows_are_read_as_i16() {
    let shape = shape(1, 1, 2, 1, TreeReduce::Add);
    let bytes = bytes_of(&[0x8000; 2]);
    for path in paths() {
        let mut out = [0];
        let packed = StationaryOperand::pack(path, &shape, Dtype::I9, rows(Dtype::I9, &bytes)).unwrap();
        packed.contract_rows(1, &bytes, AccumulatorRows::I32(&mut out)).unwrap();
        assert_eq!(out, [i32::MIN]);
    }
}

#[test]
fn all_products_of_8_bit_floats_are_right() {
    let all: Vec<u8> = (0..=255).collect();
    for dtype in [Dtype::F8E4M3Fn, Dtype::F8E5M2] {
        assert_float(&shape(256, 256, 1, 1, TreeReduce::Add), dtype, &all, &all, &[-0.0; 256 * 256]);
    }
}

/// Operands around the limits of `range`: exponents whose products have 2^-126 for their last bit, and whose
/// largest product is just below 2^128, or just not.
#[test]
fn the_edges_of_exact_products_are_right() {
    let exponents = [1_u16, 20, 63, 64, 69, 70, 71, 72, 126, 127, 189, 190, 191, 192, 253, 254];
    let words: Vec<u16> =
        exponents.iter().flat_map(|exponent| [0, 1, 0x7F].map(|mantissa| exponent << 7 | mantissa)).collect();
    for (&x, &y) in words.iter().flat_map(|x| words.iter().map(move |y| (x, y))) {
        // Neighbouring mantissas cancel to the last bit of a product.
        let a = bytes_of(&[x, x ^ 0x8001, x, x | 0x8000, x]);
        let b = bytes_of(&[y, y, y ^ 1, y, y ^ 0x8001]);
        for tree_elements in [1, 2, 4] {
            for start in [0.0, -f32::MIN_POSITIVE, f32::from_bits((24 << 23) - 1), 1.0e-31] {
                let shape = shape(1, 1, 5, tree_elements, TreeReduce::Add);
                assert_float(&shape, Dtype::Bf16, &a, &b, &[start]);
            }
        }
    }
}

/// A start with its last bit set, against a product that cancels all but that bit, around the least
/// accumulator that needs no flush.
#[test]
fn the_edge_of_exact_accumulators_is_right() {
    let a = bytes_of(&[(127 - 52) << 7]);
    for exponent in 95_u16..=112 {
        let b = bytes_of(&[0x8000 | (127 + 52 - exponent) << 7]);
        let start = f32::from_bits((127 - u32::from(exponent)) << 23 | 1);
        assert_float(&shape(1, 1, 1, 1, TreeReduce::Add), Dtype::Bf16, &a, &b, &[start]);
    }
}

#[test]
fn the_last_step_is_filled_with_plus_zero() {
    let (minus_zero, one) = (bytes_of(&[0x8000]), bytes_of(&[0x3F80]));
    for (tree_elements, expected) in [(1, -0.0_f32), (2, 0.0)] {
        let mut out = [-0.0];
        let (a, b) = (rows(Dtype::Bf16, &minus_zero), rows(Dtype::Bf16, &one));
        contract(&shape(1, 1, 1, tree_elements, TreeReduce::Add), a, b, AccumulatorRows::F32(&mut out))
            .unwrap();
        assert_eq!(out[0].to_bits(), expected.to_bits());
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let ok = shape(1, 1, 2, 2, TreeReduce::Add);
    let run = |shape: &ContractionShape, dtypes: (Dtype, Dtype), a: &[u8], b: &[u8], out: &mut [i32]| {
        contract(shape, rows(dtypes.0, a), rows(dtypes.1, b), AccumulatorRows::I32(out))
    };
    let i8s = (Dtype::I8, Dtype::I8);
    assert_eq!(run(&ok, i8s, &[1, 2], &[3, 4], &mut [0]), Ok(()));
    let refused = ContractError::Dtypes { a: Dtype::I8, b: Dtype::I4 };
    assert_eq!(run(&ok, (Dtype::I8, Dtype::I4), &[1, 2], &[3, 4], &mut [0]), Err(refused));
    for asked_elements in [0, 3, 128] {
        let tree = ContractionShape { tree_elements: asked_elements, ..ok };
        let refused = ContractError::Tree { asked_elements, largest_elements: 64 };
        assert_eq!(run(&tree, i8s, &[1, 2], &[3, 4], &mut [0]), Err(refused));
    }
    let size = |what, given, implied| Err(ContractError::Size { what, given, implied });
    assert_eq!(run(&ok, i8s, &[1], &[3, 4], &mut [0]), size("a", 1, 2));
    assert_eq!(run(&ok, i8s, &[1, 2], &[3], &mut [0]), size("b", 1, 2));
    assert_eq!(run(&ok, i8s, &[1, 2], &[3, 4], &mut []), size("out", 0, 1));
    let huge = ContractionShape { rows_a: usize::MAX, rows_b: usize::MAX, k: 0, ..ok };
    assert_eq!(run(&huge, i8s, &[], &[], &mut []), Err(ContractError::TooLarge));
    let long = ContractionShape { k: usize::MAX, ..ok };
    assert_eq!(run(&long, i8s, &[], &[], &mut []), Err(ContractError::TooLarge));
    let (bf16s, needed) = ((Dtype::Bf16, Dtype::Bf16), Dtype::F32);
    assert_eq!(run(&ok, bf16s, &[0; 4], &[0; 4], &mut [0]), Err(ContractError::SumsDtype { needed }));
    assert_eq!(
        run(&ContractionShape { k: 0, ..ok }, bf16s, &[], &[], &mut [0]),
        Err(ContractError::SumsDtype { needed })
    );
}
