//! `tilewright machine list|show|check`.

use serde::Serialize;
use tilewright_base::Sources;
use tilewright_machine::{builtin_names, json, show};
use tilewright_report::columns::{Align, table};

use crate::args::MachineCommand;
use crate::chip::load_chip;
use crate::host::Host;
use crate::outcome::{Outcome, rendered};

pub(crate) fn run(command: MachineCommand, host: &mut dyn Host) -> Outcome {
    match command {
        MachineCommand::List { json } => list(json, host),
        MachineCommand::Show { chip, set, json: as_json } => {
            let mut sources = Sources::default();
            match load_chip(&mut sources, &chip, &set, host) {
                Err(outcome) => outcome,
                Ok(loaded) => {
                    let text = if as_json { to_json(&json(&loaded)) } else { show(&loaded) };
                    let stderr = rendered(&sources, &loaded.warnings, host.colour());
                    Outcome { stderr, ..Outcome::good(text) }
                }
            }
        }
        MachineCommand::Check { chips, json } => check(chips, json, host),
    }
}

#[derive(Serialize)]
struct MachineListEntry {
    name: String,
    architecture: String,
    description: String,
}

fn list(as_json: bool, host: &mut dyn Host) -> Outcome {
    let mut machines = Vec::new();
    for name in builtin_names() {
        match load_chip(&mut Sources::default(), name, &[], host) {
            Ok(loaded) => machines.push(MachineListEntry {
                architecture: loaded.machine.architecture().to_string(),
                name: loaded.name,
                description: loaded.description,
            }),
            Err(outcome) => return outcome,
        }
    }
    if as_json {
        return Outcome::good(to_json(&machines));
    }
    let rows: Vec<Vec<String>> = machines
        .into_iter()
        .map(|machine| vec![machine.name, machine.architecture, machine.description])
        .collect();
    Outcome::good(table(&[Align::Left, Align::Left, Align::Left], &rows))
}

/// One machine that was checked.
#[derive(Serialize)]
struct MachineCheck {
    name: String,
    good: bool,
    figures: usize,
    assumptions: usize,
}

fn check(chips: Vec<String>, as_json: bool, host: &mut dyn Host) -> Outcome {
    let chips =
        if chips.is_empty() { builtin_names().into_iter().map(String::from).collect() } else { chips };
    let mut whole = Outcome::default();
    let mut checked = Vec::new();
    for chip in chips {
        let mut sources = Sources::default();
        match load_chip(&mut sources, &chip, &[], host) {
            Ok(loaded) => {
                let (figures, assumptions) = (loaded.key_values().len(), loaded.assumptions().len());
                whole.stderr.push_str(&rendered(&sources, &loaded.warnings, host.colour()));
                checked.push(MachineCheck { name: loaded.name, good: true, figures, assumptions });
            }
            Err(outcome) => {
                whole.code = whole.code.max(outcome.code);
                whole.stderr.push_str(&outcome.stderr);
                checked.push(MachineCheck { name: chip, good: false, figures: 0, assumptions: 0 });
            }
        }
    }
    let line = |c: &MachineCheck| {
        format!("{}: {} figures, each with a source; {} are assumptions\n", c.name, c.figures, c.assumptions)
    };
    whole.stdout =
        if as_json { to_json(&checked) } else { checked.iter().filter(|c| c.good).map(line).collect() };
    whole
}

/// Data as text; what we serialise are plain structs, which cannot fail.
pub(crate) fn to_json(data: &impl Serialize) -> String {
    serde_json::to_string_pretty(data).map_or_else(|error| format!("\"{error}\"\n"), |text| text + "\n")
}
