//! `tilewright sim`: a program text read, run, and said something about. Programs of the TCP run here, those
//! of the NeuronCore in [`neuron`].

mod neuron;
mod words;

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};
use tilewright_base::{Diagnostic, Severity, Sources};
use tilewright_machine::Tcp;
use tilewright_neuron_isa::text::is_neuron;
use tilewright_record::perfetto::Stream;
use tilewright_record::{KeepLast, Sink};
use tilewright_runtime::{Reading, ReadingError, ReadingOptions, npy, read};
use tilewright_tcp_isa::program::event::PeId;
use tilewright_tcp_isa::program::tensor::TensorRole;
use tilewright_tcp_isa::program::{Exec, Program};
use tilewright_workbench::bands::{self, ProgramBands, RunTotals, program_bands};
use tilewright_workbench::readings::ReadingSelection;
use tilewright_workbench::readings::tcp::value;

use crate::args::{ReadingArgs, SimArgs};
use crate::chip::load_chip;
use crate::host::{Draft, Host, OutputFile, refuse_collisions};
use crate::machine::to_json;
use crate::outcome::{BAD_INPUT, FAILED, GOOD, OUR_FAULT, Outcome, io_cause, rendered};
use crate::program::{self, LoadError};

pub(crate) fn run(args: &SimArgs, host: &mut dyn Host) -> Outcome {
    simulate(args, host).unwrap_or_else(|refusal| refusal)
}

/// All readings of a run, as `tilewright sim` prints them.
pub(crate) fn words(tcp: &Tcp, program: &Program, reading: &Reading) -> String {
    words::reading(ReadingSelection::ALL, tcp, program, reading)
}

/// The engines that a command passes, in words.
pub(crate) fn engines(exec: &Exec) -> String {
    words::engines(exec)
}

fn asked(args: &ReadingArgs) -> ReadingSelection {
    let any = args.values || args.timeline || args.energy || args.findings;
    let pick = |flag: bool| flag || !any;
    ReadingSelection {
        values: pick(args.values) || args.output.is_some(),
        timeline: pick(args.timeline),
        energy: pick(args.energy),
        findings: pick(args.findings),
    }
}

fn simulate(args: &SimArgs, host: &mut dyn Host) -> Result<Outcome, Outcome> {
    let mut sources = Sources::default();
    let written = program::written(&args.program, host).map_err(|refusal| refusal.outcome(&sources, host))?;
    if written.is_compiled {
        takes_program(&args.program, asked(&args.readings))?;
    }
    if is_neuron(&written.text) {
        return neuron::simulate(args, asked(&args.readings), &written.text, host);
    }
    let loaded = program::parse(&args.program, written, &mut sources).map_err(|refusal| match refusal {
        LoadError::Complaints(complaints) => {
            refused(&args.readings, BAD_INPUT, &sources, &complaints, host.colour())
        }
        other @ LoadError::Words(_) => other.outcome(&sources, host),
    })?;
    if args.bands {
        return ranges(args, &loaded, &mut sources, host);
    }
    let tcp = machine(args, &loaded.program, &mut sources, host)?;
    readings(&args.readings, &tcp, &loaded, &sources, host)
}

/// Runs a program on a machine and says what was asked of it; complaints and findings are about texts of the
/// sources.
pub(crate) fn readings(
    args: &ReadingArgs,
    tcp: &Tcp,
    loaded: &program::LoadedProgram,
    sources: &Sources,
    host: &mut dyn Host,
) -> Result<Outcome, Outcome> {
    let asked = asked(args);
    let wanted = ReadingOptions {
        values: asked.values,
        findings: asked.findings,
        trace: args.trace.is_some(),
        faulty_slices: faulty_slices(&args.faulty)?,
        max_steps: args.max_steps,
    };
    check_files(args, &loaded.program, host)?;
    let (reading, trace) = run_program(args, tcp, loaded, &wanted, host, sources)?;
    write_files(args, &reading, trace, tcp, host)?;
    Ok(said(args, asked, tcp, &loaded.program, &reading, sources, host))
}

/// `PE.SLICE` or `CHIP.PE.SLICE`.
fn faulty_slices(written: &[String]) -> Result<Vec<(PeId, u64)>, Outcome> {
    let one = |text: &String| {
        let numbers: Option<Vec<u64>> = text.split('.').map(|number| number.parse().ok()).collect();
        match numbers.as_deref() {
            Some([pe, slice]) => Ok((PeId { chip: 0, pe: *pe }, *slice)),
            Some([chip, pe, slice]) => Ok((PeId { chip: *chip, pe: *pe }, *slice)),
            _ => Err(Outcome::usage(&format!(
                "--faulty {text}\n  = allowed: PE.SLICE, or CHIP.PE.SLICE\n  = instead: --faulty 0.17"
            ))),
        }
    };
    written.iter().map(one).collect()
}

/// Ranges of a TCP program.
fn ranges(
    args: &SimArgs,
    program: &program::LoadedProgram,
    sources: &mut Sources,
    host: &mut dyn Host,
) -> Result<Outcome, Outcome> {
    let stated = machine(args, &program.program, sources, host)?;
    let wanted = ReadingOptions { max_steps: args.readings.max_steps, ..ReadingOptions::default() };
    // Whether it runs at all, and if not why.
    run_program(&args.readings, &stated, program, &wanted, host, sources)?;
    let chip = args.chip.as_deref().unwrap_or(&program.program.machine);
    let loaded = load_chip(sources, chip, &args.set, host)?;
    let found = program_bands(&loaded, &mut |machine| {
        let tcp = machine.machine.tcp()?;
        let outcome = with_sink(tcp, program, &wanted, host, KeepLast::new(0)).ok()?.outcome;
        Some(RunTotals {
            time_us: real(u128::from(outcome.cycles)) / real(u128::from(tcp.chip.clock_hz)) * 1e6,
            energy_uj: outcome.energy_fj.iter().map(|fj| real(*fj)).sum::<f64>() * 1e-9,
        })
    });
    told_bands(args, found)
}

/// Ranges as words or data.
fn told_bands(args: &SimArgs, found: Option<ProgramBands>) -> Result<Outcome, Outcome> {
    let Some(found) = found else {
        return Err(Outcome { code: FAILED, ..Outcome::usage("the program does not run on its machine") });
    };
    Ok(Outcome::good(if args.readings.json { to_json(&found) } else { bands::words(&found) }))
}

#[expect(clippy::cast_precision_loss, reason = "printed with few digits")]
fn real(count: u128) -> f64 {
    count as f64
}

fn machine(
    args: &SimArgs,
    program: &Program,
    sources: &mut Sources,
    host: &mut dyn Host,
) -> Result<Tcp, Outcome> {
    let chip = args.chip.as_deref().unwrap_or(&program.machine);
    let loaded = load_chip(sources, chip, &args.set, host)?;
    loaded.machine.tcp().cloned().ok_or_else(|| {
        Outcome::usage(&format!(
            "`{chip}` is no machine for this program\n  = allowed: machines of architecture tcp\n  = \
             instead: --chip tcp"
        ))
    })
}

/// Runs, and gives the trace's bytes if there is to be one.
fn run_program(
    args: &ReadingArgs,
    tcp: &Tcp,
    program: &program::LoadedProgram,
    wanted: &ReadingOptions,
    host: &mut dyn Host,
    sources: &Sources,
) -> Result<(Reading, Option<Box<dyn Draft>>), Outcome> {
    let mut trace = match &args.trace {
        Some(path) => Some(host.draft(Path::new(path)).map_err(|error| unwritten(path, &error))?),
        None => None,
    };
    let reading = match &mut trace {
        Some(trace) => with_sink(tcp, program, wanted, host, Stream::new(trace)),
        None => with_sink(tcp, program, wanted, host, KeepLast::new(0)),
    };
    if let (Some(path), Some(error)) = (&args.trace, reading.as_ref().err().and_then(|error| io_cause(error)))
    {
        return Err(unwritten(path, error));
    }
    let reading = reading.map_err(|error| match error {
        ReadingError::Refused(complaints) => refused(args, FAILED, sources, &complaints, host.colour()),
        ReadingError::Sim(error) => refused(args, FAILED, sources, &[error.to_diagnostic()], host.colour()),
        other => refused(
            args,
            BAD_INPUT,
            sources,
            &[Diagnostic::error("sim/input", other.to_string())],
            host.colour(),
        ),
    })?;
    Ok((reading, trace))
}

/// A program that does not run: complaints in words, and as data if that was asked for.
fn refused(
    args: &ReadingArgs,
    code: u8,
    sources: &Sources,
    complaints: &[Diagnostic],
    colour: bool,
) -> Outcome {
    let stdout = if args.json { to_json(&refusal(sources, complaints)) } else { String::new() };
    Outcome { stdout, ..Outcome::refused(code, sources, complaints, colour) }
}

/// A program that was refused before it ran, as data.
fn refusal(sources: &Sources, complaints: &[Diagnostic]) -> Value {
    let complaints = tilewright_base::json::diagnostics(sources, complaints);
    json!({ "ended": "refused", "diagnostics": complaints })
}

fn with_sink<S: Sink + Send>(
    tcp: &Tcp,
    loaded: &program::LoadedProgram,
    wanted: &ReadingOptions,
    host: &mut dyn Host,
    sink: S,
) -> Result<Reading, ReadingError> {
    let rules = tilewright_tcp_exec::rules(tcp);
    read(tcp, &loaded.program, &mut |tensor| loaded.array(tensor, rules, &*host), wanted, sink)
}

fn write_files(
    args: &ReadingArgs,
    reading: &Reading,
    trace: Option<Box<dyn Draft>>,
    tcp: &Tcp,
    host: &mut dyn Host,
) -> Result<(), Outcome> {
    if let Some(folder) = &args.output {
        host.create_folder(Path::new(folder))
            .map_err(|error| Outcome::usage(&format!("cannot make `{folder}`: {error}")))?;
    }
    if let (Some(path), Some(trace)) = (&args.trace, trace) {
        trace.keep(host).map_err(|error| unwritten(path, &error))?;
    }
    if let Some(folder) = &args.output {
        let rules = tilewright_tcp_exec::rules(tcp);
        let paths = array_paths(folder, reading.outputs.iter().map(|(name, _)| name.as_str()));
        for (path, (_, array)) in paths.iter().zip(&reading.outputs) {
            let written = host.write(Path::new(path), &npy::write(array, rules));
            written.map_err(|error| unwritten(path, &error))?;
        }
    }
    Ok(())
}

/// Refuses values and findings of a compiled model or graph, whose program alone has no inputs; its times are
/// the same.
fn takes_program(path: &str, asked: ReadingSelection) -> Result<(), Outcome> {
    if !asked.values && !asked.findings {
        return Ok(());
    }
    Err(Outcome::usage(&format!(
        "`{path}` is a compiled model or graph: its program alone has no inputs, and gives no values\n  \
         = allowed: a program, or --timeline and --energy of this one\n  \
         = instead: tilewright exec {path}"
    )))
}

/// Refuses files of a run, before it begins, that it has read or would write twice.
fn check_files(args: &ReadingArgs, program: &Program, host: &dyn Host) -> Result<(), Outcome> {
    let trace = OutputFile::of_option("--trace", args.trace.as_deref());
    let outputs = program.tensors.iter().filter(|tensor| tensor.role != TensorRole::Input);
    let names = outputs.map(|tensor| tensor.name.as_str());
    let paths = args.output.as_ref().map(|folder| array_paths(folder, names.clone())).unwrap_or_default();
    let arrays = paths.into_iter().zip(names);
    let arrays = arrays.map(|(path, name)| OutputFile { path, by: format!("output `{name}`") });
    refuse_collisions(host, trace.into_iter().chain(arrays))
}

/// The array file of each name in a folder.
pub(crate) fn array_paths<'n>(folder: &str, names: impl Iterator<Item = &'n str>) -> Vec<String> {
    let path = |name: &String| Path::new(folder).join(format!("{name}.npy")).to_string_lossy().into_owned();
    file_names(names).iter().map(path).collect()
}

fn unwritten(path: &str, error: &std::io::Error) -> Outcome {
    Outcome::unwritten(path, error)
}

/// Names of tensors as names of files, each its own: of names that differ in signs that file names do not
/// have, the later get a number.
fn file_names<'n>(names: impl Iterator<Item = &'n str>) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let own = |name: &str| {
        let plain = file_name(name);
        let numbered = (2_u64..).map(|number| format!("{plain}-{number}"));
        let mut free = std::iter::once(plain.clone()).chain(numbered);
        free.find(|name| taken.insert(name.to_ascii_lowercase())).unwrap_or_default()
    };
    names.map(own).collect()
}

/// A tensor's name as a file name.
fn file_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let safe: String = name.chars().map(plain).collect();
    if safe.starts_with('.') { format!("_{safe}") } else { safe }
}

fn said(
    args: &ReadingArgs,
    asked: ReadingSelection,
    tcp: &Tcp,
    program: &Program,
    reading: &Reading,
    sources: &Sources,
    host: &dyn Host,
) -> Outcome {
    let diagnostics: Vec<_> = reading.findings.iter().map(|finding| finding.to_diagnostic()).collect();
    let certain = diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error);
    let violated = !reading.outcome.violations.is_empty();
    let code = if violated {
        OUR_FAULT
    } else if certain {
        FAILED
    } else {
        GOOD
    };
    let stdout = if args.json {
        to_json(&value(asked, program, reading))
    } else {
        words::reading(asked, tcp, program, reading) + &words::files(args)
    };
    let all: Vec<Diagnostic> = reading.warnings.iter().cloned().chain(diagnostics).collect();
    let mut stderr = rendered(sources, &all, host.colour());
    for violation in &reading.outcome.violations {
        stderr.push_str(&format!("tilewright: a check of its own failed: {violation:?}\n"));
    }
    Outcome { code, stdout, stderr, ..Outcome::default() }
}
