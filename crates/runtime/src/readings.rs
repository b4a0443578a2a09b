//! All readings of one run of a TCP program: values, timeline, energy and findings from the same events.
//!
//! The simulator tells what happens; values are computed when a command is done, findings are judged as commands are issued.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use thiserror::Error;
use tilewright_base::{Diagnostic, Severity, Span};
use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;
use tilewright_record::{RecordError, Sink};
use tilewright_sim::{Detail, Ended, Judge, Options, Outcome, SimError, WaitsFor, simulate};
use tilewright_tcp::findings::{self, Finding, Party};
use tilewright_tcp::program::event::{Event, Image, PeId, Ticket, Unit};
use tilewright_tcp::program::tensor::{Data, Role, Tensor};
use tilewright_tcp::program::transfer::Address;
use tilewright_tcp::program::{Exec, Program, Transfer};
use tilewright_tcp::run::{self, Fault, State};
use tilewright_tcp::verify::verify;

use crate::array::{Array, ArrayError};
use crate::decides;

/// What to compute besides the timeline, which everything else rests on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Outputs.
    pub values: bool,
    /// Races, uninitialised reads and so on.
    pub findings: bool,
    /// Intervals, counters and power over time.
    pub trace: bool,
    /// Slices by PE that a spare replaces: the program runs unchanged.
    pub faulty_slices: Vec<(PeId, u64)>,
    /// Steps that control cores may take, if not as many as usual.
    pub max_steps: Option<u64>,
}

/// A run with its results.
#[derive(Debug)]
pub struct Reading {
    /// Timeline and energy.
    pub outcome: Outcome,
    /// What went wrong, if it was asked for.
    pub findings: Vec<Finding>,
    /// Outputs by name, in the program's order, if values were asked for.
    pub outputs: Vec<(String, Array)>,
}

/// Why there is no reading.
#[derive(Debug, Error)]
pub enum ReadingError {
    /// The program is refused before it runs.
    #[error("the program is refused")]
    Refused(Vec<Diagnostic>),
    /// The simulator cannot go on.
    #[error(transparent)]
    Sim(#[from] SimError),
    /// An input cannot be had.
    #[error("tensor `{name}`: {why}")]
    Input {
        /// Which.
        name: String,
        /// Why.
        why: ArrayError,
    },
    /// A tensor cannot be placed, or a slice not be replaced.
    #[error("`{name}`: {fault}")]
    Fault {
        /// Which.
        name: String,
        /// What.
        fault: Fault,
    },
    /// The trace could not be written.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// Runs a program. `files` gives arrays for tensors whose data is a file.
///
/// # Errors
/// A program that is refused, inputs that do not fit, a run that cannot go on.
pub fn read<S: Sink>(
    machine: &Tcp,
    program: &Program,
    files: &mut dyn FnMut(&Tensor) -> Result<Array, ArrayError>,
    wanted: &Wanted,
    sink: S,
) -> Result<Reading, ReadingError> {
    let complaints = verify(machine, program);
    if complaints.iter().any(|complaint| complaint.severity == Severity::Error) {
        return Err(ReadingError::Refused(complaints));
    }
    let computed = wanted.values || decides::time(program) || (wanted.findings && decides::places(program));
    let values =
        if computed { Some(Values::new(machine, program, &wanted.faulty_slices, files)?) } else { None };
    let findings = wanted.findings.then(|| findings::Judge::new(machine, program));
    let mut listener = Listener { values, findings };
    let options = Options {
        detail: if wanted.trace { Detail::Everything } else { Detail::Totals },
        max_steps: wanted.max_steps.unwrap_or(Options::default().max_steps),
        ..Options::default()
    };
    let outcome = simulate(machine, program, &options, sink, &mut listener)?;
    let fault = listener.values.as_mut().and_then(|values| values.fault.take());
    let mut findings = listener.findings.map_or(Vec::new(), |judge| conclude(machine, judge, &outcome));
    if let Some(fault) = fault {
        // What was not written after it is no finding of its own.
        findings.retain(|finding| finding.code != "tcp/output-unwritten");
        findings.push(fault);
        return Ok(Reading { outcome, findings, outputs: Vec::new() });
    }
    let values = listener.values.filter(|_| wanted.values);
    let outputs = values.map_or(Ok(Vec::new()), |values| values.outputs(program))?;
    Ok(Reading { outcome, findings, outputs })
}

/// What only the end of a run shows.
fn conclude(machine: &Tcp, mut judge: findings::Judge<'_>, outcome: &Outcome) -> Vec<Finding> {
    for lost in &outcome.overflows {
        let entries = machine.queue.entries;
        judge.report(Finding::queue_overflow(lost.pe, lost.span, "a command", entries, lost.at_cycles));
    }
    if let Ended::Deadlock(chain) = &outcome.ended {
        let waits: Vec<findings::Wait> = chain
            .iter()
            .map(|waiting| {
                let (for_what, on) = match waiting.on {
                    WaitsFor::Message(pe) => {
                        (format!("a message of chip {} pe {}", pe.chip, pe.pe), Some(pe))
                    }
                    WaitsFor::Room => ("room in its queue".to_string(), None),
                    WaitsFor::Sync => ("its queue to empty".to_string(), None),
                };
                findings::Wait { pe: waiting.pe, span: waiting.span, for_what, on }
            })
            .collect();
        judge.report(Finding::deadlock(&waits, outcome.cycles));
    }
    judge.finish()
}

struct Listener<'a> {
    values: Option<Values<'a>>,
    findings: Option<findings::Judge<'a>>,
}

impl Judge for Listener<'_> {
    fn observe(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        if let Some(judge) = &mut self.findings {
            judge.observe(event);
        }
        match &mut self.values {
            Some(values) => values.observe(event),
            None => ControlFlow::Continue(()),
        }
    }

    fn read(&mut self, address: Address, dtype: Dtype) -> Option<i64> {
        self.values.as_ref()?.read(address, dtype)
    }
}

/// Who issued a command, and where.
#[derive(Clone, Copy)]
struct Issued {
    pe: PeId,
    unit: Unit,
    span: Span,
}

/// A command between its issue and its end.
enum Pending {
    Exec(Issued, Box<Exec>),
    Transfer(Issued, Box<Transfer>),
}

/// The memories, and commands under way.
struct Values<'a> {
    machine: &'a Tcp,
    state: State,
    pending: BTreeMap<Ticket, Pending>,
    fault: Option<Finding>,
}

impl<'a> Values<'a> {
    fn new(
        machine: &'a Tcp,
        program: &Program,
        faulty_slices: &[(PeId, u64)],
        files: &mut dyn FnMut(&Tensor) -> Result<Array, ArrayError>,
    ) -> Result<Values<'a>, ReadingError> {
        let mut state = State::new(machine, program.chips.max(1));
        for (pe, slice) in faulty_slices {
            let name = format!("faulty slice {slice} of chip {} pe {}", pe.chip, pe.pe);
            let faulted = |fault| ReadingError::Fault { name, fault };
            state.replace_slice(pe.chip, pe.pe, *slice).map_err(faulted)?;
        }
        for tensor in program.tensors.iter().filter(|tensor| tensor.role != Role::Output) {
            let refused = |why| ReadingError::Input { name: tensor.name.clone(), why };
            let Some(array) = input(machine, tensor, files).map_err(refused)? else { continue };
            let faulted = |fault| ReadingError::Fault { name: tensor.name.clone(), fault };
            state.put(tensor, &array.patterns).map_err(faulted)?;
        }
        Ok(Values { machine, state, pending: BTreeMap::new(), fault: None })
    }

    fn observe(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        match event {
            Event::Issue { ticket, pe, unit, image, span, .. } => {
                let issued = Issued { pe: *pe, unit: *unit, span: *span };
                let pending = match image {
                    Image::Exec(exec) => Pending::Exec(issued, Box::new((*exec).clone())),
                    Image::Transfer(transfer) => Pending::Transfer(issued, Box::new((*transfer).clone())),
                };
                self.pending.insert(*ticket, pending);
            }
            Event::Done { ticket, at_cycles } => {
                let (issued, name, done) = match self.pending.remove(ticket) {
                    None => return ControlFlow::Continue(()),
                    Some(Pending::Exec(issued, exec)) => {
                        let done = run::exec(self.machine, &mut self.state, issued.pe, &exec);
                        (issued, exec.name, done)
                    }
                    Some(Pending::Transfer(issued, transfer)) => {
                        let done = run::transfer(self.machine, &mut self.state, &transfer);
                        (issued, transfer.name, done)
                    }
                };
                if let Err(fault) = done {
                    let command = Party::new(&name, issued.pe, issued.unit.name(), *ticket, issued.span);
                    self.fault = Some(Finding::fault(command, &fault, *at_cycles));
                    return ControlFlow::Break(());
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn read(&self, address: Address, dtype: Dtype) -> Option<i64> {
        let mut bytes = vec![0; dtype.size_bytes(1)];
        self.state.read(address, &mut bytes).ok()?;
        Some(tilewright_num::int_value(dtype, tilewright_num::load(dtype, &bytes, 0)))
    }

    fn outputs(self, program: &Program) -> Result<Vec<(String, Array)>, ReadingError> {
        let mut outputs = Vec::new();
        for tensor in program.tensors.iter().filter(|tensor| tensor.role != Role::Input) {
            let faulted = |fault| ReadingError::Fault { name: tensor.name.clone(), fault };
            let patterns = self.state.get(tensor).map_err(faulted)?;
            let extents = tensor.axes.iter().map(|(_, extent)| *extent).collect();
            outputs.push((tensor.name.clone(), Array { dtype: tensor.dtype, extents, patterns }));
        }
        Ok(outputs)
    }
}

/// What a tensor holds at the start; `None` if nothing.
///
/// # Errors
/// An array that is too large or does not fit.
pub fn input(
    machine: &Tcp,
    tensor: &Tensor,
    files: &mut dyn FnMut(&Tensor) -> Result<Array, ArrayError>,
) -> Result<Option<Array>, ArrayError> {
    let extents: Vec<u64> = tensor.axes.iter().map(|(_, extent)| *extent).collect();
    let large = || ArrayError::Format("it has too many elements".to_string());
    let rules = run::rules(machine);
    Ok(Some(match &tensor.data {
        Data::None => return Ok(None),
        Data::Zeros => Array::zeros(tensor.dtype, &extents).ok_or_else(large)?,
        Data::Random(seed) => Array::random(rules, tensor.dtype, &extents, *seed).ok_or_else(large)?,
        Data::Patterns(patterns) => Array { dtype: tensor.dtype, extents, patterns: patterns.clone() },
        Data::File(_) => files(tensor)?.converted(rules, tensor.dtype)?.shaped(&extents)?,
    }))
}
