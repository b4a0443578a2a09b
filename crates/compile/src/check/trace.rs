//! What one queue does in one case, as a list: commands with what they touch, waits, messages.
//!
//! Loops whose ends are known run all their turns; others run none, one and two, which shows every order of
//! two neighbouring turns.

use tilewright_tcp_isa::program::control::{Command, ControlExpr, Step, StepKind};
use tilewright_tcp_isa::program::event::{ExecUnit, PeId};
use tilewright_tcp_isa::program::exec::Context;
use tilewright_tcp_isa::program::{Program, Queue, RegisterId};
use tilewright_tcp_isa::verify::MAX_NESTING;

use super::cases::{CaseSplit, ProgramCase, ValueRange, holds, value};
use super::fault::{CheckFault, FaultKind};
use super::touch::{AccessCache, TouchId};

/// Steps of one queue that are followed.
const MOST_STEPS: usize = 1 << 22;
/// Turns of loops whose ends are not known.
const UNKNOWN_TURNS: u32 = 2;

/// One thing that a queue or its core does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TraceOp {
    /// A command starts.
    Issue { unit: ExecUnit, id: u8, touch: TouchId },
    /// The queue waits for a transfer.
    WaitD(u8),
    /// The queue waits for an execution.
    WaitE(u8),
    /// A command that does not start on this path: its id is known all the same.
    Skip { transfer: bool, id: u8 },
    /// The core waits for everything.
    Sync,
    /// The core waits for a transfer, or else for an execution.
    Await { transfer: bool, id: u8 },
    /// The core sends a message.
    Post(PeId),
    /// The core takes a message.
    Receive(PeId),
    /// The core, synced, reads.
    Read(TouchId),
}

/// An op and the step of the queue that it comes from, without counting steps inside of others.
pub(super) type TracedOp = (TraceOp, usize);

/// One queue's ops.
pub(super) struct Trace {
    pub(super) pe: PeId,
    pub(super) ops: Vec<TracedOp>,
}

/// All queues in a case.
pub(super) fn traces(
    program: &Program,
    case: &ProgramCase,
    touches: &mut AccessCache<'_>,
    faults: &mut Vec<CheckFault>,
) -> Result<Vec<Trace>, CaseSplit> {
    let mut ways = case.ways.iter().copied();
    let mut all = Vec::new();
    for queue in &program.queues {
        all.push(trace(program, queue, case, &mut ways, touches, faults)?);
    }
    Ok(all)
}

fn trace(
    program: &Program,
    queue: &Queue,
    case: &ProgramCase,
    ways: &mut dyn Iterator<Item = bool>,
    touches: &mut AccessCache<'_>,
    faults: &mut Vec<CheckFault>,
) -> Result<Trace, CaseSplit> {
    let pe = PeId { chip: queue.chip, pe: queue.pe };
    let (registers, loaded) = (case.registers.clone(), [None, None]);
    let mut walk =
        TraceWalk { program, pe, registers, loaded, ways, touches, faults, ops: Vec::new(), at: 0, taken: 0 };
    for (at, step) in queue.steps.iter().enumerate() {
        walk.at = at;
        walk.step(step, 0)?;
    }
    Ok(Trace { pe, ops: walk.ops })
}

struct TraceWalk<'w, 'm> {
    program: &'w Program,
    pe: PeId,
    registers: Vec<ValueRange>,
    loaded: [Option<TouchId>; 2],
    ways: &'w mut dyn Iterator<Item = bool>,
    touches: &'w mut AccessCache<'m>,
    faults: &'w mut Vec<CheckFault>,
    ops: Vec<TracedOp>,
    at: usize,
    taken: usize,
}

impl TraceWalk<'_, '_> {
    fn op(&mut self, op: TraceOp) {
        self.ops.push((op, self.at));
    }

    fn fault(&mut self, kind: FaultKind, message: String) {
        self.faults.push(CheckFault::new(kind, self.pe, self.at, message));
    }

    fn steps(&mut self, steps: &[Step], depth: usize) -> Result<(), CaseSplit> {
        if depth > MAX_NESTING {
            return Err(CaseSplit::TooLong);
        }
        steps.iter().try_for_each(|step| self.step(step, depth))
    }

    fn step(&mut self, step: &Step, depth: usize) -> Result<(), CaseSplit> {
        self.taken += 1;
        if self.taken > MOST_STEPS {
            return Err(CaseSplit::TooLong);
        }
        match &step.kind {
            StepKind::Push(command) | StepKind::PushUnchecked(command) => self.command(*command),
            StepKind::Set(register, new) => self.set(*register, *new),
            StepKind::Read { register, address, dtype } => {
                self.op(TraceOp::Sync);
                let touch = self.touches.read(*address, dtype.size_bytes(1) as u64);
                self.op(TraceOp::Read(touch));
                self.forget(*register);
            }
            StepKind::If { condition, then, otherwise } => {
                let (body, other) =
                    if self.asks(*condition)? { (then, otherwise) } else { (otherwise, then) };
                self.skip(other, depth + 1);
                self.steps(body, depth + 1)?;
            }
            StepKind::For { register, from, to, body } => self.turns(*register, *from, *to, body, depth)?,
            StepKind::While { condition, body } => {
                let mut turns = 0;
                while turns < UNKNOWN_TURNS && self.asks(*condition)? {
                    self.steps(body, depth + 1)?;
                    turns += 1;
                }
            }
            StepKind::Sync => self.op(TraceOp::Sync),
            StepKind::Await { transfer, id } => self.op(TraceOp::Await { transfer: *transfer, id: *id }),
            StepKind::Post { chip, pe, .. } => self.op(TraceOp::Post(PeId { chip: *chip, pe: *pe })),
            StepKind::Receive { chip, pe, register } => {
                self.op(TraceOp::Receive(PeId { chip: *chip, pe: *pe }));
                register.iter().for_each(|register| self.forget(*register));
            }
        }
        Ok(())
    }

    /// What is not done on this path.
    fn skip(&mut self, steps: &[Step], depth: usize) {
        if depth > MAX_NESTING {
            return;
        }
        for step in steps {
            match &step.kind {
                StepKind::Push(Command::Dma { id, .. }) => self.op(TraceOp::Skip { transfer: true, id: *id }),
                StepKind::Push(Command::Exec { id, .. }) => {
                    self.op(TraceOp::Skip { transfer: false, id: *id });
                }
                StepKind::If { then, otherwise, .. } => {
                    self.skip(then, depth + 1);
                    self.skip(otherwise, depth + 1);
                }
                StepKind::For { body, .. } | StepKind::While { body, .. } => self.skip(body, depth + 1),
                _ => {}
            }
        }
    }

    fn asks(
        &mut self,
        condition: tilewright_tcp_isa::program::control::Condition,
    ) -> Result<bool, CaseSplit> {
        match holds(condition, &self.registers) {
            Err(CaseSplit::Way) => self.way(),
            known => known,
        }
    }

    fn way(&mut self) -> Result<bool, CaseSplit> {
        self.ways.next().ok_or(CaseSplit::Way)
    }

    fn turns(
        &mut self,
        register: RegisterId,
        from: ControlExpr,
        to: ControlExpr,
        body: &[Step],
        depth: usize,
    ) -> Result<(), CaseSplit> {
        let bounds = self.bounds(register);
        let (first, end) = (value(from, &self.registers, bounds), value(to, &self.registers, bounds));
        if first.least == first.most && end.least == end.most {
            for turn in first.least..end.least {
                self.put(register, ValueRange { least: turn, most: turn, initial: false });
                self.steps(body, depth + 1)?;
            }
            return Ok(());
        }
        let mut turns = 0;
        while turns < UNKNOWN_TURNS && self.way()? {
            self.put(register, ValueRange { least: first.least, most: end.most, initial: false });
            self.steps(body, depth + 1)?;
            turns += 1;
        }
        Ok(())
    }

    fn bounds(&self, register: RegisterId) -> ValueRange {
        let declared = self.program.registers.get(register.0 as usize);
        let (least, most) = declared.map_or((0, 0), |declared| (declared.least, declared.most));
        ValueRange { least, most, initial: false }
    }

    fn put(&mut self, register: RegisterId, range: ValueRange) {
        if let Some(slot) = self.registers.get_mut(register.0 as usize) {
            *slot = range;
        }
    }

    fn set(&mut self, register: RegisterId, new: ControlExpr) {
        let range = value(new, &self.registers, self.bounds(register));
        self.put(register, range);
    }

    fn forget(&mut self, register: RegisterId) {
        self.put(register, self.bounds(register));
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Dma { transfer, id } => {
                let most: Vec<i64> = self.registers.iter().map(|range| range.most).collect();
                match self.touches.transfer(transfer, &most) {
                    Some(touch) => self.op(TraceOp::Issue { unit: ExecUnit::Dma, id, touch }),
                    None => {
                        self.fault(FaultKind::NeverIssued, format!("transfer {} is not there", transfer.0));
                    }
                }
            }
            Command::Load(exec) => {
                let most: Vec<i64> = self.registers.iter().map(|range| range.most).collect();
                let touch = self.touches.exec(exec, self.pe, &most);
                let context = self.program.execs.get(exec.0 as usize).map(|exec| exec.context);
                if let Some(context) = context {
                    self.loaded[usize::from(context == Context::Sub)] = touch;
                }
            }
            Command::Exec { context, id } => match self.loaded[usize::from(context == Context::Sub)] {
                Some(touch) => self.op(TraceOp::Issue { unit: ExecUnit::of(context), id, touch }),
                None => self.fault(FaultKind::NeverIssued, "an `exec` before anything is loaded".to_string()),
            },
            Command::WaitD(id) => self.op(TraceOp::WaitD(id)),
            Command::WaitE(id) => self.op(TraceOp::WaitE(id)),
        }
    }
}
