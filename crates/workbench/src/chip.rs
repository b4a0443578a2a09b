//! Machines: by name, from the text of a file, and with figures changed.

use tilewright_base::nearest::near;
use tilewright_base::{Diagnostic, Sources};
use tilewright_machine::{LoadedMachine, builtin, builtin_names, load};

use crate::Refusal;

/// A machine that comes with the binary.
///
/// # Errors
/// No machine of that name.
pub fn named(chip: &str) -> Result<LoadedMachine, Box<Refusal>> {
    let names = builtin_names();
    let text = builtin(chip).ok_or_else(|| {
        let close = near(chip, names.iter().copied()).unwrap_or("tcp");
        let complaint = Diagnostic::error("machine/unknown", format!("no machine is called `{chip}`"))
            .allowed(format!("{}, or a machine file", names.join(", ")))
            .instead(close.to_string());
        Box::new(Refusal::plain(complaint))
    })?;
    from_text(&format!("machines/{chip}.toml"), text)
}

/// A machine from the text of a file, which may name one of ours as its base.
///
/// # Errors
/// All complaints about the text.
pub fn from_text(name: &str, text: &str) -> Result<LoadedMachine, Box<Refusal>> {
    let mut sources = Sources::default();
    let id = sources.add(name, text);
    let bases = |base: &str| builtin(base).map(str::to_string);
    load(&mut sources, id, &bases).map_err(|diagnostics| Box::new(Refusal { sources, diagnostics }))
}

/// The machine with figures changed, each as `section.key=value`.
///
/// # Errors
/// Keys that there are not, values that they do not take.
pub fn varied(loaded: &LoadedMachine, settings: &[&str]) -> Result<LoadedMachine, Box<Refusal>> {
    let mut sources = Sources::default();
    loaded
        .override_with(&mut sources, settings)
        .map_err(|diagnostics| Box::new(Refusal { sources, diagnostics }))
}
