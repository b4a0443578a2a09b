//! `tilewright sim` on a NeuronCore program: read, verified, scheduled, and told with the readings of NKI
//! launches.

mod words;

use std::path::Path;

use tilewright_base::{Diagnostic, Severity, Sources};
use tilewright_machine::LoadedMachine;
use tilewright_neuron_isa::text::{ProgramText, read};
use tilewright_neuron_isa::verify::verify_text;
use tilewright_neuron_isa::{Chip, NeuronProgram};
use tilewright_neuron_sim::ScheduledProgram;
use tilewright_neuron_sim::analysis::energy::energy;
use tilewright_neuron_sim::findings::findings_of_text;
use tilewright_neuron_sim::trace::perfetto_bytes;
use tilewright_workbench::bands::{ProgramBands, RunTotals, program_bands};
use tilewright_workbench::readings::ReadingSelection;
use tilewright_workbench::readings::neuron::{NeuronReport, value};
use tilewright_workbench::simulate::neuron_diagnostic;

use super::{real, refused, told_bands, unwritten};
use crate::args::SimArgs;
use crate::chip::load_chip;
use crate::host::Host;
use crate::machine::to_json;
use crate::outcome::{BAD_INPUT, FAILED, GOOD, OUR_FAULT, Outcome, rendered};

/// Runs a text that says that it is such a program.
pub(super) fn simulate(
    args: &SimArgs,
    asked: ReadingSelection,
    written: &str,
    host: &mut dyn Host,
) -> Result<Outcome, Outcome> {
    check_options(args)?;
    let mut sources = Sources::default();
    let name = if args.program == "-" { "program" } else { &args.program };
    let id = sources.add(name, written.to_owned());
    let text = read(written, id)
        .map_err(|complaints| refused(&args.readings, BAD_INPUT, &sources, &complaints, host.colour()))?;
    let (loaded, chip) = chip_of(args, &text, &mut sources, host)?;
    let complaints = verify_text(&chip, &text);
    if !complaints.is_empty() {
        return Err(refused(&args.readings, FAILED, &sources, &complaints, host.colour()));
    }
    let recorded = &text.program;
    if args.bands {
        return told_bands(args, ranges(&loaded, &chip, recorded));
    }
    let run = ScheduledProgram::of(&chip, recorded);
    let findings = if asked.findings { findings_of_text(&chip, recorded) } else { Vec::new() };
    if let Some(path) = &args.readings.trace {
        let bytes = perfetto_bytes(&chip, run.program(recorded), &run.timeline);
        let bytes =
            bytes.map_err(|error| Outcome { code: OUR_FAULT, ..Outcome::usage(&error.to_string()) })?;
        host.write(Path::new(path), &bytes).map_err(|error| unwritten(path, &error))?;
    }
    let report = NeuronReport { chip: &chip, recorded, run: &run, findings: &findings };
    let diagnostics: Vec<Diagnostic> = findings.iter().map(neuron_diagnostic).collect();
    let stdout = if args.readings.json {
        to_json(&value(asked, &report))
    } else {
        words::reading(asked, &report) + &super::words::files(&args.readings)
    };
    let code = if diagnostics.iter().any(|one| one.severity == Severity::Error) { FAILED } else { GOOD };
    let stderr = rendered(&sources, &diagnostics, host.colour());
    Ok(Outcome { code, stdout, stderr, ..Outcome::default() })
}

/// Ranges over the figures that the text of a program leaves open.
fn ranges(loaded: &LoadedMachine, chip: &Chip, recorded: &NeuronProgram) -> Option<ProgramBands> {
    program_bands(loaded, &mut |machine| {
        let chip = Chip::new(&chip.name, machine.machine.neuron()?.clone());
        let run = ScheduledProgram::of(&chip, recorded);
        let joules = energy(&chip, run.program(recorded), &run.timeline);
        Some(RunTotals {
            time_us: real(u128::from(run.timeline.total_ps)) * 1e-6,
            energy_uj: joules.iter().map(|part| part.joules).sum::<f64>() * 1e6,
        })
    })
}

/// Such a program has times and no values.
fn check_options(args: &SimArgs) -> Result<(), Outcome> {
    let given = [
        (args.readings.values, "--values"),
        (args.readings.output.is_some(), "--output"),
        (!args.readings.faulty.is_empty(), "--faulty"),
        (args.readings.max_steps.is_some(), "--max-steps"),
    ];
    let Some((_, option)) = given.into_iter().find(|(given, _)| *given) else { return Ok(()) };
    Err(Outcome::usage(&format!(
        "{option} with a NeuronCore program, which has no values and no control cores\n  = allowed: \
         --timeline, --energy, --findings, --trace, --json\n  = instead: run the kernel with `tilewright \
         nki` for its values"
    )))
}

fn chip_of(
    args: &SimArgs,
    text: &ProgramText,
    sources: &mut Sources,
    host: &mut dyn Host,
) -> Result<(LoadedMachine, Chip), Outcome> {
    let name = args.chip.as_deref().unwrap_or(&text.machine);
    let loaded = load_chip(sources, name, &args.set, host)?;
    let neuron = loaded.machine.neuron().cloned().ok_or_else(|| {
        Outcome::usage(&format!(
            "`{name}` is no machine for this program\n  = allowed: machines of architecture neuron\n  = \
             instead: --chip trainium2"
        ))
    })?;
    let chip = Chip::new(name, neuron);
    Ok((loaded, chip))
}
