//! Language models of shapes that no template has, as planned graphs: prompts in parts and single tokens give
//! the interpreter's logits, whatever state goes from run to run.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use proptest::prelude::*;
use tilewright_compile::general::sequence::Sequence;
use tilewright_compile::general::{Options, plan};
use tilewright_graph::rich::{Attrs, RichOp};
use tilewright_graph::{
    AxisChoice, Binary, Builder, Data, Dim, Dtype, Graph, LanguageGraph, TensorStore, Type, Unary, ValueId,
    bounded, primitives, sized,
};
use tilewright_machine::Tcp;
use tilewright_record::KeepLast;
use tilewright_reference::{Interpreter, Session};
use tilewright_runtime::ReadingOptions;
use tilewright_runtime::executable::ExecutableGraph;
use tilewright_runtime::generate::LanguageDevice;
use tilewright_runtime::graph::executable;
use tilewright_runtime::session::{GraphSession, SessionPrograms};
use tilewright_testkit::tcp;

/// A decoder with learned positions, layer norms, one layer and as many heads as are asked for.
#[derive(Clone, Debug)]
struct Decoder {
    heads: i64,
    kv_heads: i64,
    head: i64,
    vocabulary: i64,
    has_mask: bool,
    has_batch: bool,
    interleaves: bool,
}

const POSITIONS: i64 = 32;

/// Builds it.
struct DecoderBuilder {
    b: Builder,
    drawn: u64,
}

impl DecoderBuilder {
    /// Weights that look random and are always the same.
    fn weight(&mut self, name: &str, dims: &[i64]) -> ValueId {
        let scale = 1.0 / f64::from(u32::try_from(*dims.last().unwrap()).unwrap()).sqrt();
        let count = dims.iter().product::<i64>();
        let mut draw = || {
            self.drawn =
                self.drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let unit = f64::from(u32::try_from(self.drawn >> 33).unwrap()) / f64::from(1_u32 << 30) - 1.0;
            #[expect(clippy::cast_possible_truncation, reason = "a weight")]
            let weight = (2.0 * scale * unit) as f32;
            weight.to_bits()
        };
        let data = Data::Floats((0..count).map(|_| draw()).collect());
        let dims: Vec<Dim> = dims.iter().map(|dim| Dim::fixed(*dim)).collect();
        self.b.called(name).constant(Type::new(Dtype::F32, dims), data).unwrap()
    }

    fn norm(&mut self, x: ValueId, name: &str, width: i64) -> ValueId {
        let (gain, offset) = (self.weight(&format!("{name}.gain"), &[width]), self.weight(name, &[width]));
        let gain = self.b.with(Binary::Add, gain, 1.0).unwrap();
        self.b.rich_one(RichOp::LayerNorm, &[x, gain, offset], Attrs::default().int("axis", -1)).unwrap()
    }
}

fn decoder(config: &Decoder) -> Graph {
    let Decoder { heads, kv_heads, head, vocabulary, has_mask, has_batch, interleaves } = *config;
    let width = heads * head;
    let mut d = DecoderBuilder { b: Builder::new("decoder"), drawn: 7 };
    let batch = if has_batch { d.b.axis("batch", 1, 4) } else { Dim::fixed(1) };
    let seq = d.b.axis("seq", 1, 32);
    let past = d.b.axis("past", 0, 31);
    let total = past.plus(&seq).unwrap();
    let pair = [batch.clone(), seq.clone()];
    let tokens = d.b.input("input_ids", Type::new(Dtype::I64, pair.clone())).unwrap();
    let positions = d.b.input("position_ids", Type::new(Dtype::I64, pair)).unwrap();
    let mask = has_mask.then(|| {
        let all = d.b.axis("all", 1, 64);
        d.b.input("attention_mask", Type::new(Dtype::I64, [batch.clone(), all])).unwrap()
    });
    let kept = [batch.clone(), Dim::fixed(kv_heads), past, Dim::fixed(head)];
    let [past_k, past_v] =
        ["past_k", "past_v"].map(|name| d.b.input(name, Type::new(Dtype::F32, kept.clone())).unwrap());
    let (table, places) = (d.weight("table", &[vocabulary, width]), d.weight("places", &[POSITIONS, width]));
    let (x, place) = (d.b.gather(table, 0, tokens).unwrap(), d.b.gather(places, 0, positions).unwrap());
    let x = d.b.add(x, place).unwrap();
    let normed = d.norm(x, "norm", width);
    let project = |d: &mut DecoderBuilder, name: &str, heads: i64| {
        let w = d.weight(name, &[heads * head, width]);
        let y = d.b.einsum("bse,fe->bsf", &[normed, w]).unwrap();
        let dims = [batch.clone(), seq.clone(), Dim::fixed(heads), Dim::fixed(head)];
        let y = d.b.reshape(y, &dims).unwrap();
        d.b.transpose(y, &[0, 2, 1, 3]).unwrap()
    };
    let (q, k, v) =
        (project(&mut d, "q", heads), project(&mut d, "k", kv_heads), project(&mut d, "v", kv_heads));
    let k = if interleaves { swapped_pairs(&mut d.b, k, head) } else { k };
    let (keys, values) = (d.b.concat(2, &[past_k, k]).unwrap(), d.b.concat(2, &[past_v, v]).unwrap());
    let groups = heads / kv_heads;
    let grouped = [batch.clone(), Dim::fixed(kv_heads), Dim::fixed(groups), seq.clone(), Dim::fixed(head)];
    let q = d.b.reshape(q, &grouped).unwrap();
    let scores = d.b.einsum("bgrsd,bgtd->bgrst", &[q, keys]).unwrap();
    let at = d.b.iota(Dtype::I64, &[total], 0).unwrap();
    let column = d.b.unsqueeze(positions, 2).unwrap();
    let mut seen = d.b.binary(Binary::Le, at, column).unwrap();
    if let Some(mask) = mask {
        // Its axis is its own, as exporters write it: a sum is all that fits every size.
        let mask = d.b.convert(mask, Dtype::F32).unwrap();
        let looked = d.b.reduce(tilewright_graph::Fold::Sum, mask, &[0, 1], false).unwrap();
        let one = d.b.with(Binary::Ge, looked, 1.0).unwrap();
        seen = d.b.binary(Binary::And, seen, one).unwrap();
    }
    let seen = d.b.unsqueeze(seen, 1).unwrap();
    let seen = d.b.unsqueeze(seen, 1).unwrap();
    let low = d.b.scalar(Dtype::F32, -1e9).unwrap();
    let scores = d.b.select(seen, scores, low).unwrap();
    let probs = d.b.rich_one(RichOp::Softmax, &[scores], Attrs::default().int("axis", -1)).unwrap();
    let mixed = d.b.einsum("bgrst,bgtd->bsgrd", &[probs, values]).unwrap();
    let mixed = d.b.reshape(mixed, &[batch.clone(), seq.clone(), Dim::fixed(width)]).unwrap();
    let out = d.weight("out", &[width, width]);
    let mixed = d.b.einsum("bse,fe->bsf", &[mixed, out]).unwrap();
    let x = d.b.add(x, mixed).unwrap();
    let normed = d.norm(x, "last", width);
    let (up, down) = (d.weight("up", &[2 * width, width]), d.weight("down", &[width, 2 * width]));
    let inner = d.b.einsum("bse,fe->bsf", &[normed, up]).unwrap();
    let inner = d.b.unary(Unary::Tanh, inner).unwrap();
    let inner = d.b.einsum("bse,fe->bsf", &[inner, down]).unwrap();
    let x = d.b.add(x, inner).unwrap();
    let logits = d.b.einsum("bse,fe->bsf", &[x, table]).unwrap();
    d.b.output("logits", logits);
    d.b.output("present_k", keys);
    d.b.output("present_v", values);
    d.b.state(past_k, 1);
    d.b.state(past_v, 2);
    d.b.finish()
}

/// The second of every pair of elements before the first.
fn swapped_pairs(b: &mut Builder, x: ValueId, head: i64) -> ValueId {
    let mut dims = b.dims(x).to_vec();
    let whole = dims.clone();
    dims.splice(3..4, [Dim::fixed(head / 2), Dim::fixed(2)]);
    let pairs = b.reshape(x, &dims).unwrap();
    let side = |b: &mut Builder, at: i64| b.slice(pairs, 4, Dim::fixed(at), Dim::fixed(1), 1).unwrap();
    let (first, second) = (side(b, 0), side(b, 1));
    let swapped = b.concat(4, &[second, first]).unwrap();
    b.reshape(swapped, &whole).unwrap()
}

fn program(
    machine: &Tcp,
    graph: &Graph,
    language: &LanguageGraph,
    (seq, past, pes): (AxisChoice, AxisChoice, u64),
) -> ExecutableGraph {
    let made = bounded(&sized(graph, &language.axes(&seq, &past)).unwrap()).unwrap();
    let options = Options { pes, check: true, ..Options::default() };
    let planned = plan(machine, &made.graph, &TensorStore::default(), &options).unwrap();
    executable(machine, &planned, pes).unwrap().with_open(made.sizes)
}

/// Feeds a text in parts to the chip and to the interpreter; logits may differ by what bf16 rounds.
fn agrees(graph: &Graph, programs: SessionPrograms, language: &LanguageGraph, parts: &[&[u64]]) {
    let interpreter = Interpreter::new(graph.clone(), &TensorStore::default()).unwrap();
    let mut theirs = Session::new(&interpreter).unwrap();
    let mut ours = GraphSession::new(programs, Sequence::new(graph, language));
    let wanted = ReadingOptions { values: true, findings: true, ..ReadingOptions::default() };
    for part in parts {
        let reading = ours.feed(part, &wanted, KeepLast::new(0)).unwrap();
        assert!(reading.findings.iter().all(|finding| !finding.certain), "{:?}", reading.findings.first());
        let ids: Vec<i64> = part.iter().map(|id| i64::try_from(*id).unwrap()).collect();
        let expected = theirs.feed(&ids).unwrap().pop().unwrap();
        let found = ours.last_logits().unwrap();
        assert_eq!(found.len(), expected.len());
        let error = found.iter().zip(&expected).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>().sqrt();
        let norm = expected.iter().map(|b| f64::from(*b).powi(2)).sum::<f64>().sqrt();
        assert!(error <= 0.04 * norm, "{error} of {norm} after {} tokens", ours.seen());
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: u32::try_from(tilewright_testkit::draws(6, 200)).unwrap(),
        ..ProptestConfig::default()
    })]

    #[test]
    fn decoders_of_any_shape_give_the_interpreters_logits(
        (kv_heads, groups, eighths) in (1_i64..3, 1_i64..4, 1_i64..5),
        (vocabulary, pes) in (5_i64..80, prop_oneof![Just(1_u64), Just(2), Just(8)]),
        (has_mask, has_batch, interleaves) in (any::<bool>(), any::<bool>(), any::<bool>()),
        (first, more) in (1_u64..9, 1_u64..4),
    ) {
        let config = Decoder {
            heads: kv_heads * groups,
            kv_heads,
            head: 4 * eighths,
            vocabulary,
            has_mask,
            has_batch,
            interleaves,
        };
        let graph = primitives(&decoder(&config)).unwrap();
        let language = LanguageGraph::of(&graph).unwrap();
        let machine = tcp();
        let behind = AxisChoice::Within(0, 15);
        let make = |sizes| program(&machine, &graph, &language, sizes);
        let programs = SessionPrograms {
            prompt: Some(make((AxisChoice::Within(1, 8), behind.clone(), pes))),
            prompt_tokens: 8,
            token: Some(make((AxisChoice::Fixed(1), behind, pes))),
            context: 16,
        };
        let text: Vec<u64> = (0..16).map(|at| (at * 7 + 3) % u64::try_from(vocabulary).unwrap()).collect();
        let (end, next) = (usize::try_from(first).unwrap(), usize::try_from(first + more).unwrap());
        agrees(&graph, programs, &language, &[&text[..end], &text[end..next], &text[next..=next]]);
    }
}

#[test]
fn a_prompt_without_anything_before_it_needs_no_cache() {
    let config = Decoder {
        heads: 2,
        kv_heads: 1,
        head: 8,
        vocabulary: 30,
        has_mask: false,
        has_batch: true,
        interleaves: false,
    };
    let graph = primitives(&decoder(&config)).unwrap();
    let language = LanguageGraph::of(&graph).unwrap();
    let machine = tcp();
    let (whole, nothing) = (AxisChoice::Fixed(5), AxisChoice::Fixed(0));
    let programs = SessionPrograms {
        prompt: Some(program(&machine, &graph, &language, (whole, nothing, 1))),
        prompt_tokens: 5,
        token: Some(program(
            &machine,
            &graph,
            &language,
            (AxisChoice::Fixed(1), AxisChoice::Within(0, 9), 1),
        )),
        context: 10,
    };
    agrees(&graph, programs, &language, &[&[1, 2, 3, 4, 5], &[6], &[7]]);
}

#[test]
fn inputs_and_axes_of_no_known_use_are_named() {
    let mut b = Builder::new("noisy");
    let seq = b.axis("seq", 1, 8);
    let tokens = b.input("tokens", Type::new(Dtype::I64, [seq])).unwrap();
    let noise = b.input("noise", Type::new(Dtype::I64, [Dim::fixed(1)])).unwrap();
    let sum = b.add(tokens, noise).unwrap();
    b.output("logits", sum);
    let complaint = LanguageGraph::of(&b.finish()).unwrap_err().to_string();
    assert_eq!(complaint, "its input `noise` is neither tokens, positions, a mask nor state");
}
