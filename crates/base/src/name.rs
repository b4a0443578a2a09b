//! Short identifiers without allocation: axis names, size symbols, operand names.

use std::fmt;

/// An ASCII identifier of at most [`Name::MAX_BYTES`] bytes, copied by value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Name {
    bytes: [u8; Name::MAX_BYTES],
    len: u8,
}

impl Name {
    /// Longest identifier.
    pub const MAX_BYTES: usize = 15;

    /// The identifier, if it is ASCII and short enough.
    pub fn new(text: &str) -> Option<Name> {
        let len = u8::try_from(text.len()).ok().filter(|&len| usize::from(len) <= Name::MAX_BYTES)?;
        if !text.is_ascii() {
            return None;
        }
        let mut bytes = [0; Name::MAX_BYTES];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Some(Name { bytes, len })
    }

    /// The identifier of one ASCII character; other characters give `?`.
    pub fn letter(letter: char) -> Name {
        let byte = u8::try_from(letter).ok().filter(u8::is_ascii).unwrap_or(b'?');
        let mut bytes = [0; Name::MAX_BYTES];
        bytes[0] = byte;
        Name { bytes, len: 1 }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or("?")
    }

    /// Equal but for upper and lower case: `e` and `E` name one axis and its size.
    pub fn same_letters(&self, other: &Name) -> bool {
        self.len == other.len && self.bytes.eq_ignore_ascii_case(&other.bytes)
    }

    /// All letters in the other case, as the paper writes sizes beside axes.
    pub fn other_case(&self) -> Name {
        let mut other = *self;
        for byte in &mut other.bytes {
            *byte =
                if byte.is_ascii_lowercase() { byte.to_ascii_uppercase() } else { byte.to_ascii_lowercase() };
        }
        other
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_or_foreign_names_are_not_names() {
        assert!(Name::new("abcdefghijklmno").is_some());
        assert!(Name::new("abcdefghijklmnop").is_none());
        assert!(Name::new("é").is_none());
    }

    #[test]
    fn case_is_ignored_when_asked() {
        let (e, big) = (Name::letter('e'), Name::letter('E'));
        assert_ne!(e, big);
        assert!(e.same_letters(&big));
        assert_eq!(e.other_case(), big);
    }
}
