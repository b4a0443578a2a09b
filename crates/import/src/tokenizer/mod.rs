//! Texts to tokens and back.
//!
//! - [`pieces`]: SentencePiece vocabularies with scores: llama2.c and GGUF files of the Llama 2 family.

pub mod pieces;

use crate::error::Imported;

/// A tokenizer of any kind.
#[derive(Clone, Debug)]
pub enum Tokenizer {
    /// Pieces with scores, merged by score.
    Pieces(pieces::Pieces),
}

impl Tokenizer {
    /// The tokens of a text, with whatever the model wants in front.
    pub fn encode(&self, text: &str) -> Imported<Vec<u32>> {
        match self {
            Tokenizer::Pieces(pieces) => Ok(pieces.encode(text)),
        }
    }

    /// The text of tokens.
    pub fn decode(&self, tokens: &[u32]) -> String {
        match self {
            Tokenizer::Pieces(pieces) => pieces.decode(tokens),
        }
    }

    /// Tokens that end a text.
    pub fn ends(&self) -> Vec<u32> {
        match self {
            Tokenizer::Pieces(pieces) => pieces.ends.clone(),
        }
    }
}
