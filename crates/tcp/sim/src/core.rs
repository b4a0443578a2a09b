//! The control core of a PE: runs its steps, feeds its queue, reads the device and talks to other cores
//! (paper sections III-C, V-A).
//!
//! Register arithmetic and branches take no time of their own: a push takes tens of cycles and hides them.
//! Sizes held in registers are taken when the core pushes the command, so that results do not depend on how
//! fast the queue is.

use std::collections::{BTreeMap, VecDeque};

use tilewright_base::Span;
use tilewright_base::invariant::Exact;
use tilewright_record::Sink;
use tilewright_tcp_cost::cycles::image::transfer::cycles_of_ns;
use tilewright_tcp_isa::program::RegisterId;
use tilewright_tcp_isa::program::control::{Command, Condition, ControlExpr, Step, StepKind};
use tilewright_tcp_isa::program::event::{PeId, RunEvent};

use crate::SimError;
use crate::arithmetic::{evaluate, holds};
use crate::events::EventKind;
use crate::outcome::{QueueOverflow, WaitReason};
use crate::state::{QueueEntry, QueuedCommand, World, small};

/// Messages that a core's area holds.
const MESSAGES: usize = 4096;
/// Lost commands that are kept one by one.
const OVERFLOWS: usize = 64;

/// A core.
#[derive(Debug, Default)]
pub(crate) struct ControlCore<'p> {
    pub(crate) registers: Vec<i64>,
    frames: Vec<StepFrame<'p>>,
    pub(crate) state: CoreState,
    /// What a push puts into the queue when it ends, and whether it looks for room.
    pushing: Option<(QueueEntry, bool)>,
    /// Messages taken and commands awaited so far.
    received: u64,
    /// The poll of the step at hand is over.
    polled: bool,
    /// Messages by sender, with their times of arrival.
    inbox: BTreeMap<usize, VecDeque<(u64, i64)>>,
    /// The step that it waits in.
    pub(crate) span: Span,
}

/// What a core does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CoreState {
    /// Has no steps, or none left.
    #[default]
    Ended,
    Running,
    Waits(WaitReason),
}

/// Steps under way.
#[derive(Debug)]
struct StepFrame<'p> {
    steps: &'p [Step],
    at: usize,
    repeats: LoopKind,
}

#[derive(Debug)]
enum LoopKind {
    Once,
    For { register: RegisterId, next: i64, to: i64 },
    While(Condition),
}

/// What a step led to.
enum StepResult {
    /// The next step, now.
    Go,
    /// The core goes on after so many cycles.
    After(u64),
    /// The core goes on when someone wakes it.
    Wait(WaitReason),
}

impl<'p> ControlCore<'p> {
    pub(crate) fn start(&mut self, steps: &'p [Step], registers: Vec<i64>) {
        self.registers = registers;
        self.frames.push(StepFrame { steps, at: 0, repeats: LoopKind::Once });
        self.state = CoreState::Running;
    }
}

impl<'p, S: Sink> World<'p, '_, S> {
    /// Runs the core until it waits for time or for someone.
    pub(crate) fn run_core(&mut self, pe: usize) -> Result<(), SimError> {
        self.pes[pe].core.state = CoreState::Running;
        loop {
            self.finish_push(pe)?;
            if self.stopped {
                return Ok(());
            }
            let Some(step) = self.next_step(pe)? else {
                self.pes[pe].core.state = CoreState::Ended;
                return Ok(());
            };
            self.pes[pe].core.span = step.span;
            match self.step(pe, step)? {
                StepResult::Go => self.step_done(pe, step.span)?,
                StepResult::Wait(on) => {
                    self.pes[pe].core.state = CoreState::Waits(on);
                    return Ok(());
                }
                StepResult::After(cycles) => {
                    self.latency(cycles);
                    let at = self.after(cycles)?;
                    // Nothing else happens until then: no need to plan it.
                    if at < self.events.next_at().min(self.bandwidth.next_end()) {
                        self.now = at;
                    } else {
                        self.events.plan(at, EventKind::Core(small(pe)));
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Wakes a core that waits for this.
    pub(crate) fn wake_core(&mut self, pe: usize, on: WaitReason) {
        let core = &mut self.pes[pe].core;
        if core.state == CoreState::Waits(on) {
            core.state = CoreState::Running;
            self.events.plan(self.now, EventKind::Core(small(pe)));
        }
    }

    /// The step at hand; bodies that ended are left or begun again.
    fn next_step(&mut self, pe: usize) -> Result<Option<&'p Step>, SimError> {
        loop {
            let core = &mut self.pes[pe].core;
            let Some(frame) = core.frames.last_mut() else { return Ok(None) };
            if let Some(step) = frame.steps.get(frame.at) {
                return Ok(Some(step));
            }
            let span = core.span;
            let again = match frame.repeats {
                LoopKind::Once => None,
                LoopKind::For { register, ref mut next, to } => (*next < to).then(|| {
                    *next += 1;
                    Some((register, *next - 1))
                }),
                LoopKind::While(condition) => holds(condition, &core.registers).then_some(None),
            };
            match again {
                None => {
                    core.frames.pop();
                }
                Some(set) => {
                    frame.at = 0;
                    self.count_step(span)?;
                    if let Some((register, value)) = set {
                        self.set(pe, register, value, span)?;
                    }
                }
            }
        }
    }

    fn count_step(&mut self, span: Span) -> Result<(), SimError> {
        self.sums.steps += 1;
        let most = self.options.max_steps;
        if self.sums.steps > most { Err(SimError::Steps { most, span }) } else { Ok(()) }
    }

    /// Goes on to the step after this one. Bodies entered by the step come first.
    fn step_done(&mut self, pe: usize, span: Span) -> Result<(), SimError> {
        self.pes[pe].core.polled = false;
        self.count_step(span)
    }

    fn advance(&mut self, pe: usize) {
        if let Some(frame) = self.pes[pe].core.frames.last_mut() {
            frame.at += 1;
        }
    }

    fn step(&mut self, pe: usize, step: &'p Step) -> Result<StepResult, SimError> {
        match &step.kind {
            StepKind::Push(command) => self.push(pe, *command, step.span, true),
            StepKind::PushUnchecked(command) => self.push(pe, *command, step.span, false),
            StepKind::Set(register, value) => {
                let value = evaluate(*value, &self.pes[pe].core.registers);
                self.advance(pe);
                self.set(pe, *register, value, step.span)?;
                Ok(StepResult::Go)
            }
            StepKind::For { register, from, to, body } => {
                let registers = &self.pes[pe].core.registers;
                let (next, to) = (evaluate(*from, registers), evaluate(*to, registers));
                self.enter(pe, body, LoopKind::For { register: *register, next, to });
                Ok(StepResult::Go)
            }
            StepKind::If { condition, then, otherwise } => {
                let body = if holds(*condition, &self.pes[pe].core.registers) { then } else { otherwise };
                self.advance(pe);
                let frame = StepFrame { steps: body, at: 0, repeats: LoopKind::Once };
                self.pes[pe].core.frames.push(frame);
                Ok(StepResult::Go)
            }
            StepKind::While { condition, body } => {
                self.enter(pe, body, LoopKind::While(*condition));
                Ok(StepResult::Go)
            }
            StepKind::Sync => Ok(self.synced(pe)),
            StepKind::Await { transfer, id } => Ok(self.awaited(pe, *transfer, *id)),
            StepKind::Read { register, address, dtype } => {
                let next = self.synced(pe);
                if matches!(next, StepResult::Go) {
                    let (ticket, owner, at_cycles) = (self.ticket(), self.pes[pe].id, self.now);
                    self.tell(&RunEvent::Read {
                        ticket,
                        pe: owner,
                        address: *address,
                        dtype: *dtype,
                        span: step.span,
                        at_cycles,
                    });
                    let value = self.observer.read(*address, *dtype);
                    let value = value.ok_or(SimError::NoValue { span: step.span })?;
                    self.set(pe, *register, value, step.span)?;
                }
                Ok(next)
            }
            StepKind::Post { chip, pe: to, value } => {
                self.post(pe, PeId { chip: *chip, pe: *to }, *value, step.span)
            }
            StepKind::Receive { chip, pe: from, register } => {
                self.receive(pe, PeId { chip: *chip, pe: *from }, *register, step.span)
            }
        }
    }

    /// Enters a body that begins at its end, where it is decided whether it runs.
    fn enter(&mut self, pe: usize, body: &'p [Step], repeats: LoopKind) {
        self.advance(pe);
        self.pes[pe].core.frames.push(StepFrame { steps: body, at: body.len(), repeats });
    }

    fn set(&mut self, pe: usize, register: RegisterId, value: i64, span: Span) -> Result<(), SimError> {
        let unknown = SimError::Unknown { what: "register", id: register.0, span };
        let Some(declared) = self.program.registers.get(register.0 as usize) else { return Err(unknown) };
        let (least, most) = (declared.least, declared.most);
        if value < least || value > most {
            let name = declared.name.clone();
            return Err(SimError::Register { name, value, least, most, span });
        }
        let Some(slot) = self.pes[pe].core.registers.get_mut(register.0 as usize) else {
            return Err(unknown);
        };
        *slot = value;
        Ok(())
    }

    /// Begins to push; the command is in the queue when that is over.
    fn push(&mut self, pe: usize, command: Command, span: Span, looks: bool) -> Result<StepResult, SimError> {
        if looks && self.queue_full(pe) {
            return Ok(StepResult::Wait(WaitReason::Room));
        }
        let (registers, images) = (&self.pes[pe].core.registers, (self.machine, self.program));
        let order = match command {
            Command::Dma { transfer, id } => {
                QueuedCommand::Dma(self.plans.transfer(images, transfer, registers, span)?, id)
            }
            Command::Load(exec) => QueuedCommand::Load(self.plans.exec(images, exec, registers, span)?),
            Command::Exec { context, id } => QueuedCommand::Exec(context, id),
            Command::WaitD(id) => QueuedCommand::WaitD(id),
            Command::WaitE(id) => QueuedCommand::WaitE(id),
        };
        let received = self.pes[pe].core.received;
        self.pes[pe].core.pushing = Some((QueueEntry { order, received, span }, looks));
        self.advance(pe);
        self.count_step(span)?;
        Ok(StepResult::After(self.machine.queue.push_cycles))
    }

    fn queue_full(&self, pe: usize) -> bool {
        self.pes[pe].queue.len() as u64 >= self.machine.queue.entries
    }

    fn finish_push(&mut self, pe: usize) -> Result<(), SimError> {
        let Some((entry, _)) = self.pes[pe].core.pushing.take() else { return Ok(()) };
        if self.queue_full(pe) {
            self.sums.lost_commands += 1;
            if self.sums.overflows.len() < OVERFLOWS {
                let id = self.pes[pe].id;
                let overflow = QueueOverflow { pe: id, span: entry.span, at_cycles: self.now };
                self.sums.overflows.push(overflow);
            }
            return Ok(());
        }
        match entry.order {
            QueuedCommand::Dma(_, id) => self.pes[pe].transfers[usize::from(id)].queued += 1,
            QueuedCommand::Exec(_, id) => self.pes[pe].execs[usize::from(id)].queued += 1,
            QueuedCommand::Load(_) | QueuedCommand::WaitD(_) | QueuedCommand::WaitE(_) => {}
        }
        self.pes[pe].queue.push_back(entry);
        self.trace.queue(pe, self.now, self.pes[pe].queue.len())?;
        self.pump(pe)
    }

    /// Looks once whether all is done; then waits until it is.
    fn synced(&mut self, pe: usize) -> StepResult {
        if let Some(poll) = self.poll(pe) {
            return poll;
        }
        if !self.pes[pe].idle() {
            return StepResult::Wait(WaitReason::Sync);
        }
        let id = self.pes[pe].id;
        self.tell(&RunEvent::Synced { pe: id });
        self.advance(pe);
        StepResult::Go
    }

    /// Looks once whether what was pushed under an id is done; then waits until it is.
    fn awaited(&mut self, pe: usize, transfer: bool, id: u8) -> StepResult {
        if let Some(poll) = self.poll(pe) {
            return poll;
        }
        let state = &self.pes[pe];
        let named = if transfer { &state.transfers } else { &state.execs }[usize::from(id)];
        if named.busy || named.queued > 0 {
            return StepResult::Wait(WaitReason::Command { transfer, id });
        }
        let owner = state.id;
        self.pes[pe].core.received += 1;
        if let Some(ticket) = named.ticket {
            self.tell(&RunEvent::Awaited { pe: owner, ticket });
        }
        self.advance(pe);
        StepResult::Go
    }

    /// The time that looking takes, once a step.
    fn poll(&mut self, pe: usize) -> Option<StepResult> {
        let core = &mut self.pes[pe].core;
        let polled = std::mem::replace(&mut core.polled, true);
        (!polled).then_some(StepResult::After(self.machine.queue.wait_cycles))
    }

    fn post(&mut self, pe: usize, to: PeId, value: ControlExpr, span: Span) -> Result<StepResult, SimError> {
        let target = self.index(to, span)?;
        let value = evaluate(value, &self.pes[pe].core.registers);
        let from = self.pes[pe].id;
        let machine = self.machine;
        let bell_ns = if from.chip == to.chip { machine.noc.doorbell_ns } else { machine.pcie.doorbell_ns };
        let bell_cycles = cycles_of_ns(machine, bell_ns);
        let arrives = self.after(machine.queue.push_cycles.exact_add(bell_cycles))?;
        self.latency(bell_cycles);
        self.tell(&RunEvent::Posted { from, to });
        let area = self.pes[target].core.inbox.entry(pe).or_default();
        if area.len() >= MESSAGES {
            return Err(SimError::Messages { pe: to, most: MESSAGES, span });
        }
        area.push_back((arrives, value));
        self.events.plan(arrives, EventKind::Bell(small(target), small(pe)));
        self.advance(pe);
        self.count_step(span)?;
        Ok(StepResult::After(machine.queue.push_cycles))
    }

    fn receive(
        &mut self,
        pe: usize,
        from: PeId,
        register: Option<RegisterId>,
        span: Span,
    ) -> Result<StepResult, SimError> {
        let sender = self.index(from, span)?;
        if let Some(poll) = self.poll(pe) {
            return Ok(poll);
        }
        let now = self.now;
        let area = self.pes[pe].core.inbox.entry(sender).or_default();
        let Some((_, value)) = area.front().copied().filter(|(arrives, _)| *arrives <= now) else {
            return Ok(StepResult::Wait(WaitReason::Message(from)));
        };
        area.pop_front();
        let id = self.pes[pe].id;
        self.pes[pe].core.received += 1;
        self.tell(&RunEvent::Received { pe: id, from });
        if let Some(register) = register {
            self.set(pe, register, value, span)?;
        }
        self.advance(pe);
        Ok(StepResult::Go)
    }
}
