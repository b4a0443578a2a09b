//! Real models on the simulated chip against the float32 interpreter.
#![expect(clippy::disallowed_methods, reason = "reads model files")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use tilewright_compile::weights::constant;
use tilewright_compile::{Mixed, Options, compile};
use tilewright_graph::primitives;
use tilewright_import::Model;
use tilewright_num::Dtype;
use tilewright_record::KeepLast;
use tilewright_reference::{Interpreter, Session, best};
use tilewright_runtime::ReadingOptions;
use tilewright_runtime::model::ModelDevice;
use tilewright_testkit::tcp;

fn model(path: &str) -> Option<Model> {
    let path = tilewright_testkit::shared_model(path)?;
    let bytes = std::fs::read(&path).unwrap();
    Some(tilewright_import::llama2c::read(&path.to_string_lossy(), &Arc::new(bytes)).unwrap())
}

fn worst(ours: &[f32], theirs: &[f32]) -> f32 {
    ours.iter().zip(theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn prompts_and_tokens_give_the_interpreters_logits_within_bf16() {
    prompts_and_tokens(Dtype::Bf16, 1);
    prompts_and_tokens(Dtype::Bf16, 4);
}

#[test]
fn prompts_and_tokens_give_the_interpreters_logits_within_int8() {
    prompts_and_tokens(Dtype::I8, 1);
    prompts_and_tokens(Dtype::I8, 2);
}

fn prompts_and_tokens(dtype: Dtype, pes: u64) {
    let Some(model) = model("stories260K/stories260K.bin") else { return };
    let machine = tcp();
    let compiled = compile(
        &machine,
        &model.graph,
        Options { dtype, mixed: Mixed::default(), cache: Dtype::Bf16, context: 512, pes, chips: 1, batch: 1 },
    )
    .unwrap();
    let mut chip = ModelDevice::new(&machine, compiled).unwrap();
    chip.load(&|name: &str| constant(&model.graph, &model.store, name)).unwrap();
    let interpreter = Interpreter::new(primitives(&model.graph).unwrap(), &model.store).unwrap();
    let mut session = Session::new(&interpreter).unwrap();
    let ids: Vec<u64> = (0..300).map(|at| if at == 0 { 1 } else { at * 37 % 500 + 3 }).collect();
    for part in [&ids[..1], &ids[1..270], &ids[270..271], &ids[271..280]] {
        let wanted = ReadingOptions { values: true, findings: true, ..ReadingOptions::default() };
        let (_, reading) = chip.feed(part, &wanted, KeepLast::new(0)).unwrap();
        let part: Vec<i64> = part.iter().map(|id| i64::try_from(*id).unwrap()).collect();
        let theirs = session.feed(&part).unwrap().pop().unwrap();
        let ours = chip.logits().unwrap();
        let error = worst(&ours, &theirs);
        assert_eq!(best(&ours), best(&theirs), "{dtype} on {pes} PEs, {} tokens", part.len());
        let allowed = if dtype == Dtype::I8 { 1.0 } else { 0.5 };
        assert!(error < allowed, "{error}");
        assert!(reading.findings.is_empty(), "{:?}", reading.findings.first());
    }
}

#[test]
fn sequences_of_a_batch_do_not_know_each_other() {
    let Some(model) = model("stories260K/stories260K.bin") else { return };
    let machine = tcp();
    let batch = 3;
    for (dtype, pes) in [(Dtype::Bf16, 1), (Dtype::I8, 2)] {
        let options = Options {
            dtype,
            mixed: Mixed::default(),
            cache: Dtype::Bf16,
            context: 128,
            pes,
            chips: 1,
            batch,
        };
        let compiled = compile(&machine, &model.graph, options).unwrap();
        let mut chip = ModelDevice::new(&machine, compiled).unwrap();
        chip.load(&|name: &str| constant(&model.graph, &model.store, name)).unwrap();
        let interpreter = Interpreter::new(primitives(&model.graph).unwrap(), &model.store).unwrap();
        let mut sessions: Vec<Session<'_>> =
            (0..batch).map(|_| Session::new(&interpreter).unwrap()).collect();
        // Prompts of the last two: of one row of tokens in part, and of more than one; the same as alone on a
        // chip, bit for bit.
        let wanted = ReadingOptions { values: true, findings: true, ..ReadingOptions::default() };
        let compiled = compile(&machine, &model.graph, Options { batch: 1, ..options }).unwrap();
        let mut alone = ModelDevice::new(&machine, compiled).unwrap();
        alone.load(&|name: &str| constant(&model.graph, &model.store, name)).unwrap();
        let mut before: [Vec<u64>; 3] = Default::default();
        for (sequence, count) in [(2, 70), (1, 5), (2, 9)] {
            let prompt: Vec<u64> = (0..count).map(|at| 3 + at * (31 + sequence) % 500).collect();
            let reading = chip.feed_sequence(sequence, &prompt, &wanted, KeepLast::new(0)).unwrap();
            assert!(reading.findings.is_empty(), "{:?}", reading.findings.first());
            let at = usize::try_from(sequence).unwrap();
            alone.restart();
            for part in [before[at].as_slice(), &prompt].into_iter().filter(|part| !part.is_empty()) {
                alone.feed(part, &wanted, KeepLast::new(0)).unwrap();
            }
            let bits = |logits: Vec<f32>| logits.into_iter().map(f32::to_bits).collect::<Vec<_>>();
            assert!(bits(chip.logits().unwrap()) == bits(alone.logits().unwrap()), "{dtype}, {sequence}");
            before[at].extend_from_slice(&prompt);
            let prompt: Vec<i64> = prompt.iter().map(|id| i64::try_from(*id).unwrap()).collect();
            sessions[at].feed(&prompt).unwrap();
        }
        assert!(chip.feed_sequence(batch, &[1, 2], &wanted, KeepLast::new(0)).is_err());
        assert!(chip.feed_sequence(0, &[1], &wanted, KeepLast::new(0)).is_err());
        for step in 0..4 {
            // The second starts a step later, the third waits for a step: all are differently far, and some
            // have no token.
            let token = |sequence: u64| {
                let idle = step == 0 && sequence == 1 || step == 2 && sequence == 2;
                (!idle).then_some(1 + step * 50 + sequence * 7 * step)
            };
            let tokens: Vec<Option<u64>> = (0..batch).map(token).collect();
            let wanted = ReadingOptions { values: true, findings: true, ..ReadingOptions::default() };
            let reading = chip.feed_batch(&tokens, &wanted, KeepLast::new(0)).unwrap();
            for (sequence, session) in sessions.iter_mut().enumerate() {
                let Some(token) = tokens[sequence] else { continue };
                let theirs = session.feed(&[i64::try_from(token).unwrap()]).unwrap().pop().unwrap();
                let ours = chip.sequence_logits(sequence as u64).unwrap();
                let error = worst(&ours, &theirs);
                assert!(error < 1.0, "{dtype} on {pes} PEs, sequence {sequence}: {error}");
                // What 8 bits leave may turn two tokens that are nearly as likely.
                assert!(
                    dtype == Dtype::I8 || best(&ours) == best(&theirs),
                    "{dtype} on {pes} PEs, sequence {sequence}"
                );
            }
            assert!(reading.findings.is_empty(), "{:?}", reading.findings.first());
        }
    }
}
