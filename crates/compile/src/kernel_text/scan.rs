//! One line of a text of kernels, read from left to right.

use tilewright_base::{Diagnostic, SourceId, Span};

/// A line, and how far it is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'t> {
    text: &'t str,
    at: usize,
    /// Where the line begins in the whole text.
    start: usize,
    source: SourceId,
}

/// What a line gives, or what is wrong with it.
pub(super) type Scanned<T> = Result<T, Box<Diagnostic>>;

impl<'t> Line<'t> {
    pub(super) fn new(text: &'t str, start: usize, source: SourceId) -> Line<'t> {
        Line { text, at: 0, start, source }
    }

    /// All of the line.
    pub(super) fn span(&self) -> Span {
        self.part(0, self.text.trim_end().len())
    }

    fn part(&self, from: usize, to: usize) -> Span {
        let place = |at: usize| u32::try_from(self.start + at).unwrap_or(u32::MAX);
        Span { source: self.source, start: place(from), end: place(to) }
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn refuse<T>(&self, wanted: &str) -> Scanned<T> {
        let found = self.rest().split_whitespace().next().unwrap_or("the end of the line");
        let end = (self.at + found.len()).min(self.text.len()).max(self.at);
        let complaint = Diagnostic::error("kernels/syntax", format!("{wanted} is missing before {found}"));
        Err(Box::new(complaint.at(self.part(self.at, end), "").allowed(wanted.to_string())))
    }

    /// Whether the line goes on with these signs; then they are read.
    pub(super) fn has(&mut self, signs: &str) -> bool {
        self.skip();
        let has = self.rest().starts_with(signs);
        if has {
            self.at += signs.len();
        }
        has
    }

    pub(super) fn expect(&mut self, signs: &str) -> Scanned<()> {
        if self.has(signs) { Ok(()) } else { self.refuse(&format!("`{signs}`")) }
    }

    fn taken(&mut self, fits: impl Fn(char) -> bool, wanted: &str) -> Scanned<&'t str> {
        self.skip();
        let rest = self.rest();
        let length = rest.find(|sign| !fits(sign)).unwrap_or(rest.len());
        if length == 0 {
            return self.refuse(wanted);
        }
        self.at += length;
        Ok(rest.get(..length).unwrap_or_default())
    }

    /// A name of a value.
    pub(super) fn name(&mut self) -> Scanned<&'t str> {
        let before = self.at;
        let name = self.taken(|sign| sign.is_alphanumeric() || "_./-:@$".contains(sign), "a name")?;
        // Colons stand within names; one at the end says what is named.
        let bare = name.trim_end_matches(':');
        if bare.is_empty() {
            self.at = before;
            return self.refuse("a name");
        }
        self.at -= name.len() - bare.len();
        Ok(bare)
    }

    /// A whole number.
    pub(super) fn number(&mut self) -> Scanned<u64> {
        let before = self.at;
        let digits = self.taken(|sign| sign.is_ascii_digit(), "a number")?;
        digits.parse().or_else(|_| {
            self.at = before;
            self.refuse("a number that fits 64 bits")
        })
    }

    /// A number with a point or an exponent.
    pub(super) fn float(&mut self) -> Scanned<f32> {
        let before = self.at;
        let digits = self.taken(|sign| sign.is_ascii_alphanumeric() || ".-+".contains(sign), "a number")?;
        digits.parse().or_else(|_| {
            self.at = before;
            self.refuse("a number")
        })
    }

    /// Nothing may follow.
    pub(super) fn ends(&mut self) -> Scanned<()> {
        self.skip();
        if self.rest().is_empty() { Ok(()) } else { self.refuse("the end of the line") }
    }
}
