//! The command line as a function: arguments and a host in, text and an exit code out.
//!
//! Being a function, it is what text goldens and the book's examples call. Exit codes: 0 good, 1 the thing
//! asked about failed, 2 usage or unreadable input, 3 our own fault.

mod args;
mod builtin;
mod calibrate;
mod chip;
mod compile;
mod demo;
mod draft;
mod embedded;
mod explore;
mod goal;
mod graph;
mod guard;
mod host;
mod language;
mod machine;
mod manual;
mod mapped;
mod memories;
mod model;
mod nki;
mod notation;
mod outcome;
mod program;
mod progress;
mod quantise;
mod real;
mod run;
mod serve_page;
mod sim;
mod study;
mod sweep;
mod target;
mod view;
mod without;

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, FromArgMatches as _};

pub use host::{Draft, Host};
pub use mapped::Mapped;
pub use outcome::{BAD_INPUT, FAILED, GOOD, OUR_FAULT, Outcome, Refusal};
pub use real::{RealHost, run_guarded, run_here};

use args::{Cli, Command, NkiCommand};
use guard::GuardedHost;

/// Whether a command line asks for data.
fn wants_data(arguments: &[OsString]) -> bool {
    arguments.iter().any(|argument| argument == "--json")
}

/// Runs one command line.
pub fn run(arguments: impl IntoIterator<Item = OsString>, host: &mut dyn Host) -> Outcome {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let wants_data = wants_data(&arguments);
    let outcome = match parsed(arguments) {
        Ok(cli) => command(cli, &mut GuardedHost::new(host)),
        Err(error) => usage(&error, host.colour()),
    };
    host.progress("", None);
    if wants_data { outcome.into_data() } else { outcome }
}

/// The command line as it was meant. A number below zero is the value of the option before it, which then
/// says what it allows, and no option of its own.
fn parsed(arguments: Vec<OsString>) -> Result<Cli, clap::Error> {
    let mut command = with_negative_numbers(Cli::command());
    let matches = command.try_get_matches_from_mut(arguments).map_err(without_wrong_tip)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let of_option = |argument: clap::Arg| {
        let takes_number = !argument.is_positional() && argument.get_action().takes_values();
        if takes_number { argument.allow_negative_numbers(true) } else { argument }
    };
    command.mut_args(of_option).mut_subcommands(with_negative_numbers)
}

/// Without the tip to write `-- --option`: no verb takes what begins with a dash as a value of its own.
fn without_wrong_tip(mut error: clap::Error) -> clap::Error {
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(ContextValue::StyledStrs(mut tips)) = error.remove(ContextKind::Suggested)
    {
        tips.retain(|tip| !tip.to_string().starts_with("to pass "));
        if !tips.is_empty() {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        }
    }
    error
}

fn command(cli: Cli, host: &mut dyn Host) -> Outcome {
    match cli.command {
        None => embedded::run(host),
        Some(Command::Demo(args)) => match args.what {
            args::Demo::Attention => demo::run(host),
        },
        Some(Command::Notation(command)) => notation::run(&command, host),
        Some(Command::Explore(args)) => explore::run(&args, host),
        Some(Command::Sim(args)) => sim::run(&args, host),
        Some(Command::Assemble(args)) => program::assemble(&args, host).unwrap_or_else(|refusal| refusal),
        Some(Command::Disasm(args)) => program::disassemble(&args, host).unwrap_or_else(|refusal| refusal),
        Some(Command::Nki(NkiCommand::Run(args))) => nki::run(&args.arguments, host),
        Some(Command::Compile(args)) => compile::run(&args, host),
        Some(Command::Exec(args)) => compile::exec(&args, host),
        Some(Command::Run(args)) => run::run(&args, host),
        Some(Command::Study(args)) => study::run(&args, host),
        Some(Command::Sweep(args)) => sweep::run(&args, host),
        Some(Command::View(args)) => view::run(&args, host),
        Some(Command::Machine(command)) => machine::run(command, host),
        Some(Command::Completions(args)) => manual::completions(&args),
        Some(Command::Man(args)) => manual::pages(&args, host),
    }
}

/// What is said of numbers in the words of their reader, and in those of whoever writes them.
const NUMBERS: [(&str, &str); 3] = [
    ("invalid digit found in string", "it is no whole number of 0 or more"),
    ("number too large to fit in target type", "it is more than 64 bits hold"),
    ("cannot parse integer from empty string", "it is no whole number of 0 or more"),
];

/// Help and version go to standard output and are good; everything else is wrong usage.
fn usage(error: &clap::Error, colour: bool) -> Outcome {
    let rendered = error.render();
    let plain = |text: String| NUMBERS.iter().fold(text, |text, (from, to)| text.replace(from, to));
    let text = plain(if colour { rendered.ansi().to_string() } else { rendered.to_string() });
    if error.use_stderr() {
        let refusal =
            Outcome::usage(plain(rendered.to_string()).trim_start_matches("error: ").trim_end()).refusal;
        Outcome { code: BAD_INPUT, stderr: text, refusal, ..Outcome::default() }
    } else {
        Outcome { code: GOOD, stdout: text, ..Outcome::default() }
    }
}
