//! All queues of one case: they take turns until each has ended or waits for a message, commands are compared
//! as they come.
//!
//! Messages are taken in the order in which one sender sends them, so that it makes no difference whose turn
//! it is. Blocks of commands that repeat are compared once (`repeat`).

use std::collections::BTreeMap;
use tilewright_base::invariant::{OrBroken, to_index};

use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::footprint::{MemoryAccess, MemoryKind, tensor};
use tilewright_tcp_isa::program::event::PeId;
use tilewright_tcp_isa::program::tensor::{TensorData, TensorRole};
use tilewright_tcp_isa::program::{Program, Tensor};

use super::CheckReport;
use super::fault::{CheckFault, FaultKind};
use super::flow::{BEFORE, LastWriters, Writer};
use super::intent::Intent;
use super::order::{CommandStamp, HappensBefore, queue_of};
use super::repeat::{self, FixedBytes};
use super::touch::{AccessCache, MemoryRegion, TouchId};
use super::trace::{Trace, TraceOp, TracedOp};

/// Commands of one unit in one region that something may still race with, by their number among the commands
/// of the unit, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct UnitHistory {
    pub(super) live: Vec<u32>,
    next_prune: usize,
}

/// Commands of a lane before the first look whether some can be forgotten.
const FIRST_PRUNE: usize = 16;

/// A command that was issued.
#[derive(Clone, Copy, Debug)]
pub(super) struct IssuedCommand {
    pub(super) step: usize,
    pub(super) touch: TouchId,
    pub(super) kernel: Option<usize>,
}

/// A command that wrote: its unit, its number among the commands of the unit from 1 on, and whether somebody
/// read what it wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WriterCommand {
    pub(super) unit: usize,
    pub(super) count: u32,
    pub(super) was_read: bool,
}

pub(super) struct HazardChecker<'j, 'm> {
    pub(super) intent: &'j Intent,
    pub(super) touches: &'j mut AccessCache<'m>,
    pub(super) checked: &'j mut CheckReport,
    pub(super) found: &'j mut Vec<CheckFault>,
    pub(super) order: HappensBefore,
    /// By region and whether they write there; a lane a unit.
    pub(super) lanes: BTreeMap<(MemoryRegion, bool), Vec<UnitHistory>>,
    pub(super) flow: LastWriters,
    outputs: Vec<MemoryAccess>,
    pub(super) wrote: Vec<WriterCommand>,
    /// Commands of each unit, in order.
    pub(super) issued: Vec<Vec<IssuedCommand>>,
    /// Who read what whom wrote in the memories of PEs, while this is asked for: numbers of commands that
    /// were met, and of writers.
    pub(super) edges: Option<Vec<(usize, Writer)>>,
    /// Bytes that repeated blocks only read.
    pub(super) fixed: Option<FixedBytes>,
    /// While commands are checked later than they were met: what all queues knew to be done before them.
    pub(super) settled: Option<Vec<u32>>,
    /// All registers are at their most: nothing is left out.
    widest: bool,
    /// Slices of a PE.
    slices: u64,
}

/// A command as it is met.
#[derive(Clone, Debug)]
pub(super) struct MetCommand {
    pub(super) pe: PeId,
    pub(super) step: usize,
    pub(super) touch: TouchId,
    pub(super) kernel: Option<usize>,
    pub(super) stamp: CommandStamp,
}

/// Which accesses of a command are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CheckScope {
    All,
    /// Those in which blocks that are otherwise the same differ.
    OwnOfBlock,
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
    let before = WriterCommand { unit: 0, count: 0, was_read: true };
    let order = HappensBefore::new(traces.len());
    let issued = vec![Vec::new(); order.units()];
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
        issued,
        edges: None,
        fixed: None,
        settled: None,
        widest,
        slices: machine.pe.slices,
    };
    checker.run(traces);
    checker.results();
    checker.unread(traces);
}

impl HazardChecker<'_, '_> {
    fn run(&mut self, traces: &[Trace]) {
        let mut at = vec![0_usize; traces.len()];
        repeat::run(self, traces, &mut at);
        let ends: Vec<usize> = traces.iter().map(|trace| trace.ops.len()).collect();
        self.advance(traces, &mut at, &ends, None);
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

    /// Takes turns up to some op of each queue; whether all came there. Commands are checked, or only met.
    pub(super) fn advance(
        &mut self,
        traces: &[Trace],
        at: &mut [usize],
        ends: &[usize],
        mut met: Option<&mut Vec<MetCommand>>,
    ) -> bool {
        loop {
            let mut moved = false;
            for (queue, ((trace, next), end)) in traces.iter().zip(at.iter_mut()).zip(ends).enumerate() {
                while let Some((op, step)) = trace.ops.get(*next).filter(|_| *next < *end) {
                    if !self.op(queue, trace.pe, (*op, *step), met.as_deref_mut()) {
                        break;
                    }
                    *next += 1;
                    moved = true;
                }
            }
            if !moved {
                return at.iter().zip(ends).all(|(at, end)| at >= end);
            }
        }
    }

    /// Does one op; whether it could be done.
    fn op(
        &mut self,
        queue: usize,
        pe: PeId,
        (op, step): TracedOp,
        met: Option<&mut Vec<MetCommand>>,
    ) -> bool {
        match op {
            TraceOp::Issue { unit, id, touch } => {
                let stamp = self.order.issue(queue, unit, id);
                self.meet(queue, pe, (step, touch, stamp), met);
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
                self.meet(queue, pe, (step, touch, stamp), met);
            }
        }
        true
    }

    /// A command starts: it is checked, or kept for later.
    fn meet(
        &mut self,
        queue: usize,
        pe: PeId,
        (step, touch, stamp): (usize, TouchId, CommandStamp),
        met: Option<&mut Vec<MetCommand>>,
    ) {
        self.checked.commands += 1;
        let command = self.touches.get(touch).map_or((None, None), |touch| (touch.transfer, touch.exec));
        let kernel = self.intent.kernel(queue, step, command);
        if let Some(issued) = self.issued.get_mut(stamp.unit) {
            issued.push(IssuedCommand { step, touch, kernel });
        }
        let command = MetCommand { pe, step, touch, kernel, stamp };
        match met {
            Some(met) => met.push(command),
            None => self.command(0, &command, CheckScope::All),
        }
    }

    /// Checks a command, the `index`th of those that were met.
    pub(super) fn command(&mut self, index: usize, met: &MetCommand, scope: CheckScope) {
        self.compare(met, scope);
        self.follow(index, met, scope);
    }

    pub(super) fn issued(&self, unit: usize, count: u32) -> Option<&IssuedCommand> {
        self.issued.get(unit)?.get(to_index(u64::from(count)).checked_sub(1)?)
    }

    /// With all that is not ordered before it.
    fn compare(&mut self, met: &MetCommand, scope: CheckScope) {
        let Some(touch) = self.touches.get(met.touch) else { return };
        if scope == CheckScope::OwnOfBlock && touch.hbm.is_empty() {
            return;
        }
        let regions = self.touches.regions(touch);
        let is_met = |region: MemoryRegion| scope == CheckScope::All || region.memory() == MemoryKind::Hbm;
        let regions: Vec<(MemoryRegion, bool)> = regions.filter(|(region, _)| is_met(*region)).collect();
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
                    let open = lane.live.iter().rev().take_while(|count| **count > seen);
                    others.extend(open.filter_map(|count| Some(self.issued(unit, *count)?.touch)));
                }
            }
            self.checked.pairs += others.len() as u64;
            others.into_iter().for_each(|other| self.pair(met, other, region));
            self.keep(region, writes, met);
        }
    }

    fn pair(&mut self, met: &MetCommand, other: TouchId, region: MemoryRegion) {
        let Some(meeting) = self.touches.meeting(other, met.touch, region) else { return };
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

    fn keep(&mut self, region: MemoryRegion, writes: bool, met: &MetCommand) {
        let units = self.order.units();
        let lanes = self.lanes.entry((region, writes)).or_insert_with(|| vec![UnitHistory::default(); units]);
        let Some(lane) = lanes.get_mut(met.stamp.unit) else { return };
        lane.live.push(met.stamp.count);
        if lane.live.len() >= lane.next_prune.max(FIRST_PRUNE) {
            let (unit, before) = (met.stamp.unit, self.settled.as_ref());
            let settled =
                before.map_or_else(|| self.order.settled(unit), |all| all.get(unit).copied().unwrap_or(0));
            lane.forget(settled);
        }
    }

    /// Whose bytes it reads, and that they are its own from now on.
    fn follow(&mut self, index: usize, met: &MetCommand, scope: CheckScope) {
        let (Some(touch), kernel) = (self.touches.get(met.touch), met.kernel) else { return };
        let fixed = self.fixed.as_ref();
        let is_fixed = |access: &MemoryAccess| fixed.is_some_and(|fixed| fixed.is_read_by(access));
        let all = scope == CheckScope::All;
        let accesses = self.touches.accesses(touch);
        let accesses = accesses.filter(|access| all || access.memory == MemoryKind::Hbm || is_fixed(access));
        for (memory, writer, (slice, byte), access) in self.flow.sources(accesses.clone()) {
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
            let (unit, count) = (source.unit, source.count);
            if memory != MemoryKind::Hbm && count > 0 && self.edges.is_some() && !is_fixed(access) {
                self.edges.iter_mut().for_each(|edges| edges.extend(writer.map(|writer| (index, writer))));
            }
            let source = self.issued(unit, count).copied();
            let of = source.and_then(|source| source.kernel);
            if !self.intent.may_read(memory, kernel, of) {
                let wrote = source.and_then(|source| self.touches.get(source.touch));
                let wrote = wrote.map_or("", |touch| touch.name.as_str());
                let message = format!(
                    "`{}` of {} reads {} byte {byte} of slice {slice}, which `{wrote}` of {} wrote",
                    touch.name,
                    self.intent.name(kernel),
                    memory.name(),
                    self.intent.name(of),
                );
                self.found.push(CheckFault::new(FaultKind::Stale, met.pe, met.step, message));
            }
        }
        let writer = Writer::try_from(self.wrote.len()).or_broken("writers of a case fit 32 bits");
        let mut writes = accesses.filter(|access| access.write);
        if writes.clone().next().is_some() {
            let of_output = |access: &MemoryAccess| {
                access.memory == MemoryKind::Hbm
                    || self
                        .outputs
                        .iter()
                        .any(|held| held.meets(access) && held.bytes.overlap(&access.bytes).is_some())
            };
            let was_read = self.intent.keeps_all || writes.clone().any(of_output);
            let CommandStamp { unit, count, .. } = met.stamp;
            self.wrote.push(WriterCommand { unit, count, was_read });
            writes.by_ref().for_each(|access| self.flow.write(access, writer));
        }
    }

    /// What the host reads behind the run, each part of one kernel.
    fn results(&mut self) {
        let pe = PeId { chip: 0, pe: 0 };
        for result in &self.intent.results {
            for (writer, (_, byte)) in self.flow.read(&result.bytes) {
                let source = writer.and_then(|writer| self.wrote.get(writer as usize));
                let of = source.and_then(|source| self.issued(source.unit, source.count)?.kernel);
                let (name, place) = (&result.name, format!("HBM byte {byte}"));
                let message = match source {
                    None => format!("nothing has written {place} of the result `{name}`"),
                    Some(_) if of.is_some_and(|of| !result.makers.contains(&of)) => {
                        let of = self.intent.name(of);
                        format!("{of} has written {place} of the result `{name}`, which others give")
                    }
                    Some(_) => continue,
                };
                self.found.push(CheckFault::new(FaultKind::Unwritten, pe, 0, message));
            }
        }
    }

    /// Commands whose results nobody read, and those whose results somebody did: in another case they may be.
    fn unread(&mut self, traces: &[Trace]) {
        for wrote in self.wrote.iter().filter(|wrote| wrote.count > 0) {
            let Some(issued) = self.issued(wrote.unit, wrote.count) else { continue };
            let (queue, step) = (queue_of(wrote.unit), issued.step);
            if wrote.was_read {
                self.checked.read.insert((queue, step));
                continue;
            }
            let touch = self.touches.get(issued.touch);
            let name = touch.map_or("", |touch| touch.name.as_str());
            let pe = traces.get(queue).map_or(PeId { chip: 0, pe: 0 }, |trace| trace.pe);
            let of = self.intent.name(issued.kernel);
            let message = format!("nothing reads what `{name}` of {of} writes");
            let sent = touch.is_some_and(|touch| touch.transfer.is_some() && touch.hbm.is_empty());
            let cleared = self.intent.passes_in_hbm && touch.is_some_and(|touch| touch.fills);
            let kind =
                if self.intent.reads_all && !sent && !cleared { FaultKind::Lost } else { FaultKind::Unread };
            let fault = CheckFault::new(kind, pe, step, message);
            self.checked.unread.insert((queue, step), fault);
        }
    }
}

impl UnitHistory {
    /// Forgets commands up to one that all queues know to be done.
    pub(super) fn forget(&mut self, settled: u32) {
        self.live.retain(|count| *count > settled);
        self.next_prune = 2 * self.live.len();
    }
}
