//! A tokenizer beside a model of another size. Tokens of a prompt that the model does not have are refused;
//! tokens that it generates and the tokenizer has no text for, as those that pad a table of embeddings, are
//! told of.

use std::collections::BTreeSet;

use tilewright_import::tokenizer::Tokenizer;

use crate::outcome::Outcome;

/// Refuses a prompt with tokens that the model does not have.
pub(super) fn check(prompt: &[u32], vocabulary: u64) -> Result<(), Outcome> {
    let Some(token) = prompt.iter().find(|token| u64::from(**token) >= vocabulary) else { return Ok(()) };
    Err(Outcome::usage(&format!(
        "the tokenizer gives token {token} for the prompt\n  = allowed: below {vocabulary}, the vocabulary \
         of the model\n  \
         = instead: the model's own tokenizer, --tokenizer FILE"
    )))
}

/// Tokens that are named.
const NAMED: usize = 8;

/// A warning if some of the generated tokens cannot be written, else nothing.
pub(super) fn unwritten(tokenizer: &Tokenizer, tokens: &[u64], vocabulary: u64) -> String {
    let has_text = |token: &u64| u32::try_from(*token).is_ok_and(|token| tokenizer.has(token));
    let lost: Vec<u64> = tokens.iter().copied().filter(|token| !has_text(token)).collect();
    if lost.is_empty() {
        return String::new();
    }
    let kinds: BTreeSet<u64> = lost.iter().copied().collect();
    let named: Vec<String> = kinds.iter().take(NAMED).map(u64::to_string).collect();
    let more = if kinds.len() > NAMED { " and others" } else { "" };
    let (lost, all, known) = (lost.len(), tokens.len(), tokenizer.len());
    format!(
        "warning: {lost} of {all} tokens have no text, {}{more}: the tokenizer has {known} of the model's \
         {vocabulary}\n  \
         = instead: the model's own tokenizer, --tokenizer FILE\n",
        named.join(", ")
    )
}
