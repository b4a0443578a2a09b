//! WordPiece as BERT uses it: lower case without accents, words and signs, then the longest pieces from the left.

use std::collections::BTreeMap;

use unicode_normalization::UnicodeNormalization;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory as _};

use crate::tokenizer::special::Specials;

/// Characters of a word that is looked up, at most.
const LONGEST_WORD: usize = 100;

/// A vocabulary of word pieces.
#[derive(Clone, Debug)]
pub struct WordPieces {
    texts: Vec<String>,
    by_text: BTreeMap<String, u32>,
    /// Whether letters are made small and lose their accents.
    pub lower_case: bool,
    special: Specials,
    unknown: u32,
    first: u32,
    last: u32,
}

impl WordPieces {
    /// A vocabulary, and tokens that stand for themselves; `None` if it lacks `[UNK]`, `[CLS]` or `[SEP]`.
    pub fn new(texts: Vec<String>, lower_case: bool, special: &[u32]) -> Option<WordPieces> {
        let mut by_text = BTreeMap::new();
        for (at, text) in texts.iter().enumerate() {
            by_text.entry(text.clone()).or_insert(u32::try_from(at).unwrap_or(u32::MAX));
        }
        let (unknown, first, last) = (*by_text.get("[UNK]")?, *by_text.get("[CLS]")?, *by_text.get("[SEP]")?);
        let special = Specials::new(&texts, special);
        Some(WordPieces { texts, by_text, lower_case, special, unknown, first, last })
    }

    /// Texts by token; those that there are none of are empty.
    pub(super) fn texts(&self) -> &[String] {
        &self.texts
    }

    /// The tokens of a text, between `[CLS]` and `[SEP]`.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let mut tokens = vec![self.first];
        for (plain, special) in self.special.parts(text) {
            self.words(plain, &mut tokens);
            tokens.extend(special);
        }
        tokens.push(self.last);
        tokens
    }

    fn words(&self, text: &str, tokens: &mut Vec<u32>) {
        let clean: String = text.chars().filter(|letter| !is_dropped(*letter)).collect();
        let clean = if self.lower_case {
            let bare =
                clean.nfd().filter(|letter| letter.general_category() != GeneralCategory::NonspacingMark);
            bare.flat_map(char::to_lowercase).collect()
        } else {
            clean
        };
        let mut word = String::new();
        for letter in clean.chars() {
            if letter.is_whitespace() || stands_alone(letter) {
                self.word(&std::mem::take(&mut word), tokens);
                if !letter.is_whitespace() {
                    self.word(&letter.to_string(), tokens);
                }
            } else {
                word.push(letter);
            }
        }
        self.word(&word, tokens);
    }

    /// The longest pieces from the left; a word that cannot be pieced together is unknown.
    fn word(&self, word: &str, tokens: &mut Vec<u32>) {
        if word.is_empty() {
            return;
        }
        let mut pieces = Vec::new();
        let mut rest = word;
        while !rest.is_empty() && word.chars().count() <= LONGEST_WORD {
            let prefix = if pieces.is_empty() { "" } else { "##" };
            let ends = rest.char_indices().map(|(at, letter)| at + letter.len_utf8()).collect::<Vec<_>>();
            let found = ends.iter().rev().find_map(|end| {
                self.by_text.get(&format!("{prefix}{}", &rest[..*end])).map(|token| (*token, *end))
            });
            let Some((token, end)) = found else { break };
            pieces.push(token);
            rest = &rest[end..];
        }
        if rest.is_empty() { tokens.extend(pieces) } else { tokens.push(self.unknown) }
    }

    /// The text of tokens, words apart.
    pub fn decode(&self, tokens: &[u32]) -> String {
        let mut text = String::new();
        for token in tokens.iter().filter(|token| ![self.first, self.last].contains(token)) {
            let piece = self.texts.get(*token as usize).map_or("", String::as_str);
            match piece.strip_prefix("##") {
                Some(rest) => text.push_str(rest),
                None => {
                    if !text.is_empty() {
                        text.push(' ');
                    }
                    text.push_str(piece);
                }
            }
        }
        text
    }
}

/// What no word has: characters that control and format.
fn is_dropped(letter: char) -> bool {
    let kind = letter.general_category();
    let other =
        matches!(kind, GeneralCategory::Control | GeneralCategory::Format | GeneralCategory::PrivateUse);
    letter == '\u{FFFD}' || other && !matches!(letter, '\t' | '\n' | '\r')
}

/// Punctuation and the characters of Chinese are words of their own.
fn stands_alone(letter: char) -> bool {
    let code = u32::from(letter);
    let chinese = matches!(code,
        0x4E00..=0x9FFF | 0x3400..=0x4DBF | 0x20000..=0x2A6DF | 0x2A700..=0x2B73F | 0x2B740..=0x2B81F
        | 0x2B820..=0x2CEAF | 0xF900..=0xFAFF | 0x2F800..=0x2FA1F);
    let punctuation =
        letter.is_ascii_punctuation() || letter.general_category_group() == GeneralCategoryGroup::Punctuation;
    chinese || punctuation
}
