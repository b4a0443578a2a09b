//! Where model data is, the goldens that come with it, and how a model is checked against them.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Deserialize;
use tilewright_graph::primitives;
use tilewright_import::Model;
use tilewright_reference::{Interpreter, Session, best};

pub(crate) use tilewright_testkit::{fetched_model as downloaded, shared_model as folder};

/// What a test has to say.
#[expect(clippy::print_stderr, reason = "what was skipped or measured is said")]
pub(crate) fn say(words: &str) {
    eprintln!("{words}");
}

pub(crate) fn bytes(path: &PathBuf) -> Arc<Vec<u8>> {
    Arc::new(std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

/// What `golden.json` says.
#[derive(Deserialize)]
pub(crate) struct Golden {
    pub(crate) cases: Vec<Case>,
}

/// One prompt with the greedy continuation.
#[derive(Deserialize)]
pub(crate) struct Case {
    #[serde(alias = "prompt_text")]
    pub(crate) prompt: String,
    pub(crate) prompt_ids: Vec<i64>,
    pub(crate) ids: Vec<i64>,
    pub(crate) text: String,
}

pub(crate) fn golden(folder: &std::path::Path) -> Golden {
    serde_json::from_slice(&bytes(&folder.join("golden.json"))).expect("golden.json is as its README says")
}

/// A model in primitives, ready to run.
pub(crate) fn interpreter(model: &Model) -> Interpreter {
    let graph = primitives(&model.graph).unwrap_or_else(|complaint| panic!("{complaint:?}"));
    Interpreter::new(graph, &model.store).unwrap_or_else(|error| panic!("{error}"))
}

/// Greedy ids behind a prompt: as many as wanted.
pub(crate) fn greedy(interpreter: &Interpreter, prompt: &[i64], wanted: usize) -> Vec<i64> {
    let mut session = Session::new(interpreter).expect("a language model");
    let mut logits = session.feed(prompt).expect("the prompt runs");
    let mut ids = Vec::new();
    while ids.len() < wanted {
        let next = best(logits.last().expect("a row for each token")).expect("finite logits");
        ids.push(next);
        if ids.len() < wanted {
            logits = session.feed(&[next]).expect("a step runs");
        }
    }
    ids
}

/// Every case of a golden must come out, id by id: the first `free` cases generate token by token over the
/// cache, the others take all golden ids at once and must prefer the next one at each place.
pub(crate) fn reproduces(interpreter: &Interpreter, golden: &Golden, free: usize) {
    for (at, case) in golden.cases.iter().enumerate() {
        let start = case.prompt_ids.len();
        assert_eq!(case.ids[..start], case.prompt_ids[..]);
        let seen = if at < free {
            greedy(interpreter, &case.prompt_ids, case.ids.len() - start)
        } else {
            let mut session = Session::new(interpreter).expect("a language model");
            let logits = session.feed(&case.ids[..case.ids.len() - 1]).expect("the ids run");
            logits[start - 1..].iter().map(|row| best(row).expect("finite logits")).collect()
        };
        assert_eq!(seen, case.ids[start..], "prompt {:?}", case.prompt);
    }
}

/// The texts and ids that come with the Llama 2 vocabulary, without the token in front.
pub(crate) fn vectors(folder: &std::path::Path) -> Vec<(String, Vec<u32>)> {
    let text = |name: &str| String::from_utf8(bytes(&folder.join(name)).to_vec()).expect("UTF-8");
    let inputs = text("ggml-vocab-llama-spm.gguf.inp");
    let outputs = text("ggml-vocab-llama-spm.gguf.out");
    let inputs = inputs.split("\n__ggml_vocab_test__\n").map(ToString::to_string);
    let ids = |line: &str| line.split_whitespace().map(|id| id.parse().expect("an id")).collect();
    let all: Vec<(String, Vec<u32>)> = inputs.zip(outputs.split('\n').map(ids)).collect();
    assert_eq!(all.len(), 47);
    all
}
