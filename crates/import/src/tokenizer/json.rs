//! Hugging Face's `tokenizer.json`: byte pairs or word pieces, with the parts of the pipeline that change what comes out.

use serde_json::Value;

use crate::error::{ImportError, Imported};
use crate::tokenizer::Tokenizer;
use crate::tokenizer::bytes::{Blank, BytePairs, Units};
use crate::tokenizer::split::Pattern;
use crate::tokenizer::words::WordPieces;

/// Tokens of a vocabulary, at most.
const MOST_TOKENS: usize = 1 << 20;

/// Reads a file.
///
/// # Errors
/// If it is no such file, or of a kind that is not known.
pub fn read(file: &str, bytes: &[u8]) -> Imported<Tokenizer> {
    let root: Value = serde_json::from_slice(bytes)
        .map_err(|error| ImportError::new(file, format!("not a tokenizer.json: {error}")))?;
    let model = &root["model"];
    let texts = vocabulary(file, &root)?;
    match kind(model) {
        "BPE" => Ok(Tokenizer::BytePairs(byte_pairs(file, &root, texts)?)),
        "WordPiece" => {
            let lower = root["normalizer"]["lowercase"].as_bool().unwrap_or(true);
            let words = WordPieces::new(texts, lower, &added(&root));
            let lacking = || ImportError::about(file, "model.vocab", "lacks [UNK], [CLS] or [SEP]");
            Ok(Tokenizer::WordPieces(words.ok_or_else(lacking)?))
        }
        other => Err(ImportError::about(file, "model.type", format!("`{other}` is not known"))
            .allowed("BPE, WordPiece")),
    }
}

fn kind(model: &Value) -> &str {
    match model["type"].as_str() {
        Some(kind) => kind,
        None if model["merges"].is_array() => "BPE",
        None => "",
    }
}

/// Texts by id, those that were added later included.
fn vocabulary(file: &str, root: &Value) -> Imported<Vec<String>> {
    let known = root["model"]["vocab"].as_object();
    let known = known.ok_or_else(|| ImportError::about(file, "model.vocab", "is no table of tokens"))?;
    let known = known.iter().map(|(text, id)| (text.as_str(), id));
    let added = root["added_tokens"].as_array().into_iter().flatten();
    let added = added.filter_map(|token| Some((token["content"].as_str()?, &token["id"])));
    let mut texts = Vec::new();
    for (text, id) in known.chain(added) {
        let at = id.as_u64().and_then(|id| usize::try_from(id).ok()).filter(|id| *id < MOST_TOKENS);
        let at = at.ok_or_else(|| {
            let what = format!("has the id {id}");
            ImportError::about(file, format!("token `{text}`"), what)
                .allowed(format!("0 to {}", MOST_TOKENS - 1))
        })?;
        if texts.len() <= at {
            texts.resize(at + 1, String::new());
        }
        texts[at] = text.to_string();
    }
    Ok(texts)
}

/// Tokens that are found in a text as they are written.
fn added(root: &Value) -> Vec<u32> {
    let added = root["added_tokens"].as_array().into_iter().flatten();
    added.filter_map(|token| u32::try_from(token["id"].as_u64()?).ok()).collect()
}

/// Every object within a part of the pipeline that has this type.
fn parts<'v>(value: &'v Value, kind: &str, found: &mut Vec<&'v Value>) {
    if value["type"].as_str() == Some(kind) {
        found.push(value);
    }
    for list in ["pretokenizers", "normalizers", "processors", "decoders"] {
        for inner in value[list].as_array().into_iter().flatten() {
            parts(inner, kind, found);
        }
    }
}

fn all<'v>(value: &'v Value, kind: &str) -> Vec<&'v Value> {
    let mut found = Vec::new();
    parts(value, kind, &mut found);
    found
}

fn byte_pairs(file: &str, root: &Value, texts: Vec<String>) -> Imported<BytePairs> {
    let before = &root["pre_tokenizer"];
    let units = if all(before, "ByteLevel").is_empty() {
        let prepended = !all(&root["normalizer"], "Prepend").is_empty();
        let blank = match all(before, "Metaspace").first().map(|part| part["prepend_scheme"].as_str()) {
            _ if prepended => Blank::Always,
            None | Some(Some("never")) => Blank::Never,
            Some(Some("first")) => Blank::First,
            Some(_) => Blank::Always,
        };
        Units::Characters { blank }
    } else {
        let by_three =
            |part: &&Value| part["pattern"]["Regex"].as_str().is_some_and(|regex| regex.contains("{1,3}"));
        let single = |part: &&Value| part["individual_digits"].as_bool() == Some(true);
        if all(before, "Split").iter().any(by_three) {
            Units::Bytes(Pattern::Llama3)
        } else {
            Units::Bytes(Pattern::Gpt2 { single_digits: all(before, "Digits").iter().any(single) })
        }
    };
    let merges = root["model"]["merges"].as_array();
    let merges = merges.ok_or_else(|| ImportError::about(file, "model.merges", "is no list"))?;
    let pairs = merges.iter().filter_map(|merge| match merge {
        Value::String(text) => text.split_once(' '),
        pair => Some((pair[0].as_str()?, pair[1].as_str()?)),
    });
    let mut tokenizer = BytePairs::new(texts, pairs, units, &added(root));
    tokenizer.begin = begin(root);
    for text in ["</s>", "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "<|im_end|>"] {
        tokenizer.ends.extend(tokenizer.token(text));
    }
    Ok(tokenizer)
}

/// Tokens that the template puts before a single text.
fn begin(root: &Value) -> Vec<u32> {
    let mut tokens = Vec::new();
    for template in all(&root["post_processor"], "TemplateProcessing") {
        for part in template["single"].as_array().into_iter().flatten() {
            let Some(name) = part["SpecialToken"]["id"].as_str() else { break };
            let ids = template["special_tokens"][name]["ids"].as_array().into_iter().flatten();
            tokens.extend(ids.filter_map(|id| u32::try_from(id.as_u64()?).ok()));
        }
    }
    tokens
}
