//! Activation functions, trigonometry and losses against their definitions.

use tilewright_graph::Dtype;

use super::{Node, assert_near, drawn, float, floats, int, ints, list, word};

/// What one element becomes.
type Rule = fn(f64) -> f64;

#[test]
fn functions_are_right_to_the_last_digits_near_zero_and_far_from_it() {
    let rules: [(&str, Rule); 9] = [
        ("Tan", f64::tan),
        ("Sinh", f64::sinh),
        ("Cosh", f64::cosh),
        ("Asin", f64::asin),
        ("Acos", f64::acos),
        ("Atan", f64::atan),
        ("Asinh", f64::asinh),
        ("Acosh", f64::acosh),
        ("Atanh", f64::atanh),
    ];
    let mut x: Vec<f32> = drawn(9, 400);
    x.extend(drawn(10, 200).iter().map(|x| x * 1e-3));
    x.extend(drawn(11, 200).iter().map(|x| x * 80.0));
    x.extend([0.0, 1e-20, -1e-20, 0.5, -0.5, 1.0, -1.0, 1.5, 1e6, 3e30, -3e30, 89.0, -89.0]);
    for (op, rule) in rules {
        let found = Node::new(op, &[floats(&[x.len()], &x)]).floats();
        for (x, found) in x.iter().zip(found) {
            #[expect(clippy::cast_possible_truncation, reason = "rounded to what is computed")]
            let wanted = rule(f64::from(*x)) as f32;
            // The tangent of a large number is that of a number with few digits.
            let slack = if op == "Tan" && wanted.abs() > 10.0 { 1e-3 } else { 4e-6 };
            let is_near = (found - wanted).abs() <= slack * wanted.abs() || found == wanted;
            assert!(is_near || (found.is_nan() && wanted.is_nan()), "{op} of {x}: {found}, {wanted}");
        }
    }
}

#[test]
fn activations_have_their_thresholds() {
    let x = || floats(&[5], &[-3.0, -0.5, 0.0, 0.5, 3.0]);
    let shrink = Node::new("Shrink", &[x()]).with(float("lambd", 1.0)).with(float("bias", 0.25));
    assert_eq!(shrink.floats(), [-2.75, 0.0, 0.0, 0.0, 2.75]);
    assert_eq!(Node::new("Softsign", &[x()]).floats()[4], 0.75);
    let above = Node::new("ThresholdedRelu", &[x()]).with(float("alpha", 0.5));
    assert_eq!(above.floats(), [0.0, 0.0, 0.0, 0.0, 3.0]);
    let celu = Node::new("Celu", &[x()]).with(float("alpha", 2.0));
    assert_near(
        &celu.floats(),
        &[2.0 * ((-1.5_f32).exp() - 1.0), 2.0 * ((-0.25_f32).exp() - 1.0), 0.0, 0.5, 3.0],
    );
    let text = Node::new("Shrink", &[ints(Dtype::I32, &[1], &[3])]).refused();
    assert!(text.starts_with("f: node `n` (Shrink): Shrink of i32\n  = allowed: a float type\n"), "{text}");
}

#[test]
fn hardmax_takes_the_first_of_equals_and_before_opset_13_whole_rows() {
    let x = || floats(&[2, 2, 2], &[1.0, 3.0, 3.0, 2.0, 0.0, 0.0, -1.0, 0.0]);
    assert_eq!(Node::new("Hardmax", &[x()]).floats(), [0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0]);
    let old = Node { opset: 11, ..Node::new("Hardmax", &[x()]) };
    assert_eq!(old.floats(), [0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
}

#[test]
fn losses_leave_out_targets_that_are_ignored() {
    let scores = || floats(&[3, 2], &[-0.5, -1.0, -2.0, -0.25, -4.0, -8.0]);
    let loss = |target: [i64; 3]| {
        let weight = floats(&[2], &[1.0, 3.0]);
        let operands = [scores(), ints(Dtype::I64, &[3], &target), weight];
        Node::new("NegativeLogLikelihoodLoss", &operands).with(int("ignore_index", -100))
    };
    assert_eq!(loss([0, 1, 1]).floats(), [(0.5 + 0.75 + 24.0) / 7.0]);
    assert_eq!(loss([0, 1, -100]).floats(), [(0.5 + 0.75) / 4.0]);
    assert_eq!(loss([0, -100, 1]).with(word("reduction", "none")).floats(), [0.5, 0.0, 24.0]);
    let text = loss([0, 0, 0]).with(word("reduction", "max")).refused();
    assert!(text.contains("`reduction` is `max`\n  = allowed: none, sum, mean"), "{text}");
    let flat = Node::new("SoftmaxCrossEntropyLoss", &[scores(), floats(&[3], &[0.0; 3])]).refused();
    assert!(flat.contains("targets (operand 1) are of f32\n  = allowed: i32, i64"), "{flat}");
}

/// Places along the axes of an image in reverse, which of one axis are those that they are anyway.
#[test]
fn places_of_maxima_count_from_the_other_end_of_the_axes_if_asked() {
    for sizes in [&[6][..], &[4, 6], &[4, 2, 6]] {
        let dims: Vec<usize> = [2, 2].iter().chain(sizes).copied().collect();
        let inner: usize = sizes.iter().product();
        let x = drawn(13, 4 * inner);
        let kernel: Vec<i64> = sizes.iter().map(|_| 2).collect();
        let node = Node::new("MaxPool", &[floats(&dims, &x)]).with(list("kernel_shape", &kernel));
        let node = node.with(list("strides", &kernel)).with(int("storage_order", 1));
        let found = Node { results: 2, ..node }.run();
        for (value, place) in found[0].as_floats().iter().zip(found[1].as_ints()) {
            let row_major = x.iter().position(|x| x.to_bits() == value.to_bits()).expect("an element");
            let (image, mut rest) = (row_major / inner, row_major % inner);
            let mut wanted = 0;
            for size in sizes.iter().rev() {
                wanted = wanted * size + rest % size;
                rest /= size;
            }
            assert_eq!(usize::try_from(*place), Ok(image * inner + wanted), "{sizes:?}");
        }
    }
}
