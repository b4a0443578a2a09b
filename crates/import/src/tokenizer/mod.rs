//! Texts to tokens and back.
//!
//! - [`pipeline`]: tokenizers of the `tokenizers` crate: byte-level BPE, BPE over characters, WordPiece,
//!   Unigram;
//! - [`json`]: Hugging Face's `tokenizer.json` to such a pipeline;
//! - [`vocabulary`]: our own, for what the crate has no model of: SentencePiece vocabularies with scores and
//!   without merges, as in llama2.c's `tokenizer.bin` and GGUF files of the Llama 2 family. Any two
//!   neighbours whose joined text is a piece may be joined, the highest score first and the leftmost of
//!   equals. A list of merges orders the pairs of equal score by rank instead of by place, so a vocabulary
//!   turned into merges gives other tokens (`aaaa` with pieces `aa` and `aaa`).

pub mod json;
mod merge;
pub mod pipeline;
pub mod vocabulary;

use crate::error::ImportResult;

/// A tokenizer of any kind.
#[derive(Clone, Debug)]
pub enum Tokenizer {
    /// Pieces with scores, merged by score.
    Vocabulary(vocabulary::Vocabulary),
    /// A tokenizer of the library.
    Pipeline(Box<pipeline::Pipeline>),
}

impl Tokenizer {
    /// The tokens of a text, with whatever the model wants around it.
    ///
    /// # Errors
    /// If the vocabulary has no token for a part of the text, and none for what is unknown.
    pub fn encode(&self, text: &str) -> ImportResult<Vec<u32>> {
        match self {
            Tokenizer::Vocabulary(pieces) => Ok(pieces.encode(text)),
            Tokenizer::Pipeline(pipeline) => pipeline.encode(text),
        }
    }

    /// The text of tokens.
    pub fn decode(&self, tokens: &[u32]) -> String {
        match self {
            Tokenizer::Vocabulary(pieces) => pieces.decode(tokens),
            Tokenizer::Pipeline(pipeline) => pipeline.decode(tokens),
        }
    }

    /// Tokens that end a text.
    pub fn ends(&self) -> Vec<u32> {
        match self {
            Tokenizer::Vocabulary(pieces) => pieces.ends.clone(),
            Tokenizer::Pipeline(pipeline) => pipeline.ends.clone(),
        }
    }

    /// How many tokens there are, those without a text among them included.
    pub fn len(&self) -> usize {
        match self {
            Tokenizer::Vocabulary(pieces) => pieces.len(),
            Tokenizer::Pipeline(pipeline) => pipeline.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a token is one of the vocabulary.
    pub fn has(&self, token: u32) -> bool {
        match self {
            Tokenizer::Vocabulary(pieces) => (token as usize) < pieces.len(),
            Tokenizer::Pipeline(pipeline) => pipeline.has(token),
        }
    }

    /// The same with other tokens that end a text.
    #[must_use]
    pub fn with_ends(mut self, ends: Vec<u32>) -> Tokenizer {
        match &mut self {
            Tokenizer::Vocabulary(pieces) => pieces.ends = ends,
            Tokenizer::Pipeline(pipeline) => pipeline.ends = ends,
        }
        self
    }
}
