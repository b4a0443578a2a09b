//! A program with what its reader makes of it: the canonical text, or the complaints.
//!
//! ```text
//! program tcp 1
//! ...
//! // == printed
//! // | program tcp 1
//! // | ...
//! ```
//!
//! A program with a command on top (`//! run = ..`) is a [`crate::golden`] instead. The input is everything
//! before the line that begins with `// == `.

use std::fmt::Write as _;
use std::path::Path;

use tilewright_base::{Sources, render};
use tilewright_tcp_isa::program::text;

use crate::{blessing, difference};

const EXPECTATION: &str = "// == ";

/// Whether a file is a program without a command on top.
pub fn is_only_read(path: &Path) -> bool {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    path.extension().is_some_and(|extension| extension == "tcp") && !text.starts_with("//!")
}

/// Reads and prints one program; the error is what to print.
pub fn check(path: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let seen = run(&text, &name);
    if seen == text {
        return Ok(());
    }
    if blessing() {
        return std::fs::write(path, seen).map_err(|error| format!("{}: {error}", path.display()));
    }
    Err(difference(&text, &seen))
}

/// The file as it should read.
fn run(text: &str, name: &str) -> String {
    let lines = text.lines().take_while(|line| !line.starts_with(EXPECTATION));
    let mut seen: String = lines.map(|line| format!("{line}\n")).collect();
    let mut sources = Sources::default();
    let id = sources.add(name, seen.as_str());
    let (heading, result) = match text::read(&seen, id) {
        Ok(program) => ("printed", text::print(&program)),
        Err(complaints) => ("refused", render::plain(&sources, &complaints)),
    };
    let _ = writeln!(seen, "{EXPECTATION}{heading}");
    for line in result.lines() {
        let _ = writeln!(seen, "{}", format!("// | {line}").trim_end());
    }
    seen
}
