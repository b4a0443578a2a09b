//! TOML text with the place of every key and value, owned and in file order.
//!
//! Syntax errors and repeated keys become diagnostics. The first value of a repeated key is kept,
//! so that the rest of the file can still be checked.

use std::ops::Range;

use tilewright_base::{Diagnostic, SourceId, Sources, Span};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::repeated;

/// A value as written, before it is known what the key accepts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RawValue {
    Integer(i128),
    Number(f64),
    Flag(bool),
    Text(String),
    List(Vec<RawValue>),
    Table(Vec<DocumentEntry>),
    /// A date, or an integer of more than 127 bits.
    Other(&'static str),
}

impl RawValue {
    /// The value in a sentence: "the text \"x\"".
    pub(crate) fn describe(&self) -> String {
        match self {
            RawValue::Integer(value) => format!("the integer {value}"),
            RawValue::Number(value) => format!("the number {value}"),
            RawValue::Flag(value) => format!("{value}"),
            RawValue::Text(text) => format!("the text {text:?}"),
            RawValue::List(_) => "a list".to_owned(),
            RawValue::Table(_) => "a table".to_owned(),
            RawValue::Other(what) => (*what).to_owned(),
        }
    }
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DocumentEntry {
    pub(crate) key: String,
    pub(crate) key_span: Span,
    pub(crate) value: RawValue,
    pub(crate) value_span: Span,
}

/// One file.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    pub(crate) source: SourceId,
    pub(crate) entries: Vec<DocumentEntry>,
}

impl Document {
    /// Reads a file. Nothing is returned if its syntax is broken beyond repeated keys.
    pub(crate) fn read(
        sources: &Sources,
        id: SourceId,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Option<Document> {
        let text = sources.get(id).map_or("", |source| source.text.as_str());
        let (root, errors) = DeTable::parse_recoverable(text);
        let mut broken = false;
        for error in &errors {
            let range = error.span().unwrap_or(0..0);
            if error.message() == "duplicate key" {
                diagnostics.push(repeated::diagnostic(sources, id, range));
            } else {
                broken = true;
                diagnostics.push(syntax(sources.span(id, range), error.message()));
            }
        }
        let place = |range: Range<usize>| sources.span(id, range);
        (!broken).then(|| Document { source: id, entries: entries(root.get_ref(), &place) })
    }

    /// The entry of that name at the top of the file.
    pub(crate) fn entry(&self, key: &str) -> Option<&DocumentEntry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// The keys of a top-level table; none if it is missing or no table.
    pub(crate) fn table(&self, key: &str) -> &[DocumentEntry] {
        match self.entry(key).map(|entry| &entry.value) {
            Some(RawValue::Table(entries)) => entries,
            _ => &[],
        }
    }

    /// The first byte of the file, for what is missing altogether.
    pub(crate) fn start(&self) -> Span {
        Span { source: self.source, start: 0, end: 0 }
    }
}

/// One value from a command-line setting; a bare word is a text.
pub(crate) fn raw_value(text: &str) -> RawValue {
    let place = |_: Range<usize>| Span::default();
    match DeValue::parse(text) {
        Ok(value) => raw(value.get_ref(), &place),
        Err(_) => RawValue::Text(text.to_owned()),
    }
}

fn syntax(span: Span, message: &str) -> Diagnostic {
    Diagnostic::error("machine/syntax", format!("this is not TOML: {message}"))
        .at(span, "")
        .allowed("`key = value` lines below `[section]` lines")
}

fn entries(table: &DeTable<'_>, place: &dyn Fn(Range<usize>) -> Span) -> Vec<DocumentEntry> {
    let mut entries: Vec<DocumentEntry> = table
        .iter()
        .map(|(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| DocumentEntry {
            key: key.get_ref().to_string(),
            key_span: place(key.span()),
            value: raw(value.get_ref(), place),
            value_span: place(value.span()),
        })
        .collect();
    entries.sort_by_key(|entry| entry.key_span.start);
    entries
}

fn raw(value: &DeValue<'_>, place: &dyn Fn(Range<usize>) -> Span) -> RawValue {
    match value {
        DeValue::Integer(value) => i128::from_str_radix(value.as_str(), value.radix())
            .map_or(RawValue::Other("an integer of more than 127 bits"), RawValue::Integer),
        DeValue::Float(value) => {
            value.as_str().parse().map_or(RawValue::Other("no number"), RawValue::Number)
        }
        DeValue::Boolean(value) => RawValue::Flag(*value),
        DeValue::String(text) => RawValue::Text(text.to_string()),
        DeValue::Datetime(_) => RawValue::Other("a date"),
        DeValue::Array(values) => {
            RawValue::List(values.iter().map(|value| raw(value.get_ref(), place)).collect())
        }
        DeValue::Table(table) => RawValue::Table(entries(table, place)),
    }
}
