//! All queues of one case: they take turns until each has ended or waits for a message, commands are compared
//! as they come.
//!
//! Messages are taken in the order in which one sender sends them, so that it makes no difference whose turn
//! it is.

use std::collections::BTreeMap;
use tilewright_base::invariant::OrBroken;

use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::footprint::{MemoryAccess, MemoryKind, tensor};
use tilewright_tcp_isa::program::event::PeId;
use tilewright_tcp_isa::program::tensor::{TensorData, TensorRole};
use tilewright_tcp_isa::program::{Program, Tensor};

use super::CheckReport;
use super::fault::{CheckFault, FaultKind};
use super::flow::{BEFORE, LastWriters, Writer};
use super::intent::Intent;
use super::order::{CommandStamp, HappensBefore};
use super::touch::{AccessCache, MemoryRegion, TouchId};
use super::trace::{Trace, TraceOp};

/// A command that something may still race with.
#[derive(Clone, Copy, Debug)]
struct LiveCommand {
    count: u32,
    touch: TouchId,
}

/// Commands of one unit in one region, in order.
#[derive(Clone, Debug, Default)]
struct UnitHistory {
    live: Vec<LiveCommand>,
    next_prune: usize,
}

/// Commands of a lane before the first look whether some can be forgotten.
const FIRST_PRUNE: usize = 16;

/// A command that wrote.
#[derive(Clone, Copy, Debug)]
struct WriterCommand {
    queue: usize,
    step: usize,
    touch: TouchId,
    kernel: Option<usize>,
    was_read: bool,
}

struct HazardChecker<'j, 'm> {
    intent: &'j Intent,
    touches: &'j mut AccessCache<'m>,
    checked: &'j mut CheckReport,
    found: &'j mut Vec<CheckFault>,
    order: HappensBefore,
    /// By region and whether they write there; a lane a unit.
    lanes: BTreeMap<(MemoryRegion, bool), Vec<UnitHistory>>,
    flow: LastWriters,
    outputs: Vec<MemoryAccess>,
    wrote: Vec<WriterCommand>,
    /// All registers are at their most: nothing is left out.
    widest: bool,
    /// Slices of a PE.
    slices: u64,
}

/// A command as it is met.
struct CurrentCommand<'s> {
    queue: usize,
    pe: PeId,
    step: usize,
    touch: TouchId,
    stamp: &'s CommandStamp,
}

/// Checks one case.
pub(super) fn check_case(
    machine: &Tcp,
    program: &Program,
    intent: &Intent,
    (traces, widest): (&[Trace], bool),
    touches: &mut AccessCache<'_>,
    checked: &mut CheckReport,
    found: &mut Vec<CheckFault>,
) {
    let given = |held: &&Tensor| held.role != TensorRole::Output && held.data != TensorData::None;
    let held = program.tensors.iter().filter(given).filter_map(|held| tensor::whole(machine, held));
    let held: Vec<MemoryAccess> = held.chain(intent.held.iter().cloned()).collect();
    let outputs = program.tensors.iter().filter(|held| held.role == TensorRole::Output);
    let outputs = outputs.filter_map(|held| tensor::whole(machine, held)).collect();
    let used = traces.iter().flat_map(|trace| &trace.ops).filter_map(|(op, _)| match op {
        TraceOp::Issue { touch, .. } | TraceOp::Read(touch) => Some(*touch),
        _ => None,
    });
    let used: std::collections::BTreeSet<TouchId> = used.collect();
    let accesses = used.iter().filter_map(|id| touches.get(*id)).flat_map(|touch| touches.accesses(touch));
    let mut flow = LastWriters::new(accesses.filter(|access| access.write).chain(&held));
    held.iter().for_each(|access| flow.write(access, BEFORE));
    let before = WriterCommand { queue: 0, step: 0, touch: 0, kernel: None, was_read: true };
    let order = HappensBefore::new(traces.len());
    let mut checker = HazardChecker {
        intent,
        touches,
        checked,
        found,
        order,
        lanes: BTreeMap::new(),
        flow,
        outputs,
        wrote: vec![before],
        widest,
        slices: machine.pe.slices,
    };
    checker.run(traces);
    checker.unread(traces);
}

impl HazardChecker<'_, '_> {
    fn run(&mut self, traces: &[Trace]) {
        let mut at = vec![0_usize; traces.len()];
        loop {
            let mut moved = false;
            for (queue, trace) in traces.iter().enumerate() {
                let Some(next) = at.get_mut(queue) else { continue };
                while let Some((op, step)) = trace.ops.get(*next) {
                    if !self.op(queue, trace.pe, *op, *step) {
                        break;
                    }
                    *next += 1;
                    moved = true;
                }
            }
            if !moved {
                break;
            }
        }
        for (trace, at) in traces.iter().zip(at) {
            if let Some((TraceOp::Receive(from), step)) = trace.ops.get(at) {
                let ends = traces.iter().all(|other| other.pe != *from);
                let why = if ends { "which has no queue" } else { "which does not come to send it" };
                let message = format!("waits for a message of pe {}, {why}", from.pe);
                self.found.push(CheckFault::new(FaultKind::Deadlock, trace.pe, *step, message));
            }
        }
        let left: Vec<_> = self.order.left().collect();
        for (from, to, count) in left {
            let message = format!("{count} messages to pe {} that it does not take", to.pe);
            self.found.push(CheckFault::new(FaultKind::NoReceiver, from, 0, message));
        }
    }

    /// Does one op; whether it could be done.
    fn op(&mut self, queue: usize, pe: PeId, op: TraceOp, step: usize) -> bool {
        match op {
            TraceOp::Issue { unit, id, touch } => {
                let stamp = self.order.issue(queue, unit, id);
                self.command(&CurrentCommand { queue, pe, step, touch, stamp: &stamp });
            }
            TraceOp::WaitD(id) | TraceOp::WaitE(id) | TraceOp::Await { id, .. } => {
                let transfer = matches!(op, TraceOp::WaitD(_) | TraceOp::Await { transfer: true, .. });
                let known = match op {
                    TraceOp::Await { .. } => self.order.await_one(queue, transfer, id),
                    _ => self.order.wait(queue, transfer, id),
                };
                if !known {
                    let what = if transfer { "transfer" } else { "execution" };
                    let message = format!("waits for {what} {id}, which was not issued before");
                    self.found.push(CheckFault::new(FaultKind::NeverIssued, pe, step, message));
                }
            }
            TraceOp::Skip { transfer, id } => self.order.skip(queue, transfer, id),
            TraceOp::Sync => self.order.sync(queue),
            TraceOp::Post(to) => self.order.post(queue, pe, to),
            TraceOp::Receive(from) => return self.order.receive(queue, pe, from),
            TraceOp::Read(touch) => {
                let stamp = self.order.read(queue);
                self.command(&CurrentCommand { queue, pe, step, touch, stamp: &stamp });
            }
        }
        true
    }

    fn command(&mut self, met: &CurrentCommand<'_>) {
        self.checked.commands += 1;
        self.compare(met);
        self.follow(met);
    }

    /// With all that is not ordered before it.
    fn compare(&mut self, met: &CurrentCommand<'_>) {
        let Some(touch) = self.touches.get(met.touch) else { return };
        let regions: Vec<(MemoryRegion, bool)> = self.touches.regions(touch).collect();
        if let Some(outside) = touch.outside.first() {
            let (start, end) = outside.bytes;
            let message = format!("`{}` touches {start}..{end}, where no memory is", touch.name);
            self.found.push(CheckFault::new(FaultKind::Outside, met.pe, met.step, message));
        }
        for (region, writes) in regions {
            let mut others: Vec<TouchId> = Vec::new();
            for of_writers in [true, false] {
                // Two that only read have nothing against each other.
                if !writes && !of_writers {
                    continue;
                }
                let lanes = self.lanes.get(&(region, of_writers)).into_iter().flatten();
                for (unit, lane) in lanes.enumerate().filter(|(unit, _)| *unit != met.stamp.unit) {
                    let seen = met.stamp.clock.get(unit);
                    let open = lane.live.iter().rev().take_while(|live| live.count > seen);
                    others.extend(open.map(|live| live.touch));
                }
            }
            self.checked.pairs += others.len() as u64;
            others.into_iter().for_each(|other| self.pair(met, other));
            self.keep(region, writes, met);
        }
    }

    fn pair(&mut self, met: &CurrentCommand<'_>, other: TouchId) {
        let Some(meeting) = self.touches.meeting(other, met.touch) else { return };
        let name = |id: TouchId| self.touches.get(id).map_or("", |touch| touch.name.as_str());
        let message = format!(
            "`{}` and `{}` touch {} bytes {}..{} of slice {}, and nothing orders them",
            name(other),
            name(met.touch),
            meeting.memory.name(),
            meeting.bytes.0,
            meeting.bytes.1,
            meeting.slice
        );
        self.found.push(CheckFault::new(FaultKind::Unordered, met.pe, met.step, message));
    }

    fn keep(&mut self, region: MemoryRegion, writes: bool, met: &CurrentCommand<'_>) {
        let units = self.order.units();
        let lanes = self.lanes.entry((region, writes)).or_insert_with(|| vec![UnitHistory::default(); units]);
        let Some(lane) = lanes.get_mut(met.stamp.unit) else { return };
        lane.live.push(LiveCommand { count: met.stamp.count, touch: met.touch });
        if lane.live.len() >= lane.next_prune.max(FIRST_PRUNE) {
            let settled = self.order.settled(met.stamp.unit);
            lane.live.retain(|live| live.count > settled);
            lane.next_prune = 2 * lane.live.len();
        }
    }

    /// Whose bytes it reads, and that they are its own from now on.
    fn follow(&mut self, met: &CurrentCommand<'_>) {
        let Some(touch) = self.touches.get(met.touch) else { return };
        let kernel = self.intent.kernel(met.queue, met.step, touch.transfer);
        for (memory, writer, (slice, byte)) in self.flow.sources(self.touches.accesses(touch)) {
            let source = writer.and_then(|writer| self.wrote.get_mut(writer as usize));
            let Some(source) = source else {
                let message =
                    format!("`{}` reads {} byte {byte} of slice {slice}", touch.name, memory.name());
                let message = message + ", which nothing has written";
                self.found.push(CheckFault::new(FaultKind::Unwritten, met.pe, met.step, message));
                continue;
            };
            source.was_read = true;
            if memory != MemoryKind::Hbm && self.intent.idle(slice % self.slices.max(1)) {
                continue;
            }
            let old = memory == MemoryKind::Dm && writer == Some(BEFORE) && self.widest;
            if old && !self.intent.may_be_old(byte) {
                let message = format!("`{}` of {} reads ", touch.name, self.intent.name(kernel));
                let message =
                    message + &format!("dm byte {byte} of slice {slice}, which this run has not written");
                self.found.push(CheckFault::new(FaultKind::Unwritten, met.pe, met.step, message));
            }
            if memory != MemoryKind::Hbm && !self.intent.may_read(kernel, source.kernel) {
                let wrote = self.touches.get(source.touch).map_or("", |touch| touch.name.as_str());
                let message = format!(
                    "`{}` of {} reads {} byte {byte} of slice {slice}, which `{wrote}` of {} wrote",
                    touch.name,
                    self.intent.name(kernel),
                    memory.name(),
                    self.intent.name(source.kernel),
                );
                self.found.push(CheckFault::new(FaultKind::Stale, met.pe, met.step, message));
            }
        }
        let writer = Writer::try_from(self.wrote.len()).or_broken("writers of a case fit 32 bits");
        let mut writes = self.touches.accesses(touch).filter(|access| access.write);
        if writes.clone().next().is_some() {
            let of_output = |access: &MemoryAccess| {
                access.memory == MemoryKind::Hbm
                    || self
                        .outputs
                        .iter()
                        .any(|held| held.meets(access) && held.bytes.overlap(&access.bytes).is_some())
            };
            let was_read = self.intent.keeps_all
                || writes.clone().any(of_output);
            let (queue, step, touch) = (met.queue, met.step, met.touch);
            self.wrote.push(WriterCommand { queue, step, touch, kernel, was_read });
            writes.by_ref().for_each(|access| self.flow.write(access, writer));
        }
    }

    /// Commands whose results nobody read, and those whose results somebody did: in another case they may be.
    fn unread(&mut self, traces: &[Trace]) {
        for wrote in self.wrote.iter().filter(|wrote| !wrote.was_read) {
            let name = self.touches.get(wrote.touch).map_or("", |touch| touch.name.as_str());
            let pe = traces.get(wrote.queue).map_or(PeId { chip: 0, pe: 0 }, |trace| trace.pe);
            let of = self.intent.name(wrote.kernel);
            let message = format!("nothing reads what `{name}` of {of} writes");
            let touch = self.touches.get(wrote.touch);
            let sent = touch.is_some_and(|touch| touch.transfer.is_some() && touch.hbm.is_empty());
            let kind = if self.intent.reads_all && !sent { FaultKind::Lost } else { FaultKind::Unread };
            let fault = CheckFault::new(kind, pe, wrote.step, message);
            self.checked.unread.insert((wrote.queue, wrote.step), fault);
        }
        for wrote in self.wrote.iter().filter(|wrote| wrote.was_read) {
            self.checked.read.insert((wrote.queue, wrote.step));
        }
    }
}
