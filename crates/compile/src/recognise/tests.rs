//! Rules against stage 1 and the interpreter: what primitives spell out is found again, and means the same.

use tilewright_graph::rich::{Attrs, RichOp};
use tilewright_graph::{
    Binary, Builder, Dim, Dtype, Graph, Op, StoredTensor, TensorStore, Type, ValueId, primitives, verify,
};
use tilewright_reference::{Interpreter, Tensor};

use super::{near, recognise};

/// Rich operators of a graph, in order.
fn riches(graph: &Graph) -> Vec<&'static str> {
    let rich = graph.nodes.iter().filter(|node| matches!(node.op, Op::Rich(..)));
    rich.map(|node| node.op.name()).collect()
}

/// Numbers without a pattern that a rule could use.
fn noise(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        let word = tilewright_base::random::next(&mut state);
        f32::from(u16::try_from(word >> 48).unwrap()) / 32768.0 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

fn values(graph: &Graph, store: &TensorStore) -> Vec<f32> {
    let inputs = graph.inputs.iter().enumerate().map(|(seed, id)| {
        let dims: Vec<usize> = graph
            .value(*id)
            .unwrap()
            .ty
            .fixed_dims()
            .unwrap()
            .iter()
            .map(|d| usize::try_from(*d).unwrap())
            .collect();
        Tensor::floats(Dtype::F32, &dims, noise(dims.iter().product(), seed as u64 + 1))
    });
    let inputs: Vec<Tensor> = inputs.collect();
    let interpreter = Interpreter::new(primitives(graph).unwrap(), store).unwrap();
    interpreter.run(&inputs).unwrap()[0].as_floats().to_vec()
}

/// A graph and the same in primitives: recognised, it has the operator again and means the same.
fn comes_back(graph: &Graph, store: &TensorStore, wanted: &[&str]) {
    let spelled = primitives(graph).unwrap();
    same_after(&spelled, store, wanted);
}

fn same_after(spelled: &Graph, store: &TensorStore, wanted: &[&str]) {
    let recognised = recognise(spelled);
    assert_eq!(riches(&recognised), wanted, "{:?}", near(spelled));
    assert!(verify(&recognised).is_empty(), "{:?}", verify(&recognised));
    for (a, b) in values(spelled, store).iter().zip(values(&recognised, store)) {
        assert!((a - b).abs() <= 1e-5 * a.abs().max(1.0), "{a} {b}");
    }
}

fn shape(dims: &[i64]) -> Type {
    Type::new(Dtype::F32, dims.iter().map(|dim| Dim::fixed(*dim)).collect::<Vec<Dim>>())
}

fn stored(b: &mut Builder, store: &mut TensorStore, name: &str, dims: &[u64]) -> ValueId {
    let count = usize::try_from(dims.iter().product::<u64>()).unwrap();
    store.tensors.insert(name.to_string(), StoredTensor::floats(dims, &noise(count, 77)).unwrap());
    b.stored(name, Dtype::F32, dims).unwrap()
}

#[test]
fn norms_come_back() {
    let (mut b, mut store) = (Builder::new("g"), TensorStore::default());
    let x = b.input("x", shape(&[1, 3, 12])).unwrap();
    let gain = stored(&mut b, &mut store, "gain", &[12]);
    let y =
        b.rich_one(RichOp::RmsNorm, &[x, gain], Attrs::default().int("axis", -1).float("eps", 1e-3)).unwrap();
    b.output("y", y);
    comes_back(&b.finish(), &store, &["rms_norm"]);
}

#[test]
fn norms_without_a_mean_come_back() {
    let (mut b, mut store) = (Builder::new("g"), TensorStore::default());
    let x = b.input("x", shape(&[1, 3, 12])).unwrap();
    let gain = stored(&mut b, &mut store, "gain", &[12]);
    let bias = stored(&mut b, &mut store, "bias", &[12]);
    let attrs = Attrs::default().int("axis", -1).float("eps", 1e-3);
    let y = b.rich(RichOp::LayerNorm, &[Some(x), Some(gain), Some(bias)], attrs).unwrap()[0];
    b.output("y", y);
    comes_back(&b.finish(), &store, &["layer_norm"]);
}

#[test]
fn attention_in_primitives_comes_back() {
    for (heads, kv_heads, masked) in [(4, 2, true), (3, 3, true), (4, 1, false)] {
        let mut b = Builder::new("g");
        let q = b.input("q", shape(&[1, heads, 3, 8])).unwrap();
        let k = b.input("k", shape(&[1, kv_heads, 5, 8])).unwrap();
        let v = b.input("v", shape(&[1, kv_heads, 5, 8])).unwrap();
        let mut inputs = vec![Some(q), Some(k), Some(v)];
        if masked {
            let bound = b.input("bound", shape(&[1, 1, 3, 5])).unwrap();
            inputs.push(Some(b.with(Binary::Lt, bound, 0.5).unwrap()));
        }
        let y = b.rich(RichOp::Attention, &inputs, Attrs::default().float("scale", 0.3)).unwrap()[0];
        b.output("y", y);
        comes_back(&b.finish(), &TensorStore::default(), &["attention"]);
    }
}

#[test]
fn rotations_of_neighbours_and_of_halves_come_back() {
    for interleaved in [0, 1] {
        let mut b = Builder::new("g");
        let x = b.input("x", shape(&[1, 2, 3, 8])).unwrap();
        let cos = b.input("cos", shape(&[3, 4])).unwrap();
        let sin = b.input("sin", shape(&[3, 4])).unwrap();
        let attrs = Attrs::default().int("interleaved", interleaved);
        let y = b.rich_one(RichOp::Rope, &[x, cos, sin], attrs).unwrap();
        b.output("y", y);
        comes_back(&b.finish(), &TensorStore::default(), &["rope"]);
    }
}

#[test]
fn gelu_comes_back_however_its_factors_are_grouped() {
    let mut b = Builder::new("g");
    let x = b.input("x", shape(&[1, 3, 5])).unwrap();
    let y = b.rich_one(RichOp::Gelu, &[x], Attrs::default()).unwrap();
    b.output("y", y);
    comes_back(&b.finish(), &TensorStore::default(), &["gelu"]);
    let mut b = Builder::new("g");
    let x = b.input("x", shape(&[1, 3, 5])).unwrap();
    let small = b.with(Binary::Div, x, std::f64::consts::SQRT_2).unwrap();
    let erf = b.unary(tilewright_graph::Unary::Erf, small).unwrap();
    let more = b.with(Binary::Add, erf, 1.0).unwrap();
    let half = b.with(Binary::Mul, more, 0.5).unwrap();
    let y = b.mul(x, half).unwrap();
    b.output("y", y);
    same_after(&b.finish(), &TensorStore::default(), &["gelu"]);
}

#[test]
fn gates_and_projections_come_back() {
    let (mut b, mut store) = (Builder::new("g"), TensorStore::default());
    let x = b.input("x", shape(&[1, 3, 5])).unwrap();
    let weight = stored(&mut b, &mut store, "w", &[5, 7]);
    let wide = b.rich_one(RichOp::Matmul, &[x, weight], Attrs::default()).unwrap();
    let gate = b.unary(tilewright_graph::Unary::Sigmoid, wide).unwrap();
    let y = b.mul(gate, wide).unwrap();
    b.output("y", y);
    let graph = b.finish();
    same_after(&graph, &store, &["silu"]);
    let recognised = recognise(&graph);
    assert!(recognised.nodes.iter().any(|node| node.op == Op::Einsum("bse,fe->bsf".to_string())));
    assert!(recognised.values.iter().any(|value| value.name == "w.T"));
    // And from the einsum that stage 1 makes of the product.
    comes_back(&graph, &store, &["silu"]);
    let recognised = recognise(&primitives(&graph).unwrap());
    assert!(recognised.nodes.iter().any(|node| node.op == Op::Einsum("bse,fe->bsf".to_string())));
}

/// Attention as exporters write it; `break_it` spoils one place of the pattern.
fn spelled_attention(break_it: &str) -> Graph {
    let mut b = Builder::new("g");
    let q = b.input("q", shape(&[1, 4, 3, 8])).unwrap();
    let k = b.input("k", shape(&[1, 2, 5, 8])).unwrap();
    let v = b.input("v", shape(&[1, 2, 5, 8])).unwrap();
    let repeat = |b: &mut Builder, x: ValueId| {
        let one = b.unsqueeze(x, 2).unwrap();
        let dims: Vec<Dim> = [1, 2, 2, 5, 8].map(Dim::fixed).to_vec();
        let all = b.broadcast(one, &dims).unwrap();
        b.reshape(all, &[1, 4, 5, 8].map(Dim::fixed)).unwrap()
    };
    let (k, v) = (repeat(&mut b, k), repeat(&mut b, v));
    let order = if break_it == "keys" { [0, 1, 2, 3] } else { [0, 1, 3, 2] };
    let transposed =
        if break_it == "keys" { b.reshape(k, &[1, 4, 8, 5].map(Dim::fixed)) } else { b.transpose(k, &order) };
    let scores = b.rich_one(RichOp::Matmul, &[q, transposed.unwrap()], Attrs::default()).unwrap();
    let scores = b.with(Binary::Div, scores, 2.5).unwrap();
    let (place, query) = (
        b.iota(Dtype::I64, &[Dim::fixed(5)], 0).unwrap(),
        b.iota(Dtype::I64, &[3, 1].map(Dim::fixed), 0).unwrap(),
    );
    let seen = b.binary(Binary::Le, place, query).unwrap();
    let (zero, hidden) = (b.scalar(Dtype::F32, 0.0).unwrap(), if break_it == "mask" { -1.0 } else { -1e9 });
    let hidden = b.scalar(Dtype::F32, hidden).unwrap();
    let mask = b.select(seen, zero, hidden).unwrap();
    let scores = b.add(scores, mask).unwrap();
    let probs = b.rich_one(RichOp::Softmax, &[scores], Attrs::default().int("axis", -1)).unwrap();
    let y = b.called("y").rich_one(RichOp::Matmul, &[probs, v], Attrs::default()).unwrap();
    b.output("y", y);
    b.finish()
}

#[test]
fn attention_of_repeated_keys_comes_back() {
    same_after(&spelled_attention(""), &TensorStore::default(), &["attention"]);
    comes_back(&spelled_attention(""), &TensorStore::default(), &["attention"]);
}

#[test]
fn what_nearly_fits_is_told_with_its_node() {
    for (broken, why) in [("keys", "keys are not transposed"), ("mask", "the mask does not add 0")] {
        let graph = spelled_attention(broken);
        assert!(!riches(&recognise(&graph)).contains(&"attention"));
        let misses = near(&graph);
        assert!(
            misses.iter().any(|near| near.starts_with("`y` is not attention") && near.contains(why)),
            "{misses:?}"
        );
    }
}
