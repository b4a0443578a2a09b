//! Fourier transforms against their sums, and windows.

use tilewright_graph::Dtype;

use super::{Node, Operand, assert_near, drawn, floats, int, ints};

fn one(number: i64) -> Operand {
    ints(Dtype::I64, &[], &[number]).constant()
}

/// The transform of `[length, 2]`, in f64.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "few elements")]
fn transformed(x: &[f32], sign: f64) -> Vec<f32> {
    let length = x.len() / 2;
    let mut y = Vec::new();
    for k in 0..length {
        let (mut real, mut imaginary) = (0.0, 0.0);
        for n in 0..length {
            let angle = sign * std::f64::consts::TAU * (k * n) as f64 / length as f64;
            let (a, b) = (f64::from(x[2 * n]), f64::from(x[2 * n + 1]));
            real += a * angle.cos() - b * angle.sin();
            imaginary += a * angle.sin() + b * angle.cos();
        }
        y.extend([real as f32, imaginary as f32]);
    }
    y
}

fn dft(x: Operand, length: Option<i64>) -> Node {
    let mut node = Node::new("DFT", &[x]);
    node.operands.extend([length.map(one), Some(one(1))]);
    node
}

#[test]
fn transforms_have_an_inverse_and_one_side() {
    for length in [1_usize, 2, 5, 8] {
        let x = drawn(7, 2 * length);
        let signal = || floats(&[1, length, 2], &x);
        let spectrum = transformed(&x, -1.0);
        assert_near(&dft(signal(), None).floats(), &spectrum);
        #[expect(clippy::cast_precision_loss, reason = "few elements")]
        let back: Vec<f32> = transformed(&x, 1.0).iter().map(|x| x / length as f32).collect();
        assert_near(&dft(signal(), None).with(int("inverse", 1)).floats(), &back);
        let real: Vec<f32> = x.iter().step_by(2).copied().collect();
        let padded: Vec<f32> = real.iter().flat_map(|x| [*x, 0.0]).collect();
        let half = transformed(&padded, -1.0)[..2 * (length / 2 + 1)].to_vec();
        let one_side = dft(floats(&[1, length, 1], &real), None).with(int("onesided", 1));
        assert_near(&one_side.floats(), &half);
        let size = i64::try_from(length).expect("small");
        let again = dft(floats(&[1, length / 2 + 1, 2], &half), Some(size));
        let again = again.with(int("onesided", 1)).with(int("inverse", 1)).run();
        assert_eq!(again[0].dims, [1, length, 1]);
        assert_near(again[0].as_floats(), &real);
    }
}

#[test]
fn transforms_cut_and_fill_up_what_they_are_given() {
    let x = drawn(8, 6);
    let cut = dft(floats(&[1, 3, 2], &x), Some(2)).floats();
    assert_near(&cut, &transformed(&x[..4], -1.0));
    let filled = dft(floats(&[1, 3, 2], &x), Some(5)).floats();
    assert_near(&filled, &transformed(&[&x[..], &[0.0; 4]].concat(), -1.0));
    let text = dft(floats(&[1, 3, 2], &x), None).with(int("onesided", 1)).refused();
    assert!(
        text.contains("one side of the spectrum of complex numbers\n  = allowed: real numbers"),
        "{text}"
    );
    let text = dft(floats(&[1, 5000, 1], &[0.0; 5000]), Some(1 << 20)).refused();
    assert!(text.contains("a transform of 1048576 elements to 1048576\n  = allowed: a matrix of"), "{text}");
}

#[test]
fn frames_are_weighed_by_their_window() {
    let (x, window) = (drawn(9, 10), drawn(10, 4));
    let operands = [floats(&[1, 10, 1], &x), one(3), floats(&[4], &window)];
    let found = Node::new("STFT", &operands).run();
    assert_eq!(found[0].dims, [1, 3, 3, 2]);
    for frame in 0..3 {
        let weighed: Vec<f32> = (0..4).flat_map(|n| [x[frame * 3 + n] * window[n], 0.0]).collect();
        assert_near(&found[0].as_floats()[frame * 6..][..6], &transformed(&weighed, -1.0)[..6]);
    }
    let bare = Node::new("STFT", &operands[..2]).refused();
    assert!(bare.contains("neither a window nor a frame length"), "{bare}");
}

#[test]
fn windows_are_periodic_or_symmetric() {
    let window = |op: &'static str, size: i64, periodic: i64| {
        Node::new(op, &[one(size)]).with(int("periodic", periodic)).floats()
    };
    assert_near(&window("HannWindow", 4, 1), &[0.0, 0.5, 1.0, 0.5]);
    assert_near(&window("HannWindow", 5, 0), &[0.0, 0.5, 1.0, 0.5, 0.0]);
    assert_near(&window("HammingWindow", 2, 1), &[4.0 / 46.0, 1.0]);
    assert_near(&window("BlackmanWindow", 2, 1), &[0.0, 1.0]);
    let text = Node::new("HannWindow", &[one(1 << 40)]).refused();
    assert!(text.contains("sizes (operand 0) are [1099511627776]\n  = allowed: one number, 1 to"), "{text}");
    let operands =
        [one(8), one(16), one(8192), floats(&[], &[0.0]).constant(), floats(&[], &[9e9]).constant()];
    let text = Node::new("MelWeightMatrix", &operands).refused();
    assert!(text.contains("edges at 0 and 8999999488 Hz of 9 bins"), "{text}");
}
