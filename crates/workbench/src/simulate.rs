//! A program text run on its machine, whichever chip family it is of.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use tilewright_base::{Diagnostic, Severity, Sources};
use tilewright_machine::{LoadedMachine, Tcp};
use tilewright_neuron_isa::text::{ProgramText, is_neuron, read as read_neuron};
use tilewright_neuron_isa::verify::verify_text;
use tilewright_neuron_isa::{Chip, NeuronProgram};
use tilewright_neuron_sim::ScheduledProgram;
use tilewright_neuron_sim::findings::{NeuronFinding, findings_of_text};
use tilewright_record::{Event, Interval, KeepAll, KeepLast, Layout, Record, RecordError, Sample, Sink};
use tilewright_runtime::{Array, ArrayError, Reading, ReadingError, ReadingOptions, read};
use tilewright_tcp_isa::program::tensor::{Tensor, TensorData};
use tilewright_tcp_isa::program::{Program, text};

use crate::Refusal;
use crate::readings::neuron::NeuronReport;
use crate::readings::{ReadingSelection, neuron, tcp};

/// A program of either family, read but not run.
#[derive(Debug)]
pub struct ReadProgram {
    /// Its text.
    pub sources: Sources,
    /// What it says.
    pub body: ProgramBody,
}

/// A program of one family.
#[derive(Debug)]
pub enum ProgramBody {
    /// Of the TCP.
    Tcp(Box<Program>),
    /// Of a NeuronCore.
    Neuron(Box<ProgramText>),
}

/// Reads a program text; `name` is what complaints call it.
///
/// # Errors
/// A text that is no program.
pub fn read_program(name: &str, written: &str) -> Result<ReadProgram, Box<Refusal>> {
    let mut sources = Sources::default();
    let id = sources.add(name, written);
    let body = if is_neuron(written) {
        read_neuron(written, id).map(|text| ProgramBody::Neuron(Box::new(text)))
    } else {
        text::read(written, id).map(|program| ProgramBody::Tcp(Box::new(program)))
    };
    match body {
        Ok(body) => Ok(ReadProgram { sources, body }),
        Err(diagnostics) => Err(Box::new(Refusal { sources, diagnostics })),
    }
}

impl ReadProgram {
    /// The machine that it says it is for.
    pub fn machine(&self) -> &str {
        match &self.body {
            ProgramBody::Tcp(program) => &program.machine,
            ProgramBody::Neuron(text) => &text.machine,
        }
    }

    fn refused(&self, diagnostics: Vec<Diagnostic>) -> Box<Refusal> {
        Box::new(Refusal { sources: self.sources.clone(), diagnostics })
    }
}

/// What to compute, and who may stop it.
#[derive(Clone, Copy, Debug)]
pub struct SimulateRequest<'a> {
    /// Outputs.
    pub values: bool,
    /// Races, uninitialised reads and so on.
    pub findings: bool,
    /// Everything that happened, for timelines and traces.
    pub timeline: bool,
    /// Ends the run when somebody sets it; looked at with each command of a run that keeps its timeline.
    pub stop: &'a AtomicBool,
}

/// A finished run.
#[derive(Debug)]
pub enum SimulatedRun {
    /// Of the TCP.
    Tcp(Box<TcpRun>),
    /// Of a NeuronCore.
    Neuron(Box<NeuronRun>),
}

/// A run on the TCP.
#[derive(Debug)]
pub struct TcpRun {
    /// The text that findings are about.
    pub sources: Sources,
    /// What ran.
    pub program: Program,
    /// On what.
    pub machine: Tcp,
    /// What it left behind.
    pub reading: Reading,
}

/// A run on a NeuronCore.
#[derive(Debug)]
pub struct NeuronRun {
    /// On what.
    pub chip: Chip,
    /// The program as it was recorded.
    pub recorded: NeuronProgram,
    /// The program as it ran.
    pub run: ScheduledProgram,
    /// What is wrong with it.
    pub findings: Vec<NeuronFinding>,
    /// Everything that happened, if that was asked for.
    pub record: Record,
}

/// Runs a program. Arrays are by the names of the tensors that they are for, and replace what the text says
/// that these hold; `file` gives those of tensors whose data is a file.
///
/// # Errors
/// A program that the machine refuses, arrays that do not fit, a run that was stopped.
pub fn simulate(
    program: ReadProgram,
    loaded: &LoadedMachine,
    arrays: BTreeMap<String, Array>,
    file: &mut dyn FnMut(&Tensor) -> Result<Array, ArrayError>,
    request: &SimulateRequest<'_>,
) -> Result<SimulatedRun, Box<Refusal>> {
    match &program.body {
        ProgramBody::Tcp(_) => on_tcp(program, loaded, arrays, file, request),
        ProgramBody::Neuron(_) if !arrays.is_empty() => Err(program.refused(vec![no_values()])),
        ProgramBody::Neuron(text) => on_neuron(&program, text, loaded, request),
    }
}

fn no_values() -> Diagnostic {
    Diagnostic::error("sim/no-values", "arrays for a NeuronCore program, which was recorded without values")
        .allowed("no arrays: times, energy and findings")
        .instead("a launch of the kernel itself, which computes")
}

fn wrong_machine(loaded: &LoadedMachine, family: &str, instead: &str) -> Diagnostic {
    let what =
        format!("`{}` is of architecture {}, the program is not", loaded.name, loaded.machine.architecture());
    Diagnostic::error("sim/machine", what)
        .allowed(format!("machines of architecture {family}"))
        .instead(instead.to_string())
}

fn on_tcp(
    mut read_program: ReadProgram,
    loaded: &LoadedMachine,
    mut arrays: BTreeMap<String, Array>,
    file: &mut dyn FnMut(&Tensor) -> Result<Array, ArrayError>,
    request: &SimulateRequest<'_>,
) -> Result<SimulatedRun, Box<Refusal>> {
    let Some(machine) = loaded.machine.tcp() else {
        return Err(read_program.refused(vec![wrong_machine(loaded, "tcp", "tcp")]));
    };
    let ProgramBody::Tcp(program) = &mut read_program.body else {
        return Err(Box::default());
    };
    let tensors: Vec<String> = program.tensors.iter().map(|tensor| tensor.name.clone()).collect();
    if let Some(name) = arrays.keys().find(|name| !tensors.contains(name)) {
        let complaint = Diagnostic::error("sim/tensor", format!("the program has no tensor `{name}`"))
            .allowed(tensors.join(", "))
            .instead(tensors.first().cloned().unwrap_or_default());
        return Err(read_program.refused(vec![complaint]));
    }
    for tensor in &mut program.tensors {
        if arrays.contains_key(&tensor.name) {
            tensor.data = TensorData::File(format!("array `{}`", tensor.name));
        }
    }
    let program = (**program).clone();
    let wanted = ReadingOptions {
        values: request.values,
        findings: request.findings,
        trace: request.timeline,
        ..ReadingOptions::default()
    };
    let mut give = |tensor: &Tensor| match arrays.remove(&tensor.name) {
        Some(array) => Ok(array),
        None => file(tensor),
    };
    let reading = if request.timeline {
        let sink = StoppableSink { kept: KeepAll::default(), stop: request.stop };
        read(machine, &program, &mut give, &wanted, sink)
    } else {
        read(machine, &program, &mut give, &wanted, KeepLast::new(0))
    };
    let reading = reading.map_err(|error| read_program.refused(complaints(error)))?;
    let sources = read_program.sources;
    Ok(SimulatedRun::Tcp(Box::new(TcpRun { sources, program, machine: machine.clone(), reading })))
}

fn complaints(error: ReadingError) -> Vec<Diagnostic> {
    match error {
        ReadingError::Refused(complaints) => complaints,
        ReadingError::Sim(error) => vec![error.to_diagnostic()],
        ReadingError::Record(RecordError::Write(error))
            if error.kind() == std::io::ErrorKind::Interrupted =>
        {
            vec![Diagnostic::error("sim/stopped", "the run was stopped")]
        }
        ReadingError::Input { name, why } => {
            let complaint = Diagnostic::error("sim/input", format!("tensor `{name}`: {why}"));
            vec![match why {
                ArrayError::Extents { wanted, .. } => {
                    complaint.allowed(format!("extents {wanted:?}")).instead("an array of that shape")
                }
                ArrayError::Type { wanted, .. } | ArrayError::Range { wanted, .. } => {
                    complaint.allowed(wanted).instead(format!("an array of {wanted}"))
                }
                ArrayError::Format(_) => complaint,
            }]
        }
        other => vec![Diagnostic::error("sim/input", other.to_string())],
    }
}

fn on_neuron(
    program: &ReadProgram,
    written: &ProgramText,
    loaded: &LoadedMachine,
    request: &SimulateRequest<'_>,
) -> Result<SimulatedRun, Box<Refusal>> {
    let Some(figures) = loaded.machine.neuron() else {
        return Err(program.refused(vec![wrong_machine(loaded, "neuron", "trainium2")]));
    };
    let chip = Chip::new(loaded.name.clone(), figures.clone());
    let complaints = verify_text(&chip, written);
    if !complaints.is_empty() {
        return Err(program.refused(complaints));
    }
    let recorded = written.program.clone();
    let run = ScheduledProgram::of(&chip, &recorded);
    let findings = if request.findings { findings_of_text(&chip, &recorded) } else { Vec::new() };
    let record = tilewright_neuron_sim::trace::record(&chip, run.program(&recorded), &run.timeline)
        .map_err(|error| program.refused(vec![Diagnostic::error("sim/record", error.to_string())]))?;
    Ok(SimulatedRun::Neuron(Box::new(NeuronRun { chip, recorded, run, findings, record })))
}

impl SimulatedRun {
    /// The readings as data, with the keys of `sim --json`.
    pub fn value(&self, asked: ReadingSelection) -> Value {
        match self {
            SimulatedRun::Tcp(run) => tcp::value(asked, &run.program, &run.reading),
            SimulatedRun::Neuron(run) => neuron::value(asked, &run.report()),
        }
    }

    /// What happened: complete if the timeline was asked for, totals if not.
    pub fn record(&self) -> &Record {
        match self {
            SimulatedRun::Tcp(run) => &run.reading.outcome.record,
            SimulatedRun::Neuron(run) => &run.record,
        }
    }

    /// What is wrong though it ran, and the texts that this is about.
    pub fn findings(&self) -> (Sources, Vec<Diagnostic>) {
        match self {
            SimulatedRun::Tcp(run) => {
                let found = run.reading.findings.iter().map(|finding| finding.to_diagnostic());
                (run.sources.clone(), found.collect())
            }
            SimulatedRun::Neuron(run) => {
                (Sources::default(), run.findings.iter().map(neuron_diagnostic).collect())
            }
        }
    }

    /// Outputs by name; none of a NeuronCore program.
    pub fn outputs(&self) -> &[(String, Array)] {
        match self {
            SimulatedRun::Tcp(run) => &run.reading.outputs,
            SimulatedRun::Neuron(_) => &[],
        }
    }

    /// The name of the machine.
    pub fn machine(&self) -> &str {
        match self {
            SimulatedRun::Tcp(run) => &run.program.machine,
            SimulatedRun::Neuron(run) => &run.chip.name,
        }
    }
}

impl NeuronRun {
    /// The run with all that its report is made of.
    pub fn report(&self) -> NeuronReport<'_> {
        NeuronReport { chip: &self.chip, recorded: &self.recorded, run: &self.run, findings: &self.findings }
    }
}

/// A finding points to the line of the kernel that the program was recorded from.
pub fn neuron_diagnostic(finding: &NeuronFinding) -> Diagnostic {
    let severity = if finding.error { Severity::Error } else { Severity::Warning };
    let found = Diagnostic { severity, ..Diagnostic::error(finding.code, finding.message.clone()) };
    found
        .with_note(format!("at {}", finding.source))
        .allowed(finding.allowed.clone())
        .instead(finding.instead.clone())
}

/// Keeps everything until somebody says stop.
struct StoppableSink<'a> {
    kept: KeepAll,
    stop: &'a AtomicBool,
}

impl StoppableSink<'_> {
    fn asked(&self) -> Result<(), RecordError> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(RecordError::Write(std::io::ErrorKind::Interrupted.into())),
            false => Ok(()),
        }
    }
}

impl Sink for StoppableSink<'_> {
    fn begin(&mut self, layout: &Layout) -> Result<(), RecordError> {
        self.kept.begin(layout)
    }

    fn interval(&mut self, interval: Interval) -> Result<(), RecordError> {
        self.asked()?;
        self.kept.interval(interval)
    }

    fn sample(&mut self, sample: Sample) -> Result<(), RecordError> {
        self.kept.sample(sample)
    }

    fn finish(&mut self) -> Result<Vec<Event>, RecordError> {
        self.kept.finish()
    }
}
