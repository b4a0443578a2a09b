//! `--emit schedule`: a program of a model, timed.

use tilewright_compile::Compiled;
use tilewright_machine::Tcp;
use tilewright_runtime::schedule::schedule;

use super::args::ProgramName;
use super::outline;
use crate::outcome::{FAILED, Outcome};

pub(super) fn text(machine: &Tcp, compiled: &Compiled, name: ProgramName) -> Result<String, Outcome> {
    let outline = outline(compiled, name)?;
    let schedule = schedule(machine, compiled, outline)
        .map_err(|error| Outcome { code: FAILED, ..Outcome::usage(&error.to_string()) })?;
    Ok(schedule.print())
}
