//! Characters to tokens. A token is a kind, a byte range and, for numbers, the number: nothing is copied.

use crate::tree::{Bracket, Kind, Sign, Value};

/// A token of the text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// The magnitude of an integer.
    pub(crate) number: u64,
}

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// Part of a statement; brackets are matched by the parser.
    Value(Kind),
    BraceOpen,
    BraceClose,
    Semicolon,
    LineEnd,
    End,
    Bad(BadToken),
}

/// Why characters are no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadToken {
    /// No token begins with this character.
    Character,
    /// A quoted text does not end on its line.
    OpenText,
    /// A number runs into letters or has stray underscores.
    Number,
    /// An integer of more than 64 bits.
    Huge,
}

impl Token {
    /// The token as a value of a statement.
    pub(crate) fn value(&self, kind: Kind) -> Value {
        Value { kind, start: self.start, end: self.end, data: self.number }
    }
}

/// Produces tokens one at a time.
pub(crate) struct Lexer<'a> {
    text: &'a str,
    at: usize,
    number: u64,
}

impl<'a> Lexer<'a> {
    /// Reads a text of at most `u32::MAX` bytes; a longer one is taken for empty.
    pub(crate) fn new(text: &'a str) -> Lexer<'a> {
        let text = if u32::try_from(text.len()).is_ok() { text } else { "" };
        Lexer { text, at: 0, number: 0 }
    }

    /// The next token; `End` for ever after the last.
    pub(crate) fn next(&mut self) -> Token {
        self.skip_blanks();
        let start = self.at;
        self.number = 0;
        let kind = self.kind();
        #[expect(clippy::cast_possible_truncation, reason = "`new` takes no text longer than 32 bits count")]
        let (start, end) = (start as u32, self.at as u32);
        Token { kind, start, end, number: self.number }
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    fn skip_blanks(&mut self) {
        loop {
            match self.byte(0) {
                Some(b' ' | b'\t' | b'\r') => self.at += 1,
                Some(b'/') if self.byte(1) == Some(b'/') => {
                    let rest = &self.text.as_bytes()[self.at..];
                    self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
                }
                _ => return,
            }
        }
    }

    fn kind(&mut self) -> TokenKind {
        let Some(first) = self.byte(0) else { return TokenKind::End };
        match first {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => self.word(),
            b'0'..=b'9' => self.number(false),
            b'-' if self.negative_number() => {
                self.at += 1;
                self.number(true)
            }
            b'"' => self.quoted(),
            b'\n' => self.take(1, TokenKind::LineEnd),
            b';' => self.take(1, TokenKind::Semicolon),
            b'{' => self.take(1, TokenKind::BraceOpen),
            b'}' => self.take(1, TokenKind::BraceClose),
            b'(' => self.take(1, TokenKind::Value(Kind::Open(Bracket::Round))),
            b'[' => self.take(1, TokenKind::Value(Kind::Open(Bracket::Square))),
            b')' => self.take(1, TokenKind::Value(Kind::Close(Bracket::Round))),
            b']' => self.take(1, TokenKind::Value(Kind::Close(Bracket::Square))),
            _ => self.sign(first),
        }
    }

    fn take(&mut self, bytes: usize, kind: TokenKind) -> TokenKind {
        self.at += bytes;
        kind
    }

    fn sign(&mut self, first: u8) -> TokenKind {
        if let Some(sign) = self.byte(1).and_then(|second| Sign::of_two(first, second)) {
            return self.take(2, TokenKind::Value(Kind::Sign(sign)));
        }
        if let Some(sign) = Sign::of_one(first) {
            return self.take(1, TokenKind::Value(Kind::Sign(sign)));
        }
        let width = self.text[self.at..].chars().next().map_or(1, char::len_utf8);
        self.take(width, TokenKind::Bad(BadToken::Character))
    }

    fn word(&mut self) -> TokenKind {
        while let Some(byte) = self.byte(0) {
            let dotted = || self.byte(1).is_some_and(|next| next.is_ascii_alphabetic() || next == b'_');
            if !(word_byte(byte) || byte == b'.' && dotted()) {
                break;
            }
            self.at += 1;
        }
        if self.byte(0) == Some(b'!') && self.byte(1) != Some(b'=') {
            self.at += 1;
        }
        TokenKind::Value(Kind::Word)
    }

    /// A minus before a digit, not right behind an operand.
    fn negative_number(&self) -> bool {
        let before = self.at.checked_sub(1).and_then(|at| self.text.as_bytes().get(at));
        let operand = before.is_some_and(|byte| word_byte(*byte) || matches!(byte, b')' | b']' | b'"'));
        !operand && self.byte(1).is_some_and(|next| next.is_ascii_digit())
    }

    fn number(&mut self, negative: bool) -> TokenKind {
        let hex = self.byte(0) == Some(b'0') && matches!(self.byte(1), Some(b'x' | b'X'));
        if hex {
            self.at += 2;
        }
        let digits = self.digits(if hex { 16 } else { 10 });
        let kind = if !hex && self.fraction() { Kind::Float } else { Kind::Integer { negative, hex } };
        if self.byte(0).is_some_and(word_byte) || digits == DigitScan::Malformed {
            while self.byte(0).is_some_and(word_byte) {
                self.at += 1;
            }
            return TokenKind::Bad(BadToken::Number);
        }
        if digits == DigitScan::Huge && kind != Kind::Float {
            return TokenKind::Bad(BadToken::Huge);
        }
        TokenKind::Value(kind)
    }

    /// Digits with single underscores between them.
    fn digits(&mut self, radix: u32) -> DigitScan {
        let (mut value, mut last_was_digit) = (Some(0_u64), false);
        while let Some(byte) = self.byte(0) {
            match char::from(byte).to_digit(radix) {
                Some(digit) => {
                    value = value.and_then(|v| v.checked_mul(radix.into())?.checked_add(digit.into()));
                    last_was_digit = true;
                }
                None if byte == b'_' && last_was_digit => last_was_digit = false,
                None => break,
            }
            self.at += 1;
        }
        self.number = value.unwrap_or(u64::MAX);
        match value {
            _ if !last_was_digit => DigitScan::Malformed,
            None => DigitScan::Huge,
            Some(_) => DigitScan::Fine,
        }
    }

    /// Takes `.digits` and an exponent, if they follow.
    fn fraction(&mut self) -> bool {
        let before = self.at;
        let digit = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_digit());
        if self.byte(0) == Some(b'.') && digit(self.byte(1)) {
            self.at += 1;
            while digit(self.byte(0)) {
                self.at += 1;
            }
        }
        if matches!(self.byte(0), Some(b'e' | b'E')) {
            let signed = usize::from(matches!(self.byte(1), Some(b'+' | b'-')));
            if digit(self.byte(1 + signed)) {
                self.at += 1 + signed;
                while digit(self.byte(0)) {
                    self.at += 1;
                }
            }
        }
        self.at > before
    }

    fn quoted(&mut self) -> TokenKind {
        self.at += 1;
        while let Some(byte) = self.byte(0) {
            match byte {
                b'"' => return self.take(1, TokenKind::Value(Kind::Text)),
                b'\n' => break,
                // What stands behind a backslash may be any character, but no line end.
                b'\\' if self.byte(1).is_some_and(|next| next.is_ascii() && next != b'\n') => self.at += 2,
                _ => self.at += 1,
            }
        }
        TokenKind::Bad(BadToken::OpenText)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum DigitScan {
    Fine,
    Huge,
    Malformed,
}

fn word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether a name can stand in the text without quotes.
pub(crate) fn is_word(name: &str) -> bool {
    let mut lexer = Lexer::new(name);
    let first = lexer.next();
    let whole = (first.start, first.end as usize) == (0, name.len());
    first.kind == TokenKind::Value(Kind::Word) && whole && !name.ends_with('!')
}
