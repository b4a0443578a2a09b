//! `tilewright notation run`: a legal einsum lowered and run, what `notation lower` and `sim` do one after
//! the other.

use super::lower::{LoweredEinsum, lowered};
use crate::args::RunEinsumArgs;
use crate::host::Host;
use crate::outcome::Outcome;
use crate::program::LoadedProgram;
use crate::sim::readings;

pub(super) fn run(args: &RunEinsumArgs, host: &mut dyn Host) -> Result<Outcome, Outcome> {
    let as_json = args.readings.json;
    let LoweredEinsum { program, machine, mut sources, stderr } =
        lowered(&args.notation, &args.inputs, as_json, host)?;
    // Read back from its text, so that findings have lines to point at.
    let loaded = LoadedProgram::printed(&program, "program", &mut sources)
        .map_err(|refusal| refusal.outcome(&sources, host))?;
    let outcome = readings(&args.readings, &machine, &loaded, &sources, host)?;
    Ok(Outcome { stderr: stderr + &outcome.stderr, ..outcome })
}
