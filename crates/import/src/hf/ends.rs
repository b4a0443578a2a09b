//! Tokens that end a text, as a folder says: `eos_token_id` of `generation_config.json`, else of
//! `config.json`. A number, or a list of numbers.

use serde_json::Value;

use crate::error::{ImportError, ImportResult};
use crate::hf::{FILE, FolderReader};

/// What generation is told, before the model itself.
const GENERATION: &str = "generation_config.json";
const KEY: &str = "eos_token_id";

/// The tokens that end a text, if the folder says them.
///
/// # Errors
/// A file that is no JSON, or a value that is no token of the model.
pub fn ends(folder: &FolderReader<'_>) -> ImportResult<Option<Vec<u32>>> {
    let mut words = None;
    let mut found = None;
    for file in [FILE, GENERATION] {
        let Some(bytes) = folder(file) else { continue };
        let root: Value = serde_json::from_slice(&bytes)
            .map_err(|error| ImportError::new(file, format!("is no JSON: {error}")))?;
        words = words.or(root["vocab_size"].as_u64());
        let named = &root[KEY];
        if !named.is_null() {
            found = Some(listed(file, named, words)?);
        }
    }
    Ok(found)
}

/// A token or a list of them; there are `words` in all, if that is known.
fn listed(file: &str, named: &Value, words: Option<u64>) -> ImportResult<Vec<u32>> {
    let one = std::slice::from_ref(named);
    let all = named.as_array().map_or(one, Vec::as_slice);
    let token = |value: &Value| {
        let token = value.as_u64().filter(|token| words.is_none_or(|words| *token < words));
        token.and_then(|token| u32::try_from(token).ok())
    };
    let tokens: Option<Vec<u32>> = all.iter().map(token).collect();
    tokens.filter(|tokens| !tokens.is_empty()).ok_or_else(|| {
        let what = format!("is {}", super::keys::shortened(named));
        let most = words.map_or(String::new(), |words| format!(" to {}", words.saturating_sub(1)));
        ImportError::about(file, KEY, what)
            .allowed(format!("a whole number from 0{most}, or a list of them"))
            .instead("the tokens that end a text, or leave it out")
    })
}
