//! Short identifiers that fit a machine word: axis names and size symbols.

use std::fmt;
use std::num::NonZeroU64;

/// A word of 1 to [`Name::MAX_LETTERS`] ASCII letters, copied and compared as one number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    /// Six bits a letter, the first lowest: 1 to 26, and 32 more for a large letter.
    letters: NonZeroU64,
}

const LETTER_BITS: u32 = 6;
const LARGE: u64 = 1 << 5;

impl Name {
    /// Longest word.
    pub const MAX_LETTERS: usize = 10;

    /// The bits that tell large letters from small ones.
    const CASE: u64 = {
        let mut bits = 0;
        let mut letter = 0;
        while letter < Name::MAX_LETTERS {
            bits = bits << LETTER_BITS | LARGE;
            letter += 1;
        }
        bits
    };

    /// The word, if it has letters only and is short enough.
    pub fn new(text: &str) -> Option<Name> {
        if text.len() > Name::MAX_LETTERS {
            return None;
        }
        let mut letters = 0;
        for letter in text.bytes().rev() {
            letters = letters << LETTER_BITS | code(letter)?;
        }
        NonZeroU64::new(letters).map(|letters| Name { letters })
    }

    /// The word of one letter; `None` for any other byte.
    #[inline]
    pub fn letter(letter: u8) -> Option<Name> {
        NonZeroU64::new(code(letter)?).map(|letters| Name { letters })
    }

    /// How many letters it has.
    pub fn len(&self) -> usize {
        (u64::BITS - self.letters.leading_zeros()).div_ceil(LETTER_BITS) as usize
    }

    /// Never: a name has a letter.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Equal but for upper and lower case: `e` and `E` name one axis and its size.
    #[inline]
    pub fn same_letters(&self, other: &Name) -> bool {
        self.letters.get() | Name::CASE == other.letters.get() | Name::CASE
    }
}

#[inline]
fn code(letter: u8) -> Option<u64> {
    match letter {
        b'a'..=b'z' => Some(u64::from(letter - b'a') + 1),
        b'A'..=b'Z' => Some((u64::from(letter - b'A') + 1) | LARGE),
        _ => None,
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::with_capacity(Name::MAX_LETTERS);
        let mut rest = self.letters.get();
        while rest > 0 {
            let first = if rest & LARGE == 0 { b'a' } else { b'A' };
            let place = u8::try_from(rest & (LARGE - 1)).unwrap_or(1);
            text.push(char::from(first - 1 + place));
            rest >>= LETTER_BITS;
        }
        f.pad(&text)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{self}`")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_short_words_of_letters_are_names() {
        for text in ["a", "Z", "headDim", "abcdefghij", "ZZZZZZZZZZ"] {
            let name = Name::new(text).unwrap();
            assert_eq!((name.to_string().as_str(), name.len()), (text, text.len()));
        }
        for text in ["", "abcdefghijk", "é", "a1", "a b"] {
            assert_eq!(Name::new(text), None, "{text}");
        }
        assert_eq!(Name::letter(b'q'), Name::new("q"));
    }

    #[test]
    fn case_is_ignored_when_asked() {
        let name = |text| Name::new(text).unwrap();
        assert_ne!(name("e"), name("E"));
        assert!(name("e").same_letters(&name("E")));
        assert!(name("headDim").same_letters(&name("HEADdIM")));
        assert!(!name("e").same_letters(&name("ee")));
        assert!(!name("e").same_letters(&name("f")));
    }
}
