//! A tokenizer of the `tokenizers` crate: normalizer, pre-tokenizer, model and decoder, with the tokens
//! around a text.
//!
//! The pipeline is put together from checked parts, because the crate's own reader of files panics on some
//! that are wrong. The tokens around a text are kept here: a prompt of a model that generates gets those in
//! front and not those behind.

use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{
    AddedToken, DecoderWrapper, ModelWrapper, NormalizerWrapper, PreTokenizerWrapper, SplitDelimiterBehavior,
    Tokenizer,
};

use crate::error::{ImportError, ImportResult};

/// Tokens of a vocabulary, at most.
pub(crate) const MAX_TOKENS: usize = 1 << 20;

/// What Llama 3 splits a text by before byte pair encoding.
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// A tokenizer of the library.
#[derive(Clone, Debug)]
pub struct Pipeline {
    inner: Tokenizer,
    /// One more than the largest token.
    len: usize,
    /// Tokens in front of every text.
    pub begin: Vec<u32>,
    /// Tokens behind every text.
    pub behind: Vec<u32>,
    /// Tokens that end a text.
    pub ends: Vec<u32>,
}

/// The parts of a pipeline beside its model.
#[derive(Default)]
pub(crate) struct Stages {
    pub(crate) normalizer: Option<NormalizerWrapper>,
    pub(crate) pre_tokenizer: Option<PreTokenizerWrapper>,
    pub(crate) decoder: Option<DecoderWrapper>,
}

/// How byte-level BPE splits a text before it encodes the parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteSplit {
    /// As GPT-2: contractions, words, numbers, signs and white space.
    Gpt2,
    /// As GPT-2, with every digit apart.
    SingleDigits,
    /// As Llama 3: digits by three, line ends with what is before them.
    Llama3,
}

impl Pipeline {
    /// A model with its stages, and tokens that are found in a text as they are written, each with its
    /// number.
    ///
    /// # Errors
    /// If such a token has another number in the vocabulary.
    pub(crate) fn new(
        file: &str,
        (model, len): (ModelWrapper, usize),
        stages: Stages,
        added: &[(AddedToken, u32)],
    ) -> ImportResult<Pipeline> {
        let mut inner = Tokenizer::new(model);
        inner.with_normalizer(stages.normalizer).map_err(|error| refused(file, "normalizer", &error))?;
        inner.with_pre_tokenizer(stages.pre_tokenizer);
        inner.with_decoder(stages.decoder);
        let tokens: Vec<AddedToken> = added.iter().map(|(token, _)| token.clone()).collect();
        inner.add_tokens(tokens).map_err(|error| refused(file, "added_tokens", &error))?;
        for (token, id) in added {
            let found = inner.token_to_id(&token.content);
            if !token.content.is_empty() && found != Some(*id) {
                let numbered = found.map_or("is not taken".to_string(), |found| format!("is token {found}"));
                return Err(ImportError::about(file, format!("token `{}`", token.content), numbered)
                    .allowed(format!("{id}, as `added_tokens` says")));
            }
        }
        Ok(Pipeline { inner, len, begin: Vec::new(), behind: Vec::new(), ends: Vec::new() })
    }

    /// Byte-level BPE as GPT-2 and its successors use it, from a vocabulary and its merges in order.
    ///
    /// # Errors
    /// If a merge names a token that is not in the vocabulary.
    pub(crate) fn byte_level(
        file: &str,
        texts: &[&str],
        merges: Vec<(String, String)>,
        split: ByteSplit,
        added: &[u32],
    ) -> ImportResult<Pipeline> {
        let numbered = (0..).zip(texts.iter().map(ToString::to_string));
        let vocabulary = vocabulary(numbered);
        check_merges(file, &vocabulary, &merges)?;
        let model = BPE::builder().vocab_and_merges(vocabulary, merges).build();
        let model = model.map_err(|error| refused(file, "merges", &error))?;
        let token = |id: &u32| Some((AddedToken::from(*texts.get(*id as usize)?, true), *id));
        let added: Vec<_> = added.iter().filter_map(token).collect();
        let stages = Stages {
            pre_tokenizer: Some(byte_split(file, split)?),
            decoder: Some(DecoderWrapper::ByteLevel(ByteLevel::default())),
            ..Stages::default()
        };
        Pipeline::new(file, (ModelWrapper::BPE(model), texts.len()), stages, &added)
    }

    /// The token of a text as it is in the vocabulary.
    pub fn token(&self, text: &str) -> Option<u32> {
        self.inner.token_to_id(text)
    }

    /// The tokens of a text, with those around it.
    ///
    /// # Errors
    /// If the model has no token for a part of the text, and none for what is unknown.
    pub fn encode(&self, text: &str) -> ImportResult<Vec<u32>> {
        let found =
            self.inner.encode_fast(text, false).map_err(|error| refused("tokenizer", "text", &error))?;
        Ok([&self.begin[..], found.get_ids(), &self.behind[..]].concat())
    }

    /// The text of tokens, without those that stand around every text.
    pub fn decode(&self, tokens: &[u32]) -> String {
        let around = |token: &u32| self.begin.contains(token) || self.behind.contains(token);
        let tokens: Vec<u32> = tokens.iter().copied().filter(|token| !around(token)).collect();
        // Decoders of the kinds that are taken give a text for any tokens.
        self.inner.decode(&tokens, false).unwrap_or_default()
    }

    /// One more than the largest token.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether a token has a text.
    pub fn has(&self, token: u32) -> bool {
        self.inner.id_to_token(token).is_some_and(|text| !text.is_empty())
    }
}

/// Refuses a merge of what are no tokens, or into what is none: the library panics on some of these.
pub(crate) fn check_merges(file: &str, tokens: &Vocab, merges: &[(String, String)]) -> ImportResult<()> {
    let is_token = |text: &str| tokens.contains_key(text);
    for (left, right) in merges {
        let joined = format!("{left}{right}");
        let Some(other) = [left, right, &joined].into_iter().find(|text| !is_token(text)) else { continue };
        let what = format!("`{other}` is no token of the vocabulary");
        return Err(ImportError::about(file, format!("merge `{left} {right}`"), what)
            .allowed("two tokens whose joined text is a token"));
    }
    Ok(())
}

/// A vocabulary of the library; the first of two tokens with the same text is found.
pub(crate) fn vocabulary(tokens: impl Iterator<Item = (u32, String)>) -> Vocab {
    let mut vocabulary = Vocab::default();
    for (id, text) in tokens {
        vocabulary.entry(text).or_insert(id);
    }
    vocabulary
}

/// What the library says is wrong with a part of a file.
pub(crate) fn refused(file: &str, part: &str, error: &dyn std::fmt::Display) -> Box<ImportError> {
    ImportError::about(file, part, error.to_string())
}

fn byte_split(file: &str, split: ByteSplit) -> ImportResult<PreTokenizerWrapper> {
    let bytes = |with_pattern: bool| {
        PreTokenizerWrapper::ByteLevel(ByteLevel::default().add_prefix_space(false).use_regex(with_pattern))
    };
    let parts = match split {
        ByteSplit::Gpt2 => return Ok(bytes(true)),
        ByteSplit::SingleDigits => vec![PreTokenizerWrapper::Digits(Digits::new(true)), bytes(true)],
        ByteSplit::Llama3 => {
            let pattern = SplitPattern::Regex(LLAMA3.to_string());
            let pattern = Split::new(pattern, SplitDelimiterBehavior::Isolated, false);
            let pattern = pattern.map_err(|error| refused(file, "pre_tokenizer", &error))?;
            vec![PreTokenizerWrapper::Split(pattern), bytes(false)]
        }
    };
    Ok(PreTokenizerWrapper::Sequence(Sequence::new(parts)))
}

/// A model of word pieces; `unknown` stands for words that cannot be pieced together.
pub(crate) fn word_pieces(
    file: &str,
    vocabulary: Vocab,
    unknown: &str,
    prefix: &str,
) -> ImportResult<WordPiece> {
    let model = WordPiece::builder()
        .vocab(vocabulary)
        .unk_token(unknown.to_string())
        .continuing_subword_prefix(prefix.to_string());
    model.build().map_err(|error| refused(file, "model", &error))
}
