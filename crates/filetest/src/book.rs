//! Fenced examples of Markdown pages.
//!
//! A `console` fence holds commands behind `$ ` and what they print; a command may go on in the next line
//! after a backslash, and `|` between two of ours gives what the first prints to the second. A line `...` of
//! the expected text stands for any lines. Files that a command writes must equal those in the repository. A
//! `tw` fence is a notation file that must be legal on the default chip, a `tw refused` fence one that must
//! not be; a `tcp` or `neuron` fence is a program that must run without a certain finding, a `tcp refused` or
//! `neuron refused` fence one that must not; a `graph` fence is a graph text that must lower to primitives, a
//! `graph refused` fence one that must not; a `toml machine` fence is a machine file that must load. A file
//! name behind these (`tcp scale.tcp`) lets later console fences of the page use the text as that file.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use crate::host::{TestHost, run, run_pipe};
use crate::{blessing, difference, repository, words};

/// Runs every example of one page; the error is what to print.
pub fn check(path: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut seen = String::new();
    let mut complaints = String::new();
    let mut given = NamedTexts::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let _ = writeln!(seen, "{line}");
        let Some(kind) = line.strip_prefix("```").filter(|kind| !kind.is_empty()) else { continue };
        let body: String =
            lines.by_ref().take_while(|line| *line != "```").map(|line| format!("{line}\n")).collect();
        match example(kind, &body, &mut given) {
            Ok(new) => seen.push_str(&new),
            Err(why) => {
                let _ = writeln!(complaints, "{kind}:\n{body}{why}");
                seen.push_str(&body);
            }
        }
        seen.push_str("```\n");
    }
    if !complaints.is_empty() {
        return Err(complaints);
    }
    if seen == text {
        return Ok(());
    }
    if blessing() {
        return std::fs::write(path, seen).map_err(|error| format!("{}: {error}", path.display()));
    }
    Err(difference(&text, &seen))
}

/// Texts of a page that its commands can name.
type NamedTexts = BTreeMap<String, Vec<u8>>;

/// The body of a fence as it should read.
fn example(kind: &str, body: &str, given: &mut NamedTexts) -> Result<String, String> {
    let (kind, name) = match kind.rsplit_once(' ') {
        Some((kind, name)) if name.contains('.') => (kind, Some(name)),
        _ => (kind, None),
    };
    if let Some(name) = name {
        given.insert(name.to_string(), body.as_bytes().to_vec());
    }
    match kind {
        "console" => console(body, given),
        "tw" => verdict(&["notation", "check", "-"], body, 0),
        "tw refused" => verdict(&["notation", "check", "-"], body, 1),
        "tcp" | "neuron" => verdict(&["sim", "-"], body, 0),
        "tcp refused" | "neuron refused" => verdict(&["sim", "-"], body, 1),
        "graph" => verdict(&["compile", "-", "--emit", "primitives"], body, 0),
        "graph refused" => verdict(&["compile", "-", "--emit", "primitives"], body, 2),
        "toml machine" => verdict(&["machine", "check", "-"], body, 0),
        _ => Ok(body.to_string()),
    }
}

fn verdict(words: &[&str], body: &str, wanted: u8) -> Result<String, String> {
    let mut host = TestHost { root: repository(), ..TestHost::default() };
    host.given.insert("-".to_string(), body.as_bytes().to_vec());
    let words: Vec<String> = words.iter().map(ToString::to_string).collect();
    let outcome = run(&words, &mut host);
    if outcome.code == wanted {
        return Ok(body.to_string());
    }
    Err(format!("exit {} instead of {wanted}\n{}{}", outcome.code, outcome.stdout, outcome.stderr))
}

fn console(body: &str, given: &mut NamedTexts) -> Result<String, String> {
    let mut seen = String::new();
    let mut lines = body.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(first) = line.strip_prefix("$ ") else {
            return Err(format!("output before the first command: {line}"));
        };
        let mut command = first.to_string();
        let _ = writeln!(seen, "{line}");
        while command.ends_with('\\') {
            let next = lines.next().unwrap_or_default();
            let _ = writeln!(seen, "{next}");
            command.push('\n');
            command.push_str(next);
        }
        let mut expected = String::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with("$ ")) {
            let _ = writeln!(expected, "{line}");
        }
        seen.push_str(&output_of(&command, &expected, given)?);
    }
    Ok(seen)
}

/// What a command prints, or `expected` if that stands for it. Files that it writes are there for the
/// commands after it; those of the book must be what the repository has.
fn output_of(command: &str, expected: &str, given: &mut NamedTexts) -> Result<String, String> {
    let mut commands = words::pipe(command);
    for words in &mut commands {
        let demonstration = words.iter().map(String::as_str).eq(["cargo", "run", "--release"]);
        if !demonstration && words.first().is_none_or(|first| first != "tilewright") {
            // Other commands are for the reader.
            return Ok(expected.to_string());
        }
        *words = if demonstration { Vec::new() } else { words[1..].to_vec() };
    }
    let mut host = TestHost { root: repository(), given: given.clone(), ..TestHost::default() };
    let outcome = run_pipe(&commands, &mut host);
    for (path, bytes) in host.written {
        if path.starts_with("docs/") {
            same_file(&host.root.join(&path), &bytes)?;
        }
        given.insert(path, bytes);
    }
    let seen = outcome.stdout + &outcome.stderr;
    let seen: String = seen.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    if !expected.lines().any(|line| line == "...") {
        return Ok(seen);
    }
    if abridged(expected, &seen) { Ok(expected.to_string()) } else { Err(difference(expected, &seen)) }
}

fn same_file(path: &Path, bytes: &[u8]) -> Result<(), String> {
    if std::fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    if blessing() {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        }
        return std::fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()));
    }
    Err(format!("{} is not what the command writes; to accept: BLESS=1\n", path.display()))
}

/// Whether `seen` has the parts of `expected` between its `...` lines, in order, the first at the start and
/// the last at the end.
fn abridged(expected: &str, seen: &str) -> bool {
    let parts: Vec<String> = expected
        .split_inclusive('\n')
        .collect::<Vec<_>>()
        .split(|line| line.trim_end() == "...")
        .map(|lines| lines.concat())
        .collect();
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return false };
    let Some(mut rest) = seen.strip_prefix(first.as_str()) else { return false };
    for part in &parts[1..parts.len() - 1] {
        let Some(at) = rest.find(part.as_str()) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_stand_for_any_lines() {
        assert!(abridged("a\n...\nd\n", "a\nb\nc\nd\n"));
        assert!(abridged("a\n...\nc\n...\n", "a\nb\nc\nd\n"));
        assert!(!abridged("a\n...\nd\n", "a\nb\nc\n"));
        assert!(!abridged("b\n...\n", "a\nb\n"));
    }
}
