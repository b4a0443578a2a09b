//! `--emit schedule`: a program of a model, timed; and the checker of such texts.

use tilewright_base::Sources;
use tilewright_compile::Compiled;
use tilewright_compile::schedule_text::ScheduleText;
use tilewright_compile::schedule_text::checker::check;
use tilewright_machine::Tcp;
use tilewright_report::columns::thousands;
use tilewright_schedule::schedule;

use super::args::ProgramName;
use super::outline;
use crate::outcome::{FAILED, Outcome};

pub(super) fn text(machine: &Tcp, compiled: &Compiled, name: ProgramName) -> Result<String, Outcome> {
    let outline = outline(compiled, name)?;
    let schedule = schedule(machine, compiled, outline)
        .map_err(|error| Outcome { code: FAILED, ..Outcome::usage(&error.to_string()) })?;
    Ok(schedule.text().print())
}

/// Checks a text of the last stage: there is nothing left to compile. `--emit schedule` gives it back.
pub(super) fn checked(
    read: &ScheduleText,
    sources: &Sources,
    emit: bool,
    colour: bool,
) -> Result<String, Outcome> {
    let found = check(read);
    if !found.is_empty() {
        return Err(Outcome::refused(FAILED, sources, &found, colour));
    }
    if emit {
        return Ok(read.print());
    }
    let (commands, areas) = (read.commands.len() as u64, read.areas.len() as u64);
    let waits: u64 = read.commands.iter().map(|command| command.after.len() as u64).sum();
    let (commands, areas, waits) = (thousands(commands), thousands(areas), thousands(waits));
    let header = format!("{:<12}{} of {} cycles\n", "schedule", read.program, thousands(read.cycles));
    let check = format!("{commands} commands with {waits} waits and {areas} areas are in order");
    Ok(header + &format!("{:<12}{check}\n", "check"))
}
