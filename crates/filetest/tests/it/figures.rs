//! Every figure of the tcp machine is read by some rule: one that only reports show is named here, with the reason.

#![expect(clippy::disallowed_methods, reason = "the test reads the repository")]

use std::fmt::Write as _;
use std::path::Path;

use tilewright_filetest::repository;

/// Figures that reports show and no rule needs.
const SHOWN: &[(&str, &str)] = &[
    ("chip.card_tdp_w", "of the card, not the chip"),
    ("chip.card_idle_w", "of the card, not the chip"),
    ("chip.process_nm", "what energies are scaled to"),
    ("chip.die_width_mm", "area"),
    ("chip.die_height_mm", "area"),
    ("cpu.clock_hz", "control cores take push and wait times in cycles of the chip"),
    ("cpu.l1_instruction_bytes", "no cache is simulated"),
    ("cpu.l1_data_bytes", "no cache is simulated"),
    ("cpu.l2_bytes", "no cache is simulated"),
    ("network.networks", "one for each context, of which programs have two"),
    ("trf.row_bits", "as built; payload is what rules count"),
    ("pcie.lanes", "peak of the host link; no command uses it"),
    ("pcie.lane_transfers_per_s", "peak of the host link; no command uses it"),
];

fn sources(folder: &Path, text: &mut String) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if path.is_dir() && !["target", "tests", "machine", "neuron", "python"].contains(&name.as_str()) {
            sources(&path, text);
        } else if name.ends_with(".rs") {
            text.push_str(&std::fs::read_to_string(&path).unwrap_or_default());
        }
    }
}

/// `section.key` of every figure of a machine file.
fn figures(toml: &str) -> Vec<(String, String)> {
    let (mut section, mut found) = (String::new(), Vec::new());
    for line in toml.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name.to_owned();
        } else if let Some((key, _)) = line.split_once(" = ").filter(|(key, _)| !key.starts_with(['#', '"']))
        {
            let figures = !["", "sources", "published", "numerics"].contains(&section.as_str());
            if figures {
                found.push((section.clone(), key.to_owned()));
            }
        }
    }
    found
}

/// A name is there, and not as the beginning of a longer one.
fn names(text: &str, name: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_');
    text.match_indices(name).any(|(at, _)| ends(&text[at + name.len()..]))
}

/// Functions of the machine that someone calls, with what they read; until there are no more.
fn called(derived: &str, code: &str) -> String {
    let bodies: Vec<(&str, &str)> = derived
        .split("fn ")
        .skip(1)
        .filter_map(|rest| {
            rest.split_once('(').map(|(name, body)| (name, body.split("\n    }").next().unwrap_or(body)))
        })
        .collect();
    let (mut read, mut known) = (String::new(), Vec::new());
    loop {
        let next = bodies.iter().find(|(name, _)| {
            let call = format!(".{name}(");
            !known.contains(name) && (code.contains(&call) || read.contains(&call))
        });
        let Some((name, body)) = next else { return read };
        known.push(name);
        read.push_str(body);
    }
}

#[test]
fn every_figure_of_the_tcp_is_read_or_listed_as_shown() {
    let root = repository();
    let file = |path: &str| {
        std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    let mut code = String::new();
    sources(&root.join("crates"), &mut code);
    let code = code.split_whitespace().collect::<String>();
    let derived = file("crates/machine/src/tcp/derived.rs");
    let read = called(&derived, &code).split_whitespace().collect::<String>();
    let mut wrong = String::new();
    for (section, key) in figures(&file("machines/tcp.toml")) {
        let figure = format!("{section}.{key}");
        let is_read = names(&code, &figure) || names(&read, &figure);
        let shown = SHOWN.iter().any(|(name, _)| *name == figure);
        if is_read == shown {
            let what = if shown { "is listed as shown, but read" } else { "is read by nothing" };
            writeln!(wrong, "{figure} {what}").expect("a string");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn a_figure_that_nothing_reads_is_found() {
    let toml = "[dm]\nbanks = 16\nbank = 3\n[sources]\nx = 1\n";
    assert_eq!(figures(toml), [("dm".to_owned(), "banks".to_owned()), ("dm".to_owned(), "bank".to_owned())]);
    assert!(names("machine.dm.banks*2", "dm.banks") && !names("machine.dm.banks*2", "dm.bank"));
    let derived = "pub fn one(&self) -> u64 {\n  self.dm.banks\n    }\n pub fn two(&self) {\n self.one() + self.dm.bank\n    }";
    assert!(names(&called(derived, "m.one()"), "dm.banks") && !names(&called(derived, "m.one()"), "dm.bank"));
    assert!(names(&called(derived, "m.two()"), "dm.banks"));
}
