//! What a `tokenizer.json` puts in front of a prompt.

use serde_json::{Value, json};
use tilewright_import::tokenizer::json;

fn encoded(post_processor: &Value) -> Result<Vec<u32>, String> {
    let file = json!({
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "<s>": 3, "</s>": 4}, "merges": ["a b"]},
        "added_tokens": [{"id": 3, "content": "<s>"}, {"id": 4, "content": "</s>"}],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true},
        "post_processor": post_processor,
    });
    let read = json::read("f", file.to_string().as_bytes()).map_err(|error| error.to_string())?;
    read.encode("ab").map_err(|error| error.to_string())
}

#[test]
fn tokens_in_front_are_taken_and_those_behind_are_left_out() {
    let special = |name: &str| json!({"SpecialToken": {"id": name, "type_id": 0}});
    let text = json!({"Sequence": {"id": "A", "type_id": 0}});
    let template = json!({
        "type": "TemplateProcessing",
        "single": [special("<s>"), text, special("</s>")],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [3], "tokens": ["<s>"]},
            "</s>": {"id": "</s>", "ids": [4], "tokens": ["</s>"]}},
    });
    let pair = |kind: &str| json!({"type": kind, "sep": ["</s>", 4], "cls": ["<s>", 3]});
    let bytes = json!({"type": "ByteLevel", "trim_offsets": true});
    assert_eq!(encoded(&Value::Null), Ok(vec![2]));
    assert_eq!(encoded(&bytes), Ok(vec![2]));
    for processor in [template, pair("RobertaProcessing"), pair("BertProcessing")] {
        assert_eq!(encoded(&processor), Ok(vec![3, 2]), "{processor}");
        let several = json!({"type": "Sequence", "processors": [bytes, processor]});
        assert_eq!(encoded(&several), Ok(vec![3, 2]));
    }
}

#[test]
fn other_post_processors_are_refused_by_name() {
    let refused = |processor: &Value| encoded(processor).unwrap_err();
    let text = refused(&json!({"type": "Sequence", "processors": [{"type": "PairProcessing"}]}));
    let said = "f: post_processor.type: `PairProcessing` is not known\n  = allowed: ByteLevel, Sequence, ";
    assert!(text.starts_with(said), "{text}");
    let lacking = json!({"type": "TemplateProcessing", "special_tokens": {},
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}]});
    assert!(refused(&lacking).starts_with("f: post_processor.special_tokens: lacks `<s>`\n  = allowed: "));
    let text = refused(&json!({"type": "BertProcessing", "sep": ["</s>", 4], "cls": ["<s>", -1]}));
    assert!(text.starts_with("f: token `<s>`: has the id -1\n  = allowed: 0 to "), "{text}");
}
