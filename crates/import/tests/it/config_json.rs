//! What `config.json` says of a Llama: rotary positions in both of their forms, and values that no key may
//! have.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use serde_json::{Value, json};
use tilewright_import::hf::{self, llama_config};
use tilewright_import::llama::{Rope, Scaling};

/// A configuration with some keys set; null takes one away.
fn with(keys: Value) -> Value {
    let mut root = json!({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4,
        "intermediate_size": 96,
        "num_hidden_layers": 1, "vocab_size": 32, "max_position_embeddings": 128, "rms_norm_eps": 1e-5});
    let Value::Object(keys) = keys else { panic!("a table") };
    keys.into_iter().for_each(|(key, value)| root[key] = value);
    root
}

fn rope(keys: Value) -> Rope {
    llama_config(&with(keys), "m").unwrap_or_else(|error| panic!("{error}")).rope
}

fn refused(keys: Value) -> String {
    llama_config(&with(keys), "m").unwrap_err().to_string()
}

/// Llama 3.1's scaling.
fn llama3() -> Value {
    json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64})
}

/// The same positions, whether theta stands beside the scaling or in one table with it.
#[test]
fn both_forms_of_rotary_positions_are_read() {
    let mut one = llama3();
    one["rope_theta"] = json!(5e5);
    let apart = rope(json!({"rope_theta": 5e5, "rope_scaling": llama3()}));
    assert_eq!(apart.theta.to_bits(), 5e5_f64.to_bits());
    let Scaling::Llama3 { factor, original, .. } = apart.scaling else { panic!("{apart:?}") };
    assert_eq!((factor.to_bits(), original.to_bits()), (8.0_f64.to_bits(), 64.0_f64.to_bits()));
    assert_eq!(rope(json!({"rope_parameters": one})), apart);
    // Both at once, saying the same.
    assert_eq!(rope(json!({"rope_theta": 5e5, "rope_scaling": llama3(), "rope_parameters": one})), apart);
    // A table for the one, the old key for the other.
    assert_eq!(rope(json!({"rope_theta": 5e5, "rope_parameters": llama3()})), apart);
    let linear = json!({"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4});
    let linear = rope(json!({"rope_parameters": linear}));
    assert_eq!(linear, rope(json!({"rope_scaling": {"type": "linear", "factor": 2}})));
    assert_eq!(linear.scaling, Scaling::Linear(2.0));
    let plain = rope(json!({"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}));
    assert_eq!(plain, rope(json!({})));
}

#[test]
fn places_that_disagree_are_refused() {
    let text = refused(json!({"rope_theta": 1e4, "rope_parameters": {"rope_theta": 5e5}}));
    assert!(
        text.starts_with("config.json: rope_theta: is 10000.0, and `rope_parameters` says 500000.0"),
        "{text}"
    );
    assert!(text.contains("instead: `rope_parameters` alone"), "{text}");
    let text = refused(json!({"rope_scaling": {"type": "linear", "factor": 2}, "rope_parameters": llama3()}));
    assert!(text.starts_with("config.json: rope_scaling: is Linear(2.0), and"), "{text}");
}

/// What is found, where, and what is allowed.
#[test]
fn values_that_no_key_may_have_are_refused() {
    let cases = [
        (json!({"rms_norm_eps": "x"}), "rms_norm_eps: is `\"x\"`", "a number above 0"),
        (json!({"rms_norm_eps": -1e-5}), "rms_norm_eps: is `-0.00001`", "a number above 0"),
        (json!({"rms_norm_eps": 1e300}), "rms_norm_eps: is 1", "numbers of float32"),
        (json!({"rope_theta": -1}), "rope_theta: is `-1`", "a number above 0"),
        (json!({"rope_theta": "10000"}), "rope_theta: is `\"10000\"`", "a number above 0"),
        (
            json!({"rope_parameters": {"rope_theta": 0}}),
            "rope_parameters.rope_theta: is `0`",
            "a number above 0",
        ),
        (json!({"rope_parameters": "llama3"}), "rope_parameters: is `\"llama3\"`", "a table, or null"),
        (
            json!({"rope_scaling": {"factor": 4.0}}),
            "rope_scaling.rope_type: is missing beside `factor`",
            "default, linear, llama3",
        ),
        (
            json!({"rope_parameters": {"rope_theta": 1e4, "factor": 4.0}}),
            "rope_parameters.rope_type: is missing beside `factor`",
            "default, linear, llama3",
        ),
        (json!({"rope_scaling": 2}), "rope_scaling: is `2`", "a table, or null"),
        (
            json!({"rope_scaling": {"type": "linear", "factor": 0}}),
            "rope_scaling.factor: is `0`",
            "a number above 0",
        ),
        (json!({"rope_scaling": {"type": "linear"}}), "rope_scaling.factor: is missing", "a number above 0"),
        (json!({"rope_scaling": {"type": "yarn", "factor": 2}}), "rope_scaling.rope_type: `yarn`", "llama3"),
        (json!({"rope_parameters": {"rope_type": "yarn"}}), "rope_parameters.rope_type: `yarn`", "llama3"),
        (
            json!({"rope_parameters": {"full_attention": {"rope_theta": 1e6}}}),
            "rope_parameters.full_attention: is a table",
            "the same positions in all layers",
        ),
        (
            json!({"rope_parameters": {"partial_rotary_factor": 0.5}}),
            "rope_parameters.partial_rotary_factor: is 0.5",
            "1",
        ),
        (json!({"num_key_value_heads": "2"}), "num_key_value_heads: is `\"2\"`", "a whole number"),
        (json!({"head_dim": 2.5}), "head_dim: is `2.5`", "a whole number"),
        (json!({"hidden_size": null}), "hidden_size: is missing", "a whole number"),
        (json!({"tie_word_embeddings": "yes"}), "tie_word_embeddings: is `\"yes\"`", "true or false"),
        (json!({"hidden_act": ["silu"]}), "hidden_act: is `[\"silu\"]`", "a word"),
    ];
    for (keys, found, allowed) in cases {
        let text = refused(keys);
        assert!(text.starts_with(&format!("config.json: {found}")), "{text}");
        assert!(text.contains("= allowed: ") && text.contains(allowed), "{text}");
    }
    let mut even = llama3();
    even["high_freq_factor"] = json!(1.0);
    let text = refused(json!({"rope_scaling": even}));
    assert!(
        text.starts_with("config.json: rope_scaling.high_freq_factor: is 1, and `low_freq_factor` 1"),
        "{text}"
    );
}

/// What a folder with these two files says.
fn ends(config: &Value, generation: Option<&str>) -> Result<Option<Vec<u32>>, String> {
    let read = |name: &str| match name {
        "config.json" => Some(Arc::new(config.to_string().into_bytes())),
        "generation_config.json" => generation.map(|text| Arc::new(text.as_bytes().to_vec())),
        _ => None,
    };
    hf::ends(&read).map_err(|error| error.to_string())
}

#[test]
fn ends_of_generation_come_before_those_of_the_model() {
    let two = with(json!({"eos_token_id": 2}));
    assert_eq!(ends(&with(json!({})), None), Ok(None));
    assert_eq!(ends(&two, None), Ok(Some(vec![2])));
    assert_eq!(ends(&with(json!({"eos_token_id": [2, 7]})), None), Ok(Some(vec![2, 7])));
    assert_eq!(ends(&two, Some(r#"{"eos_token_id": [3, 5]}"#)), Ok(Some(vec![3, 5])));
    for silent in ["{}", r#"{"eos_token_id": null}"#] {
        assert_eq!(ends(&two, Some(silent)), Ok(Some(vec![2])));
    }
}

#[test]
fn ends_that_are_no_tokens_are_refused() {
    for bad in ["\"</s>\"", "-1", "1.5", "32", "[1, 32]", "[1, \"x\"]", "[]", "[[1]]", "true", "{}"] {
        let value: Value = serde_json::from_str(bad).unwrap();
        let model = ends(&with(json!({"eos_token_id": value})), None).unwrap_err();
        assert!(model.starts_with("config.json: eos_token_id: is `"), "{bad}: {model}");
        assert!(model.contains("allowed: a whole number from 0 to 31, or a list of them"), "{bad}: {model}");
        let generation = format!("{{\"eos_token_id\": {bad}}}");
        let generation = ends(&with(json!({})), Some(&generation)).unwrap_err();
        assert!(generation.starts_with("generation_config.json: eos_token_id: is `"), "{bad}: {generation}");
    }
    let cut = ends(&with(json!({})), Some("{")).unwrap_err();
    assert!(cut.starts_with("generation_config.json: is no JSON"), "{cut}");
}
