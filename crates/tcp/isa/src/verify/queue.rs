//! Queues: PEs and groups that exist, images loaded before they run, ids, registers, messages (paper sections
//! III-C, V-A).

use std::collections::BTreeSet;

use tilewright_base::invariant::Exact;
use tilewright_base::{Diagnostic, Span};
use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;

use super::context::refusal;
use super::queue_occupancy;
use super::queue_occupancy::MAX_NESTING;
use super::queue_state::QueueState;
use crate::capped::Capped;
use crate::footprint::transfer::site_of;
use crate::program::control::{Condition, ControlExpr, ControlOperand, StepKind};
use crate::program::transfer::Address;
use crate::program::{Command, Exec, ExecId, Program, Queue, RegisterId, Step};

pub(super) fn check(machine: &Tcp, program: &Program, found: &mut Vec<Diagnostic>) {
    let mut pes: BTreeSet<(u64, u64)> = BTreeSet::new();
    for queue in &program.queues {
        let known = queue.chip < program.chips && queue.pe < machine.pes();
        if !known || !pes.insert((queue.chip, queue.pe)) {
            found.push(refusal(
                "tcp/queue-pe",
                queue.span,
                format!("a queue for chip {} pe {}", queue.chip, queue.pe),
                format!("one queue for each of {} PEs of {} chips", machine.pes(), program.chips),
                "one queue with the steps of both",
            ));
        }
    }
    for queue in &program.queues {
        let mut walk = QueueChecker { machine, program, queue, pes: &pes, again: false, found: Vec::new() };
        walk.steps(&queue.steps, &mut QueueState::default(), 0);
        // Bodies of loops are walked twice.
        let mut said = BTreeSet::new();
        walk.found.retain(|complaint| {
            said.insert((complaint.code, complaint.primary.as_ref().map(|label| label.span)))
        });
        found.append(&mut walk.found);
        if let Some((span, waiting)) = queue_occupancy::first_overflow(&queue.steps, machine.queue.entries) {
            found.push(refusal(
                "tcp/queue-room",
                span,
                format!("{waiting} commands may be waiting once this is pushed without a look"),
                format!("{} entries", machine.queue.entries),
                "`push`, which waits for room, or `sync` before it",
            ));
        }
    }
}

/// One queue's steps under examination.
struct QueueChecker<'a> {
    machine: &'a Tcp,
    program: &'a Program,
    queue: &'a Queue,
    pes: &'a BTreeSet<(u64, u64)>,
    /// In the second pass over the body of a loop.
    again: bool,
    found: Vec<Diagnostic>,
}

impl QueueChecker<'_> {
    fn steps(&mut self, steps: &[Step], state: &mut QueueState, depth: usize) {
        if depth > MAX_NESTING {
            let span = steps.first().map_or(self.queue.span, |step| step.span);
            return self.refuse(
                "tcp/queue-nesting",
                span,
                format!("{depth} loops and branches inside one another"),
                format!("{MAX_NESTING}"),
                "a flatter program",
            );
        }
        for step in steps {
            self.step(step, state, depth);
        }
    }

    fn step(&mut self, step: &Step, state: &mut QueueState, depth: usize) {
        let span = step.span;
        match &step.kind {
            StepKind::Push(command) | StepKind::PushUnchecked(command) => self.command(*command, span, state),
            StepKind::Set(register, value) => {
                self.registers(span, [Some(*register)].into_iter().chain(value_registers(*value)));
            }
            StepKind::Read { register, address, dtype } => {
                self.registers(span, [Some(*register)].into_iter());
                self.read(*address, *dtype, span);
                state.sync();
            }
            StepKind::For { register, from, to, body } => {
                let named = value_registers(*from).into_iter().chain(value_registers(*to));
                self.registers(span, [Some(*register)].into_iter().chain(named));
                self.body(body, state, depth);
            }
            StepKind::While { condition, body } => {
                self.condition(span, *condition);
                self.body(body, state, depth);
            }
            StepKind::If { condition, then, otherwise } => {
                self.condition(span, *condition);
                let mut other = state.clone();
                self.steps(then, state, depth + 1);
                self.steps(otherwise, &mut other, depth + 1);
                state.join(&other);
            }
            StepKind::Sync => state.sync(),
            StepKind::Await { transfer: true, id } => self.command(Command::WaitD(*id), span, state),
            StepKind::Await { transfer: false, id } => self.command(Command::WaitE(*id), span, state),
            StepKind::Post { chip, pe, value } => {
                self.registers(span, value_registers(*value).into_iter());
                self.peer(*chip, *pe, span);
            }
            StepKind::Receive { chip, pe, register } => {
                self.registers(span, [*register].into_iter());
                self.peer(*chip, *pe, span);
            }
        }
    }

    /// A body that may run any number of times.
    fn body(&mut self, body: &[Step], state: &mut QueueState, depth: usize) {
        let before = state.clone();
        self.steps(body, state, depth + 1);
        state.join(&before);
        if *state != before && !self.again {
            // The state that one iteration leaves to the next; loops inside had their own second pass.
            self.again = true;
            self.steps(body, &mut state.clone(), depth + 1);
            self.again = false;
        }
    }

    fn command(&mut self, command: Command, span: Span, state: &mut QueueState) {
        match command {
            Command::Dma { transfer, id } => {
                if self.program.transfers.get(transfer.0 as usize).is_none() {
                    self.missing(span, "transfer", transfer.0, self.program.transfers.len());
                }
                if state.start_transfer(id) {
                    self.in_flight(span, "transfer", id, "wait_d");
                }
            }
            Command::Load(exec) => match self.program.execs.get(exec.0 as usize) {
                Some(image) => {
                    self.group(image, span);
                    state.load(image.context);
                }
                None => self.missing(span, "image", exec.0, self.program.execs.len()),
            },
            Command::Exec { context, id } => {
                if !state.is_loaded(context) {
                    self.refuse(
                        "tcp/queue-load",
                        span,
                        "nothing is loaded into this context yet".into(),
                        "a `load` on some path before it".into(),
                        "`load` of an image for this context",
                    );
                }
                if state.start_exec(context, id) {
                    self.in_flight(span, "execution", id, "wait_e");
                }
            }
            Command::WaitD(id) if !state.wait_transfer(id) => self.never(span, "transfer", id),
            Command::WaitE(id) if !state.wait_exec(id) => self.never(span, "execution", id),
            Command::WaitD(_) | Command::WaitE(_) => {}
        }
    }

    fn missing(&mut self, span: Span, what: &str, id: u32, count: usize) {
        self.refuse(
            "tcp/queue-image",
            span,
            format!("{what} {id} does not exist"),
            format!("{count} of them"),
            "one that is declared",
        );
    }

    fn in_flight(&mut self, span: Span, what: &str, id: u8, wait: &str) {
        self.refuse(
            "tcp/queue-id",
            span,
            format!("an earlier {what} with id {id} may still be running"),
            "an id whose command was waited for".into(),
            &format!("`{wait} {id}` before it, or another id"),
        );
    }

    fn never(&mut self, span: Span, what: &str, id: u8) {
        self.refuse(
            "tcp/queue-wait",
            span,
            format!("no {what} with id {id} was issued before"),
            "ids of commands that come before the wait".into(),
            "the id that the command was given",
        );
    }

    fn group(&mut self, image: &Exec, span: Span) {
        let (pe, pes) = (self.queue.pe, image.pes.max(1));
        if !pe.is_multiple_of(pes) || pe.capped_add(pes) > self.machine.pes() {
            self.refuse(
                "tcp/queue-group",
                span,
                format!("`{}` fuses {pes} PEs from pe {pe} on", image.name),
                format!("groups that start at a multiple of {pes}"),
                "the queue of the group's first PE",
            );
        }
    }

    fn read(&mut self, address: Address, dtype: Dtype, span: Span) {
        let bytes = u64::from(dtype.storage_bits() / 8);
        let held = address.locate().is_some_and(|located| {
            let site = site_of(located, false);
            let most = match site.memory {
                crate::footprint::MemoryKind::Hbm => 1,
                crate::footprint::MemoryKind::Spm => self.machine.pes(),
                _ => self.machine.slices(),
            };
            located.chip < self.program.chips
                && site.slices.0 < most
                && located.offset.exact_add(bytes) <= site.memory.capacity_bytes(self.machine)
        });
        if !held || !matches!(dtype, Dtype::I8 | Dtype::I16 | Dtype::I32) {
            self.refuse(
                "tcp/queue-read",
                span,
                format!("reads {dtype} at {:#x}", address.0),
                "i8, i16 or i32, in a memory of the machine".into(),
                "a cast to i32 before it is read",
            );
        }
    }

    fn condition(&mut self, span: Span, condition: Condition) {
        self.registers(span, [term_register(condition.left), term_register(condition.right)].into_iter());
    }

    fn registers(&mut self, span: Span, named: impl Iterator<Item = Option<RegisterId>>) {
        let count = self.program.registers.len();
        if let Some(id) = named.flatten().find(|id| id.0 as usize >= count) {
            self.refuse(
                "tcp/queue-register",
                span,
                format!("register {} does not exist", id.0),
                format!("{count} registers"),
                "one that is declared",
            );
        }
    }

    fn peer(&mut self, chip: u64, pe: u64, span: Span) {
        if !self.pes.contains(&(chip, pe)) || (chip, pe) == (self.queue.chip, self.queue.pe) {
            self.refuse(
                "tcp/queue-peer",
                span,
                format!("a message between this PE and chip {chip} pe {pe}"),
                "another PE that has a queue".into(),
                "a queue for that PE",
            );
        }
    }

    fn refuse(&mut self, code: &'static str, span: Span, message: String, allowed: String, instead: &str) {
        self.found.push(refusal(code, span, message, allowed, instead));
    }
}

fn term_register(term: ControlOperand) -> Option<RegisterId> {
    match term {
        ControlOperand::Register(id) => Some(id),
        ControlOperand::Number(_) => None,
    }
}

fn value_registers(value: ControlExpr) -> [Option<RegisterId>; 2] {
    match value {
        ControlExpr::Operand(term) => [term_register(term), None],
        ControlExpr::Binary(left, _, right) => [term_register(left), term_register(right)],
    }
}

/// The images that a queue loads, with the transfers that it starts.
pub(super) fn used(
    steps: &[Step],
    depth: usize,
    execs: &mut BTreeSet<ExecId>,
    transfers: &mut BTreeSet<u32>,
) {
    if depth > MAX_NESTING {
        return;
    }
    for step in steps {
        match &step.kind {
            StepKind::Push(command) | StepKind::PushUnchecked(command) => match command {
                Command::Dma { transfer, .. } => {
                    transfers.insert(transfer.0);
                }
                Command::Load(exec) => {
                    execs.insert(*exec);
                }
                Command::Exec { .. } | Command::WaitD(_) | Command::WaitE(_) => {}
            },
            StepKind::For { body, .. } | StepKind::While { body, .. } => {
                used(body, depth + 1, execs, transfers);
            }
            StepKind::If { then, otherwise, .. } => {
                used(then, depth + 1, execs, transfers);
                used(otherwise, depth + 1, execs, transfers);
            }
            _ => {}
        }
    }
}
