//! A key given twice, with both places.
//!
//! The TOML reader says where the second one is. The first is found here by walking the lines:
//! headers set the section, and the first line with the same section and key is the one meant.

use std::ops::Range;

use tilewright_base::{Diagnostic, SourceId, Sources};

/// The complaint about the key in that range.
pub(crate) fn diagnostic(sources: &Sources, id: SourceId, second: Range<usize>) -> Diagnostic {
    let text = sources.get(id).map_or("", |source| source.text.as_str());
    let key = text.get(second.clone()).unwrap_or("");
    let second_span = sources.span(id, second.clone());
    let (second_line, _) = sources.line_column(second_span);
    let Some(first) = first_place(text, &second) else {
        return Diagnostic::error("machine/repeated-key", format!("`{key}` is given twice"))
            .at(second_span, "given again here")
            .allowed("each key once")
            .instead("keep one of them");
    };
    let first_span = sources.span(id, first);
    let (first_line, _) = sources.line_column(first_span);
    let message = format!("`{key}` is given twice, on lines {first_line} and {second_line}");
    Diagnostic::error("machine/repeated-key", message)
        .at(second_span, "given again here")
        .also(first_span, "given first here")
        .allowed("each key once")
        .instead("keep one of them")
}

/// Where the key of the second range stands first.
fn first_place(text: &str, second: &Range<usize>) -> Option<Range<usize>> {
    let lines = keys(text);
    let covers = |range: &Range<usize>| range.start <= second.start && second.end <= range.end;
    let Some((path, own)) = lines.iter().find(|(_, range)| covers(range)) else {
        return in_same_line(text, second);
    };
    let below = format!("{path}.");
    lines
        .iter()
        .find(|(other, range)| (other == path || other.starts_with(&below)) && range.end <= own.start)
        .map(|(_, range)| range.clone())
}

/// The first of two keys of one inline table.
fn in_same_line(text: &str, second: &Range<usize>) -> Option<Range<usize>> {
    let key = text.get(second.clone()).filter(|key| !key.is_empty())?;
    let before = text.get(..second.start)?;
    let line = before.rfind('\n').map_or(0, |at| at + 1);
    let first = line + before[line..].find(key)?;
    Some(first..first + key.len())
}

/// Each header and key with its full path, quotes and spaces left out of the path.
fn keys(text: &str) -> Vec<(String, Range<usize>)> {
    let mut keys = Vec::new();
    let mut section = String::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let indent = line.len() - line.trim_start().len();
        let body = line.trim();
        let start = at + indent;
        if let Some(header) = body.strip_prefix('[') {
            let name = header.split(']').next().unwrap_or("");
            section = plain(name);
            keys.push((section.clone(), start + 1..start + 1 + name.len()));
        } else if let Some((key, _)) = body.split_once('=') {
            let dot = if section.is_empty() { "" } else { "." };
            let path = format!("{section}{dot}{}", plain(key));
            keys.push((path, start..start + key.trim_end().len()));
        }
        at += line.len();
    }
    keys
}

fn plain(key: &str) -> String {
    key.chars().filter(|letter| !letter.is_whitespace() && !matches!(letter, '"' | '\'')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_two_is_found_in_its_own_section() {
        let text = "[a]\nx = 1\n[b]\nx = 2\ny = 3\n x = 4\n";
        let second = text.rfind('x').unwrap();
        let first = text.find("x = 2").unwrap();
        assert_eq!(first_place(text, &(second..second + 1)), Some(first..first + 1));
    }

    #[test]
    fn a_repeated_header_is_found_too() {
        let text = "[dm]\nx = 1\n[dm]\n";
        assert_eq!(first_place(text, &(12..14)), Some(1..3));
        let text = "dm.x = 1\n[dm]\n";
        assert_eq!(first_place(text, &(10..12)), Some(0..4));
    }

    #[test]
    fn a_repeated_key_of_an_inline_table_is_found_too() {
        let text = "[a]\nx = { v = 1, v = 2 }\n";
        assert_eq!(first_place(text, &(17..18)), Some(10..11));
    }
}
