//! Manual pages and completions of shells, both from the arguments themselves.

use std::path::Path;

use clap::CommandFactory as _;

use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::host::Host;
use crate::outcome::{OUR_FAULT, Outcome};

const NAME: &str = "tilewright";

/// The script of a shell.
pub(crate) fn completions(args: &CompletionsArgs) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), NAME, &mut script);
    Outcome::good(String::from_utf8_lossy(&script).into_owned())
}

/// The page of the command, or those of all verbs as files.
pub(crate) fn pages(args: &ManArgs, host: &mut dyn Host) -> Outcome {
    written(args, host).unwrap_or_else(|refusal| refusal)
}

fn written(args: &ManArgs, host: &mut dyn Host) -> Result<Outcome, Outcome> {
    let mut command = Cli::command();
    command.build();
    let Some(folder) = &args.output else { return Ok(Outcome::good(page(&command)?)) };
    host.create_folder(Path::new(folder)).map_err(|error| Outcome::unwritten(folder, &error))?;
    let mut all = Vec::new();
    named(&command, NAME, &mut all);
    for (name, command) in &all {
        let path = Path::new(folder).join(format!("{name}.1")).to_string_lossy().into_owned();
        let written = host.write(Path::new(&path), page(command)?.as_bytes());
        written.map_err(|error| Outcome::unwritten(&path, &error))?;
    }
    Ok(Outcome::good(format!("wrote {} pages to {folder}\n", all.len())))
}

/// A command and all below it, with the names of their pages.
fn named(command: &clap::Command, name: &str, all: &mut Vec<(String, clap::Command)>) {
    all.push((name.to_string(), command.clone().display_name(name)));
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        named(below, &format!("{name}-{}", below.get_name()), all);
    }
}

fn page(command: &clap::Command) -> Result<String, Outcome> {
    let mut text = Vec::new();
    let title = command.get_display_name().unwrap_or(NAME).to_string();
    clap_mangen::Man::new(command.clone())
        .title(title)
        .render(&mut text)
        .map_err(|error| Outcome { code: OUR_FAULT, ..Outcome::usage(&error.to_string()) })?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}
