//! Characters to tokens: ASCII, the Unicode signs people paste, and the paper's TeX.
//!
//! All three spellings give the same tokens, so the parser knows one language. White space, `$`,
//! and TeX spacing (`\,`, `\;`, `~`, `\quad`) separate tokens and are dropped. Line ends are
//! tokens, because a statement of the file form ends there; a comment runs from `//` or `#!` to
//! the end of its line (a bare `#` is the padding sign).

use tilewright_base::{SourceId, Span};

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum TokenKind {
    Word,
    /// A number; [`Lexer::value`] has it.
    Number,
    /// A number above `u64::MAX`.
    HugeNumber,
    /// A run of Unicode superscripts, such as `²` or `¹⁶`.
    Superscript,
    /// A run of Unicode subscript digits, such as `₈`; [`Lexer::value`] has the number.
    Subscript,
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
    pub(crate) kind: TokenKind,
    pub(crate) span: Span,
}

/// Produces tokens one at a time.
pub(crate) struct Lexer<'a> {
    text: &'a str,
    source: SourceId,
    at: usize,
    /// The number behind the last token that was one.
    pub(crate) value: u64,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a str, source: SourceId) -> Lexer<'a> {
        let text = if text.len() > u32::MAX as usize { "" } else { text };
        Lexer { text, source, at: 0, value: 0 }
    }

    /// Reads on from an earlier byte.
    pub(crate) fn go_back_to(&mut self, byte: u32) {
        self.at = byte as usize;
    }

    /// The next token. Signs and letters, nearly all of a program, are told apart by one look at a table.
    #[inline]
    pub(crate) fn next(&mut self) -> Token {
        while self.byte(0) == Some(b' ') {
            self.at += 1;
        }
        let start = self.at;
        let class = self.byte(0).map_or(Class::Other, |byte| CLASSES[usize::from(byte)]);
        let kind = match class {
            Class::Sign(kind) => {
                self.at += 1;
                kind
            }
            Class::Letter => self.word(),
            Class::Digit => self.number(),
            Class::Other => return self.next_other(),
        };
        Token { kind, span: self.span(start) }
    }

    /// White space, comments, TeX, Unicode, and signs of two characters.
    fn next_other(&mut self) -> Token {
        self.skip_blanks();
        let start = self.at;
        let kind = self.kind();
        Token { kind, span: self.span(start) }
    }

    fn span(&self, start: usize) -> Span {
        #[expect(clippy::cast_possible_truncation, reason = "`new` takes no text longer than 32 bits count")]
        let (start, end) = (start as u32, self.at as u32);
        Span { source: self.source, start, end }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    fn skip_blanks(&mut self) {
        const TEX_SPACES: [&str; 10] =
            ["\\,", "\\;", "\\:", "\\!", "\\ ", "\\(", "\\)", "\\qquad", "\\quad", "\\limits"];
        loop {
            match self.byte(0) {
                Some(b' ' | b'\t' | b'\r' | b'$' | b'~') => self.at += 1,
                Some(b'/') if self.byte(1) == Some(b'/') => self.skip_comment(),
                Some(b'#') if self.byte(1) == Some(b'!') => self.skip_comment(),
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

    fn kind(&mut self) -> TokenKind {
        let Some(first) = self.byte(0) else { return TokenKind::End };
        match first {
            b'A'..=b'Z' | b'a'..=b'z' => self.word(),
            b'0'..=b'9' => self.number(),
            b'\\' => self.tex(),
            b'-' if self.byte(1) == Some(b'>') => self.take(2, TokenKind::Arrow),
            b'.' if self.byte(1) == Some(b'.') => self.take(2, TokenKind::DotDot),
            b'<' if self.byte(1) == Some(b'=') => self.take(2, TokenKind::AtMost),
            0x80.. => self.unicode(),
            _ => self.take(1, sign(first)),
        }
    }

    fn take(&mut self, bytes: usize, kind: TokenKind) -> TokenKind {
        self.at += bytes;
        kind
    }

    fn word(&mut self) -> TokenKind {
        while self.byte(0).is_some_and(|byte| byte.is_ascii_alphabetic()) {
            self.at += 1;
        }
        TokenKind::Word
    }

    fn number(&mut self) -> TokenKind {
        let mut value = Some(0_u64);
        // `65_536` is one number; an `_` that no digit follows belongs to what comes next.
        while let Some(byte) = self.byte(0) {
            match byte {
                b'0'..=b'9' => {
                    value = value.and_then(|v| v.checked_mul(10)?.checked_add(u64::from(byte - b'0')));
                }
                b'_' if self.byte(1).is_some_and(|next| next.is_ascii_digit()) => {}
                _ => break,
            }
            self.at += 1;
        }
        self.number_kind(value, TokenKind::Number)
    }

    fn number_kind(&mut self, value: Option<u64>, kind: TokenKind) -> TokenKind {
        self.value = value.unwrap_or(u64::MAX);
        if value.is_some() { kind } else { TokenKind::HugeNumber }
    }

    fn tex(&mut self) -> TokenKind {
        const COMMANDS: [(&str, TokenKind); 14] = [
            ("\\mid", TokenKind::Bar),
            ("\\vert", TokenKind::Bar),
            ("\\rightarrow", TokenKind::Arrow),
            ("\\to", TokenKind::Arrow),
            ("\\cdot", TokenKind::Star),
            ("\\times", TokenKind::Star),
            ("\\frac", TokenKind::Fraction),
            ("\\dfrac", TokenKind::Fraction),
            ("\\lceil", TokenKind::CeilOpen),
            ("\\rceil", TokenKind::CeilClose),
            ("\\_", TokenKind::Underscore),
            ("\\#", TokenKind::Hash),
            ("\\{", TokenKind::BraceOpen),
            ("\\}", TokenKind::BraceClose),
        ];
        let letters = self.rest()[1..].bytes().take_while(u8::is_ascii_alphabetic).count();
        let next_char = self.rest()[1..].chars().next().map_or(0, char::len_utf8);
        let length = 1 + if letters > 0 { letters } else { next_char };
        let word = &self.rest()[..length];
        let kind =
            COMMANDS.iter().find(|(name, _)| *name == word).map_or(TokenKind::Unknown, |(_, kind)| *kind);
        self.take(length, kind)
    }

    fn unicode(&mut self) -> TokenKind {
        let Some(first) = self.rest().chars().next() else { return TokenKind::End };
        if plain_of_superscript(first).is_some() {
            let length: usize = self
                .rest()
                .chars()
                .take_while(|c| plain_of_superscript(*c).is_some() || *c == '⁄')
                .map(char::len_utf8)
                .sum();
            return self.take(length, TokenKind::Superscript);
        }
        if digit_of_subscript(first).is_some() {
            return self.subscript();
        }
        let kind = match first {
            '→' | '⟶' | '⇒' => TokenKind::Arrow,
            '∣' | '│' | '｜' | '❘' => TokenKind::Bar,
            '×' | '·' | '⋅' | '∗' => TokenKind::Star,
            '⁄' | '∕' | '÷' => TokenKind::Slash,
            '−' | '–' => TokenKind::Minus,
            '≤' => TokenKind::AtMost,
            '…' | '‥' => TokenKind::DotDot,
            '⌈' => TokenKind::CeilOpen,
            '⌉' => TokenKind::CeilClose,
            _ => TokenKind::Unknown,
        };
        self.take(first.len_utf8(), kind)
    }

    fn subscript(&mut self) -> TokenKind {
        let mut value = Some(0_u64);
        while let Some((c, digit)) =
            self.rest().chars().next().and_then(|c| Some((c, digit_of_subscript(c)?)))
        {
            value = value.and_then(|v| v.checked_mul(10)?.checked_add(digit));
            self.at += c.len_utf8();
        }
        self.number_kind(value, TokenKind::Subscript)
    }
}

/// What a byte begins.
#[derive(Clone, Copy)]
enum Class {
    /// A token of its own, whatever follows.
    Sign(TokenKind),
    Letter,
    Digit,
    /// Anything that needs a closer look.
    Other,
}

const CLASSES: [Class; 256] = {
    let mut classes = [Class::Other; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        classes[byte as usize] = match byte {
            b'A'..=b'Z' | b'a'..=b'z' => Class::Letter,
            b'0'..=b'9' => Class::Digit,
            b'/' | b'#' | b'-' => Class::Other,
            _ => match sign(byte) {
                TokenKind::Unknown => Class::Other,
                kind => Class::Sign(kind),
            },
        };
        byte += 1;
    }
    classes
};

const fn sign(byte: u8) -> TokenKind {
    match byte {
        b'[' => TokenKind::BracketOpen,
        b']' => TokenKind::BracketClose,
        b'{' => TokenKind::BraceOpen,
        b'}' => TokenKind::BraceClose,
        b'(' => TokenKind::ParenOpen,
        b')' => TokenKind::ParenClose,
        b'|' => TokenKind::Bar,
        b',' => TokenKind::Comma,
        b';' => TokenKind::Semicolon,
        b'\n' => TokenKind::LineEnd,
        b'^' => TokenKind::Caret,
        b'_' => TokenKind::Underscore,
        b'#' => TokenKind::Hash,
        b'@' => TokenKind::At,
        b'=' => TokenKind::Equals,
        b'+' => TokenKind::Plus,
        b'-' => TokenKind::Minus,
        b'*' => TokenKind::Star,
        b'/' => TokenKind::Slash,
        _ => TokenKind::Unknown,
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

    fn kinds(text: &str) -> Vec<TokenKind> {
        let mut lexer = Lexer::new(text, SourceId(0));
        std::iter::from_fn(|| Some(lexer.next().kind).filter(|kind| *kind != TokenKind::End)).collect()
    }

    #[test]
    fn tex_and_ascii_give_the_same_tokens() {
        assert_eq!(kinds(r"$e^{E/2}[2] \mid b^{1}[2]\,l^1[4]$"), kinds("e^{E/2}[2] | b^{1}[2] l^1[4]"));
        assert_eq!(kinds(r"ble, ef \rightarrow blf"), kinds("ble,ef->blf"));
        assert_eq!(kinds("ble, ef → blf"), kinds("ble,ef->blf"));
    }

    #[test]
    fn numbers_past_64_bits_are_marked() {
        assert_eq!(kinds("18446744073709551615"), vec![TokenKind::Number]);
        assert_eq!(kinds("18446744073709551616"), vec![TokenKind::HugeNumber]);
        let mut lexer = Lexer::new("65_536_", SourceId(0));
        assert_eq!(
            (lexer.next().kind, lexer.value, lexer.next().kind),
            (TokenKind::Number, 65536, TokenKind::Underscore)
        );
    }

    #[test]
    fn superscripts_have_one_plain_character_each() {
        for c in "⁰¹²³⁴⁵⁶⁷⁸⁹ᴱˢ".chars() {
            assert!(plain_of_superscript(c).is_some(), "{c}");
        }
    }
}
