//! `tilewright notation check|show|bridge|lower|run|format`.

mod bridge;
mod check;
pub(crate) mod gather;
mod lower;
mod run;
mod show;

use crate::args::NotationCommand;
use crate::host::Host;
use crate::outcome::Outcome;

pub(crate) use check::summary;

pub(crate) fn run(command: &NotationCommand, host: &mut dyn Host) -> Outcome {
    let outcome = match command {
        NotationCommand::Check(args) => check::run(args, host),
        NotationCommand::Show(args) => show::run(args, host),
        NotationCommand::Bridge(args) => bridge::run(args, host),
        NotationCommand::Lower(args) => lower::run(args, host),
        NotationCommand::Run(args) => run::run(args, host),
        NotationCommand::Format(args) => format(args, host),
    };
    outcome.unwrap_or_else(|refusal| refusal)
}

fn format(args: &crate::args::NotationArgs, host: &mut dyn Host) -> Result<Outcome, Outcome> {
    let gathered = gather::read(args, host)?;
    Ok(Outcome::good(gathered.program.to_string()))
}
