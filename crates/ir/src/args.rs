//! The values of one statement or group, taken one by one. What does not fit gives a complaint with its
//! place.

use std::borrow::Cow;

use tilewright_base::nearest::nearest;
use tilewright_base::{Diagnostic, Span};

use crate::tree::{Bracket, Kind, Sign, Tree, Value};

/// What was read, or why it could not be.
pub type Read<T> = Result<T, Box<Diagnostic>>;

/// A bare word with its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word<'t> {
    /// As written.
    pub text: &'t str,
    /// Where.
    pub span: Span,
}

/// A name or quoted text with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quoted<'t> {
    /// What it says, without quotes and escapes.
    pub text: Cow<'t, str>,
    /// Where, quotes included.
    pub span: Span,
    /// The byte of the source at which `text` begins, if it stands there literally.
    pub literal_at: Option<u32>,
}

/// The values not yet taken.
#[derive(Clone)]
pub struct Args<'t> {
    pub(crate) tree: &'t Tree<'t>,
    pub(crate) at: usize,
    pub(crate) end: usize,
    /// Where the last value ends.
    pub(crate) end_byte: u32,
}

impl<'t> Args<'t> {
    fn peek(&self) -> Option<&'t Value> {
        if self.at < self.end { self.tree.values.get(self.at) } else { None }
    }

    /// Whether all values are taken.
    pub fn is_empty(&self) -> bool {
        self.peek().is_none()
    }

    /// What the next value is.
    pub fn kind(&self) -> Option<Kind> {
        self.peek().map(|value| value.kind)
    }

    /// The place of the next value, or the point behind the last.
    pub fn here(&self) -> Span {
        match self.peek() {
            Some(value) => self.tree.span(value.start, value.end),
            None => self.tree.span(self.end_byte, self.end_byte),
        }
    }

    /// As the next value is written; empty behind the last.
    fn spelled(&self) -> &'t str {
        self.peek().map_or("", |value| self.tree.slice(value.start, value.end))
    }

    /// A complaint that something else should stand here.
    #[cold]
    pub fn expected(&self, wanted: &str) -> Box<Diagnostic> {
        let found = match self.spelled() {
            "" => "the statement ends".to_string(),
            text => format!("found `{}`", shortened(text)),
        };
        let complaint = Diagnostic::error("ir/value", format!("{found} where {wanted} should stand"));
        let complaint = complaint.at(self.here(), format!("expected {wanted}")).allowed(wanted);
        Box::new(complaint.instead(format!("put {wanted} here")))
    }

    /// A bare word.
    pub fn word(&mut self, wanted: &str) -> Read<Word<'t>> {
        match self.kind() {
            Some(Kind::Word) => {
                let word = Word { text: self.spelled(), span: self.here() };
                self.at += 1;
                Ok(word)
            }
            _ => Err(self.expected(wanted)),
        }
    }

    /// One of several words, and what it stands for.
    pub fn one_of<T: Copy>(&mut self, wanted: &str, known: &[(&'static str, T)]) -> Read<T> {
        let word = self.word(wanted)?;
        let found = known.iter().find(|(name, _)| *name == word.text).map(|(_, value)| *value);
        found.ok_or_else(|| unknown_word(word, wanted, known.iter().map(|(name, _)| *name)))
    }

    /// Takes this very word if it comes next.
    pub fn eat_word(&mut self, text: &str) -> bool {
        let found = self.kind() == Some(Kind::Word) && self.spelled() == text;
        self.at += usize::from(found);
        found
    }

    /// This very word.
    pub fn keyword(&mut self, text: &str) -> Read<()> {
        if self.eat_word(text) { Ok(()) } else { Err(self.expected(&format!("`{text}`"))) }
    }

    /// Takes `text =` if it comes next.
    pub fn eat_named(&mut self, text: &str) -> bool {
        let mut ahead = self.clone();
        let found = ahead.eat_word(text) && ahead.eat(Sign::Equals);
        if found {
            *self = ahead;
        }
        found
    }

    /// `text =`, before the value of that name.
    pub fn named(&mut self, text: &str) -> Read<()> {
        if self.eat_named(text) { Ok(()) } else { Err(self.expected(&format!("`{text}=`"))) }
    }

    /// Takes a sign if it comes next.
    pub fn eat(&mut self, sign: Sign) -> bool {
        let found = self.kind() == Some(Kind::Sign(sign));
        self.at += usize::from(found);
        found
    }

    /// A sign.
    pub fn sign(&mut self, sign: Sign) -> Read<()> {
        if self.eat(sign) { Ok(()) } else { Err(self.expected(&format!("`{}`", sign.text()))) }
    }

    /// Takes any sign if one comes next.
    pub fn any_sign(&mut self) -> Option<Sign> {
        match self.kind() {
            Some(Kind::Sign(sign)) => {
                self.at += 1;
                Some(sign)
            }
            _ => None,
        }
    }

    /// A whole number within the range of its type.
    pub fn integer<T: TryFrom<i128>>(&mut self, wanted: &str) -> Read<T> {
        let Some(&Value { kind: Kind::Integer { negative, .. }, data, .. }) = self.peek() else {
            return Err(self.expected(wanted));
        };
        let magnitude = i128::from(data);
        let value = if negative { -magnitude } else { magnitude };
        let number = T::try_from(value).map_err(|_| {
            let what = format!("the number {value} is out of range");
            let complaint = Diagnostic::error("ir/value", what).at(self.here(), wanted);
            let span = 1_i128 << (8 * size_of::<T>()).min(64);
            let least = if T::try_from(-1).is_ok() { -span / 2 } else { 0 };
            let most = least + span - 1;
            let complaint = complaint.allowed(format!("{least} to {most}"));
            Box::new(complaint.instead(value.clamp(least, most).to_string()))
        })?;
        self.at += 1;
        Ok(number)
    }

    /// A whole number of 64 bits.
    pub fn unsigned(&mut self, wanted: &str) -> Read<u64> {
        self.integer(wanted)
    }

    /// A whole number of 64 bits with a sign.
    pub fn signed(&mut self, wanted: &str) -> Read<i64> {
        self.integer(wanted)
    }

    /// The pattern of an f32: a decimal number, rounded to nearest, or the pattern itself in hexadecimal.
    pub fn f32_pattern(&mut self, wanted: &str) -> Read<u32> {
        let value: f32 = match self.kind() {
            Some(Kind::Integer { hex: true, .. }) => return self.integer(wanted),
            Some(Kind::Integer { .. } | Kind::Float) => {
                let digits = self.spelled();
                let plain =
                    if digits.contains('_') { digits.replace('_', "").parse() } else { digits.parse() };
                plain.map_err(|_| self.expected(wanted))?
            }
            _ => return Err(self.expected(wanted)),
        };
        if value.is_infinite() {
            let what = format!("{} is larger than any f32", shortened(self.spelled()));
            let complaint = Diagnostic::error("ir/value", what).at(self.here(), "");
            return Err(Box::new(complaint.allowed(wanted).instead("0x7f800000 for infinity")));
        }
        self.at += 1;
        Ok(value.to_bits())
    }

    /// A name: a bare word, or anything in quotes.
    pub fn name(&mut self, wanted: &str) -> Read<Quoted<'t>> {
        match self.kind() {
            Some(Kind::Word) => {
                let word = self.word(wanted)?;
                Ok(Quoted { text: word.text.into(), span: word.span, literal_at: Some(word.span.start) })
            }
            _ => self.text(wanted),
        }
    }

    /// A quoted text.
    pub fn text(&mut self, wanted: &str) -> Read<Quoted<'t>> {
        if self.kind() != Some(Kind::Text) {
            return Err(self.expected(wanted));
        }
        let span = self.here();
        let raw = self.spelled();
        let inner = raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or("");
        self.at += 1;
        if !inner.contains('\\') {
            return Ok(Quoted { text: inner.into(), span, literal_at: Some(span.start + 1) });
        }
        let text = unescape(inner).ok_or_else(|| {
            let complaint = Diagnostic::error("ir/syntax", "a backslash that begins no escape");
            let complaint = complaint.at(span, "").allowed("\\\\ \\\" \\n \\t \\r \\u{1f}");
            Box::new(complaint.instead("\\\\ for a backslash"))
        })?;
        Ok(Quoted { text: text.into(), span, literal_at: None })
    }

    /// Takes a group in these brackets if one comes next.
    pub fn group(&mut self, bracket: Bracket) -> Option<Args<'t>> {
        let value = self.peek().filter(|value| value.kind == Kind::Open(bracket))?;
        let close = usize::try_from(value.data).ok()?;
        let end_byte = self.tree.values.get(close)?.start;
        let inner = Args { tree: self.tree, at: self.at + 1, end: close, end_byte };
        self.at = close + 1;
        Some(inner)
    }

    /// A group in these brackets.
    pub fn bracketed(&mut self, bracket: Bracket, wanted: &str) -> Read<Args<'t>> {
        self.group(bracket).ok_or_else(|| self.expected(wanted))
    }

    /// `[a, b, c]`, each read by `item`; a comma may stand behind the last.
    pub fn list<T>(&mut self, wanted: &str, mut item: impl FnMut(&mut Args<'t>) -> Read<T>) -> Read<Vec<T>> {
        let mut inner = self.bracketed(Bracket::Square, wanted)?;
        let mut items = Vec::new();
        while !inner.is_empty() {
            items.push(item(&mut inner)?);
            if !inner.is_empty() {
                inner.sign(Sign::Comma)?;
            }
        }
        Ok(items)
    }

    /// `(a)(b)(c)` as far as it goes, each read by `item` to its end.
    pub fn repeated<T>(&mut self, mut item: impl FnMut(&mut Args<'t>) -> Read<T>) -> Read<Vec<T>> {
        let mut items = Vec::new();
        while let Some(mut inner) = self.group(Bracket::Round) {
            items.push(item(&mut inner)?);
            inner.done()?;
        }
        Ok(items)
    }

    /// Complains about whatever is left.
    pub fn done(&self) -> Read<()> {
        if self.is_empty() {
            return Ok(());
        }
        let what = format!("`{}` has no place here", shortened(self.spelled()));
        let complaint = Diagnostic::error("ir/value", what).at(self.here(), "not expected");
        Err(Box::new(complaint.allowed("nothing more").instead("leave it out, or begin a new line")))
    }
}

/// A complaint about a word that is not known, with the nearest one that is.
pub fn unknown_word<'k>(
    word: Word<'_>,
    wanted: &str,
    known: impl Iterator<Item = &'k str> + Clone,
) -> Box<Diagnostic> {
    let near = nearest(word.text, known.clone());
    let all: Vec<&str> = known.collect();
    let what = format!("`{}` is no {wanted}", shortened(word.text));
    Box::new(Diagnostic::error("ir/value", what).at(word.span, "").allowed(all.join(", ")).instead(near))
}

/// Enough of a text to know it by.
pub fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(40) {
        Some((cut, _)) => format!("{}...", &text[..cut]).into(),
        None => text.into(),
    }
}

fn unescape(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let escape = &rest[at + 1..];
        let plain = match escape.as_bytes().first()? {
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'"' => '"',
            b'\\' => '\\',
            b'u' => {
                let (digits, after) = escape[1..].strip_prefix('{')?.split_once('}')?;
                out.push(u32::from_str_radix(digits, 16).ok().and_then(char::from_u32)?);
                rest = after;
                continue;
            }
            _ => return None,
        };
        out.push(plain);
        rest = &escape[1..];
    }
    out.push_str(rest);
    Some(out)
}
