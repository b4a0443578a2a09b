//! Who listens to a run: values are computed when a command is done, findings are judged as commands are issued.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use tilewright_base::Span;
use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;
use tilewright_sim::{Detail, Ended, Judge, Options, Outcome, SimError, WaitsFor};
use tilewright_tcp::findings::{self, Finding, Party};
use tilewright_tcp::program::event::{Event, Image, PeId, Ticket, Unit};
use tilewright_tcp::program::tensor::Role;
use tilewright_tcp::program::transfer::Address;
use tilewright_tcp::program::{Exec, Program, Transfer};
use tilewright_tcp::run::{self, State};

use crate::decides::Decides;
use crate::readings::{Reading, ReadingError, Wanted};

/// What memory held before a run, as findings see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// Inputs that have data.
    Nothing,
    /// All inputs: earlier runs and the host may have written them.
    Inputs,
}

/// A run to listen to.
pub(crate) struct Run<'a> {
    pub(crate) machine: &'a Tcp,
    pub(crate) program: &'a Program,
    pub(crate) decides: Decides,
    pub(crate) wanted: &'a Wanted,
    pub(crate) before: Before,
}

/// Runs a program on memories that hold its inputs; outputs are left there.
pub(crate) fn run(
    what: &Run<'_>,
    state: &mut State,
    simulate: impl FnOnce(&Options, &mut dyn Judge) -> Result<Outcome, SimError> + Send,
) -> Result<Reading, ReadingError> {
    // On a thread of the pool that slices are shared between: handing parts of a command to others costs it microseconds, a thread
    // from outside falls asleep and is woken for each.
    match what.decides.computed(what.wanted) {
        true => rayon::scope(|_| run_here(what, state, simulate)),
        false => run_here(what, state, simulate),
    }
}

/// [`run`] on this thread.
fn run_here(
    what: &Run<'_>,
    state: &mut State,
    simulate: impl FnOnce(&Options, &mut dyn Judge) -> Result<Outcome, SimError>,
) -> Result<Reading, ReadingError> {
    let Run { machine, program, decides, wanted, before } = *what;
    let values =
        decides.computed(wanted).then(|| Values { machine, state, pending: BTreeMap::new(), fault: None });
    let mut judge = wanted.findings.then(|| findings::Judge::new(machine, program));
    if let (Some(judge), Before::Inputs) = (&mut judge, before) {
        let inputs = program.tensors.iter().filter(|tensor| tensor.role != Role::Output);
        inputs.for_each(|tensor| judge.holds(tensor));
    }
    let mut listener = Listener { values, findings: judge };
    let options = Options {
        detail: if wanted.trace { Detail::Everything } else { Detail::Totals },
        max_steps: wanted.max_steps.unwrap_or(Options::default().max_steps),
        ..Options::default()
    };
    let outcome = simulate(&options, &mut listener)?;
    let fault = listener.values.as_mut().and_then(|values| values.fault.take());
    let mut findings = listener.findings.map_or(Vec::new(), |judge| conclude(machine, judge, &outcome));
    if let Some(fault) = fault {
        // What was not written after it is no finding of its own.
        findings.retain(|finding| finding.code != "tcp/output-unwritten");
        findings.push(fault);
    }
    Ok(Reading { outcome, findings, outputs: Vec::new() })
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
                    WaitsFor::Command { transfer: true, id } => (format!("transfer {id} to end"), None),
                    WaitsFor::Command { transfer: false, id } => (format!("execution {id} to end"), None),
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
    Exec(Issued, Arc<Exec>),
    Transfer(Issued, Arc<Transfer>),
}

/// The memories, and commands under way.
struct Values<'a> {
    machine: &'a Tcp,
    state: &'a mut State,
    pending: BTreeMap<Ticket, Pending>,
    fault: Option<Finding>,
}

impl<'a> Values<'a> {
    fn observe(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        match event {
            Event::Issue { ticket, pe, unit, image, span, .. } => {
                let issued = Issued { pe: *pe, unit: *unit, span: *span };
                let pending = match image {
                    Image::Exec(exec) => Pending::Exec(issued, Arc::clone(exec)),
                    Image::Transfer(transfer) => Pending::Transfer(issued, Arc::clone(transfer)),
                };
                self.pending.insert(*ticket, pending);
            }
            Event::Done { ticket, at_cycles } => {
                let Some(pending) = self.pending.remove(ticket) else { return ControlFlow::Continue(()) };
                let (issued, name, done) = match &pending {
                    Pending::Exec(issued, exec) => {
                        (issued, &exec.name, run::exec(self.machine, self.state, issued.pe, exec))
                    }
                    Pending::Transfer(issued, transfer) => {
                        (issued, &transfer.name, run::transfer(self.machine, self.state, transfer))
                    }
                };
                if let Err(fault) = done {
                    let command = Party::new(name, issued.pe, issued.unit.name(), *ticket, issued.span);
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
}
