//! All readings of one run of a TCP program: values, timeline, energy and findings from the same events.
//!
//! The simulator tells what happens; values are computed when a command is done, findings are checked as
//! commands are issued.

use std::collections::BTreeMap;

use thiserror::Error;
use tilewright_base::{Diagnostic, Severity, Span};
use tilewright_machine::tcp::Tcp;
use tilewright_record::{KeepLast, RecordError, Sink};
use tilewright_tcp_exec::ExecFault;
use tilewright_tcp_isa::program::Program;
use tilewright_tcp_isa::program::event::{PeId, Ticket};
use tilewright_tcp_isa::program::tensor::{Tensor, TensorData};
use tilewright_tcp_isa::verify::verify;
use tilewright_tcp_sim::findings::Finding;
use tilewright_tcp_sim::{SimError, SimOutcome, simulate};

use crate::array::{Array, ArrayError};
use crate::device::Device;
use crate::listener::{self, InitialMemory};
use crate::value_dependence::ValueDependence;

/// What to compute besides the timeline, which everything else rests on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadingOptions {
    /// Outputs.
    pub values: bool,
    /// Races, uninitialised reads and so on.
    pub findings: bool,
    /// Intervals, counters and power over time.
    pub trace: bool,
    /// Slices by PE that a spare replaces, from this run on: the program runs unchanged.
    pub faulty_slices: Vec<(PeId, u64)>,
    /// Steps that control cores may take, if not as many as usual.
    pub max_steps: Option<u64>,
}

/// A run with its results.
#[derive(Debug)]
pub struct Reading {
    /// Timeline and energy.
    pub outcome: SimOutcome,
    /// What went wrong, if it was asked for.
    pub findings: Vec<Finding>,
    /// What the verifier said of the program, none of it an error; of a run on a device that is kept,
    /// nothing.
    pub warnings: Vec<Diagnostic>,
    /// Outputs by name, in the program's order, if values were asked for; of a run on a device that is kept,
    /// none.
    pub outputs: Vec<(String, Array)>,
    /// The step that each command was issued by, if a trace was asked for.
    pub steps: BTreeMap<Ticket, Span>,
}

/// The first of some complaints, as the end of a sentence.
fn first_reason(complaints: &[Diagnostic]) -> String {
    complaints.first().map_or(String::new(), |first| format!(": {} ({})", first.message, first.code))
}

/// Why there is no reading.
#[derive(Debug, Error)]
pub enum ReadingError {
    /// The program is refused before it runs.
    #[error("the program is refused{}", first_reason(.0))]
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
        fault: ExecFault,
    },
    /// A program and a device that do not go together.
    #[error("the program does not fit the device: {0}")]
    Unfit(String),
    /// The trace could not be written.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// Runs a program on a device of its own. `files` gives arrays for tensors whose data is a file.
///
/// # Errors
/// A program that is refused, inputs that do not fit, a run that cannot go on.
pub fn read<S: Sink + Send>(
    machine: &Tcp,
    program: &Program,
    files: &mut dyn FnMut(&Tensor) -> Result<Array, ArrayError>,
    wanted: &ReadingOptions,
    sink: S,
) -> Result<Reading, ReadingError> {
    let warnings = accepted(machine, program)?;
    let decides = ValueDependence::of(program);
    let mut device = Device::new(machine, program.chips.max(1));
    if decides.computed(wanted) {
        device.replace_slices(&wanted.faulty_slices)?;
        device.load(program, files)?;
    }
    let what = listener::ObservedRun { machine, program, decides, wanted, before: InitialMemory::Nothing };
    let mut reading = listener::run(
        &what,
        device.state_mut(),
        |options, checker| simulate(machine, program, options, sink, checker),
        |options, checker| simulate(machine, program, options, KeepLast::new(0), checker),
    )?;
    let stopped = reading.outcome.ended == tilewright_tcp_sim::RunEnd::Stopped;
    if wanted.values && !stopped {
        reading.outputs = device.outputs(program)?;
    }
    reading.warnings = warnings;
    Ok(reading)
}

/// What is said of a program that may run.
pub(crate) fn accepted(machine: &Tcp, program: &Program) -> Result<Vec<Diagnostic>, ReadingError> {
    let complaints = verify(machine, program);
    if complaints.iter().any(|complaint| complaint.severity == Severity::Error) {
        return Err(ReadingError::Refused(complaints));
    }
    Ok(complaints)
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
    let rules = tilewright_tcp_exec::rules(machine);
    Ok(Some(match &tensor.data {
        TensorData::None => return Ok(None),
        TensorData::Zeros => Array::zeros(tensor.dtype, &extents).ok_or_else(large)?,
        TensorData::Random(seed) => Array::random(rules, tensor.dtype, &extents, *seed).ok_or_else(large)?,
        TensorData::Patterns(patterns) => Array { dtype: tensor.dtype, extents, patterns: patterns.clone() },
        TensorData::File(_) => files(tensor)?.converted(rules, tensor.dtype)?.shaped(&extents)?,
    }))
}
