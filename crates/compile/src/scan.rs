//! One line of a text of a stage, read from left to right.

use tilewright_base::{Diagnostic, SourceId, Span};

/// A line, and how far it is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextLine<'t> {
    text: &'t str,
    at: usize,
    /// Where the line begins in the whole text.
    start: usize,
    source: SourceId,
    /// The code of what it is refused with.
    code: &'static str,
}

/// What a line gives, or what is wrong with it.
pub(crate) type ScanResult<T> = Result<T, Box<Diagnostic>>;

/// The lines of a text that are neither empty nor comments.
pub(crate) fn lines<'t>(
    text: &'t str,
    source: SourceId,
    code: &'static str,
) -> impl Iterator<Item = TextLine<'t>> {
    let mut start = 0;
    text.split_inclusive('\n').filter_map(move |piece| {
        let at = start;
        start += piece.len();
        let said = !piece.trim().is_empty() && !piece.trim_start().starts_with('#');
        said.then(|| TextLine { text: piece.trim_end(), at: 0, start: at, source, code })
    })
}

impl<'t> TextLine<'t> {
    /// The same line of a text inside another, which has a code of its own.
    pub(crate) fn coded(self, code: &'static str) -> TextLine<'t> {
        TextLine { code, ..self }
    }

    /// Whether it begins with a space: it belongs to the line before it that does not.
    pub(crate) fn is_indented(&self) -> bool {
        self.text.starts_with([' ', '\t'])
    }

    /// Whether a number follows.
    pub(crate) fn is_at_digit(&self) -> bool {
        self.rest().trim_start().starts_with(|sign: char| sign.is_ascii_digit())
    }

    /// What is not read yet, in words with single spaces between them.
    pub(crate) fn words(&self) -> String {
        self.rest().split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// All of the line.
    pub(crate) fn span(&self) -> Span {
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

    fn refuse<T>(&self, wanted: &str) -> ScanResult<T> {
        let found = self.rest().split_whitespace().next().unwrap_or("the end of the line");
        let end = (self.at + found.len()).min(self.text.len()).max(self.at);
        let complaint = Diagnostic::error(self.code, format!("{wanted} is missing before {found}"));
        Err(Box::new(complaint.at(self.part(self.at, end), "").allowed(wanted.to_string())))
    }

    /// Whether the line goes on with these signs; then they are read.
    pub(crate) fn has(&mut self, signs: &str) -> bool {
        self.skip();
        let has = self.rest().starts_with(signs);
        if has {
            self.at += signs.len();
        }
        has
    }

    pub(crate) fn expect(&mut self, signs: &str) -> ScanResult<()> {
        if self.has(signs) { Ok(()) } else { self.refuse(&format!("`{signs}`")) }
    }

    /// The first line of a text: which one it is, and its version; version 1 used other words.
    pub(crate) fn version(&mut self, word: &str) -> ScanResult<()> {
        self.expect(word)?;
        self.skip();
        if self.words() == "1" {
            let complaint =
                Diagnostic::error(self.code, format!("version 1 of `{word}`, which is read no more"));
            let complaint = complaint.at(self.span(), "words of version 1 have changed");
            return Err(Box::new(
                complaint
                    .allowed(format!("{word} 2"))
                    .instead("the same text, written again by this compiler"),
            ));
        }
        self.expect("2")?;
        self.ends()
    }

    fn taken(&mut self, fits: impl Fn(char) -> bool, wanted: &str) -> ScanResult<&'t str> {
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
    pub(crate) fn name(&mut self) -> ScanResult<&'t str> {
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
    pub(crate) fn number(&mut self) -> ScanResult<u64> {
        let before = self.at;
        let digits = self.taken(|sign| sign.is_ascii_digit(), "a number")?;
        digits.parse().or_else(|_| {
            self.at = before;
            self.refuse("a number that fits 64 bits")
        })
    }

    /// A number with a point or an exponent.
    pub(crate) fn float(&mut self) -> ScanResult<f32> {
        let before = self.at;
        let digits = self.taken(|sign| sign.is_ascii_alphanumeric() || ".-+".contains(sign), "a number")?;
        digits.parse().or_else(|_| {
            self.at = before;
            self.refuse("a number")
        })
    }

    /// Nothing may follow.
    pub(crate) fn ends(&mut self) -> ScanResult<()> {
        self.skip();
        if self.rest().is_empty() { Ok(()) } else { self.refuse("the end of the line") }
    }
}
