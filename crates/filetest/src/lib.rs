//! The text-golden harness. Nothing depends on it but tests and fuzz targets.
//!
//! - [`golden`]: a file with a command line on top, its input, and the expected streams below as comments;
//! - [`book`]: fenced examples of the book, run and compared;
//! - [`host`]: the host that both run commands on: reads the repository, keeps what is written;
//! - [`program_text`]: a program of the TCP, with its canonical text or the complaints below;
//! - [`fuzz`]: what must hold for any bytes, shared by fuzz targets and the replay of their corpus;
//! - [`fuzz_driver`]: a campaign of mutated inputs over all of these checks.
//!
//! `BLESS=1` writes what was seen as what is expected; the diff is then reviewed like code.

#![expect(clippy::disallowed_methods, reason = "the harness reads and writes golden files")]

pub mod book;
pub mod fuzz;
pub mod fuzz_driver;
pub mod golden;
pub mod host;
pub mod node_tests;
pub mod program_text;
pub mod words;

use std::path::PathBuf;

/// The top of the repository.
pub fn repository() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.join("../..").canonicalize().unwrap_or(here)
}

/// Whether expected texts are to be rewritten.
pub fn blessing() -> bool {
    std::env::var("BLESS").is_ok_and(|value| !value.is_empty() && value != "0")
}

/// A unified diff, and how to accept it.
pub fn difference(expected: &str, seen: &str) -> String {
    let diff = similar::TextDiff::from_lines(expected, seen);
    let text = diff.unified_diff().context_radius(3).header("expected", "seen").to_string();
    format!("{text}\nto accept: BLESS=1 cargo test -p tilewright-filetest\n")
}
