//! SentencePiece vocabularies: pieces with scores, and a byte for what is no piece.
//!
//! Encoding begins with a token for each character (its bytes, where the character is no piece) and joins
//! again and again the neighbours whose joined text is the piece with the highest score, the leftmost of
//! equals.

use std::collections::BTreeMap;
use tilewright_base::invariant::OrBroken;

use crate::error::{ImportError, ImportResult};
use crate::tokenizer::merge::merged;

/// Pieces of a vocabulary, at most.
const MOST_PIECES: usize = 1 << 22;

/// A vocabulary.
#[derive(Clone, Debug)]
pub struct Vocabulary {
    /// Text of each token; a space is a space.
    texts: Vec<Vec<u8>>,
    scores: Vec<f32>,
    by_text: BTreeMap<Vec<u8>, u32>,
    /// The token of byte 0, if the vocabulary has tokens for bytes.
    first_byte: Option<u32>,
    /// Put in front of every text.
    pub begin: Option<u32>,
    /// Whether a text gets a space in front.
    pub space_in_front: bool,
    /// Tokens that end a text.
    pub ends: Vec<u32>,
}

impl Vocabulary {
    /// A vocabulary of texts and scores; `plain` texts only are found when encoding.
    pub fn new(texts: Vec<Vec<u8>>, scores: Vec<f32>, plain: impl Fn(u32) -> bool) -> Vocabulary {
        let number = |at: usize| u32::try_from(at).or_broken("tokens of a vocabulary are bounded");
        let mut by_text = BTreeMap::new();
        for (at, text) in texts.iter().enumerate().filter(|(at, _)| plain(number(*at))) {
            by_text.entry(text.clone()).or_insert(number(at));
        }
        let first_byte = texts.iter().position(|text| text == b"<0x00>").map(number);
        Vocabulary {
            texts,
            scores,
            by_text,
            first_byte,
            begin: Some(1),
            space_in_front: true,
            ends: vec![1, 2],
        }
    }

    /// Reads the file of llama2.c: the longest length, then score, length and bytes of each token.
    ///
    /// # Errors
    /// If the file is cut off or has lengths that cannot be.
    pub fn llama2c(file: &str, bytes: &[u8]) -> ImportResult<Vocabulary> {
        let word = |at: usize| -> Option<[u8; 4]> { bytes.get(at..at + 4)?.try_into().ok() };
        let cut = |token: usize| ImportError::about(file, format!("token {token}"), "the file is cut off");
        let (mut texts, mut scores) = (Vec::new(), Vec::new());
        let mut at = 4;
        while at < bytes.len() {
            let token = texts.len();
            if token >= MOST_PIECES {
                return Err(
                    ImportError::new(file, "too many tokens").allowed(format!("at most {MOST_PIECES}"))
                );
            }
            let score = word(at).map(f32::from_le_bytes).ok_or_else(|| cut(token))?;
            let length = word(at + 4).map(u32::from_le_bytes).ok_or_else(|| cut(token))?;
            let start = at + 8;
            let end = start.checked_add(length as usize).ok_or_else(|| cut(token))?;
            texts.push(bytes.get(start..end).ok_or_else(|| cut(token))?.to_vec());
            scores.push(score);
            at = end;
        }
        if texts.len() < 3 {
            return Err(ImportError::new(file, "no vocabulary of llama2.c").allowed("at least three tokens"));
        }
        Ok(Vocabulary::new(texts, scores, |token| token > 2))
    }

    /// How many tokens there are.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// The tokens of a text.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let mut tokens: Vec<u32> = self.begin.into_iter().collect();
        if text.is_empty() {
            return tokens;
        }
        let text = if self.space_in_front { format!(" {text}") } else { text.to_string() };
        tokens.extend(self.merged(&text));
        tokens
    }

    /// A token for each character, or for each of its bytes, with the bytes that it takes.
    fn characters(&self, text: &str) -> Vec<(u32, usize)> {
        let mut tokens = Vec::with_capacity(text.len());
        for (start, letter) in text.char_indices() {
            let bytes = &text.as_bytes()[start..start + letter.len_utf8()];
            match (self.by_text.get(bytes), self.first_byte) {
                (Some(token), _) => tokens.push((*token, bytes.len())),
                (None, Some(first)) => tokens.extend(bytes.iter().map(|byte| (first + u32::from(*byte), 1))),
                (None, None) => tokens.push((0, bytes.len())),
            }
        }
        tokens
    }

    fn merged(&self, text: &str) -> Vec<u32> {
        merged(&self.characters(text), |left, right| {
            let token = *self.by_text.get(text.as_bytes().get(left.start..right.end)?)?;
            Some((*self.scores.get(token as usize)?, token))
        })
    }

    /// The text of tokens: one space behind the beginning is dropped, byte tokens are bytes.
    pub fn decode(&self, tokens: &[u32]) -> String {
        let mut bytes = Vec::new();
        let mut first = true;
        for token in tokens {
            if Some(*token) == self.begin || self.ends.contains(token) {
                continue;
            }
            let Some(text) = self.texts.get(*token as usize) else { continue };
            match byte_of(text) {
                Some(byte) => bytes.push(byte),
                None if first && self.space_in_front => bytes.extend(text.strip_prefix(b" ").unwrap_or(text)),
                None => bytes.extend(text),
            }
            first = false;
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// The byte that `<0x0A>` stands for.
fn byte_of(text: &[u8]) -> Option<u8> {
    let digits = text.strip_prefix(b"<0x")?.strip_suffix(b">")?;
    u8::from_str_radix(std::str::from_utf8(digits).ok().filter(|digits| digits.len() == 2)?, 16).ok()
}
