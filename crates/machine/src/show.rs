//! A machine as text: derived beside published, every figure with its source, the assumptions.
//!
//! Lines stay within 110 columns; what does not fit goes on below its own column.

use std::collections::BTreeMap;

use crate::load::{KeyValue, LoadedMachine};
use crate::provenance::Provenance;
use crate::published::Comparison;

const WIDTH: usize = 110;

/// The whole machine as text.
pub fn show(loaded: &LoadedMachine) -> String {
    let mut text = head(loaded);
    let comparisons = loaded.comparisons();
    text.push_str("\nDerived, beside what is published\n");
    text.push_str(&comparison_table(&comparisons));
    text.push_str(&notes(&comparisons));
    text.push_str(&published_in(&comparisons));
    text.push_str("\nFigures; one without a source of its own has that of its section\n");
    text.push_str(&figure_tables(loaded));
    text.push_str(&assumptions(loaded));
    text.push_str(&bands(loaded));
    text.push_str(&fitted(loaded));
    text
}

fn head(loaded: &LoadedMachine) -> String {
    let mut text = format!("{} ({})\n", loaded.name, loaded.machine.architecture());
    text.push_str(&wrapped("  ", &loaded.description));
    if let Some(base) = loaded.bases.first() {
        text.push_str(&format!("  variant of {base}; * marks what it states itself\n"));
    }
    if loaded.key_values().iter().any(|figure| figure.stated_by == "--set") {
        text.push_str("  ! marks what --set states\n");
    }
    text
}

fn comparison_table(comparisons: &[Comparison]) -> String {
    let mut rows = vec![["quantity", "derived", "published", "unit", "ratio", "formula"].map(str::to_owned)];
    for row in comparisons {
        let published = row.published.as_ref().map_or("-".to_owned(), |published| number(published.value));
        let ratio = row.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.3}"));
        let derived = &row.derived;
        rows.push([
            derived.name.to_owned(),
            number(derived.value),
            published,
            derived.unit.to_owned(),
            ratio,
            derived.formula.to_owned(),
        ]);
    }
    table(&rows, &[false, true, true, false, true, false])
}

/// Why quantities differ from what is published.
fn notes(comparisons: &[Comparison]) -> String {
    let mut text = String::new();
    for row in comparisons.iter().filter(|row| row.differs()) {
        let Some(published) = &row.published else { continue };
        let note = published.note.as_deref().unwrap_or("not explained");
        text.push_str(&wrapped("  ", &format!("{}: {note}", row.derived.name)));
    }
    if text.is_empty() { text } else { format!("\nDifferences of more than 1 %\n{text}") }
}

/// Where the published figures are from.
fn published_in(comparisons: &[Comparison]) -> String {
    let mut places: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for published in comparisons.iter().filter_map(|row| row.published.as_ref()) {
        places.entry(published.source.to_string()).or_default().push(&published.name);
    }
    let lines = places.iter().map(|(place, names)| wrapped("  ", &format!("{place}: {}", names.join(", "))));
    let text: String = lines.collect();
    if text.is_empty() { text } else { format!("\nPublished in\n{text}") }
}

/// The sections, each headed by the source of half of its figures or more.
fn figure_tables(loaded: &LoadedMachine) -> String {
    let figures = loaded.key_values();
    let sections = figures.chunk_by(|one, other| one.section == other.section);
    sections.map(|section| figure_table(section, loaded)).collect()
}

fn figure_table(figures: &[KeyValue], loaded: &LoadedMachine) -> String {
    let Some(first) = figures.first() else { return String::new() };
    let shares = |source: &Provenance| figures.iter().filter(|figure| figure.source == *source).count();
    let most = figures.iter().map(|figure| shares(&figure.source)).max().unwrap_or(0);
    let is_shared = most > 1 && 2 * most >= figures.len();
    let shared =
        figures.iter().map(|figure| &figure.source).find(|source| is_shared && shares(source) == most);
    let rows: Vec<[String; 5]> = figures
        .iter()
        .map(|figure| {
            let own = shared.is_none_or(|shared| figure.source != *shared);
            [
                mark(figure, loaded).to_owned(),
                figure.key.to_owned(),
                figure.value.to_string(),
                figure.unit.to_owned(),
                if own { figure.source.to_string() } else { String::new() },
            ]
        })
        .collect();
    let head = shared.map_or(String::new(), |source| format!("  {source}"));
    let table = table(&rows, &[false, false, true, false, false]);
    format!("\n{}{table}", wrapped("", &format!("[{}]{head}", first.section)))
}

fn mark(figure: &KeyValue, loaded: &LoadedMachine) -> &'static str {
    if figure.stated_by == "--set" {
        "!"
    } else if figure.stated_by == loaded.name && !loaded.bases.is_empty() {
        "*"
    } else {
        ""
    }
}

fn assumptions(loaded: &LoadedMachine) -> String {
    let assumptions = loaded.assumptions();
    let mut text = format!("\nAssumptions that results rest on: {}\n", assumptions.len());
    for figure in assumptions {
        let unit = if figure.unit.is_empty() { String::new() } else { format!(" {}", figure.unit) };
        let line =
            format!("{}.{} = {}{unit}: {}", figure.section, figure.key, figure.value, figure.source.place);
        text.push_str(&wrapped("  ", &line));
    }
    text
}

/// Figures that were fitted to published rows or derived from them: errors of these rows are no results.
fn fitted(loaded: &LoadedMachine) -> String {
    let figures = loaded.key_values().into_iter().filter(|figure| !figure.fitted_to.is_empty());
    let lines = figures.map(|figure| {
        wrapped("  ", &format!("{}.{}: {}", figure.section, figure.key, figure.fitted_to.join("; ")))
    });
    let text: String = lines.collect();
    if text.is_empty() { text } else { format!("\nFitted to published rows, or derived from them\n{text}") }
}

/// Lowest and highest values that figures may be taken to have.
fn bands(loaded: &LoadedMachine) -> String {
    let lines = loaded.key_values().into_iter().filter_map(|figure| {
        let band = figure.band?;
        let unit = if figure.unit.is_empty() { String::new() } else { format!(" {}", figure.unit) };
        let name = format!("{}.{}", figure.section, figure.key);
        Some(wrapped("  ", &format!("{name}: {} to {}{unit}: {}", band.low, band.high, band.reason)))
    });
    let text: String = lines.collect();
    if text.is_empty() { text } else { format!("\nBands: what a figure may be taken to be\n{text}") }
}

/// At most four digits after the point, none that are zero.
fn number(value: f64) -> String {
    let text = format!("{value:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    text.to_owned()
}

/// Rows with aligned columns. Cells wider than 24 do not widen a right-aligned column, and the
/// last column wraps below itself.
fn table<const N: usize>(rows: &[[String; N]], right: &[bool; N]) -> String {
    let limit = |column: usize| if right[column] { 24 } else { WIDTH };
    let widths: Vec<usize> = (0..N)
        .map(|column| {
            let lengths = rows.iter().map(|row| row[column].chars().count());
            lengths.filter(|&length| length <= limit(column)).max().unwrap_or(0)
        })
        .collect();
    rows.iter().map(|row| table_row(row, right, &widths)).collect()
}

fn table_row<const N: usize>(row: &[String; N], right: &[bool; N], widths: &[usize]) -> String {
    let mut line = String::from("  ");
    for column in 0..N - 1 {
        if widths[column] == 0 {
            continue;
        }
        let (cell, width) = (&row[column], widths[column]);
        let padded = if right[column] { format!("{cell:>width$}") } else { format!("{cell:<width$}") };
        line.push_str(&padded);
        line.push_str("  ");
    }
    let indent = 2 + widths[..N - 1].iter().filter(|&&width| width > 0).map(|width| width + 2).sum::<usize>();
    let pieces = pieces(&row[N - 1], WIDTH.saturating_sub(indent).max(20));
    let mut text = String::new();
    // A cell that ran over its column pushes the last column to a line of its own.
    if line.chars().count() > indent && !row[N - 1].is_empty() {
        text.push_str(line.trim_end());
        text.push('\n');
        line = " ".repeat(indent);
    }
    for piece in pieces {
        text.push_str(format!("{line}{piece}").trim_end());
        text.push('\n');
        line = " ".repeat(indent);
    }
    text
}

fn wrapped(indent: &str, text: &str) -> String {
    let mut lines = String::new();
    for (at, piece) in pieces(text, WIDTH - indent.len() - 4).iter().enumerate() {
        let hang = if at == 0 { "" } else { "    " };
        lines.push_str(&format!("{indent}{hang}{piece}\n"));
    }
    lines
}

/// The text in pieces of at most that many characters, cut at spaces; one piece at least.
fn pieces(text: &str, width: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for word in text.split_whitespace() {
        let last = pieces.len() - 1;
        let length = pieces[last].chars().count();
        if length > 0 && length + 1 + word.chars().count() > width {
            pieces.push(word.to_owned());
            continue;
        }
        if length > 0 {
            pieces[last].push(' ');
        }
        pieces[last].push_str(word);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_kept_whole() {
        assert_eq!(pieces("one two three", 7), ["one two", "three"]);
        assert_eq!(pieces("", 7), [""]);
    }

    #[test]
    fn a_wide_cell_moves_the_last_column_down() {
        let rows = [["a".repeat(30), "x".to_owned()], ["b".to_owned(), "y".to_owned()]];
        let text = table(&rows, &[true, false]);
        assert_eq!(text, format!("  {}\n     x\n  b  y\n", "a".repeat(30)));
    }
}
