//! The one renderer of diagnostics for terminals and goldens.
//!
//! The library that draws is given the lines that labels are on and nothing else: its time grows with the
//! text. Of lines that no screen shows whole, the place is said and a piece is quoted.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Element, Group, Level, Origin, Renderer, Snippet};

use crate::diagnostic::{Diagnostic, Label, Severity};
use crate::source::{Source, SourceId, Sources};

/// Renders without colour, as goldens and pipes want it.
pub fn plain(sources: &Sources, diagnostics: &[Diagnostic]) -> String {
    render(&Renderer::plain(), sources, diagnostics)
}

/// Renders with terminal colours.
pub fn coloured(sources: &Sources, diagnostics: &[Diagnostic]) -> String {
    render(&Renderer::styled(), sources, diagnostics)
}

fn render(renderer: &Renderer, sources: &Sources, diagnostics: &[Diagnostic]) -> String {
    let mut text = String::new();
    for diagnostic in diagnostics {
        text.push_str(&renderer.render(&[group(sources, diagnostic)]));
        text.push_str("\n\n");
    }
    text.truncate(text.trim_end().len());
    text
}

fn group<'a>(sources: &'a Sources, diagnostic: &'a Diagnostic) -> Group<'a> {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Note => Level::NOTE,
    };
    let title = level.primary_title(diagnostic.message.as_str()).id(diagnostic.code);
    let mut elements: Vec<Element<'a>> = snippets(sources, diagnostic);
    let mut say = |name: &'static str, text: &'a str| {
        elements.push(Level::NOTE.with_name(name).message(text).into());
    };
    if let Some(allowed) = &diagnostic.allowed {
        say("allowed", allowed);
    }
    if let Some(instead) = &diagnostic.instead {
        say("instead", instead);
    }
    for note in &diagnostic.notes {
        say("note", note);
    }
    title.elements(elements)
}

/// One snippet a source, the source of the primary label first.
fn snippets<'a>(sources: &'a Sources, diagnostic: &'a Diagnostic) -> Vec<Element<'a>> {
    let labels: Vec<(&Label, AnnotationKind)> = diagnostic
        .primary
        .iter()
        .map(|label| (label, AnnotationKind::Primary))
        .chain(diagnostic.others.iter().map(|label| (label, AnnotationKind::Context)))
        .collect();
    let mut order: Vec<SourceId> = Vec::new();
    for (label, _) in &labels {
        if !order.contains(&label.span.source) {
            order.push(label.span.source);
        }
    }
    let mut elements = Vec::new();
    for id in order {
        let Some(source) = sources.get(id) else { continue };
        let labels: Vec<(&Label, AnnotationKind, Range<usize>)> = labels
            .iter()
            .filter(|(label, _)| label.span.source == id)
            .map(|(label, kind)| (*label, *kind, clamp(&source.text, label.span.range())))
            .collect();
        let Some(shown) = lines_around(&source.text, &labels) else {
            elements.extend(labels.iter().flat_map(|(label, _, range)| quoted(source, label, range)));
            continue;
        };
        let before = source.text.get(..shown.start).unwrap_or_default();
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let text = source.text.get(shown.clone()).unwrap_or_default();
        let mut snippet = Snippet::source(text).line_start(line).path(source.name.as_str());
        for (label, kind, range) in labels {
            let inside = range.start - shown.start..range.end - shown.start;
            let annotation = kind.span(inside);
            snippet = snippet.annotation(if label.text.is_empty() {
                annotation
            } else {
                annotation.label(label.text.as_str())
            });
        }
        elements.push(snippet.into());
    }
    elements
}

/// Bytes of a line that are still drawn.
const MAX_LINE_BYTES: usize = 2000;
/// Characters that are quoted of a longer one, from the place on.
const QUOTED: usize = 60;

/// The whole lines from the first label to the last; `None` if one of them is too long to be drawn.
fn lines_around(text: &str, labels: &[(&Label, AnnotationKind, Range<usize>)]) -> Option<Range<usize>> {
    let first = labels.iter().map(|(_, _, range)| range.start).min().unwrap_or(0);
    let last = labels.iter().map(|(_, _, range)| range.end).max().unwrap_or(first);
    let start = text.get(..first)?.rfind('\n').map_or(0, |at| at + 1);
    let end = text.get(last..)?.find('\n').map_or(text.len(), |at| last + at + 1);
    let shown = text.get(start..end)?;
    shown.split('\n').all(|line| line.len() <= MAX_LINE_BYTES).then_some(start..end)
}

/// A label on a line that is too long: where it is, what it says, and how the text goes on there.
fn quoted<'a>(source: &'a Source, label: &'a Label, range: &Range<usize>) -> Vec<Element<'a>> {
    let before = source.text.get(..range.start).unwrap_or_default();
    let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
    let place = Origin::path(source.name.as_str()).line(line).char_column(column);
    let rest = source.text.get(range.start..).unwrap_or_default().lines().next().unwrap_or_default();
    let piece: String = rest.chars().take(QUOTED).collect();
    let dots = if piece.len() < rest.len() { "..." } else { "" };
    let says = if label.text.is_empty() { String::new() } else { format!(": {}", label.text) };
    let message = format!("`{piece}{dots}`{says}");
    vec![place.into(), Level::NOTE.with_name("here").message(message).into()]
}

/// Any range becomes one on character boundaries inside the text.
fn clamp(text: &str, range: Range<usize>) -> Range<usize> {
    let floor = |mut at: usize| {
        at = at.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let start = floor(range.start);
    start..floor(range.end).max(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_are_printed_in_order() {
        let mut sources = Sources::default();
        let one = sources.add("--in0", "e^2[4] | b^1[4]");
        let two = sources.add("--dims", "e=8,b=4");
        let diagnostic = Diagnostic::error("notation/radix", "axis `e` has no digit of stride 1")
            .at(sources.span(one, 0..6), "the smallest stride here is 2")
            .also(sources.span(two, 0..3), "8 positions")
            .allowed("a digit of stride 1")
            .instead("e^1[8]");
        let text = plain(&sources, &[diagnostic]);
        let expected = "\
error[notation/radix]: axis `e` has no digit of stride 1
 --> --in0:1:1
  |
1 | e^2[4] | b^1[4]
  | ^^^^^^ the smallest stride here is 2
  |
 ::: --dims:1:1
  |
1 | e=8,b=4
  | --- 8 positions
  |
  = allowed: a digit of stride 1
  = instead: e^1[8]";
        assert_eq!(text, expected);
    }

    /// Time grows with the text and the complaints, not with their product: one line of 400 kB with 500
    /// complaints takes far less than a second.
    #[test]
    fn a_long_line_is_quoted_where_the_complaint_is() {
        let mut sources = Sources::default();
        let text = "0123456789".repeat(40_000);
        let id = sources.add("long", &text);
        let at = |at: usize| Diagnostic::error("a/b", "m").at(sources.span(id, at..at + 3), "no digit");
        let many: Vec<Diagnostic> = (0..500).map(|count| at(count * 700 + 4)).collect();
        let rendered = plain(&sources, &many);
        assert!(rendered.contains("--> long:1:705\n"), "{}", &rendered[..400]);
        assert!(
            rendered.contains("`456789012345678901234567890123456789012345678901234567890123...`: no digit")
        );
        assert!(rendered.len() < 500 * 200, "{}", rendered.len());
    }

    #[test]
    fn lines_before_the_first_label_count() {
        let mut sources = Sources::default();
        let id = sources.add("x", "one\ntwo\nthree four\nfive\n");
        let diagnostic = Diagnostic::error("a/b", "m").at(sources.span(id, 14..18), "here");
        let text = plain(&sources, &[diagnostic]);
        assert!(text.contains("--> x:3:7\n") && text.contains("3 | three four\n"), "{text}");
    }

    #[test]
    fn a_span_outside_its_text_is_still_rendered() {
        let mut sources = Sources::default();
        let id = sources.add("x", "é");
        let diagnostic = Diagnostic::error("a/b", "m").at(sources.span(id, 1..90), "here");
        assert!(plain(&sources, &[diagnostic]).contains("here"));
    }
}
