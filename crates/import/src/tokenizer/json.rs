//! Hugging Face's `tokenizer.json` to a pipeline of the `tokenizers` crate.
//!
//! Models are BPE, WordPiece and Unigram. What the crate would panic on, or take memory for, does not reach
//! it: numbers of tokens are bounded, stages are of known kinds, and padding, truncation and dropout, which
//! are a model's or a training's, are left out.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::Value;
use tokenizers::models::bpe::BPE;
use tokenizers::models::unigram::Unigram;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{AddedToken, DecoderWrapper, ModelWrapper};

use crate::error::{ImportError, ImportResult};
use crate::tokenizer::Tokenizer;
use crate::tokenizer::pipeline::{
    MAX_TOKENS, Pipeline, Stages, check_merges, refused, vocabulary, word_pieces,
};

/// Normalizers that are taken.
const NORMALIZERS: [&str; 11] = [
    "Sequence",
    "BertNormalizer",
    "Prepend",
    "Replace",
    "Strip",
    "StripAccents",
    "Lowercase",
    "NFC",
    "NFD",
    "NFKC",
    "NFKD",
];
/// Pre-tokenizers that are taken.
const PRE_TOKENIZERS: [&str; 9] = [
    "Sequence",
    "ByteLevel",
    "Metaspace",
    "Split",
    "Digits",
    "BertPreTokenizer",
    "Whitespace",
    "WhitespaceSplit",
    "Punctuation",
];
/// Decoders that are taken.
const DECODERS: [&str; 8] =
    ["Sequence", "ByteLevel", "Metaspace", "WordPiece", "Replace", "ByteFallback", "Fuse", "Strip"];

/// Tokens that end a text, by their usual names.
const ENDS: [&str; 5] = ["</s>", "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "<|im_end|>"];

/// Reads a file.
///
/// # Errors
/// If it is no such file, or has a part of a kind that is not known.
pub fn read(file: &str, bytes: &[u8]) -> ImportResult<Tokenizer> {
    let root: Value = serde_json::from_slice(bytes)
        .map_err(|error| ImportError::new(file, format!("not a tokenizer.json: {error}")))?;
    let model = model(file, &root["model"])?;
    let (added, last) = added(file, &root)?;
    let len = model.1.max(last);
    let mut pipeline = Pipeline::new(file, (model.0, len), stages(file, &root)?, &added)?;
    let begin = begin(file, &root["post_processor"], "post_processor")?;
    if kind(&root["model"]) == "WordPiece" {
        let lacking = || ImportError::about(file, "model.vocab", "lacks [CLS] or [SEP]");
        pipeline.begin = vec![pipeline.token("[CLS]").ok_or_else(lacking)?];
        pipeline.behind = vec![pipeline.token("[SEP]").ok_or_else(lacking)?];
    } else {
        pipeline.begin = begin;
        pipeline.ends = ENDS.iter().filter_map(|text| pipeline.token(text)).collect();
    }
    Ok(Tokenizer::Pipeline(Box::new(pipeline)))
}

fn kind(model: &Value) -> &str {
    match model["type"].as_str() {
        Some(kind) => kind,
        None if model["merges"].is_array() => "BPE",
        None => "",
    }
}

/// The model, and one more than its largest token.
fn model(file: &str, model: &Value) -> ImportResult<(ModelWrapper, usize)> {
    match kind(model) {
        "BPE" => {
            let (tokens, len) = tokens(file, model)?;
            Ok((ModelWrapper::BPE(byte_pairs(file, model, tokens)?), len))
        }
        "WordPiece" => {
            let (tokens, len) = tokens(file, model)?;
            let unknown = model["unk_token"].as_str().unwrap_or("[UNK]");
            if !tokens.iter().any(|(_, text)| text == unknown) {
                return Err(ImportError::about(file, "model.vocab", format!("lacks {unknown}")));
            }
            let prefix = model["continuing_subword_prefix"].as_str().unwrap_or("##");
            let model = word_pieces(file, vocabulary(tokens.into_iter()), unknown, prefix)?;
            Ok((ModelWrapper::WordPiece(model), len))
        }
        "Unigram" => unigram(file, model),
        other => Err(ImportError::about(file, "model.type", format!("`{other}` is not known"))
            .allowed("BPE, WordPiece, Unigram")),
    }
}

/// Tokens with their texts, and one more than the largest.
fn tokens(file: &str, model: &Value) -> ImportResult<(Vec<(u32, String)>, usize)> {
    let known = model["vocab"].as_object();
    let known = known.ok_or_else(|| ImportError::about(file, "model.vocab", "is no table of tokens"))?;
    let (mut tokens, mut len) = (Vec::with_capacity(known.len()), 0);
    let mut taken: BTreeMap<u32, &str> = BTreeMap::new();
    for (text, id) in known {
        let id = number(file, text, id)?;
        if let Some(other) = taken.insert(id, text) {
            let what = format!("has the id {id}, as `{other}`");
            return Err(ImportError::about(file, format!("token `{text}`"), what)
                .allowed("an id of its own for each token"));
        }
        len = len.max(id as usize + 1);
        tokens.push((id, text.clone()));
    }
    Ok((tokens, len))
}

fn number(file: &str, text: &str, id: &Value) -> ImportResult<u32> {
    let taken = id.as_u64().and_then(|id| u32::try_from(id).ok()).filter(|id| (*id as usize) < MAX_TOKENS);
    taken.ok_or_else(|| {
        ImportError::about(file, format!("token `{text}`"), format!("has the id {id}"))
            .allowed(format!("0 to {}", MAX_TOKENS - 1))
    })
}

fn byte_pairs(file: &str, model: &Value, tokens: Vec<(u32, String)>) -> ImportResult<BPE> {
    if model["continuing_subword_prefix"].as_str().is_some_and(|prefix| !prefix.is_empty()) {
        return Err(
            ImportError::about(file, "model.continuing_subword_prefix", "is not known").allowed("null")
        );
    }
    let merges = model["merges"].as_array();
    let merges = merges.ok_or_else(|| ImportError::about(file, "model.merges", "is no list"))?;
    let pair = |merge: &Value| match merge {
        Value::String(text) => {
            text.split_once(' ').map(|(left, right)| (left.to_string(), right.to_string()))
        }
        pair => Some((pair[0].as_str()?.to_string(), pair[1].as_str()?.to_string())),
    };
    let pair = |(at, merge): (usize, &Value)| {
        let what = format!("is {merge}");
        pair(merge).ok_or_else(|| {
            ImportError::about(file, format!("model.merges[{at}]"), what).allowed("two tokens")
        })
    };
    let merges = merges.iter().enumerate().map(pair).collect::<ImportResult<Vec<_>>>()?;
    let tokens = vocabulary(tokens.into_iter());
    check_merges(file, &tokens, &merges)?;
    let flag = |key: &str| model[key].as_bool().unwrap_or(false);
    let mut builder = BPE::builder()
        .vocab_and_merges(tokens, merges)
        .fuse_unk(flag("fuse_unk"))
        .byte_fallback(flag("byte_fallback"))
        .ignore_merges(flag("ignore_merges"));
    if let Some(unknown) = model["unk_token"].as_str() {
        builder = builder.unk_token(unknown.to_string());
    }
    if let Some(suffix) = model["end_of_word_suffix"].as_str() {
        builder = builder.end_of_word_suffix(suffix.to_string());
    }
    builder.build().map_err(|error| refused(file, "model", &error))
}

/// Pieces with the logarithm of their probability; what is no piece is the unknown one.
fn unigram(file: &str, model: &Value) -> ImportResult<(ModelWrapper, usize)> {
    let pieces = model["vocab"].as_array().filter(|pieces| (1..MAX_TOKENS).contains(&pieces.len()));
    let pieces = pieces.ok_or_else(|| {
        ImportError::about(file, "model.vocab", "is no list of pieces").allowed(format!("1 to {MAX_TOKENS}"))
    })?;
    let piece = |pair: &Value| {
        let text = pair[0].as_str().filter(|text| !text.is_empty())?;
        Some((text.to_string(), pair[1].as_f64().filter(|score| score.is_finite())?))
    };
    let pieces: Option<Vec<(String, f64)>> = pieces.iter().map(piece).collect();
    let pieces = pieces.ok_or_else(|| {
        ImportError::about(file, "model.vocab", "has an entry that is no text with a finite score")
    })?;
    let unknown = model["unk_id"].as_u64().and_then(|id| usize::try_from(id).ok());
    let unknown = unknown.filter(|id| *id < pieces.len()).ok_or_else(|| {
        ImportError::about(file, "model.unk_id", "is no piece").allowed(format!("0 to {}", pieces.len() - 1))
    })?;
    let len = pieces.len();
    let model = Unigram::from(pieces, Some(unknown), model["byte_fallback"].as_bool().unwrap_or(false));
    Ok((ModelWrapper::Unigram(model.map_err(|error| refused(file, "model", &error))?), len))
}

/// Tokens that are found in a text as they are written, with their numbers, and one more than the largest of
/// these.
fn added(file: &str, root: &Value) -> ImportResult<(Vec<(AddedToken, u32)>, usize)> {
    let (mut added, mut len) = (Vec::new(), 0);
    for token in root["added_tokens"].as_array().into_iter().flatten() {
        let Some(content) = token["content"].as_str() else { continue };
        let id = number(file, content, &token["id"])?;
        let flag = |key: &str, default: bool| token[key].as_bool().unwrap_or(default);
        let special = flag("special", true);
        let taken = AddedToken::from(content, special)
            .single_word(flag("single_word", false))
            .lstrip(flag("lstrip", false))
            .rstrip(flag("rstrip", false))
            .normalized(flag("normalized", !special));
        added.push((taken, id));
        len = len.max(id as usize + 1);
    }
    added.sort_by_key(|(_, id)| *id);
    Ok((added, len))
}

fn stages(file: &str, root: &Value) -> ImportResult<Stages> {
    let pre_tokenizer = stage(file, root, "pre_tokenizer", "pretokenizers", &PRE_TOKENIZERS)?;
    let decoder = stage(file, root, "decoder", "decoders", &DECODERS)?;
    // A file without a decoder is read by what its model splits a text into.
    let bytes = || DecoderWrapper::ByteLevel(ByteLevel::default());
    let decoder = decoder.or_else(|| has(&root["pre_tokenizer"], "ByteLevel").then(bytes));
    Ok(Stages {
        normalizer: stage(file, root, "normalizer", "normalizers", &NORMALIZERS)?,
        pre_tokenizer,
        decoder,
    })
}

/// Whether a stage is of this kind, or one of those in it.
fn has(stage: &Value, kind: &str) -> bool {
    stage["type"].as_str() == Some(kind)
        || stage["pretokenizers"].as_array().into_iter().flatten().any(|inner| has(inner, kind))
}

/// A stage of the pipeline, if there is one, of kinds that are taken.
fn stage<T: DeserializeOwned>(
    file: &str,
    root: &Value,
    name: &str,
    inner: &str,
    taken: &[&str],
) -> ImportResult<Option<T>> {
    let value = &root[name];
    if value.is_null() {
        return Ok(None);
    }
    known(file, value, name, inner, taken)?;
    serde_json::from_value(value.clone()).map(Some).map_err(|error| refused(file, name, &error))
}

fn known(file: &str, value: &Value, name: &str, inner: &str, taken: &[&str]) -> ImportResult<()> {
    let kind = value["type"].as_str().unwrap_or("");
    if !taken.contains(&kind) {
        return Err(ImportError::about(file, format!("{name}.type"), format!("`{kind}` is not known"))
            .allowed(taken.join(", ")));
    }
    let pattern = &value["pattern"];
    if ["String", "Regex"].iter().any(|form| pattern[form].as_str().is_some_and(str::is_empty)) {
        return Err(ImportError::about(file, format!("{name}.pattern"), "is empty"));
    }
    for stage in value[inner].as_array().into_iter().flatten() {
        known(file, stage, name, inner, taken)?;
    }
    Ok(())
}

/// Tokens that a post-processor puts before a single text. Those behind it are left out: a text that is
/// generated goes on there.
fn begin(file: &str, processor: &Value, name: &str) -> ImportResult<Vec<u32>> {
    if processor.is_null() {
        return Ok(Vec::new());
    }
    match processor["type"].as_str().unwrap_or("") {
        // What it changes are places in the text.
        "ByteLevel" => Ok(Vec::new()),
        "Sequence" => {
            let inner = processor["processors"].as_array().into_iter().flatten();
            let inner = inner.map(|inner| begin(file, inner, name)).collect::<ImportResult<Vec<_>>>()?;
            Ok(inner.concat())
        }
        "BertProcessing" | "RobertaProcessing" => {
            let text = processor["cls"][0].as_str().unwrap_or("cls");
            Ok(vec![number(file, text, &processor["cls"][1])?])
        }
        "TemplateProcessing" => template_begin(file, processor, name),
        other => Err(ImportError::about(file, format!("{name}.type"), format!("`{other}` is not known"))
            .allowed(POST_PROCESSORS)),
    }
}

/// Tokens in front of the first text of a template.
fn template_begin(file: &str, template: &Value, name: &str) -> ImportResult<Vec<u32>> {
    let mut tokens = Vec::new();
    for part in template["single"].as_array().into_iter().flatten() {
        let Some(special) = part["SpecialToken"]["id"].as_str() else { break };
        let ids = template["special_tokens"][special]["ids"].as_array().ok_or_else(|| {
            ImportError::about(file, format!("{name}.special_tokens"), format!("lacks `{special}`"))
                .allowed("every token that `single` names")
        })?;
        for id in ids {
            tokens.push(number(file, special, id)?);
        }
    }
    Ok(tokens)
}

/// Post-processors that are taken.
const POST_PROCESSORS: &str =
    "ByteLevel, Sequence, TemplateProcessing, BertProcessing, RobertaProcessing, or null";
