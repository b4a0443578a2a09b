//! A hardware figure lives in a machine file because something reads it: every key is read by a rule, or by a
//! derived quantity that is printed beside what others have published. A key that nothing reads is refused
//! here, before a machine file can state it.

#![expect(clippy::disallowed_methods, reason = "the test reads the repository")]

use std::fmt::Write as _;
use std::path::Path;

use tilewright_filetest::repository;
use tilewright_machine::Architecture;

/// Sources below a folder, without the folders of these names.
fn sources(folder: &Path, without: &[&str], text: &mut String) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if path.is_dir() && !without.contains(&name.as_str()) {
            sources(&path, without, text);
        } else if name.ends_with(".rs") {
            text.push_str(&std::fs::read_to_string(&path).unwrap_or_default());
        }
    }
}

/// A name is there, and not as the beginning of a longer one.
fn names(text: &str, name: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_');
    text.match_indices(name).any(|(at, _)| ends(&text[at + name.len()..]))
}

/// Keys that neither the code nor the derived quantities of an architecture read. Code may name a figure with
/// its section, or by its own name alone if no other section has it and `is_own` says that the code reads
/// sections whole.
fn unread(architecture: Architecture, code: &str, derived: &str, is_own: bool) -> String {
    let keys = || architecture.sections().iter().flat_map(|section| section.keys.iter());
    let mut wrong = String::new();
    for section in architecture.sections() {
        for key in section.keys {
            let figure = format!("{}.{}", section.name, key.name);
            let is_single = keys().filter(|other| other.name == key.name).count() == 1;
            let alone = is_own && is_single && names(code, &format!(".{}", key.name));
            if !alone && !names(code, &figure) && !names(derived, &figure) {
                writeln!(wrong, "{figure} is read by nothing").expect("a string");
            }
        }
    }
    wrong
}

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect()
}

fn checked(architecture: Architecture, derived: &str, without: &[&str], is_own: bool) {
    let root = repository();
    let mut code = String::new();
    sources(&root.join("crates"), without, &mut code);
    let derived =
        std::fs::read_to_string(root.join(derived)).unwrap_or_else(|error| panic!("{derived}: {error}"));
    let wrong = unread(architecture, &squeezed(&code), &squeezed(&derived), is_own);
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn every_figure_of_the_tcp_is_read() {
    let without = ["target", "tests", "machine", "neuron", "python"];
    checked(Architecture::Tcp, "crates/machine/src/tcp/derived.rs", &without, false);
}

#[test]
fn every_figure_of_the_neuron_core_is_read() {
    let without = ["target", "tests", "machine"];
    checked(Architecture::Neuron, "crates/machine/src/neuron/derived.rs", &without, true);
}

#[test]
fn a_figure_that_nothing_reads_is_found() {
    assert!(names("machine.dm.banks*2", "dm.banks") && !names("machine.dm.banks*2", "dm.bank"));
    let missing = unread(Architecture::Tcp, "machine.dm.banks*2", "m.dmn.bandwidth_bytes_per_cycle", false);
    assert!(missing.contains("dm.capacity_bytes is read by nothing\n"), "{missing}");
    assert!(
        !missing.contains("dm.banks is") && !missing.contains("dmn.bandwidth_bytes_per_cycle is"),
        "{missing}"
    );
    let alone = unread(Architecture::Neuron, "let figures = &machine.energy; figures.core_idle_w", "", true);
    assert!(!alone.contains("energy.core_idle_w is") && alone.contains("tensor.clock_hz is"), "{alone}");
}
