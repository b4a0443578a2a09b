//! Batches of more sequences than a PE has slices: a slice has a token of several, one in each of its rows.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use tilewright_compile::weights::constant;
use tilewright_compile::{Mixed, Options, compile};
use tilewright_import::Model;
use tilewright_import::llama::{Config, Rope, Scaling};
use tilewright_num::Dtype;
use tilewright_record::KeepLast;
use tilewright_runtime::ReadingOptions;
use tilewright_runtime::model::ModelDevice;

use crate::random;
use tilewright_testkit::tcp;

/// More than two rows of 64 slices, the last of them not full.
const MANY: u64 = 150;
/// Some of them: in the first row, at both sides of the border to the next, in the last.
const FOLLOWED: [u64; 4] = [0, 63, 64, 149];

fn model() -> Model {
    let rope = Rope { theta: 1e4, interleaved: false, scaling: Scaling::None };
    let config = Config {
        name: "random".to_string(),
        width: 91,
        hidden: 53,
        layers: 2,
        heads: 6,
        kv_heads: 2,
        head_width: 16,
        vocabulary: 77,
        context: 160,
        norm_eps: 1e-5,
        rope,
        tied: false,
    };
    random::llama(&config, 11)
}

fn device(model: &Model, options: Options) -> ModelDevice {
    let machine = tcp();
    let mut chip = ModelDevice::new(&machine, compile(&machine, &model.graph, options).unwrap()).unwrap();
    chip.load(&|name: &str| constant(&model.graph, &model.store, name)).unwrap();
    chip
}

/// A token of a sequence at a step; every fifth waits at the second step.
fn token(sequence: u64, step: u64) -> Option<u64> {
    (step != 1 || !sequence.is_multiple_of(5)).then_some((sequence * 13 + step * 29) % 77)
}

/// Logits of the sequences that are followed are, bit for bit, what a batch of these four gives, and no run
/// does anything wrong.
#[test]
fn sequences_of_several_rows_are_exact() {
    let model = model();
    for (dtype, cache, pes, chips) in
        [(Dtype::Bf16, Dtype::Bf16, 1, 1), (Dtype::I8, Dtype::I8, 2, 1), (Dtype::I8, Dtype::Bf16, 1, 2)]
    {
        let options = Options { dtype, mixed: Mixed::default(), cache, context: 64, pes, chips, batch: MANY };
        let mut many = device(&model, options);
        let mut few = device(&model, Options { batch: 4, ..options });
        let wanted = ReadingOptions { values: true, findings: true, ..ReadingOptions::default() };
        // A prompt of one of the last row, before the single tokens.
        many.feed_sequence(149, &[5, 6, 7], &wanted, KeepLast::new(0)).unwrap();
        few.feed_sequence(3, &[5, 6, 7], &wanted, KeepLast::new(0)).unwrap();
        for step in 0..3 {
            let all: Vec<Option<u64>> = (0..MANY).map(|sequence| token(sequence, step)).collect();
            let some: Vec<Option<u64>> = FOLLOWED.iter().map(|sequence| token(*sequence, step)).collect();
            let reading = many.feed_batch(&all, &wanted, KeepLast::new(0)).unwrap();
            assert!(reading.findings.is_empty(), "{dtype} on {pes} PEs: {:?}", reading.findings.first());
            few.feed_batch(&some, &wanted, KeepLast::new(0)).unwrap();
            for (place, sequence) in (0..).zip(FOLLOWED) {
                if token(sequence, step).is_none() {
                    continue;
                }
                let bits = |logits: Vec<f32>| logits.into_iter().map(f32::to_bits).collect::<Vec<_>>();
                let ours = bits(many.sequence_logits(sequence).unwrap());
                let theirs = bits(few.sequence_logits(place).unwrap());
                assert!(ours == theirs, "{dtype} on {pes} PEs, step {step}, sequence {sequence}");
            }
        }
    }
}
