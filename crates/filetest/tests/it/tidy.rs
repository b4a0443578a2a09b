//! The tree is the architecture: who may use whom, how long files may be, and that each file says what it
//! owns.

#![expect(clippy::disallowed_methods, reason = "the tests read the repository")]

use std::path::{Path, PathBuf};

use tilewright_filetest::repository;

/// Crate, and the crates of ours that it may use directly. A new edge is a visible line here.
const MAY_USE: &[(&str, &[&str])] = &[
    ("crates/base", &[]),
    ("crates/num", &[]),
    ("crates/machine", &["base"]),
    ("crates/notation", &["base"]),
    ("crates/ir", &["base"]),
    ("crates/graph", &["base", "ir"]),
    ("crates/reference", &["graph"]),
    ("crates/import", &["base", "graph"]),
    ("crates/record", &[]),
    ("crates/tcp/isa", &["base", "ir", "machine", "notation", "num"]),
    ("crates/tcp/cost", &["base", "machine", "notation", "num", "tcp-isa"]),
    ("crates/tcp/exec", &["base", "machine", "notation", "num", "tcp-isa"]),
    ("crates/tcp/lower", &["base", "machine", "notation", "num", "tcp-cost", "tcp-isa"]),
    ("crates/tcp/sim", &["base", "machine", "num", "record", "tcp-cost", "tcp-isa"]),
    ("crates/tcp/micro", &["base", "machine", "tcp-cost", "tcp-isa"]),
    ("crates/neuron/isa", &["base", "ir", "machine", "num"]),
    ("crates/neuron/exec", &["base", "neuron-isa", "num"]),
    ("crates/neuron/sim", &["base", "neuron-isa", "record"]),
    (
        "crates/runtime",
        &["base", "compile", "machine", "num", "record", "tcp-cost", "tcp-exec", "tcp-isa", "tcp-sim"],
    ),
    (
        "crates/verify",
        &[
            "base",
            "explore",
            "machine",
            "neuron-isa",
            "notation",
            "record",
            "runtime",
            "tcp-isa",
            "tcp-lower",
        ],
    ),
    (
        "crates/explore",
        &[
            "base",
            "machine",
            "neuron-exec",
            "neuron-isa",
            "neuron-sim",
            "notation",
            "num",
            "tcp-cost",
            "tcp-isa",
            "tcp-lower",
        ],
    ),
    (
        "crates/compile",
        &[
            "base",
            "explore",
            "graph",
            "machine",
            "notation",
            "num",
            "reference",
            "tcp-cost",
            "tcp-isa",
            "tcp-lower",
        ],
    ),
    (
        "crates/schedule",
        &["base", "compile", "explore", "machine", "num", "record", "tcp-cost", "tcp-isa", "tcp-sim"],
    ),
    ("crates/artifact", &["base", "compile", "graph", "ir", "num", "tcp-isa"]),
    ("crates/report", &["notation"]),
    (
        "crates/study",
        &[
            "base",
            "compile",
            "explore",
            "graph",
            "machine",
            "neuron-isa",
            "notation",
            "num",
            "record",
            "report",
            "runtime",
            "tcp-cost",
            "tcp-isa",
            "tcp-sim",
        ],
    ),
    ("crates/view", &["record"]),
    (
        "crates/workbench",
        &[
            "base",
            "compile",
            "explore",
            "graph",
            "import",
            "machine",
            "neuron-isa",
            "neuron-sim",
            "notation",
            "num",
            "record",
            "report",
            "runtime",
            "schedule",
            "study",
            "tcp-cost",
            "tcp-exec",
            "tcp-isa",
            "tcp-lower",
            "tcp-sim",
            "verify",
            "view",
        ],
    ),
    (
        "crates/cli",
        &[
            "artifact",
            "base",
            "compile",
            "explore",
            "graph",
            "import",
            "machine",
            "neuron-isa",
            "neuron-sim",
            "notation",
            "num",
            "record",
            "reference",
            "report",
            "runtime",
            "schedule",
            "study",
            "tcp-cost",
            "tcp-exec",
            "tcp-isa",
            "tcp-lower",
            "tcp-sim",
            "verify",
            "view",
            "workbench",
        ],
    ),
    (
        "crates/python",
        &[
            "",
            "base",
            "explore",
            "machine",
            "neuron-exec",
            "neuron-isa",
            "neuron-sim",
            "notation",
            "num",
            "record",
            "runtime",
            "tcp-exec",
            "tcp-isa",
            "tcp-lower",
            "verify",
            "view",
            "workbench",
        ],
    ),
    (
        "crates/filetest",
        &[
            "",
            "artifact",
            "base",
            "compile",
            "graph",
            "import",
            "ir",
            "machine",
            "neuron-isa",
            "neuron-sim",
            "notation",
            "num",
            "runtime",
            "study",
            "tcp-cost",
            "tcp-isa",
            "testkit",
        ],
    ),
    ("crates/testkit", &["base", "machine"]),
    (
        "bench",
        &[
            "base",
            "compile",
            "explore",
            "graph",
            "import",
            "machine",
            "neuron-isa",
            "notation",
            "num",
            "record",
            "report",
            "runtime",
            "schedule",
            "testkit",
        ],
    ),
];

/// Longest source file; a longer one must be listed with its reason.
const MAX_LINES: usize = 600;

fn files(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target" && name != ".venv") {
            files(&path, extension, found);
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
}

fn sources() -> Vec<PathBuf> {
    let root = repository();
    let mut found = Vec::new();
    for folder in ["crates", "bench", "fuzz/fuzz_targets"] {
        files(&root.join(folder), "rs", &mut found);
    }
    assert!(found.len() > 50, "found {} source files", found.len());
    found
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The manifest of a crate.
fn manifest(folder: &str) -> toml::Table {
    read(&repository().join(folder).join("Cargo.toml")).parse().expect("a manifest is TOML")
}

#[test]
fn crates_use_only_what_they_may() {
    let root = repository();
    let workspace: toml::Table =
        read(&root.join("Cargo.toml")).parse().expect("the workspace manifest is TOML");
    let members = workspace["workspace"]["members"].as_array().expect("a list of members");
    let members: Vec<&str> = members.iter().filter_map(toml::Value::as_str).collect();
    let listed: Vec<&str> = MAY_USE.iter().map(|(name, _)| *name).collect();
    assert_eq!(members, listed, "every member of the workspace is listed here, in order");
    for (folder, allowed) in MAY_USE {
        let manifest = manifest(folder);
        let Some(dependencies) = manifest.get("dependencies").and_then(toml::Value::as_table) else {
            continue;
        };
        for name in dependencies.keys().filter_map(|name| name.strip_prefix("tilewright")) {
            let name = name.trim_start_matches('-');
            assert!(
                allowed.contains(&name),
                "{folder} uses tilewright-{name}, which the architecture does not allow"
            );
        }
    }
}

/// Whether documentation has a program that is run: a fence that says nothing else.
fn has_example(text: &str) -> bool {
    let documentation = text.lines().filter_map(|line| {
        let line = line.trim_start();
        line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))
    });
    let fences = documentation.filter_map(|line| line.trim_start().strip_prefix("```"));
    fences.step_by(2).any(|opens| ["", "rust", "no_run"].contains(&opens.trim()))
}

/// A library is built a second time for tests of its own, and is read once more for its examples: only those
/// that have some, and all of those.
#[test]
fn libraries_are_built_for_tests_if_they_have_some() {
    let root = repository();
    for (folder, _) in MAY_USE {
        let manifest = manifest(folder);
        let library = manifest.get("lib").and_then(toml::Value::as_table);
        let is_on = |key: &str| library.and_then(|keys| keys.get(key)).and_then(toml::Value::as_bool);
        let mut sources = Vec::new();
        files(&root.join(folder).join("src"), "rs", &mut sources);
        let text: Vec<String> = sources.iter().map(|path| read(path)).collect();
        let lines = || text.iter().flat_map(|text| text.lines()).map(str::trim_start);
        let tests = lines().any(|line| line.starts_with("#[cfg(test)]") || line.starts_with("#[test]"));
        let examples = text.iter().any(|text| has_example(text));
        assert_eq!(is_on("test").unwrap_or(true), tests, "{folder}: `test` of the library");
        assert_eq!(is_on("doctest").unwrap_or(true), examples, "{folder}: `doctest` of the library");
    }
}

#[test]
fn every_source_file_says_what_it_owns() {
    for path in sources() {
        assert!(read(&path).starts_with("//!"), "{} does not open with //!", path.display());
    }
}

#[test]
fn source_files_are_short() {
    for path in sources() {
        let lines = read(&path).lines().count();
        assert!(lines <= MAX_LINES, "{} has {lines} lines; at most {MAX_LINES}", path.display());
    }
}

/// Columns of a line of Rust at most.
const MAX_COLUMNS: usize = 110;

/// Lines that are longer, by number. A row of a table in a comment cannot be broken, nor can a raw string
/// without changing what it says.
fn long_lines(text: &str) -> Vec<usize> {
    let mut raw_end: Option<String> = None;
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let inside = raw_end.is_some();
        if raw_end.as_ref().is_some_and(|end| line.contains(end)) {
            raw_end = None;
        }
        let opened = if inside { None } else { raw_string(line) };
        let table = ["//! |", "/// |"].iter().any(|row| line.trim_start().starts_with(row));
        if line.chars().count() > MAX_COLUMNS && !inside && opened.is_none() && !table {
            found.push(number);
        }
        raw_end = raw_end.or(opened.filter(|(end, rest)| !rest.contains(end)).map(|(end, _)| end));
    }
    found
}

/// What ends the first raw string of a line, and the line behind its beginning.
fn raw_string(line: &str) -> Option<(String, &str)> {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    line.match_indices('r').find_map(|(at, _)| {
        let before = line[..at].strip_suffix('b').unwrap_or(&line[..at]);
        let rest = line[at + 1..].trim_start_matches('#');
        let hashes = line.len() - at - 1 - rest.len();
        let rest = rest.strip_prefix('"').filter(|_| !before.ends_with(is_word))?;
        Some((format!("\"{}", "#".repeat(hashes)), rest))
    })
}

#[test]
fn lines_of_rust_fit_a_page() {
    let root = repository();
    let mut found = Vec::new();
    for path in sources() {
        let name = path.strip_prefix(&root).unwrap_or(&path).display().to_string();
        found.extend(long_lines(&read(&path)).into_iter().map(|number| format!("{name}:{number}")));
    }
    assert!(found.is_empty(), "lines of more than {MAX_COLUMNS} columns:\n{}", found.join("\n"));
}

#[test]
fn long_lines_are_found_outside_of_tables_and_raw_strings() {
    let long = "x".repeat(MAX_COLUMNS);
    let text = format!(
        "{long}\n{long}y\n//! | {long} |\n/// {long}\nlet text = r#\"{long}\n{long}\"\n\"#;\n{long}z\n"
    );
    assert_eq!(long_lines(&text), [2, 4, 8]);
}

#[test]
fn names_say_what_a_file_holds() {
    for path in sources() {
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let vague = ["util", "utils", "helper", "helpers", "common", "misc", "manager"];
        assert!(!vague.contains(&stem.as_str()), "{}", path.display());
    }
}

#[test]
fn the_architecture_page_names_every_crate() {
    let page = read(&repository().join("ARCHITECTURE.md"));
    for (folder, _) in MAY_USE {
        assert!(page.contains(&format!("`{folder}`")), "ARCHITECTURE.md does not name {folder}");
    }
}

#[test]
fn the_book_lists_every_chapter_and_its_links_lead_somewhere() {
    let docs = repository().join("docs");
    let index = read(&docs.join("README.md"));
    let mut pages = Vec::new();
    files(&docs, "md", &mut pages);
    for page in pages {
        let name = page.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        assert!(
            name == "README.md" || index.contains(&format!("({name})")),
            "docs/README.md does not list {name}"
        );
        let text = read(&page);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split('#').next().unwrap_or_default();
            let outside = target.starts_with("http") || target.is_empty();
            let folder = page.parent().unwrap_or(&docs);
            assert!(outside || folder.join(target).exists(), "{}: no {target}", page.display());
        }
    }
}

/// Citations name public work or a section of the book: a file outside the repository is nothing that a
/// reader has.
#[test]
fn citations_stay_within_the_repository() {
    let root = repository();
    let rules = read(&root.join("docs/hardware-rules.md"));
    let headings =
        rules.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let anchors: Vec<String> = headings.map(|heading| heading.to_lowercase().replace(' ', "-")).collect();
    let mut pages = sources();
    for (folder, extension) in [("docs", "md"), ("machines", "toml"), ("machines", "md"), ("python", "py")] {
        files(&root.join(folder), extension, &mut pages);
    }
    let outside =
        ["shared/".to_string() + "reference", "seeds".to_string() + "/", ".md ".to_string() + "section"];
    for page in pages {
        let text = read(&page);
        for word in &outside {
            assert!(!text.contains(word.as_str()), "{}: cites `{word}`, which is not here", page.display());
        }
        for rest in text.split("hardware-rules.md#").skip(1) {
            let end = rest.find(|letter: char| !letter.is_ascii_lowercase() && letter != '-');
            let anchor = &rest[..end.unwrap_or(rest.len())];
            let is_here = anchor.is_empty() || anchors.iter().any(|known| known == anchor);
            assert!(is_here, "{}: docs/hardware-rules.md has no section `{anchor}`", page.display());
        }
    }
}

/// Words that the project once had for things that have a name in the field, and that name.
const RETIRED: &[(&str, &str)] = &[
    ("judge", "reference (computes values) or checker (says what is wrong)"),
    ("judges", "is the reference of, checks"),
    ("judged", "checked, evaluated"),
    ("chances", "probs"),
    ("worths", "scales"),
    ("greatest", "max, amax, qmax, largest"),
    ("dealt out", "sharded"),
    ("both_ways", "noncausal"),
    ("surprise", "negative log-likelihood"),
    ("stands still", "stalls"),
    ("stood still", "stalled"),
    ("know again", "recognise"),
    ("fluid", "bandwidth sharing"),
    ("truths", "bools"),
    ("turned round", "flipped, transposed"),
];

/// Type names that say nothing of what a type holds.
const VAGUE_TYPES: &[&str] = &[
    "Alike", "Asked", "Before", "Beside", "Between", "Brought", "Decides", "Given", "Heard", "Held", "Judge",
    "Kept", "Laid", "Left", "Lent", "Look", "Made", "Met", "Moved", "Ran", "Said", "Seen", "Shown", "Spoken",
    "Stated", "Taken", "Together", "Told", "Turn", "Turned", "UnderWay", "Wanted", "Way",
];

/// Folders and files whose words still wait: the compiler that is rewritten, what is renamed at present, and
/// who uses a name of theirs. What leaves the list does not come back.
const WORDS_WAIT: &[&str] = &[
    "crates/compile/src/general/",
    "crates/compile/src/tcp/",
    "crates/compile/src/lowered/explorer.rs",
    "crates/compile/tests/it/explored.rs",
    "crates/study/src/block.rs",
    "crates/study/src/layout.rs",
];

/// Whether a text has a word, not as a part of another.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    text.match_indices(word).any(|(at, found)| {
        let before = text[..at].chars().next_back().is_some_and(is_part);
        let behind = text[at + found.len()..].chars().next().is_some_and(is_part);
        !before && !behind
    })
}

#[test]
fn retired_words_stay_away() {
    let root = repository();
    let mut pages = Vec::new();
    for (folder, extension) in [("crates", "rs"), ("docs", "md"), ("python", "py")] {
        files(&root.join(folder), extension, &mut pages);
    }
    let mut found = Vec::new();
    for page in pages {
        let name = page.strip_prefix(&root).unwrap_or(&page).to_string_lossy().replace('\\', "/");
        if name.ends_with("filetest/tests/it/tidy.rs") || WORDS_WAIT.iter().any(|wait| name.starts_with(wait))
        {
            continue;
        }
        for (number, line) in (1..).zip(read(&page).lines()) {
            let words = RETIRED.iter().filter(|(word, _)| has_word(line, word));
            found.extend(words.map(|(word, instead)| format!("{name}:{number}: `{word}`; write {instead}")));
            let types = VAGUE_TYPES.iter().filter(|vague| {
                ["struct", "enum", "trait", "type"]
                    .iter()
                    .any(|kind| has_word(line, &format!("{kind} {vague}")))
            });
            found.extend(types.map(|vague| format!("{name}:{number}: type `{vague}`; name what it holds")));
        }
    }
    assert!(found.is_empty(), "retired words (docs/glossary.md):\n{}", found.join("\n"));
}

fn codes() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    let graphs = tilewright_graph::verify::CODES.iter();
    tilewright_tcp_isa::verify::CODES.iter().chain(tilewright_tcp_sim::findings::CODES).chain(graphs)
}

#[test]
fn every_code_of_graphs_has_a_text_that_shows_it() {
    let mut texts = Vec::new();
    files(&repository().join("tests/graph"), "graph", &mut texts);
    let shown: Vec<String> = texts.iter().map(|path| read(path)).collect();
    for (code, _) in tilewright_graph::verify::CODES {
        let seen = shown.iter().any(|text| text.contains(&format!("// | error[{code}]")));
        assert!(seen, "no text in tests/graph shows {code}");
    }
}

#[test]
fn the_book_lists_every_code_of_programs_and_runs() {
    let page = read(&repository().join("docs/diagnostics.md"));
    for (code, _) in codes() {
        assert!(page.contains(&format!("| `{code}` |")), "docs/diagnostics.md does not list {code}");
    }
}

/// Findings that verification forestalls: a program that `sim` runs cannot have them.
const FORESTALLED: [&str; 2] = ["tcp/fault", "tcp/queue-overflow"];

#[test]
fn every_finding_has_a_program_that_shows_it() {
    let mut programs = Vec::new();
    files(&repository().join("tests/sim"), "tcp", &mut programs);
    let shown: Vec<String> = programs.iter().map(|path| read(path)).collect();
    for (code, _) in
        tilewright_tcp_sim::findings::CODES.iter().filter(|(code, _)| !FORESTALLED.contains(code))
    {
        let rendered = ["error", "warning"].map(|severity| format!("// | {severity}[{code}]"));
        let seen = shown.iter().any(|text| rendered.iter().any(|line| text.contains(line)));
        assert!(seen, "no program in tests/sim shows {code}");
    }
}

#[test]
fn number_rules_of_machine_files_exist() {
    for rules in tilewright_machine::NumberRules::NAMES {
        assert!(tilewright_num::RuleSet::by_name(rules).is_some(), "no number rules are called {rules}");
    }
}
