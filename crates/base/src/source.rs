//! Source texts and spans into them.
//!
//! A text may be a file or one command-line argument: each has a name that the
//! renderer prints (`kernels/ffn.tw`, `--in0`). A span is 12 bytes and names its text,
//! so a diagnostic may point into several texts at once.

use std::ops::Range;

use crate::invariant::OrBroken;

/// Index of a text in [`Sources`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub u32);

/// A byte range of one source text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// The text that the range is in.
    pub source: SourceId,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The smallest span that covers both; the second must be in the same text.
    pub fn to(self, other: Span) -> Span {
        Span { source: self.source, start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// The range as indices into the text.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// One named text.
#[derive(Clone, Debug)]
pub struct Source {
    /// What the renderer prints before line and column.
    pub name: String,
    /// The whole text.
    pub text: String,
}

/// The texts that diagnostics of one run may point into.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    sources: Vec<Source>,
}

impl Sources {
    /// Longest text that is accepted, in bytes; longer ones are cut off by the caller's reader.
    pub const MAX_TEXT_BYTES: usize = 64 << 20;

    /// Adds a text and returns its id.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<String>) -> SourceId {
        let id = SourceId(u32::try_from(self.sources.len()).or_broken("more sources than are numbered"));
        self.sources.push(Source { name: name.into(), text: text.into() });
        id
    }

    /// The text behind an id.
    pub fn get(&self, id: SourceId) -> Option<&Source> {
        self.sources.get(id.0 as usize)
    }

    /// A span from a byte range.
    pub fn span(&self, source: SourceId, range: Range<usize>) -> Span {
        let clamp = |byte: usize| u32::try_from(byte).unwrap_or(u32::MAX);
        Span { source, start: clamp(range.start), end: clamp(range.end) }
    }

    /// Line and column, both from 1, columns in characters.
    pub fn line_column(&self, span: Span) -> (usize, usize) {
        let Some(source) = self.get(span.source) else { return (1, 1) };
        let mut start = (span.start as usize).min(source.text.len());
        while !source.text.is_char_boundary(start) {
            start -= 1;
        }
        let before = &source.text[..start];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_and_column_count_characters() {
        let mut sources = Sources::default();
        let id = sources.add("t", "b²[2]\nxé y");
        assert_eq!(sources.line_column(sources.span(id, 3..4)), (1, 3));
        assert_eq!(sources.line_column(sources.span(id, 11..12)), (2, 4));
        assert_eq!(sources.line_column(sources.span(id, 900..901)), (2, 5));
    }
}
