//! Texts to tokens and back.
//!
//! - [`pieces`]: SentencePiece vocabularies with scores: llama2.c and GGUF files of the Llama 2 family;
//! - [`bytes`]: byte pair encoding: GPT-2, Llama 3, SmolLM2;
//! - [`words`]: WordPiece: BERT;
//! - [`split`]: what byte pair encoding is done within;
//! - [`json`]: Hugging Face's `tokenizer.json`, of any of these kinds.
//!
//! The `tokenizers` crate judges `json` in a test and does not read the files itself: it panics on some that are wrong (decoders, templates
//! without their token), allocates what a file's `padding` asks for, and would double the time to build the importers.

pub mod bytes;
pub mod json;
mod merge;
pub mod pieces;
mod special;
pub mod split;
pub mod words;

/// A tokenizer of any kind.
#[derive(Clone, Debug)]
pub enum Tokenizer {
    /// Pieces with scores, merged by score.
    Pieces(pieces::Pieces),
    /// Pairs merged by rank.
    BytePairs(bytes::BytePairs),
    /// Longest pieces of words.
    WordPieces(words::WordPieces),
}

impl Tokenizer {
    /// The tokens of a text, with whatever the model wants around it.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        match self {
            Tokenizer::Pieces(pieces) => pieces.encode(text),
            Tokenizer::BytePairs(pairs) => pairs.encode(text),
            Tokenizer::WordPieces(words) => words.encode(text),
        }
    }

    /// The text of tokens.
    pub fn decode(&self, tokens: &[u32]) -> String {
        match self {
            Tokenizer::Pieces(pieces) => pieces.decode(tokens),
            Tokenizer::BytePairs(pairs) => pairs.decode(tokens),
            Tokenizer::WordPieces(words) => words.decode(tokens),
        }
    }

    /// Tokens that end a text.
    pub fn ends(&self) -> Vec<u32> {
        match self {
            Tokenizer::Pieces(pieces) => pieces.ends.clone(),
            Tokenizer::BytePairs(pairs) => pairs.ends.clone(),
            Tokenizer::WordPieces(_) => Vec::new(),
        }
    }

    /// How many tokens there are, those without a text among them included.
    pub fn len(&self) -> usize {
        match self {
            Tokenizer::Pieces(pieces) => pieces.len(),
            Tokenizer::BytePairs(pairs) => pairs.texts().len(),
            Tokenizer::WordPieces(words) => words.texts().len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a token is one of the vocabulary.
    pub fn has(&self, token: u32) -> bool {
        let of = |texts: &[String]| texts.get(token as usize).is_some_and(|text| !text.is_empty());
        match self {
            Tokenizer::Pieces(pieces) => (token as usize) < pieces.len(),
            Tokenizer::BytePairs(pairs) => of(pairs.texts()),
            Tokenizer::WordPieces(words) => of(words.texts()),
        }
    }

    /// The same with other tokens that end a text.
    #[must_use]
    pub fn with_ends(mut self, ends: Vec<u32>) -> Tokenizer {
        match &mut self {
            Tokenizer::Pieces(pieces) => pieces.ends = ends,
            Tokenizer::BytePairs(pairs) => pairs.ends = ends,
            Tokenizer::WordPieces(_) => {}
        }
        self
    }
}
