//! Quantised operators against the sums of whole numbers that they stand for.

use tilewright_graph::Dtype;

use super::{Node, Operand, counted, floats, int, ints, list};

/// The nearest whole number, ties to even, within the type.
#[expect(clippy::cast_possible_truncation, reason = "within bytes")]
fn narrowed(x: f32, zero: i64, (least, most): (i64, i64)) -> i64 {
    (x.round_ties_even() as i64 + zero).clamp(least, most)
}

#[test]
fn a_quantised_convolution_has_groups_pads_zero_points_and_a_scale_for_each_channel() {
    let known = |zero: i64| ints(Dtype::U8, &[], &[zero]).constant();
    convolution(known(131), 131, &counted(3, 6, (-9, 9)));
    for zero in [128, 131, 0, 255] {
        convolution(known(zero), zero, &[0; 6]);
        convolution(ints(Dtype::U8, &[1], &[zero]), zero, &[0; 6]);
    }
}

/// Of an image with this zero point, and weights with these.
fn convolution(operand: Operand, zero: i64, w_zero: &[i64]) {
    let (x, w) = (counted(1, 2 * 4 * 5, (0, 255)), counted(2, 6 * 2 * 3, (-128, 127)));
    let bias = counted(4, 6, (-900, 900));
    let w_scale = [0.25_f32, 0.5, 0.125, 1.0, 0.0625, 2.0];
    let operands = [
        ints(Dtype::U8, &[2, 4, 5], &x),
        floats(&[], &[0.5]),
        operand,
        ints(Dtype::I8, &[6, 2, 3], &w).constant(),
        floats(&[6], &w_scale),
        ints(Dtype::I8, &[6], w_zero).constant(),
        floats(&[], &[40.0]),
        ints(Dtype::I8, &[], &[-5]).constant(),
        ints(Dtype::I32, &[6], &bias),
    ];
    let node = Node::new("QLinearConv", &operands)
        .with(int("group", 2))
        .with(list("pads", &[1, 2]))
        .with(list("strides", &[2]));
    let mut wanted = Vec::new();
    for n in 0..2 {
        for m in 0..6 {
            for place in 0..3_usize {
                let mut sum = bias[m];
                for c in 0..2 {
                    for k in 0..3 {
                        let at = (place * 2 + k).checked_sub(1).filter(|at| *at < 5);
                        let Some(at) = at else { continue };
                        let pixel = x[(n * 4 + (m / 3) * 2 + c) * 5 + at] - zero;
                        sum += pixel * (w[(m * 2 + c) * 3 + k] - w_zero[m]);
                    }
                }
                #[expect(clippy::cast_precision_loss, reason = "small sums")]
                wanted.push(narrowed(sum as f32 * (0.5 * w_scale[m] / 40.0), -5, (-128, 127)));
            }
        }
    }
    assert!(wanted.iter().any(|y| (-127..127).contains(y)), "not all are clamped");
    assert_eq!(node.ints(), wanted);
}

/// `a` and `b` with rows and columns of their own scales and zero points.
fn product(a_scale: Operand, b_scale: Operand) -> Node {
    let operands = [
        ints(Dtype::U8, &[2, 3], &[1, 2, 3, 250, 251, 255]),
        a_scale,
        ints(Dtype::U8, &[2], &[1, 250]).constant(),
        ints(Dtype::I8, &[3, 2], &[1, -1, 2, -2, 100, -100]),
        b_scale,
        ints(Dtype::I8, &[1], &[1]).constant(),
        floats(&[], &[0.5]),
        ints(Dtype::U8, &[], &[100]).constant(),
    ];
    Node::new("QLinearMatMul", &operands)
}

#[test]
fn rows_and_columns_of_a_quantised_product_have_scales_of_their_own() {
    let node = product(floats(&[2], &[0.25, 0.125]), floats(&[2], &[1.0, 0.5]));
    // Sums of the shifted numbers: 199, -205 and 496, -508.
    assert_eq!(node.ints(), [200, 49, 224, 36]);
    let whole = product(floats(&[1], &[0.25]), floats(&[1, 2], &[1.0, 0.5]));
    assert_eq!(whole.ints(), [200, 49, 255, 0]);
}

#[test]
fn products_with_constant_weights_are_those_of_any_zero_point() {
    let (x, w) = (counted(7, 12, (0, 255)), counted(8, 8, (0, 255)));
    for (zero, w_zero) in [(0, 128), (77, 128), (255, 128), (128, 128), (77, 5)] {
        let mut wanted = Vec::new();
        for (row, column) in (0..3).flat_map(|row| (0..2).map(move |column| (row, column))) {
            let term = |k: usize| (x[row * 4 + k] - zero) * (w[k * 2 + column] - w_zero);
            wanted.push((0..4).map(term).sum::<i64>());
        }
        let right = ints(Dtype::U8, &[4, 2], &w).constant();
        let zeros = [zero, w_zero].map(|zero| ints(Dtype::U8, &[], &[zero]).constant());
        let left = ints(Dtype::U8, &[3, 4], &x);
        let mut node = Node::new("MatMulInteger", &[&[left, right][..], &zeros].concat());
        assert_eq!(node.ints(), wanted);
        node.operands[2] = Some(ints(Dtype::U8, &[], &[zero]));
        assert_eq!(node.ints(), wanted);
        // The same numbers 128 lower.
        let lower = |numbers: &[i64], dims: &[usize]| {
            ints(Dtype::I8, dims, &numbers.iter().map(|number| number - 128).collect::<Vec<i64>>())
        };
        let left = lower(&x, &[3, 4]);
        let right = lower(&w, &[4, 2]).constant();
        let zeros = [zero, w_zero].map(|zero| lower(&[zero], &[1]).constant());
        assert_eq!(Node::new("MatMulInteger", &[&[left, right][..], &zeros].concat()).ints(), wanted);
    }
}

#[test]
fn scales_that_would_be_within_the_sum_are_refused() {
    let text = product(floats(&[1, 3], &[1.0; 3]), floats(&[], &[1.0])).refused();
    let said =
        "f: node `n` (QLinearMatMul): operand 1 has sizes [1, 3]\n  = allowed: one element, or one for";
    assert!(text.starts_with(said), "{text}");
    let mut floats_in = product(floats(&[], &[1.0]), floats(&[], &[1.0]));
    floats_in.operands[3] = Some(floats(&[3, 2], &[1.0; 6]));
    let text = floats_in.refused();
    let mut zero = product(floats(&[], &[1.0]), floats(&[], &[1.0]));
    zero.operands[5] = Some(ints(Dtype::I32, &[], &[1]));
    let said = "f: node `n` (QLinearMatMul): the zero point (operand 5) is of i32\n  = allowed: i8";
    assert_eq!(zero.refused(), said);
    let said = "f: node `n` (QLinearMatMul): operand 3 is of f32\n  = allowed: u8, i8\n  = instead: `Quant";
    assert!(text.starts_with(said), "{text}");
}

#[test]
fn integer_products_have_zero_points_of_rows_and_channels() {
    let (a, b) = (ints(Dtype::U8, &[2, 2], &[0, 255, 7, 9]), ints(Dtype::I8, &[2, 2], &[-128, 127, 5, 6]));
    let zeros = [ints(Dtype::U8, &[2], &[0, 8]), ints(Dtype::I8, &[2], &[-128, 127])];
    let node = Node::new("MatMulInteger", &[&[a, b][..], &zeros].concat());
    assert_eq!(node.ints(), [255 * 133, -255 * 121, 133, -121]);
    let (x, w) = (ints(Dtype::U8, &[1, 1, 3], &[1, 2, 4]), ints(Dtype::U8, &[2, 1, 2], &[3, 5, 7, 9]));
    let zeros = [ints(Dtype::U8, &[], &[2]), ints(Dtype::U8, &[2], &[4, 8])];
    let node = Node::new("ConvInteger", &[&[x, w][..], &zeros].concat()).with(list("pads", &[1, 1]));
    // Padding is the zero point: shifted, 0 -1 0 2 0.
    assert_eq!(node.ints(), [-1, 1, 2, -2, -1, 1, 2, -2]);
}

#[test]
fn blocks_have_scales_and_zero_points_of_their_own() {
    let x = floats(&[5, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0]);
    let scale = floats(&[3, 2], &[1.0, 2.0, 0.5, 4.0, 3.0, 5.0]);
    let zero = ints(Dtype::U8, &[3, 2], &[0, 1, 2, 3, 4, 5]);
    let node = |op, x: Operand| {
        Node::new(op, &[x, scale.clone(), zero.clone()]).with(int("axis", 0)).with(int("block_size", 2))
    };
    let steps = node("QuantizeLinear", x).ints();
    assert_eq!(steps, [1, 2, 3, 3, 12, 5, 16, 5, 7, 7]);
    let back = node("DequantizeLinear", ints(Dtype::U8, &[5, 2], &steps)).floats();
    assert_eq!(back, [1.0, 2.0, 3.0, 4.0, 5.0, 8.0, 7.0, 8.0, 9.0, 10.0]);
    let mut wrong = node("QuantizeLinear", floats(&[5, 2], &[0.0; 10]));
    wrong.attributes[1].i = 3;
    let text = wrong.refused();
    let said = "f: node `n` (QuantizeLinear): operand 1 has sizes [3, 2], for blocks of 3 along axis 0 of \
                [5, 2]\n  = allowed: [2, 2]";
    assert_eq!(text, said);
    wrong.attributes[1].i = -1;
    assert!(wrong.refused().contains("`block_size` is -1"));
}
