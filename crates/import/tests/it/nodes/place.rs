//! Elements chosen or put by their places, and bits of integers.

use tilewright_graph::Dtype;

use super::{Node, assert_near, counted, drawn, float, floats, int, ints, list, word};

#[test]
fn one_hot_counts_from_the_end_and_names_nothing_outside() {
    let node = |axis: i64| {
        let operands = [
            ints(Dtype::I64, &[4], &[0, -1, 3, -4]),
            ints(Dtype::I64, &[], &[3]).constant(),
            ints(Dtype::I32, &[2], &[5, 7]),
        ];
        Node::new("OneHot", &operands).with(int("axis", axis))
    };
    assert_eq!(node(-1).ints(), [7, 5, 5, 5, 5, 7, 5, 5, 5, 5, 5, 5]);
    assert_eq!(node(0).ints(), [7, 5, 5, 5, 5, 5, 5, 5, 5, 7, 5, 5]);
    assert!(node(2).refused().contains("axis 2 of 2\n  = allowed: an axis of the result"));
    let mut open = node(0);
    open.operands[1] = Some(ints(Dtype::I64, &[], &[3]));
    assert!(open.refused().contains("depths (operand 1) are known only when the model runs"));
    open.operands[1] = Some(ints(Dtype::I64, &[], &[1 << 40]).constant());
    assert!(open.refused().contains("= allowed: one number from 1, below 2^24"));
}

#[test]
fn sequences_are_reversed_up_to_their_lengths() {
    let x: Vec<f32> = (0..12_u8).map(f32::from).collect();
    let node = Node::new("ReverseSequence", &[floats(&[3, 2, 2], &x), ints(Dtype::I64, &[2], &[2, 3])]);
    assert_eq!(node.floats(), [4.0, 5.0, 10.0, 11.0, 0.0, 1.0, 6.0, 7.0, 8.0, 9.0, 2.0, 3.0]);
    let same = node.with(int("batch_axis", 0));
    assert!(same.refused().contains("axis 0 as both axes"));
}

#[test]
fn diagonals_crops_and_chosen_slices() {
    let eye = Node::new("EyeLike", &[ints(Dtype::I32, &[2, 3], &[0; 6])]).with(int("k", 1));
    assert_eq!(eye.ints(), [0, 1, 0, 0, 0, 1]);
    assert_eq!(eye.with(int("dtype", 1)).floats(), [0.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
    let x: Vec<f32> = (1..8_u8).map(f32::from).collect();
    let crop = |size: i64| {
        let size = ints(Dtype::I64, &[1], &[size]).constant();
        Node::new("CenterCropPad", &[floats(&[1, 7], &x), size]).with(list("axes", &[-1])).floats()
    };
    assert_eq!(crop(4), [2.0, 3.0, 4.0, 5.0]);
    assert_eq!(crop(10), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 0.0, 0.0]);
    let condition = ints(Dtype::Bool, &[3], &[0, 1, 1]).constant();
    let compress = Node::new("Compress", &[floats(&[2, 3], &x[..6]), condition]);
    assert_eq!(compress.floats(), [2.0, 3.0]);
    assert_eq!(compress.with(int("axis", 1)).floats(), [2.0, 3.0, 5.0, 6.0]);
    let product = Node::new("CumProd", &[floats(&[4], &x[..4]), ints(Dtype::I64, &[], &[0]).constant()]);
    assert_eq!(product.floats(), [1.0, 2.0, 6.0, 24.0]);
    let axes = ints(Dtype::I64, &[2], &[0, 0]).constant();
    let text = Node::new("CumProd", &[floats(&[4], &x[..4]), axes]).refused();
    assert!(text.contains("2 axes (operand 1)\n  = allowed: one"), "{text}");
    let rest = product.with(int("reverse", 1)).with(int("exclusive", 1));
    assert_eq!(rest.floats(), [24.0, 12.0, 4.0, 1.0]);
}

#[test]
fn determinants_are_expanded_for_few_rows() {
    let x = [2.0, 0.0, 1.0, 3.0, -1.0, 1.0, 4.0, 0.0, 0.0, 2.0, 1.0, 1.0, 1.0, 3.0, 0.0, 2.0];
    assert_eq!(Node::new("Det", &[floats(&[4, 4], &x)]).floats(), [8.0]);
    assert_eq!(Node::new("Det", &[floats(&[2, 1, 1], &[3.0, -4.0])]).floats(), [3.0, -4.0]);
    let diagonal: Vec<f32> = (0..36).map(|at| if at % 7 == 0 { 2.0 } else { 0.0 }).collect();
    assert_eq!(Node::new("Det", &[floats(&[6, 6], &diagonal)]).floats(), [64.0]);
    let text = Node::new("Det", &[floats(&[7, 7], &drawn(1, 49))]).refused();
    assert!(text.contains("a determinant of sizes [7, 7]\n  = allowed: square matrices of 1 to 6"), "{text}");
}

#[test]
fn blocks_are_added_where_they_lie() {
    // Blocks of 2 at places 0, 2 and 4 of an image of 5 with one element in front that is cut off.
    let x = floats(&[1, 2, 3], &[1.0, 2.0, 3.0, 10.0, 20.0, 30.0]);
    let sizes = [ints(Dtype::I64, &[1], &[5]).constant(), ints(Dtype::I64, &[1], &[2]).constant()];
    let node = Node::new("Col2Im", &[&[x][..], &sizes].concat());
    let strided = node.with(list("strides", &[2])).with(list("pads", &[1, 0]));
    assert_eq!(strided.floats(), [10.0, 2.0, 20.0, 3.0, 30.0]);
    let overlapping = floats(&[1, 2, 4], &[1.0, 2.0, 3.0, 4.0, 10.0, 20.0, 30.0, 40.0]);
    let node = Node::new("Col2Im", &[&[overlapping][..], &sizes].concat());
    assert_eq!(node.floats(), [1.0, 12.0, 23.0, 34.0, 40.0]);
    let dilated = node.with(list("dilations", &[2]));
    let text = dilated.refused();
    assert!(text.contains("sizes [1, 2, 4]\n  = allowed: [batch, channels times 2, 3]"), "{text}");
    let pools = [floats(&[1, 1, 2], &[5.0, 6.0]), ints(Dtype::I64, &[1, 1, 2], &[1, 2])];
    let node = Node::new("MaxUnpool", &pools).with(list("kernel_shape", &[2])).with(list("strides", &[2]));
    assert_eq!(node.floats(), [0.0, 5.0, 6.0, 0.0]);
}

/// What two integers become.
type Rule = fn(i64, i64) -> i64;

#[test]
fn bits_are_those_of_the_integers() {
    for (dtype, bounds) in
        [(Dtype::U8, (0, 255)), (Dtype::I8, (-128, 127)), (Dtype::I32, (-1 << 31, (1 << 31) - 1))]
    {
        let (mut x, mut y) = (counted(1, 60, bounds), counted(2, 60, bounds));
        x.extend([bounds.0, bounds.1, bounds.0, 0]);
        y.extend([bounds.0, bounds.0, bounds.1, bounds.1]);
        let operands = [ints(dtype, &[64], &x), ints(dtype, &[64], &y)];
        let rules: [(&str, Rule); 3] =
            [("BitwiseAnd", |x, y| x & y), ("BitwiseOr", |x, y| x | y), ("BitwiseXor", |x, y| x ^ y)];
        for (op, rule) in rules {
            let wanted: Vec<i64> = x.iter().zip(&y).map(|(x, y)| rule(*x, *y)).collect();
            assert_eq!(Node::new(op, &operands).ints(), wanted, "{op} of {dtype}");
        }
        let wanted: Vec<i64> = x.iter().map(|x| dtype.wrap(!x)).collect();
        assert_eq!(Node::new("BitwiseNot", &operands[..1]).ints(), wanted, "{dtype}");
    }
    let (x, by) = (ints(Dtype::U8, &[4], &[200, 200, 255, 3]), ints(Dtype::U8, &[4], &[1, 3, 7, 8]));
    let shift = |side: &str| Node::new("BitShift", &[x.clone(), by.clone()]).with(word("direction", side));
    assert_eq!(shift("LEFT").ints(), [144, 64, 128, 0]);
    assert_eq!(shift("RIGHT").ints(), [100, 25, 1, 0]);
    assert!(shift("UP").refused().contains("`direction` is `UP`\n  = allowed: LEFT, RIGHT"));
    let text = Node::new("BitwiseNot", &[floats(&[1], &[1.0])]).refused();
    assert!(text.contains("operand 0 is of f32\n  = allowed: an integer type"), "{text}");
}

#[test]
fn infinities_of_one_sign_are_found_alone() {
    let x = || floats(&[4], &[f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1.0]);
    let node = |below: i64, above: i64| {
        let node = Node::new("IsInf", &[x()]);
        node.with(int("detect_negative", below)).with(int("detect_positive", above)).ints()
    };
    assert_eq!(node(1, 1), [1, 1, 0, 0]);
    assert_eq!(node(0, 1), [1, 0, 0, 0]);
    assert_eq!(node(1, 0), [0, 1, 0, 0]);
    assert_eq!(node(0, 0), [0, 0, 0, 0]);
}

#[test]
fn poolings_of_any_order_and_whole_images() {
    let x = || floats(&[1, 1, 4], &[1.0, -2.0, 3.0, -4.0]);
    let pool = |order: i64| {
        Node::new("LpPool", &[x()]).with(list("kernel_shape", &[2])).with(int("p", order)).floats()
    };
    assert_eq!(pool(1), [3.0, 5.0, 7.0]);
    assert_near(&pool(2), &[5.0_f32.sqrt(), 13.0_f32.sqrt(), 5.0]);
    assert_near(&pool(3), &[9.0_f32.cbrt(), 35.0_f32.cbrt(), 91.0_f32.cbrt()]);
    assert_eq!(Node::new("GlobalLpPool", &[x()]).with(int("p", 1)).floats(), [10.0]);
    let normal = Node::new("MeanVarianceNormalization", &[x()]).with(list("axes", &[2])).floats();
    let deviation = (7.25_f32).sqrt();
    assert_near(&normal, &[1.5, -1.5, 3.5, -3.5].map(|x: f32| x / deviation));
    let none = Node::new("LpPool", &[x()]).with(list("kernel_shape", &[2])).with(int("p", 0)).refused();
    assert!(none.contains("`lp_pool` of no order"), "{none}");
    let unused = Node::new("LpPool", &[x()]).with(float("beta", 1.0)).refused();
    assert!(unused.contains("attribute `beta` is none of the operator's"), "{unused}");
}
