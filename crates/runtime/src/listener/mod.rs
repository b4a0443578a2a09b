//! Who listens to a run: values are computed when a command is done, findings are checked as commands are
//! issued.

mod apart;
mod values;

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use tilewright_base::Span;
use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;
use tilewright_tcp_exec::MemoryState;
use tilewright_tcp_isa::program::Program;
use tilewright_tcp_isa::program::event::{RunEvent, Ticket};
use tilewright_tcp_isa::program::tensor::TensorRole;
use tilewright_tcp_isa::program::transfer::Address;
use tilewright_tcp_sim::findings::{self, Finding};
use tilewright_tcp_sim::{Detail, Observer, RunEnd, SimError, SimOptions, SimOutcome, WaitReason};

use crate::readings::{Reading, ReadingError, ReadingOptions};
use crate::value_dependence::ValueDependence;
use values::{FinishedCommand, InFlight, ValueExecutor};

/// What memory held before a run, as findings see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InitialMemory {
    /// Inputs that have data.
    Nothing,
    /// All inputs: earlier runs and the host may have written them.
    Inputs,
}

/// A run to listen to.
pub(crate) struct ObservedRun<'a> {
    pub(crate) machine: &'a Tcp,
    pub(crate) program: &'a Program,
    pub(crate) decides: ValueDependence,
    pub(crate) wanted: &'a ReadingOptions,
    pub(crate) before: InitialMemory,
}

/// Runs a program on memories that hold its inputs; outputs are left there. `simulate` makes its timeline; so
/// does `again`, whose record nobody looks at.
pub(crate) fn run(
    what: &ObservedRun<'_>,
    state: &mut MemoryState,
    simulate: impl FnOnce(&SimOptions, &mut dyn Observer) -> Result<SimOutcome, SimError> + Send,
    again: impl FnOnce(&SimOptions, &mut dyn Observer) -> Result<SimOutcome, SimError>,
) -> Result<Reading, ReadingError> {
    let mut values = ValueExecutor::new(what.machine, what.program, state);
    if !what.decides.computed(what.wanted) {
        return Ok(what.timeline(None, simulate)?.with(None));
    }
    if !what.goes_apart() {
        let timeline = in_pool(|| what.timeline(Some(&mut values), simulate))?;
        return Ok(timeline.with(values.fault));
    }
    let timeline = apart::run(&mut values, |commands| what.timeline(Some(commands), simulate));
    let Some((mut last, fault)) = values.fault else { return Ok(timeline?.with(None)) };
    let timeline = what.timeline(Some(&mut last), again)?;
    Ok(timeline.with(Some((last, fault))))
}

/// On a thread of the pool that slices are shared between: handing parts of a command to others costs it
/// microseconds, a thread from outside falls asleep and is woken for each.
fn in_pool<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    rayon::scope(|_| work())
}

impl<'a> ObservedRun<'a> {
    fn options(&self) -> SimOptions {
        SimOptions {
            detail: if self.wanted.trace { Detail::Everything } else { Detail::Totals },
            max_steps: self.wanted.max_steps.unwrap_or(SimOptions::default().max_steps),
            ..SimOptions::default()
        }
    }

    /// Whether the timeline needs no values, and nobody would see that it went on after a fault.
    fn goes_apart(&self) -> bool {
        !self.decides.time && !self.wanted.trace && rayon::current_num_threads() > 1
    }

    fn checker(&self) -> Option<findings::FindingsChecker<'a>> {
        let mut checker =
            self.wanted.findings.then(|| findings::FindingsChecker::new(self.machine, self.program))?;
        if self.before == InitialMemory::Inputs {
            let inputs = self.program.tensors.iter().filter(|tensor| tensor.role != TensorRole::Output);
            inputs.for_each(|tensor| checker.holds(tensor));
        }
        Some(checker)
    }

    /// Simulates, checks, and tells someone what is done.
    fn timeline(
        &self,
        follows: Option<&mut dyn CommandObserver>,
        simulate: impl FnOnce(&SimOptions, &mut dyn Observer) -> Result<SimOutcome, SimError>,
    ) -> Result<TimelineReading, SimError> {
        let mut listener = RunListener {
            findings: self.checker(),
            under_way: InFlight::default(),
            follows,
            steps: self.wanted.trace.then(BTreeMap::new),
        };
        let outcome = simulate(&self.options(), &mut listener)?;
        let (checker, steps) = (listener.findings, listener.steps.unwrap_or_default());
        let findings = checker.map_or(Vec::new(), |checker| conclude(self.machine, checker, &outcome));
        Ok(TimelineReading { outcome, findings, steps })
    }
}

/// What a run tells without its values.
struct TimelineReading {
    outcome: SimOutcome,
    findings: Vec<Finding>,
    steps: BTreeMap<Ticket, Span>,
}

impl TimelineReading {
    /// With the command that could not be carried out, if there is one.
    fn with(mut self, fault: Option<(Ticket, Finding)>) -> Reading {
        if let Some((_, fault)) = fault {
            // What was not written after it is no finding of its own.
            self.findings.retain(|finding| finding.code != "tcp/output-unwritten");
            self.findings.push(fault);
        }
        Reading {
            outcome: self.outcome,
            findings: self.findings,
            warnings: Vec::new(),
            outputs: Vec::new(),
            steps: self.steps,
        }
    }
}

/// What only the end of a run shows.
fn conclude(machine: &Tcp, mut checker: findings::FindingsChecker<'_>, outcome: &SimOutcome) -> Vec<Finding> {
    for lost in &outcome.overflows {
        let entries = machine.queue.entries;
        checker.report(Finding::queue_overflow(lost.pe, lost.span, "a command", entries, lost.at_cycles));
    }
    if let RunEnd::Deadlock(chain) = &outcome.ended {
        let waits: Vec<findings::WaitLink> = chain
            .iter()
            .map(|waiting| {
                let (for_what, on) = match waiting.on {
                    WaitReason::Message(pe) => {
                        (format!("a message of chip {} pe {}", pe.chip, pe.pe), Some(pe))
                    }
                    WaitReason::Room => ("room in its queue".to_string(), None),
                    WaitReason::Sync => ("its queue to empty".to_string(), None),
                    WaitReason::Command { transfer: true, id } => (format!("transfer {id} to end"), None),
                    WaitReason::Command { transfer: false, id } => (format!("execution {id} to end"), None),
                };
                findings::WaitLink { pe: waiting.pe, span: waiting.span, for_what, on }
            })
            .collect();
        checker.report(Finding::deadlock(&waits, outcome.cycles));
    }
    checker.finish()
}

/// Told which commands are done.
trait CommandObserver {
    /// A command is done; breaking ends the run.
    fn take(&mut self, command: FinishedCommand) -> ControlFlow<()>;

    /// An integer in memory, if memory is known.
    fn read(&self, _address: Address, _dtype: Dtype) -> Option<i64> {
        None
    }
}

/// The last command of a run.
impl CommandObserver for Ticket {
    fn take(&mut self, command: FinishedCommand) -> ControlFlow<()> {
        if command.ticket == *self { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

struct RunListener<'f, 'm> {
    findings: Option<findings::FindingsChecker<'m>>,
    under_way: InFlight,
    follows: Option<&'f mut dyn CommandObserver>,
    /// The step of each command that was issued, if somebody asks.
    steps: Option<BTreeMap<Ticket, Span>>,
}

impl Observer for RunListener<'_, '_> {
    fn observe(&mut self, event: &RunEvent<'_>) -> ControlFlow<()> {
        if let Some(checker) = &mut self.findings {
            checker.observe(event);
        }
        if let (Some(steps), RunEvent::Issue { ticket, span, .. }) = (&mut self.steps, event) {
            steps.insert(*ticket, *span);
        }
        let Some(follows) = &mut self.follows else { return ControlFlow::Continue(()) };
        self.under_way.observe(event).map_or(ControlFlow::Continue(()), |command| follows.take(command))
    }

    fn read(&mut self, address: Address, dtype: Dtype) -> Option<i64> {
        self.follows.as_ref()?.read(address, dtype)
    }
}
