//! `--chip NAME|FILE` and `--set`: a machine from the binary or from a file.

use tilewright_base::nearest::near;
use tilewright_base::{Diagnostic, Sources};
use tilewright_machine::{LoadedMachine, builtin, builtin_names, load};

use crate::host::{Host, read_text};
use crate::outcome::{BAD_INPUT, FAILED, Outcome};

/// Loads a machine by name, or a file if it ends in `.toml` or has a `/` in it, and applies settings.
pub(crate) fn load_chip(
    sources: &mut Sources,
    chip: &str,
    settings: &[String],
    host: &mut dyn Host,
) -> Result<LoadedMachine, Outcome> {
    let (name, text) = match builtin(chip) {
        Some(text) => (format!("machines/{chip}.toml"), text.to_string()),
        None if is_path(chip) => {
            (chip.to_string(), read_text(host, chip).map_err(|why| Outcome::usage(&why))?)
        }
        None => return Err(unknown(chip)),
    };
    let id = sources.add(name, text);
    let colour = host.colour();
    let bases = |base: &str| builtin(base).map(str::to_string);
    let loaded = load(sources, id, &bases)
        .map_err(|diagnostics| Outcome::refused(refusal_code(&diagnostics), sources, &diagnostics, colour))?;
    if settings.is_empty() {
        return Ok(loaded);
    }
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    loaded
        .override_with(sources, &settings)
        .map_err(|diagnostics| Outcome::refused(BAD_INPUT, sources, &diagnostics, colour))
}

/// What is not even TOML is unreadable; a machine file that breaks a rule has failed its check.
fn refusal_code(diagnostics: &[Diagnostic]) -> u8 {
    if diagnostics.iter().any(|diagnostic| diagnostic.code == "machine/syntax") { BAD_INPUT } else { FAILED }
}

fn is_path(chip: &str) -> bool {
    chip.contains(['/', '\\']) || chip.ends_with(".toml") || chip == "-"
}

fn unknown(chip: &str) -> Outcome {
    let names = builtin_names();
    let instead = match near(chip, names.iter().copied()) {
        Some(name) => format!("{name}; tilewright machine list says what each is"),
        None => "tilewright machine list".to_string(),
    };
    Outcome::usage(&format!(
        "no machine is called `{chip}`\n  = allowed: {}, or a file that ends in .toml\n  = instead: \
         {instead}",
        names.join(", ")
    ))
}
