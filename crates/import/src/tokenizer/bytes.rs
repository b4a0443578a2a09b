//! Byte pair encoding: over bytes written as characters (GPT-2, Llama 3, SmolLM2), or over characters with bytes for those that
//! are no token (Llama 2 in Hugging Face's form).

use std::collections::BTreeMap;

use crate::tokenizer::merge::merged;
use crate::tokenizer::special::Specials;
use crate::tokenizer::split::{Pattern, split};

/// How a text becomes first tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Units {
    /// Bytes, each written as one character, in parts by a pattern.
    Bytes(Pattern),
    /// Characters, with a blank written as `▁`; what is no token becomes bytes `<0x0A>`.
    Characters {
        /// What gets a blank in front.
        blank: Blank,
    },
}

/// What gets a blank in front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blank {
    /// Nothing.
    Never,
    /// A text that begins with no special token.
    First,
    /// Each part of a text between special tokens.
    Always,
}

/// A vocabulary with merges.
#[derive(Clone, Debug)]
pub struct BytePairs {
    texts: Vec<String>,
    by_text: BTreeMap<String, u32>,
    /// Pairs of tokens with the rank of their merge and what they become.
    merges: BTreeMap<(u32, u32), (u32, u32)>,
    units: Units,
    special: Specials,
    /// Put in front of every text.
    pub begin: Vec<u32>,
    /// Tokens that end a text.
    pub ends: Vec<u32>,
}

impl BytePairs {
    /// A vocabulary of texts, the pairs that are merged in order, and tokens that stand for themselves.
    pub fn new<'m>(
        texts: Vec<String>,
        merges: impl IntoIterator<Item = (&'m str, &'m str)>,
        units: Units,
        special: &[u32],
    ) -> BytePairs {
        let mut by_text = BTreeMap::new();
        for (at, text) in texts.iter().enumerate() {
            by_text.entry(text.clone()).or_insert(u32::try_from(at).unwrap_or(u32::MAX));
        }
        let mut ranks = BTreeMap::new();
        for (rank, (left, right)) in merges.into_iter().enumerate() {
            let whole = by_text.get(&format!("{left}{right}"));
            if let (Some(left), Some(right), Some(whole)) = (by_text.get(left), by_text.get(right), whole) {
                let rank = u32::try_from(rank).unwrap_or(u32::MAX);
                ranks.entry((*left, *right)).or_insert((rank, *whole));
            }
        }
        let special = Specials::new(&texts, special);
        BytePairs { texts, by_text, merges: ranks, units, special, begin: Vec::new(), ends: Vec::new() }
    }

    /// Texts by token; those that there are none of are empty.
    pub(super) fn texts(&self) -> &[String] {
        &self.texts
    }

    /// The token of a text as it is in the vocabulary.
    pub fn token(&self, text: &str) -> Option<u32> {
        self.by_text.get(text).copied()
    }

    /// The tokens of a text.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let mut tokens = self.begin.clone();
        for (at, (plain, special)) in self.special.parts(text).into_iter().enumerate() {
            if !plain.is_empty() {
                self.plain(plain, at == 0, &mut tokens);
            }
            tokens.extend(special);
        }
        tokens
    }

    fn plain(&self, text: &str, first: bool, tokens: &mut Vec<u32>) {
        match &self.units {
            Units::Bytes(pattern) => {
                for part in split(text, *pattern) {
                    let letters: String = part.bytes().map(letter_of).collect();
                    self.part(&letters, tokens);
                }
            }
            Units::Characters { blank } => {
                let has_blank = *blank == Blank::Always || *blank == Blank::First && first;
                let blank = if has_blank { "▁" } else { "" };
                self.part(&format!("{blank}{}", text.replace(' ', "▁")), tokens);
            }
        }
    }

    fn part(&self, text: &str, tokens: &mut Vec<u32>) {
        let mut units = Vec::new();
        for letter in text.chars() {
            let spelled = letter.to_string();
            match self.by_text.get(&spelled) {
                Some(token) => units.push((*token, spelled.len())),
                None => {
                    let bytes =
                        spelled.bytes().filter_map(|byte| self.by_text.get(&format!("<0x{byte:02X}>")));
                    units.extend(bytes.map(|token| (*token, 1)));
                }
            }
        }
        tokens.extend(merged(&units, |left, right| {
            let (rank, token) = *self.merges.get(&(left.token, right.token))?;
            #[expect(clippy::cast_precision_loss, reason = "merges are fewer than 2^24")]
            Some((-(rank as f32), token))
        }));
    }

    /// The text of tokens.
    pub fn decode(&self, tokens: &[u32]) -> String {
        let mut bytes = Vec::new();
        for token in tokens {
            let Some(text) = self.texts.get(*token as usize) else { continue };
            if self.special.has(*token) {
                if !self.begin.contains(token) {
                    bytes.extend(text.as_bytes());
                }
                continue;
            }
            match &self.units {
                Units::Bytes(_) => bytes.extend(text.chars().filter_map(byte_of)),
                Units::Characters { .. } => match hex_byte(text) {
                    Some(byte) => bytes.push(byte),
                    None => bytes.extend(text.replace('▁', " ").as_bytes()),
                },
            }
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        match &self.units {
            Units::Characters { blank: Blank::First | Blank::Always } => {
                text.strip_prefix(' ').unwrap_or(&text).to_string()
            }
            _ => text,
        }
    }
}

fn hex_byte(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    u8::from_str_radix(digits, 16).ok()
}

/// Whether a byte is written as the character of the same number.
fn is_itself(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF)
}

/// The character that a byte is written as: itself if it is visible, otherwise one from U+0100 on.
fn letter_of(byte: u8) -> char {
    if is_itself(byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|other| !is_itself(*other)).count();
    u32::try_from(before).ok().and_then(|before| char::from_u32(0x100 + before)).unwrap_or(' ')
}

/// The byte that a character stands for.
fn byte_of(letter: char) -> Option<u8> {
    match u8::try_from(u32::from(letter)) {
        Ok(byte) if is_itself(byte) => Some(byte),
        _ => {
            let place = usize::try_from(u32::from(letter).checked_sub(0x100)?).ok()?;
            (0..=u8::MAX).filter(|byte| !is_itself(*byte)).nth(place)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_a_character_of_its_own() {
        for byte in 0..=u8::MAX {
            assert_eq!(byte_of(letter_of(byte)), Some(byte));
        }
        assert_eq!((letter_of(b' '), letter_of(b'\n'), letter_of(b'a')), ('Ġ', 'Ċ', 'a'));
    }
}
