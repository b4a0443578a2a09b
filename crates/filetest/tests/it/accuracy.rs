//! `docs/accuracy.md` is the page of the published rows as they are now and of what the models give: rows of
//! the TCP are computed again here, those of Neuron chips by `python/tests/test_nki_published.py`.

#![expect(clippy::disallowed_methods, reason = "the test reads the repository's own files")]

use std::process::Command;

use serde_json::Value;
use tilewright_base::Sources;
use tilewright_filetest::repository;
use tilewright_machine::{builtin, load};
use tilewright_study::accuracy::{AccuracyValues, OursOfRow, page, read_page};
use tilewright_study::published::{OwnResults, compare};
use tilewright_study::rows::{FILE, PublishedRow, of_chip, read};

fn committed() -> String {
    std::fs::read_to_string(repository().join("docs/accuracy.md")).expect("the page is there")
}

fn rows() -> Vec<PublishedRow> {
    read(FILE).expect("the rows are valid")
}

/// The case study, from its golden.
fn study() -> Value {
    let golden =
        std::fs::read_to_string(repository().join("tests/study/llama2-7b.cli")).expect("the golden is there");
    let lines = golden.lines().filter_map(|line| line.strip_prefix("# | ").or(line.strip_prefix("# |")));
    serde_json::from_str(&lines.collect::<Vec<_>>().join("\n")).expect("the golden is JSON")
}

/// A row of Table II over the band of HBM's efficiency.
fn range(study: &Value, name: &str) -> Option<[f64; 2]> {
    let bands = study["bands"]["table2"].as_array()?;
    let band = bands.iter().find(|band| band["row"] == name && band["scales"] == study["scales"])?;
    let [low, high] = [band["ours"][0].as_f64()?, band["ours"][2].as_f64()?];
    Some([low.min(high), low.max(high)])
}

/// What the page must have of the TCP.
fn of_tcp(rows: &[PublishedRow], values: &mut AccuracyValues) {
    let mut sources = Sources::default();
    let id = sources.add("tcp", builtin("tcp").expect("it is built in"));
    let loaded = load(&mut sources, id, &|base| builtin(base).map(str::to_string)).expect("it loads");
    let study = study();
    let mut table2 = |name: &str| {
        let found = study["table2"].as_array().and_then(|rows| rows.iter().find(|row| row["row"] == name));
        Ok(found.and_then(|row| row["ours"].as_f64()))
    };
    let machine = loaded.machine.tcp().expect("a TCP");
    let mut ours = OwnResults { loaded: &loaded, machine, table2: &mut table2 };
    let of = of_chip(rows, "tcp", None);
    let compared = compare("tcp", &of, &mut ours).expect("every row says what to do");
    for (row, found) in of.iter().zip(&compared.rows) {
        let is_plain = ["over", "under", "below"].iter().all(|word| row.how.get(word).is_none());
        let named = row.how.get("study").and_then(toml::Value::as_str).filter(|_| is_plain);
        let range = named.and_then(|name| range(&study, name));
        values.rows.insert(row.id(), OursOfRow { ours: found.ours, range });
    }
}

#[test]
fn the_page_is_that_of_the_rows_and_the_model() {
    let (text, rows) = (committed(), rows());
    let mut values = read_page(&text);
    of_tcp(&rows, &mut values);
    let expected = page(&rows, &values);
    let differs = expected.lines().zip(text.lines()).find(|(expected, found)| expected != found);
    assert!(expected == text, "{differs:#?}: write it again: tilewright study accuracy -o docs/accuracy.md");
}

/// Every miss of more than a quarter says what is known of it.
#[test]
fn every_large_miss_says_why() {
    let (values, rows) = (read_page(&committed()), rows());
    let runs = rows.iter().filter(|row| row.how.get("cannot").is_none());
    for row in runs.clone() {
        let ours = values.rows.get(&row.id()).and_then(|shown| shown.ours);
        let is_told = row.kind != tilewright_study::kinds::RowKind::HeldOut;
        assert_eq!(ours.is_some(), is_told, "{}", row.id());
        let published = row.published * if row.ceiling { 0.95 } else { 1.0 };
        let error = ours.map_or(0.0, |ours| if published == 0.0 { 0.0 } else { ours / published - 1.0 });
        assert!(error.abs() <= 0.25 || row.why.is_some(), "{} is off by {error:.3}", row.id());
    }
    assert!(runs.count() > 200);
}

/// Lines of a command of git; none where there is no history.
fn git(words: &[&str]) -> Vec<String> {
    let found = Command::new("git").args(words).current_dir(repository()).output();
    let output = found.map(|found| String::from_utf8_lossy(&found.stdout).into_owned()).unwrap_or_default();
    output.lines().map(str::to_string).collect()
}

/// Who looks at errors of held-out rows changes no figure: a commit that changes their summary on the page
/// leaves `machines/` alone.
#[test]
fn no_commit_changes_figures_and_looks_at_held_out_rows() {
    let summary = "-G^\\| [a-z0-9]+ \\| held-out \\| [1-9]";
    for commit in git(&["log", "--no-merges", "--format=%H", "-E", summary, "--", "docs/accuracy.md"]) {
        let files = git(&["diff-tree", "--no-commit-id", "--name-only", "-r", &commit]);
        let figures: Vec<&String> = files.iter().filter(|file| file.starts_with("machines/")).collect();
        assert!(figures.is_empty(), "{commit} looks at held-out rows and changes {figures:?}");
    }
}
