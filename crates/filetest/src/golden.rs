//! A golden file: what to run, on what, and what must come out.
//!
//! ```text
//! //! run = "notation check FILE --chip tcp"
//! ble, ef -> blf
//! ...
//! // == exit 0
//! // == stdout
//! // | legal on tcp ...
//! ```
//!
//! `FILE` stands for the input, the lines between head and expectations. Comments start with `//` in `.tw`,
//! `.tcp`, `.neuron` and `.graph` files and with `#` elsewhere, so that an input with its expectations is
//! still a valid file of its kind. `a | b -` gives what `a` prints to `b`; `tilewright` is not written. `deep
//! = true` leaves a golden that takes long to `./test deep`. `run = ["..", ".."]` runs several commands on
//! the same input. Of a binary that a command writes a golden says no more than that it is one.

use std::fmt::Write as _;
use std::path::Path;

use tilewright_ir::binary::is_binary;

use crate::host::{TestHost, run_pipe};
use crate::{blessing, difference, repository, words};

/// Whether a golden's head says `deep = true`: it is left to `./test deep`.
pub fn is_deep(path: &Path) -> bool {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let head = text.lines().take_while(|line| line.starts_with("//!") || line.starts_with("#!"));
    head.map(|line| line.trim_start_matches(['/', '#', '!']).trim()).any(|line| line == "deep = true")
}

/// Runs one golden file; the error is what to print.
pub fn check(path: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let slashes =
        path.extension().is_some_and(|e| ["tw", "tcp", "neuron", "graph"].iter().any(|one| e == *one));
    let comment = if slashes { "//" } else { "#" };
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let seen = run_golden(&text, comment, &name)?;
    if seen == text {
        return Ok(());
    }
    if blessing() {
        return std::fs::write(path, seen).map_err(|error| format!("{}: {error}", path.display()));
    }
    Err(difference(&text, &seen))
}

/// The file as it should read.
fn run_golden(text: &str, comment: &str, name: &str) -> Result<String, String> {
    let head_mark = format!("{comment}!");
    let head: String =
        text.lines().take_while(|line| line.starts_with(&head_mark)).map(|l| format!("{l}\n")).collect();
    let expectations = format!("{comment} == ");
    let body = &text[head.len().min(text.len())..];
    let input: String = body
        .lines()
        .take_while(|line| !line.starts_with(&expectations))
        .map(|line| format!("{line}\n"))
        .collect();
    let commands = commands(&head, &head_mark)?;
    // The head is a comment of the input's own language, so line numbers are those of the file.
    let whole = format!("{head}{input}").into_bytes();
    let mut seen = head + &input;
    for command in &commands {
        if commands.len() > 1 {
            let _ = writeln!(seen, "{comment} == run {command}");
        }
        run_command(&mut seen, comment, command, name, &whole);
    }
    Ok(seen)
}

/// Adds what a command leaves behind.
fn run_command(seen: &mut String, comment: &str, command: &str, name: &str, whole: &[u8]) {
    let mut host = TestHost { root: repository(), ..TestHost::default() };
    host.given.insert(name.to_string(), whole.to_vec());
    host.given.insert("-".to_string(), whole.to_vec());
    let mut commands = words::pipe(command);
    for word in commands.iter_mut().flatten().filter(|word| *word == "FILE") {
        *word = name.to_string();
    }
    let outcome = run_pipe(&commands, &mut host);
    let _ = writeln!(seen, "{comment} == exit {}", outcome.code);
    let shown = |bytes: &[u8]| match is_binary(bytes) {
        true => "a binary".into(),
        false => String::from_utf8_lossy(bytes).into_owned(),
    };
    let written = host.written.iter().map(|(path, bytes)| (format!("file {path}"), shown(bytes)));
    let streams = [("stdout".to_string(), outcome.stdout), ("stderr".to_string(), outcome.stderr)];
    for (section, text) in streams.into_iter().chain(written).filter(|(_, text)| !text.is_empty()) {
        let _ = writeln!(seen, "{comment} == {section}");
        for line in text.lines() {
            let _ = writeln!(seen, "{}", format!("{comment} | {line}").trim_end());
        }
    }
}

/// `run`: one command line, or a list of them.
fn commands(head: &str, mark: &str) -> Result<Vec<String>, String> {
    let directives: String = head.lines().map(|line| format!("{}\n", line[mark.len()..].trim())).collect();
    let table: toml::Table = directives.parse().map_err(|error| format!("head: {error}"))?;
    if let Some(unknown) = table.keys().find(|key| !["run", "deep"].contains(&key.as_str())) {
        return Err(format!("head: unknown directive `{unknown}`; `run` and `deep` are known"));
    }
    let text = |value: &toml::Value| value.as_str().map(str::to_string);
    let commands = match table.get("run") {
        Some(toml::Value::Array(list)) => list.iter().map(text).collect(),
        Some(one) => text(one).map(|one| vec![one]),
        None => None,
    };
    commands.ok_or_else(|| "head: no `run = \"...\"`".to_string())
}
