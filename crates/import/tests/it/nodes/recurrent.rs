//! Recurrent layers against loops over their steps.

use tilewright_graph::Dtype;

use super::{Node, Operand, assert_near, drawn, float, floats, int, ints, word, words};

const STEPS: usize = 4;
const BATCH: usize = 2;
const INPUTS: usize = 3;
const HIDDEN: usize = 2;

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// A layer of two directions with all operands.
struct Layer {
    op: &'static str,
    gates: usize,
    x: Vec<f32>,
    w: Vec<f32>,
    r: Vec<f32>,
    bias: Vec<f32>,
    lengths: [usize; BATCH],
    h: Vec<f32>,
    c: Vec<f32>,
    peepholes: Vec<f32>,
    /// `input_forget` or `linear_before_reset`.
    variant: bool,
    clip: f32,
}

impl Layer {
    fn new(op: &'static str, gates: usize, variant: bool) -> Layer {
        let rows = 2 * gates * HIDDEN;
        Layer {
            op,
            gates,
            x: drawn(1, STEPS * BATCH * INPUTS),
            w: drawn(2, rows * INPUTS),
            r: drawn(3, rows * HIDDEN),
            bias: drawn(4, 2 * rows),
            lengths: [STEPS, STEPS],
            h: drawn(5, 2 * BATCH * HIDDEN),
            c: drawn(6, 2 * BATCH * HIDDEN),
            peepholes: drawn(7, 2 * 3 * HIDDEN),
            variant,
            clip: 100.0,
        }
    }

    fn node(&self) -> Node {
        let rows = self.gates * HIDDEN;
        let lengths: Vec<i64> =
            self.lengths.iter().map(|length| i64::try_from(*length).expect("small")).collect();
        let mut operands = vec![
            floats(&[STEPS, BATCH, INPUTS], &self.x),
            floats(&[2, rows, INPUTS], &self.w),
            floats(&[2, rows, HIDDEN], &self.r),
            floats(&[2, 2 * rows], &self.bias),
            ints(Dtype::I32, &[BATCH], &lengths),
            floats(&[2, BATCH, HIDDEN], &self.h),
        ];
        if self.op == "LSTM" {
            operands.push(floats(&[2, BATCH, HIDDEN], &self.c));
            operands.push(floats(&[2, 3 * HIDDEN], &self.peepholes));
        }
        let node = Node::new(self.op, &operands).with(word("direction", "bidirectional"));
        let node = node.with(float("clip", self.clip));
        let mut node = match (self.op, self.variant) {
            ("LSTM", true) => node.with(int("input_forget", 1)),
            ("GRU", true) => node.with(int("linear_before_reset", 1)),
            _ => node,
        };
        node.results = if self.op == "LSTM" { 3 } else { 2 };
        node
    }

    /// The product of gate row `row` with the state, and with the input, biases added to each.
    fn row(&self, d: usize, row: usize, x: &[f32], h: &[f32]) -> (f32, f32) {
        let rows = self.gates * HIDDEN;
        let (w, r) = (&self.w[(d * rows + row) * INPUTS..], &self.r[(d * rows + row) * HIDDEN..]);
        let bias = &self.bias[d * 2 * rows..];
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f32>();
        (dot(h, &r[..HIDDEN]) + bias[rows + row], dot(x, &w[..INPUTS]) + bias[row])
    }

    fn step(&self, d: usize, x: &[f32], h: &[f32], c: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let clip = |x: f32| x.clamp(-self.clip, self.clip);
        let (mut new_h, mut new_c) = (Vec::new(), Vec::new());
        let gate = |gate: usize, j: usize, h: &[f32]| {
            let (state, input) = self.row(d, gate * HIDDEN + j, x, h);
            state + input
        };
        for j in 0..HIDDEN {
            let hole = |at: usize| self.peepholes[(d * 3 + at) * HIDDEN + j];
            match self.op {
                "LSTM" => {
                    let input = sigmoid(clip(gate(0, j, h) + hole(0) * c[j]));
                    let forget = sigmoid(clip(gate(2, j, h) + hole(2) * c[j]));
                    let forget = if self.variant { 1.0 - input } else { forget };
                    let next = forget * c[j] + input * clip(gate(3, j, h)).tanh();
                    let output = sigmoid(clip(gate(1, j, h) + hole(1) * next));
                    new_c.push(next);
                    new_h.push(output * clip(next).tanh());
                }
                "GRU" => {
                    let reset = |j: usize| sigmoid(clip(gate(1, j, h)));
                    let update = sigmoid(clip(gate(0, j, h)));
                    let sum = if self.variant {
                        let (state, input) = self.row(d, 2 * HIDDEN + j, x, h);
                        input + reset(j) * state
                    } else {
                        let left: Vec<f32> = (0..HIDDEN).map(|j| reset(j) * h[j]).collect();
                        gate(2, j, &left)
                    };
                    new_h.push((1.0 - update) * clip(sum).tanh() + update * h[j]);
                }
                _ => new_h.push(clip(gate(0, j, h)).tanh()),
            }
        }
        if new_c.is_empty() { (new_h, c.to_vec()) } else { (new_h, new_c) }
    }

    /// `Y`, `Y_h` and `Y_c`.
    fn wanted(&self) -> [Vec<f32>; 3] {
        let mut y = vec![0.0; STEPS * 2 * BATCH * HIDDEN];
        let (mut last_h, mut last_c) = (Vec::new(), Vec::new());
        for d in 0..2 {
            for (n, length) in self.lengths.iter().enumerate() {
                let from = (d * BATCH + n) * HIDDEN;
                let (mut h, mut c) =
                    (self.h[from..from + HIDDEN].to_vec(), self.c[from..from + HIDDEN].to_vec());
                for turn in 0..*length {
                    let t = if d == 1 { length - 1 - turn } else { turn };
                    let x = &self.x[(t * BATCH + n) * INPUTS..][..INPUTS];
                    (h, c) = self.step(d, x, &h, &c);
                    y[((t * 2 + d) * BATCH + n) * HIDDEN..][..HIDDEN].copy_from_slice(&h);
                }
                last_h.extend(h);
                last_c.extend(c);
            }
        }
        [y, last_h, last_c]
    }

    fn check(&self) {
        let (found, wanted) = (self.node().run(), self.wanted());
        for (found, wanted) in found.iter().zip(&wanted) {
            assert_near(found.as_floats(), wanted);
        }
    }
}

#[test]
fn layers_of_two_directions_are_what_loops_over_their_steps_give() {
    for (op, gates) in [("RNN", 1), ("GRU", 3), ("LSTM", 4)] {
        for variant in [false, true] {
            Layer::new(op, gates, variant).check();
            Layer { lengths: [2, 3], ..Layer::new(op, gates, variant) }.check();
            Layer { clip: 0.25, lengths: [0, 4], ..Layer::new(op, gates, variant) }.check();
        }
    }
}

#[test]
fn a_layout_with_batches_first_is_the_same_turned() {
    let layer = Layer::new("GRU", 3, false);
    let turned = |x: &[f32], [a, b, c]: [usize; 3]| -> Vec<f32> {
        let at = |i: usize, j: usize, k: usize| x[(i * b + j) * c + k];
        (0..b)
            .flat_map(|j| (0..a).flat_map(move |i| (0..c).map(move |k| (i, j, k))))
            .map(|(i, j, k)| at(i, j, k))
            .collect()
    };
    let mut node = layer.node().with(int("layout", 1));
    node.operands[0] = Some(floats(&[BATCH, STEPS, INPUTS], &turned(&layer.x, [STEPS, BATCH, INPUTS])));
    node.operands[5] = Some(floats(&[BATCH, 2, HIDDEN], &turned(&layer.h, [2, BATCH, HIDDEN])));
    let (found, [y, h, _]) = (node.run(), layer.wanted());
    assert_eq!(found[0].dims, [BATCH, STEPS, 2, HIDDEN]);
    assert_near(found[0].as_floats(), &turned(&y, [STEPS * 2, BATCH, HIDDEN]));
    assert_near(found[1].as_floats(), &turned(&h, [2, BATCH, HIDDEN]));
}

/// A layer of one direction, one input and one output, all weights one.
fn plain(op: &'static str, gates: usize, steps: usize) -> Node {
    let ones = vec![1.0; gates.max(steps)];
    let operands: [Operand; 3] = [
        floats(&[steps, 1, 1], &ones[..steps]),
        floats(&[1, gates, 1], &ones[..gates]),
        floats(&[1, gates, 1], &ones[..gates]),
    ];
    Node::new(op, &operands)
}

#[test]
fn functions_take_their_factors_in_order() {
    let node = plain("RNN", 1, 2).with(words("activations", &["affine"]));
    let factors = |name: &str, floats: &[f32]| tilewright_import::onnx::proto::AttributeProto {
        name: name.into(),
        floats: floats.to_vec(),
        ..Default::default()
    };
    let node = node.with(factors("activation_alpha", &[0.5])).with(factors("activation_beta", &[3.0]));
    assert_eq!(node.floats(), [3.5, 5.25]);
    // Sigmoid has none: the factor is that of the second function.
    let gru = plain("GRU", 3, 1).with(words("activations", &["Sigmoid", "LeakyRelu"]));
    let mut gru = gru.with(factors("activation_alpha", &[0.5]));
    gru.operands[0] = Some(floats(&[1, 1, 1], &[-2.0]));
    assert_near(&gru.floats(), &[sigmoid(-2.0) - 1.0]);
}

#[test]
fn layers_that_cannot_be_unrolled_are_refused() {
    let text = plain("LSTM", 4, 1025).refused();
    let said = "f: node `n` (LSTM): 1025 steps, which are written out\n  = allowed: 1 to 1024";
    assert!(text.starts_with(said) && text.contains("= instead: shorter sequences"), "{text}");
    let text = plain("GRU", 3, 2).with(words("activations", &["Sigmoid", "Tan"])).refused();
    assert!(text.starts_with("f: node `n` (GRU): activation `Tan`\n  = allowed: Relu, Tanh"), "{text}");
    let text = plain("GRU", 3, 2).with(words("activations", &["Sigmoid"])).refused();
    assert!(text.starts_with("f: node `n` (GRU): 1 `activations`\n  = allowed: 2, or none"), "{text}");
    let text = plain("GRU", 4, 2).refused();
    assert!(
        text.starts_with("f: node `n` (GRU): operand 1 has sizes [1, 4, 1]\n  = allowed: [1, 3, 1]"),
        "{text}"
    );
    let text = plain("RNN", 1, 2).with(int("hidden_size", 7)).refused();
    assert!(text.contains("`hidden_size` is 7, and weights of the state (operand 2) have 1"), "{text}");
    let text = plain("RNN", 1, 2).with(word("direction", "up")).refused();
    assert!(text.contains("`direction` is `up`\n  = allowed: forward, reverse, bidirectional"), "{text}");
    let mut long = plain("RNN", 1, 2);
    long.operands.extend([None, Some(ints(Dtype::I32, &[1], &[3]).constant())]);
    assert!(long.refused().contains("a sequence of 3 steps\n  = allowed: 0 to 2"));
}
