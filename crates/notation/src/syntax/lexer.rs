//! Characters to tokens: ASCII, the Unicode signs people paste, and the paper's TeX.
//!
//! All three spellings give the same tokens, so the parser knows one language. White space, `$`,
//! and TeX spacing (`\,`, `\;`, `~`, `\quad`) separate tokens and are dropped. Line ends are
//! tokens, because a statement of the file form ends there; a comment runs from `//` or `#!` to
//! the end of its line (a bare `#` is the padding sign).

use tilewright_base::{SourceId, Span};

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Word,
    Number(u64),
    /// A number above `u64::MAX`.
    HugeNumber,
    /// A run of Unicode superscripts, such as `²` or `¹⁶`.
    Superscript,
    /// A run of Unicode subscript digits, such as `₈`.
    Subscript(u64),
    BracketOpen,
    BracketClose,
    BraceOpen,
    BraceClose,
    ParenOpen,
    ParenClose,
    Bar,
    Comma,
    Semicolon,
    LineEnd,
    Arrow,
    Caret,
    Underscore,
    Hash,
    At,
    Equals,
    AtMost,
    DotDot,
    Plus,
    Minus,
    Star,
    Slash,
    /// `\frac`
    Fraction,
    /// `⌈` or `\lceil`
    CeilOpen,
    /// `⌉` or `\rceil`
    CeilClose,
    End,
    /// Anything else; the span says what.
    Unknown,
}

/// A token and where it stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) span: Span,
}

/// Produces tokens one at a time.
pub(crate) struct Lexer<'a> {
    text: &'a str,
    source: SourceId,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a str, source: SourceId) -> Lexer<'a> {
        Lexer { text, source, at: 0 }
    }

    pub(crate) fn next(&mut self) -> Token {
        self.skip_blanks();
        let start = self.at;
        let kind = self.kind();
        Token { kind, span: self.span(start) }
    }

    fn span(&self, start: usize) -> Span {
        let clamp = |byte: usize| u32::try_from(byte).unwrap_or(u32::MAX);
        Span { source: self.source, start: clamp(start), end: clamp(self.at) }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_blanks(&mut self) {
        const TEX_SPACES: [&str; 10] =
            ["\\,", "\\;", "\\:", "\\!", "\\ ", "\\(", "\\)", "\\qquad", "\\quad", "\\limits"];
        loop {
            let bytes = self.rest().as_bytes();
            match bytes.first() {
                Some(b' ' | b'\t' | b'\r' | b'$' | b'~') => self.at += 1,
                Some(b'/') if bytes.get(1) == Some(&b'/') => self.skip_comment(),
                Some(b'#') if bytes.get(1) == Some(&b'!') => self.skip_comment(),
                Some(b'\\') => match TEX_SPACES.iter().find(|space| self.rest().starts_with(**space)) {
                    Some(space) => self.at += space.len(),
                    None => return,
                },
                Some(0xC2 | 0xE2) => {
                    let Some(blank) = self.rest().chars().next().filter(|c| c.is_whitespace()) else {
                        return;
                    };
                    self.at += blank.len_utf8();
                }
                _ => return,
            }
        }
    }

    fn skip_comment(&mut self) {
        let rest = self.rest();
        self.at += rest.find('\n').unwrap_or(rest.len());
    }

    fn kind(&mut self) -> Kind {
        let Some(&first) = self.rest().as_bytes().first() else { return Kind::End };
        match first {
            b'A'..=b'Z' | b'a'..=b'z' => self.word(),
            b'0'..=b'9' => self.number(),
            b'\\' => self.tex(),
            b'-' if self.rest().starts_with("->") => self.take(2, Kind::Arrow),
            b'.' if self.rest().starts_with("..") => self.take(2, Kind::DotDot),
            b'<' if self.rest().starts_with("<=") => self.take(2, Kind::AtMost),
            0x80.. => self.unicode(),
            _ => self.take(1, sign(first)),
        }
    }

    fn take(&mut self, bytes: usize, kind: Kind) -> Kind {
        self.at += bytes;
        kind
    }

    fn word(&mut self) -> Kind {
        let letters = self.rest().bytes().take_while(u8::is_ascii_alphabetic).count();
        self.take(letters, Kind::Word)
    }

    fn number(&mut self) -> Kind {
        let digits = self.rest().bytes().take_while(|b| b.is_ascii_digit() || *b == b'_').count();
        // A trailing `_` belongs to what follows.
        let text = self.rest()[..digits].trim_end_matches('_');
        let mut value = Some(0_u64);
        for digit in text.bytes().filter(u8::is_ascii_digit) {
            value = value.and_then(|v| v.checked_mul(10)?.checked_add(u64::from(digit - b'0')));
        }
        self.take(text.len(), value.map_or(Kind::HugeNumber, Kind::Number))
    }

    fn tex(&mut self) -> Kind {
        const COMMANDS: [(&str, Kind); 14] = [
            ("\\mid", Kind::Bar),
            ("\\vert", Kind::Bar),
            ("\\rightarrow", Kind::Arrow),
            ("\\to", Kind::Arrow),
            ("\\cdot", Kind::Star),
            ("\\times", Kind::Star),
            ("\\frac", Kind::Fraction),
            ("\\dfrac", Kind::Fraction),
            ("\\lceil", Kind::CeilOpen),
            ("\\rceil", Kind::CeilClose),
            ("\\_", Kind::Underscore),
            ("\\#", Kind::Hash),
            ("\\{", Kind::BraceOpen),
            ("\\}", Kind::BraceClose),
        ];
        let letters = self.rest()[1..].bytes().take_while(u8::is_ascii_alphabetic).count();
        let next_char = self.rest()[1..].chars().next().map_or(0, char::len_utf8);
        let length = 1 + if letters > 0 { letters } else { next_char };
        let word = &self.rest()[..length];
        let kind = COMMANDS.iter().find(|(name, _)| *name == word).map_or(Kind::Unknown, |(_, kind)| *kind);
        self.take(length, kind)
    }

    fn unicode(&mut self) -> Kind {
        let Some(first) = self.rest().chars().next() else { return Kind::End };
        if plain_of_superscript(first).is_some() {
            let length: usize = self
                .rest()
                .chars()
                .take_while(|c| plain_of_superscript(*c).is_some() || *c == '⁄')
                .map(char::len_utf8)
                .sum();
            return self.take(length, Kind::Superscript);
        }
        if digit_of_subscript(first).is_some() {
            return self.subscript();
        }
        let kind = match first {
            '→' | '⟶' | '⇒' => Kind::Arrow,
            '∣' | '│' | '｜' | '❘' => Kind::Bar,
            '×' | '·' | '⋅' | '∗' => Kind::Star,
            '⁄' | '∕' | '÷' => Kind::Slash,
            '−' | '–' => Kind::Minus,
            '≤' => Kind::AtMost,
            '…' | '‥' => Kind::DotDot,
            '⌈' => Kind::CeilOpen,
            '⌉' => Kind::CeilClose,
            _ => Kind::Unknown,
        };
        self.take(first.len_utf8(), kind)
    }

    fn subscript(&mut self) -> Kind {
        let mut value = Some(0_u64);
        while let Some((c, digit)) =
            self.rest().chars().next().and_then(|c| Some((c, digit_of_subscript(c)?)))
        {
            value = value.and_then(|v| v.checked_mul(10)?.checked_add(digit));
            self.at += c.len_utf8();
        }
        value.map_or(Kind::HugeNumber, Kind::Subscript)
    }
}

fn sign(byte: u8) -> Kind {
    match byte {
        b'[' => Kind::BracketOpen,
        b']' => Kind::BracketClose,
        b'{' => Kind::BraceOpen,
        b'}' => Kind::BraceClose,
        b'(' => Kind::ParenOpen,
        b')' => Kind::ParenClose,
        b'|' => Kind::Bar,
        b',' => Kind::Comma,
        b';' => Kind::Semicolon,
        b'\n' => Kind::LineEnd,
        b'^' => Kind::Caret,
        b'_' => Kind::Underscore,
        b'#' => Kind::Hash,
        b'@' => Kind::At,
        b'=' => Kind::Equals,
        b'+' => Kind::Plus,
        b'-' => Kind::Minus,
        b'*' => Kind::Star,
        b'/' => Kind::Slash,
        _ => Kind::Unknown,
    }
}

/// The ASCII character behind a Unicode superscript.
pub(crate) fn plain_of_superscript(c: char) -> Option<char> {
    const FROM: &str = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻᴬᴮᴰᴱᴳᴴᴵᴶᴷᴸᴹᴺᴼᴾᴿᵀᵁⱽᵂ";
    const TO: &str = "0123456789+-()abcdefghijklmnoprstuvwxyzABDEGHIJKLMNOPRTUVW";
    FROM.chars().zip(TO.chars()).find(|(from, _)| *from == c).map(|(_, to)| to)
}

fn digit_of_subscript(c: char) -> Option<u64> {
    matches!(c, '₀'..='₉').then(|| u64::from(u32::from(c) - u32::from('₀')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Kind> {
        let mut lexer = Lexer::new(text, SourceId(0));
        std::iter::from_fn(|| Some(lexer.next().kind).filter(|kind| *kind != Kind::End)).collect()
    }

    #[test]
    fn tex_and_ascii_give_the_same_tokens() {
        assert_eq!(kinds(r"$e^{E/2}[2] \mid b^{1}[2]\,l^1[4]$"), kinds("e^{E/2}[2] | b^{1}[2] l^1[4]"));
        assert_eq!(kinds(r"ble, ef \rightarrow blf"), kinds("ble,ef->blf"));
        assert_eq!(kinds("ble, ef → blf"), kinds("ble,ef->blf"));
    }

    #[test]
    fn numbers_past_64_bits_are_marked() {
        assert_eq!(kinds("18446744073709551615"), vec![Kind::Number(u64::MAX)]);
        assert_eq!(kinds("18446744073709551616"), vec![Kind::HugeNumber]);
        assert_eq!(kinds("65_536"), vec![Kind::Number(65536)]);
    }

    #[test]
    fn superscripts_have_one_plain_character_each() {
        for c in "⁰¹²³⁴⁵⁶⁷⁸⁹ᴱˢ".chars() {
            assert!(plain_of_superscript(c).is_some(), "{c}");
        }
    }
}
