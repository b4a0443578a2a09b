//! The one renderer of diagnostics for terminals and goldens.

use annotate_snippets::{AnnotationKind, Element, Group, Level, Renderer, Snippet};

use crate::diagnostic::{Diagnostic, Label, Severity};
use crate::source::{SourceId, Sources};

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
        let mut snippet = Snippet::source(source.text.as_str()).path(source.name.as_str());
        for (label, kind) in labels.iter().filter(|(label, _)| label.span.source == id) {
            let annotation = kind.span(clamp(&source.text, label.span.range()));
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

/// Any range becomes one on character boundaries inside the text.
fn clamp(text: &str, range: std::ops::Range<usize>) -> std::ops::Range<usize> {
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

    #[test]
    fn a_span_outside_its_text_is_still_rendered() {
        let mut sources = Sources::default();
        let id = sources.add("x", "é");
        let diagnostic = Diagnostic::error("a/b", "m").at(sources.span(id, 1..90), "here");
        assert!(plain(&sources, &[diagnostic]).contains("here"));
    }
}
