//! The page of accuracy: every published row beside ours, the worst first, by what rows were used for.
//!
//! [`page`] writes it from rows and our values; [`read_page`] takes our values back out of it, so that a
//! test can say whether the page is that of the rows as they are now. Errors are those of the values as
//! they are printed.

use std::collections::BTreeMap;

use crate::collectives;
use crate::kinds::{KindErrors, RowKind, by_kind};
use crate::rows::PublishedRow;

/// Our value of a row, and its range where there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OursOfRow {
    /// Our value, unless the row is not run or is held out.
    pub ours: Option<f64>,
    /// Its range over the band of HBM's efficiency.
    pub range: Option<[f64; 2]>,
}

/// What the page is made of besides the rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AccuracyValues {
    /// Our values by `chip/group/name`.
    pub rows: BTreeMap<String, OursOfRow>,
    /// Summaries of rows that are held out, as cells of the table, by chip.
    pub held_out: BTreeMap<String, String>,
}

/// Part of the ceiling of a regression test that is taken as what was measured.
const CEILING: f64 = 0.95;

/// Four digits, or all before the point; none behind it that are zero.
pub(crate) fn digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_string();
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few digits")]
    let behind = (3.0 - value.abs().log10().floor()).clamp(0.0, 12.0) as usize;
    let text = format!("{value:.behind$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

/// The value as it is printed.
pub(crate) fn rounded(value: f64) -> f64 {
    digits(value).parse().unwrap_or(value)
}

/// Ours over what is published, less one; a published zero is missed by all.
fn error_of(row: &PublishedRow, ours: f64) -> f64 {
    let published = if row.ceiling { row.published * CEILING } else { row.published };
    if published == 0.0 { f64::from(u8::from(ours != 0.0)) } else { ours / published - 1.0 }
}

/// A row with what is printed of it.
struct PageRow<'r> {
    row: &'r PublishedRow,
    shown: OursOfRow,
    error: Option<f64>,
}

fn page_rows<'r>(chip: &str, rows: &'r [PublishedRow], values: &AccuracyValues) -> Vec<PageRow<'r>> {
    let of = |row: &'r PublishedRow| {
        let shown = values.rows.get(&row.id()).copied().unwrap_or_default();
        let ours = shown.ours.map(rounded).filter(|_| row.kind != RowKind::HeldOut);
        PageRow { row, shown: OursOfRow { ours, ..shown }, error: ours.map(|ours| error_of(row, ours)) }
    };
    let mut found: Vec<PageRow<'r>> = rows.iter().filter(|row| row.chip == chip).map(of).collect();
    let size = |row: &PageRow<'_>| row.error.map_or(-1.0, f64::abs);
    found.sort_by(|one, other| size(other).total_cmp(&size(one)));
    found
}

/// Chips in the order of their first rows.
fn chips(rows: &[PublishedRow]) -> Vec<&str> {
    let mut chips: Vec<&str> = Vec::new();
    for row in rows {
        if !chips.contains(&row.chip.as_str()) {
            chips.push(&row.chip);
        }
    }
    chips
}

/// The page.
pub fn page(rows: &[PublishedRow], values: &AccuracyValues) -> String {
    let (mut summary, mut tables) = (String::new(), String::new());
    for chip in chips(rows) {
        let found = page_rows(chip, rows, values);
        let errors: Vec<(RowKind, &str, Option<f64>)> =
            found.iter().map(|found| (found.row.kind, found.row.name.as_str(), found.error)).collect();
        for kind in by_kind(&errors) {
            summary += &summary_line(chip, &kind, values.held_out.get(chip));
        }
        tables += &format!("\n## {chip}\n\n{ROW_HEAD}");
        tables.extend(found.iter().map(line));
    }
    format!("{HEAD}{SUMMARY_HEAD}{summary}{NOTES}{tables}{}{PEERS}", collectives::section())
}

fn summary_line(chip: &str, kind: &KindErrors, held_out: Option<&String>) -> String {
    let cells = match (kind.kind, held_out) {
        (RowKind::HeldOut, Some(cells)) => cells.clone(),
        _ => summary_cells(kind),
    };
    format!("| {chip} | {} | {cells} |\n", kind.kind.name())
}

/// Rows, median, 90th percentile and worst of a kind as cells.
pub fn summary_cells(kind: &KindErrors) -> String {
    let part = |value: Option<f64>| value.map_or("-".to_string(), |value| format!("{:.1} %", value * 100.0));
    let worst = kind.worst_row.as_ref().map_or(String::new(), |row| format!(" ({row})"));
    format!(
        "{} | {} | {} | {}{worst}",
        kind.rows,
        part(kind.median),
        part(kind.percentile_90),
        part(kind.worst)
    )
}

fn line(found: &PageRow<'_>) -> String {
    let row = found.row;
    let cannot = row.how.get("cannot").and_then(toml::Value::as_str);
    let why = match cannot {
        Some(why) => format!("not run: {why}"),
        None => row.why.clone().unwrap_or_default(),
    };
    let range = found.shown.range.map_or(String::new(), |ends| ends.map(digits).join(" to "));
    let ours = match row.kind {
        RowKind::HeldOut => "held out".to_string(),
        _ => found.shown.ours.map_or("-".to_string(), digits),
    };
    let error = found.error.map_or("-".to_string(), |error| format!("{:+.1} %", error * 100.0));
    let published = digits(row.published);
    let ceiling = if row.ceiling { " (ceiling)" } else { "" };
    format!(
        "| {}/{} | {} | {} | {published} {}{ceiling} | {ours} | {range} | {error} | {why} |\n",
        row.group,
        row.name,
        row.what,
        row.kind.name(),
        row.unit
    )
}

/// Our values as a page has them.
pub fn read_page(page: &str) -> AccuracyValues {
    let (mut found, mut chip) = (AccuracyValues::default(), "");
    for line in page.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            chip = name;
        }
        let Some(line) = line.strip_prefix("| ").and_then(|line| line.strip_suffix(" |")) else { continue };
        let cells: Vec<&str> = line.split(" | ").collect();
        match cells[..] {
            [of, "held-out", ref rest @ ..] if rest.len() == 4 => {
                found.held_out.insert(of.to_string(), rest.join(" | "));
            }
            [name, _, _, _, ours, range, ..] if cells.len() >= 7 => {
                let ends: Vec<f64> = range.split(" to ").filter_map(|end| end.trim().parse().ok()).collect();
                let range = <[f64; 2]>::try_from(ends).ok();
                let shown = OursOfRow { ours: ours.parse().ok(), range };
                if shown != OursOfRow::default() {
                    found.rows.insert(format!("{chip}/{name}"), shown);
                }
            }
            _ => {}
        }
    }
    found
}

const HEAD: &str = "\
# Accuracy: every published figure beside ours

Made by `tilewright study accuracy -o docs/accuracy.md` from `bench/published.toml`; do not edit it by hand. \
`./test` compares it with the
rows and with what the models give.

A row is of one of three kinds. *Calibration*: a figure of a machine file was fitted to it or derived from \
it (`[fitted]` there names the row), so
that its error is no result. *Development*: it was seen while rules were written. *Held-out*: it was never \
used; its error is counted
in the summary only. New rows are held out by a hash of their name, a third of them; all rows that are here \
were seen before that rule.

";

const SUMMARY_HEAD: &str = "\
| chip | kind | rows | median error | 90th percentile | worst |
|---|---|---|---|---|---|
";

const NOTES: &str = "
Errors are ours over the published value, less one; a ceiling of a regression test counts as 95 % of it. \
Ranges are those over the band of HBM's
efficiency (0.91 to 0.97); `tilewright study llama2-7b --bands` has ranges over every assumption. One row by \
itself: `tilewright study published
--chip CHIP --group GROUP`. Kernels are ours, written to do what the published ones do; the published \
kernels themselves and recorded times of
the kernel library need checkouts and stand in [NKI on a \
laptop](nki.md#against-published-figures), with their kinds; [collectives](#collectives) come last.
";

const ROW_HEAD: &str = "\
| row | what | kind | published | ours | range | error | why |
|---|---|---|---|---|---|---|---|
";

const PEERS: &str = "
## How others do on theirs

Errors that the authors of other simulators print, against hardware that they had; none of them says which \
rows its figures were fitted to.

| simulator | of | error, as they say |
|---|---|---|
| LLMCompass (Zhang et al., ISCA 2024) | latency on GPUs and a TPU | 10.9 % on average over operators, 4.1 % \
for inference of language models |
| Vidur (Agrawal et al., MLSys 2024) | latency of serving on GPUs, from profiles of the operators | less \
than 9 % |
| Accel-Sim (Khairy et al., ISCA 2020) | cycles of 80 GPU workloads | 79 percentage points less than the \
simulator before it |
| gem5 for x86 (Akram and Sawalha, PMBS 2019) | microbenchmarks on a Core i7, after fixing what was found | \
less than 6 % on average |
";

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<PublishedRow> {
        let row = |name: &str, kind: &str, rest: &str| {
            format!(
                "[[row]]\nchip = \"c\"\ngroup = \"g\"\nname = \"{name}\"\nwhat = \"w\"\nsource = \"s\"\n\
                 published = 2.0\nunit = \"ms\"\nkind = \"{kind}\"\n{rest}\n"
            )
        };
        let text = [
            row("a", "development", "how = {}"),
            row("b/x", "calibration", "how = {}\ncalibrates = [\"hbm.stacks\"]"),
            row("d", "development", "how = { cannot = \"no\" }"),
            row("e", "held-out", "how = {}"),
        ];
        crate::rows::read(&text.concat()).expect("rows")
    }

    #[test]
    fn a_page_reads_back_and_the_worst_row_is_first() {
        let mut values = AccuracyValues::default();
        let shown = |ours| OursOfRow { ours: Some(ours), range: Some([1.5, 3.0]) };
        values.rows.insert("c/g/a".to_string(), shown(2.123_456));
        values.rows.insert("c/g/b/x".to_string(), OursOfRow { ours: Some(1.0), range: None });
        values.rows.insert("c/g/e".to_string(), OursOfRow { ours: Some(9.0), range: None });
        values.held_out.insert("c".to_string(), "1 | 350.0 % | 350.0 % | 350.0 %".to_string());
        let text = page(&rows(), &values);
        let (worst, next) = (text.find("| g/b/x |"), text.find("| g/a |"));
        assert!(worst < next && worst.is_some(), "{text}");
        assert!(text.contains("| g/a | w | development | 2 ms | 2.123 | 1.5 to 3 | +6.2 % |  |"), "{text}");
        assert!(
            text.contains("| g/e | w | held-out | 2 ms | held out |  | - |  |") && !text.contains("| 9 |")
        );
        assert!(text.contains("| c | held-out | 1 | 350.0 % | 350.0 % | 350.0 % |"), "{text}");
        let back = read_page(&text);
        assert_eq!(back.rows.get("c/g/a"), Some(&shown(2.123)));
        assert_eq!(page(&rows(), &back), text);
    }

    #[test]
    fn few_digits_are_enough() {
        let shown = [0.0, 1.0, 2.5, 0.012_345, 14_987.4, 99.996, 0.000_000_5].map(digits);
        assert_eq!(shown, ["0", "1", "2.5", "0.01235", "14987", "100", "0.0000005"]);
    }
}
