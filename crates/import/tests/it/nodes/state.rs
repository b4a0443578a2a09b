//! Layers with a state, regions of images, and f8e4m3, against loops and tables.

use tilewright_graph::Dtype;

use super::{Node, Operand, assert_near, drawn, float, floats, int, ints, word};

#[test]
fn convolutions_see_what_came_before() {
    let (x, w) = ([1.0, 2.0, 3.0, 10.0, 20.0, 30.0], [1.0, 10.0, 100.0, 1.0, 0.0, 2.0]);
    let operands = [
        floats(&[1, 2, 3], &x),
        floats(&[2, 1, 3], &w),
        floats(&[2], &[0.5, 0.0]),
        floats(&[1, 2, 2], &[4.0, 5.0, 40.0, 50.0]),
    ];
    let mut node = Node::new("CausalConvWithState", &operands);
    (node.results, node.opset) = (2, 27);
    let found = node.run();
    assert_eq!(found[0].as_floats(), [154.5, 215.5, 321.5, 60.0, 90.0, 70.0]);
    assert_eq!(found[1].as_floats(), [2.0, 3.0, 20.0, 30.0]);
    node.operands.truncate(2);
    assert_eq!(node.run()[0].as_floats()[..3], [100.0, 210.0, 321.0]);
    let text = node.with(word("activation", "gelu")).refused();
    assert!(text.contains("`activation` is `gelu`\n  = allowed: none, silu, swish"), "{text}");
}

const STEPS: usize = 3;

/// Two heads of queries, one of keys; keys of 2 numbers, values of 3.
struct LinearAttention {
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    past: Vec<f32>,
    decay: Vec<f32>,
    beta: Vec<f32>,
}

impl LinearAttention {
    fn new() -> LinearAttention {
        let [q, k, v] = [(1, 4), (2, 2), (3, 3)].map(|(seed, width)| drawn(seed, STEPS * width));
        LinearAttention { q, k, v, past: drawn(4, 6), decay: drawn(5, 2 * STEPS), beta: drawn(6, STEPS) }
    }

    fn node(&self, rule: &str) -> Node {
        let operands = [
            floats(&[1, STEPS, 4], &self.q),
            floats(&[1, STEPS, 2], &self.k),
            floats(&[1, STEPS, 3], &self.v),
            floats(&[1, 1, 2, 3], &self.past),
            floats(&[1, STEPS, 2], &self.decay),
            floats(&[1, STEPS, 1], &self.beta),
        ];
        let node = Node::new("LinearAttention", &operands).with(word("update_rule", rule));
        let mut node = node.with(int("q_num_heads", 2)).with(int("kv_num_heads", 1));
        (node.results, node.opset) = (2, 27);
        node
    }

    fn wanted(&self, decays: bool, is_delta: bool) -> (Vec<f32>, Vec<f32>) {
        let (mut state, mut y) = (self.past.clone(), Vec::new());
        for t in 0..STEPS {
            for (at, x) in state.iter_mut().enumerate() {
                *x *= if decays { self.decay[2 * t + at / 3].exp() } else { 1.0 };
            }
            let key = &self.k[2 * t..][..2];
            let read = |state: &[f32], by: &[f32], at: usize| by[0] * state[at] + by[1] * state[3 + at];
            let value = |at: usize| {
                let value = self.v[3 * t + at];
                if is_delta { self.beta[t] * (value - read(&state, key, at)) } else { value }
            };
            let values = [value(0), value(1), value(2)];
            for (at, x) in state.iter_mut().enumerate() {
                *x += key[at / 3] * values[at % 3];
            }
            for head in 0..2 {
                let query = &self.q[4 * t + 2 * head..][..2];
                y.extend((0..3).map(|at| read(&state, query, at) / 2.0_f32.sqrt()));
            }
        }
        (y, state)
    }
}

#[test]
fn states_of_attention_follow_each_rule() {
    let layer = LinearAttention::new();
    let rules = [
        ("linear", false, false),
        ("gated", true, false),
        ("delta", false, true),
        ("gated_delta", true, true),
    ];
    for (rule, decays, is_delta) in rules {
        let (found, (y, state)) = (layer.node(rule).run(), layer.wanted(decays, is_delta));
        assert_near(found[0].as_floats(), &y);
        assert_near(found[1].as_floats(), &state);
    }
    let scaled = layer.node("linear").with(float("scale", 2.0_f32.sqrt())).floats();
    assert_near(&scaled, &layer.wanted(false, false).0.iter().map(|x| x * 2.0).collect::<Vec<f32>>());
    let mut bare = layer.node("gated");
    bare.operands[4] = None;
    assert!(bare.refused().contains("operand 4 is missing"));
    assert!(layer.node("other").refused().contains("= allowed: linear, gated, delta, gated_delta"));
}

#[test]
fn regions_are_means_of_samples() {
    let x: Vec<f32> = (0..16_u8).map(f32::from).collect();
    let align = |region: [f32; 4], mode: &str| {
        let operands = [floats(&[1, 1, 4, 4], &x), floats(&[1, 4], &region), ints(Dtype::I64, &[1], &[0])];
        let node = Node::new("RoiAlign", &operands).with(word("coordinate_transformation_mode", mode));
        let node = node.with(int("output_height", 1)).with(int("output_width", 2));
        node.with(int("sampling_ratio", 1))
    };
    // Cells of 2 by 1; middles at row 1 and columns 0.5 and 1.5, edges of elements at halves.
    assert_eq!(align([0.0, 0.0, 2.0, 2.0], "output_half_pixel").floats(), [4.5, 5.5]);
    assert_eq!(align([0.0, 0.0, 2.0, 2.0], "half_pixel").floats(), [2.0, 3.0]);
    assert_eq!(align([10.0, 0.0, 12.0, 2.0], "half_pixel").floats(), [0.0, 0.0]);
    let text = align([0.0; 4], "half_pixel").with(word("mode", "max")).refused();
    assert!(text.contains("`mode` is `max`\n  = allowed: avg"), "{text}");
    let mut ratio = align([0.0; 4], "half_pixel");
    ratio.attributes.pop();
    let text = ratio.refused();
    assert!(text.contains("`sampling_ratio` is 0: 0 lets the sizes of regions decide"), "{text}");
}

#[test]
fn places_of_known_elements_and_bits_of_integers() {
    let x = || ints(Dtype::Bool, &[2, 3], &[0, 1, 1, 1, 0, 0]);
    let places = Node::new("NonZero", &[x().constant()]).run();
    assert_eq!((places[0].dims.as_slice(), places[0].as_ints()), (&[2, 3][..], &[0, 0, 1, 1, 2, 0][..]));
    let none = Node::new("NonZero", &[floats(&[2], &[0.0; 2]).constant()]).run();
    assert_eq!(none[0].dims, [1, 0]);
    assert!(Node::new("NonZero", &[x()]).refused().contains("are known only when the model runs"));
    let cast = |x: Operand, to: i64| Node::new("BitCast", &[x]).with(int("to", to));
    assert_eq!(cast(ints(Dtype::I8, &[2], &[-1, 5]), 2).ints(), [255, 5]);
    assert_eq!(cast(ints(Dtype::U8, &[2], &[255, 5]), 3).ints(), [-1, 5]);
    let text = cast(floats(&[1], &[1.0]), 6).refused();
    assert!(text.contains("the bits of f32 as i32\n  = allowed: integers of as many bits"), "{text}");
}

#[test]
fn numbers_beyond_f8e4m3_are_its_largest_or_none() {
    let x = || floats(&[6], &[1.06, -300.0, 464.0, 465.0, f32::INFINITY, -1e9]);
    let cast = |saturate: i64| {
        let node = Node::new("Cast", &[x()]).with(int("to", 17)).with(int("saturate", saturate));
        node.run()
    };
    let found = cast(1);
    assert_eq!(found[0].dtype, Dtype::F8E4M3);
    assert_eq!(found[0].as_floats(), [1.0, -288.0, 448.0, 448.0, 448.0, -448.0]);
    let found = cast(0);
    assert_eq!(found[0].as_floats()[..3], [1.0, -288.0, 448.0]);
    assert!(found[0].as_floats()[3..].iter().all(|x| x.is_nan()));
    let node = Node::new("QuantizeLinear", &[x(), floats(&[], &[2.0])]).with(int("output_dtype", 17));
    assert_eq!(node.floats(), [0.5, -144.0, 224.0, 240.0, 448.0, -448.0]);
    assert!(node.with(int("saturate", 0)).refused().contains("f8e4m3 with `saturate` 0"));
    let range = Node::new("Range", &[1.0, 3.0, 0.5].map(|x| floats(&[], &[x]).constant()));
    assert_eq!(range.floats(), [1.0, 1.5, 2.0, 2.5]);
}
