//! Commands of a general graph in the making (stage 4): each PE's transfers and executions in program order.
//!
//! Commands are recorded kernel by kernel. Within a PE they wait for each other only where their bytes meet
//! (see [`crate::tcp::emit`]). Where a PE touches bytes of HBM that another one has written, all of them meet
//! first.

use std::collections::BTreeMap;

use tilewright_base::Span;
use tilewright_base::invariant::{Exact, OrBroken, to_index};
use tilewright_machine::tcp::Tcp;
use tilewright_tcp_cost::cycles::image::held_accesses;
use tilewright_tcp_isa::program::control::{Command, StepKind};
use tilewright_tcp_isa::program::event::PeId;
use tilewright_tcp_isa::program::exec::{Commit, Context, Exec, ExecBody, Fill, Memory};
use tilewright_tcp_isa::program::transfer::{
    Address, MemoryInstance, MemoryLocation, SLICE_STRIDE, Transfer,
};
use tilewright_tcp_isa::program::{ExecId, Program};

use super::fused::{Hear, Issued, Tell, ids};
use super::issue::Figures;
use super::issue_search::{OrderSearch, order};
use super::kernel::Part;
use super::moves::{Bytes, once_from_hbm, transfers};
use super::order::Job;
use super::signals::{Before, Signal, Signals, touched};
use super::view::signed;
use super::without::{Choice, Without};
use crate::tcp::emit::Emitter as Queues;

/// Bytes of each slice at the top of data memory where short rows are gathered before HBM takes them.
pub(super) const GATHER_BYTES: u64 = 16_384;
/// Writes of a command that clears: others of the sub context wait no longer for it.
const MOST_CLEARED: u64 = 1024;
/// Elements of a move below which one engine takes all of it.
const LEAST_SHARED: u64 = 2048;

/// Bytes of each slice's data memory that kernels may use.
pub(super) fn dm_bytes(machine: &Tcp) -> u64 {
    machine.dm.capacity_bytes.saturating_sub(GATHER_BYTES)
}

/// What a PE does next.
pub(super) enum Op {
    Transfer(usize, Transfer),
    Exec(usize, Exec),
    /// All PEs wait for each other's writes.
    Meet,
    /// Others learn what is done.
    Tell(Tell),
    /// Others say what is done.
    Hear(Hear),
    /// Others learn that transfers are done.
    Signal(Signal),
    /// Others signal that transfers are done.
    Await(Vec<usize>),
}

/// A half-open range of bytes of HBM.
pub(super) type Range = (u64, u64);

/// A program in the making.
pub(super) struct Emitter<'m> {
    pub(super) machine: &'m Tcp,
    /// Commands of each PE.
    pub(super) ops: Vec<Vec<Op>>,
    /// Who has written which bytes of HBM, and who knows it.
    signals: Signals,
    /// PEs wait for all others, not for those alone that wrote what they read.
    meets: bool,
    /// Slices that take the same bytes of HBM may get them from one of them.
    copies: bool,
    /// What PEs write in the kernel that is recorded: nobody else touches it before the next by itself.
    pending: Vec<(usize, Range, usize)>,
    /// Whose commands are recorded.
    pub(super) pe: usize,
    /// PEs that executions run on together.
    pub(super) fused: u64,
    /// Moves are not shared with other PEs.
    alone: bool,
    /// The kernel that commands belong to.
    kernel: usize,
    /// First byte of HBM that is free.
    next_byte: u64,
    /// The byte of each slice's data memory from which on values stay between kernels, if some do.
    resident_from: Option<u64>,
    /// The byte of data memory behind what each PE has taken last.
    pub(super) next_dm: Vec<u64>,
}

/// A program, and the kernel of each of its transfers and executions.
pub(super) struct Emitted {
    pub(super) program: Program,
    pub(super) transfers: Vec<usize>,
    pub(super) execs: Vec<usize>,
    /// When the last command ends, by the model that their order is from.
    pub(super) cycles: u64,
}

/// A byte of HBM.
pub(super) fn hbm(offset: u64) -> Address {
    Address::new(MemoryLocation { chip: 0, medium: MemoryInstance::Hbm, offset })
}

impl<'m> Emitter<'m> {
    pub(super) fn new(machine: &'m Tcp, pes: u64, without: Without) -> Emitter<'m> {
        let pes = to_index(pes.clamp(1, machine.pes().max(1)));
        Emitter {
            machine,
            ops: (0..pes).map(|_| Vec::new()).collect(),
            signals: Signals::new(pes),
            meets: without.has(Choice::Signals),
            copies: !without.has(Choice::Copies),
            pending: Vec::new(),
            pe: 0,
            fused: 1,
            alone: false,
            kernel: 0,
            next_byte: 0,
            resident_from: None,
            next_dm: vec![0; pes],
        }
    }

    /// PEs that commands may be given to.
    pub(super) fn pes(&self) -> u64 {
        self.ops.len() as u64
    }

    /// Goes on with the commands of another PE.
    pub(super) fn turn_to(&mut self, pe: u64) {
        self.pe = to_index(pe).min(self.ops.len() - 1);
    }

    /// What follows belongs to a kernel; it begins on the first PE.
    pub(super) fn begin(&mut self, kernel: usize) {
        (self.kernel, self.pe, self.fused, self.alone) = (kernel, 0, 1, false);
        self.settle();
    }

    /// What follows may touch what was written.
    pub(super) fn settle(&mut self) {
        for (pe, range, command) in std::mem::take(&mut self.pending) {
            self.signals.wrote(pe, range, command);
        }
    }

    /// What follows belongs to another kernel of the same group.
    pub(super) fn name_kernel(&mut self, kernel: usize) {
        self.kernel = kernel;
    }

    /// Until the end of the kernel each PE moves elements by itself.
    pub(super) fn work_alone(&mut self) {
        self.alone = true;
    }

    /// First byte of data memory for so many bytes of each slice: behind what was taken last, or from the
    /// first on, so that what comes next is seldom held up by what is under way.
    pub(super) fn next_region(&mut self, bytes: u64) -> u64 {
        let room = self.dm_bytes();
        let unit = self.machine.dm.banks * self.machine.dm.bank_access_bytes;
        let next = &mut self.next_dm[self.pe];
        let base = if *next + bytes <= room { *next } else { 0 };
        *next = (base + bytes).next_multiple_of(unit);
        base
    }

    /// Bytes of each slice's data memory that kernels may use.
    pub(super) fn dm_bytes(&self) -> u64 {
        self.resident_from.unwrap_or_else(|| dm_bytes(self.machine))
    }

    /// From this byte of each slice's data memory on values stay between kernels.
    pub(super) fn keep_free(&mut self, from: Option<u64>) {
        self.resident_from = from;
    }

    /// Takes room in HBM.
    pub(super) fn room(&mut self, bytes: u64) -> u64 {
        let base = self.next_byte;
        let unit = self.machine.hbm.access_bytes.max(self.machine.tdma.alignment_bytes).max(1);
        self.next_byte = base.exact_add(bytes).next_multiple_of(unit);
        self.signals.place(base);
        base
    }

    /// Bytes of HBM that are taken.
    pub(super) fn taken_bytes(&self) -> u64 {
        self.next_byte
    }

    /// A byte of the first slice's data memory of the PE.
    pub(super) fn dm(&self, offset: u64) -> Address {
        let slice = self.pe as u64 * self.machine.pe.slices;
        Address::new(MemoryLocation { chip: 0, medium: MemoryInstance::Dm { slice }, offset })
    }

    fn meet(&mut self) {
        let barriers: Vec<usize> = self.ops.iter().map(Vec::len).collect();
        self.ops.iter_mut().for_each(|ops| ops.push(Op::Meet));
        self.signals.met(&barriers);
    }

    /// PEs are about to read ranges of bytes: if they meet, then now rather than where one of them reads what
    /// another one has written.
    pub(super) fn meet_before(&mut self, reads: &[(usize, Range)]) {
        let unknown = |(pe, range): &(usize, Range)| {
            let before = self.signals.writers(*pe, *range);
            !self.signals.known(*pe, before).1.is_empty()
        };
        if self.meets && reads.iter().any(unknown) {
            self.meet();
        }
    }

    /// A PE is about to touch what commands of others have written: the waits behind which it may.
    fn waits(&mut self, pe: usize, before: Before) -> Vec<usize> {
        let (mut waits, unknown) = self.signals.known(pe, before);
        if unknown.is_empty() {
            return waits;
        }
        waits.push(self.ops[pe].len());
        if self.meets {
            self.meet();
        } else {
            self.signals.wait(pe, &unknown, self.ops[pe].len());
            self.ops[pe].push(Op::Await(unknown.into_keys().collect()));
        }
        waits
    }

    /// Records a transfer of a PE that touches ranges of HBM; returns its number.
    fn push_transfer(&mut self, pe: usize, ranges: [Option<Range>; 2], transfer: Transfer) -> usize {
        let mut before = Before::new();
        if transfer.index.is_some() {
            before = self.signals.all_writers(pe);
        }
        let mut others: Vec<Before> =
            ranges.into_iter().flatten().map(|range| self.signals.writers(pe, range)).collect();
        if ranges[1].is_some() {
            others.push(self.signals.readers_by_index(pe));
        }
        for (other, command) in others.into_iter().flatten() {
            let last = before.entry(other).or_default();
            *last = command.max(*last);
        }
        let waits = self.waits(pe, before);
        let number = self.ops[pe].len();
        if transfer.index.is_some() {
            self.signals.reads_by_index(pe, number);
        }
        self.signals.follows(pe, number, waits);
        self.ops[pe].push(Op::Transfer(self.kernel, transfer));
        number
    }

    /// Records a transfer.
    pub(super) fn transfer(&mut self, transfer: Transfer) {
        let [read, write] = [touched(&transfer, true), self.signals.written(&transfer)];
        let number = self.push_transfer(self.pe, [read, write], transfer);
        self.pending.extend(write.map(|range| (self.pe, range, number)));
    }

    /// Records a transfer, as two where slices of so many PEs take the same bytes and that is faster.
    pub(super) fn bring(&mut self, transfer: Transfer, sharing: u64) {
        let sharing = if self.copies { sharing } else { 0 };
        once_from_hbm(self.machine, transfer, sharing).into_iter().for_each(|one| self.transfer(one));
    }

    /// Others learn from a PE by a message that is its next command.
    pub(super) fn note_message(&mut self, from: usize, to: &[usize]) {
        self.signals.note_message(from, to, self.ops[from].len());
    }

    /// Moves bytes.
    pub(super) fn bytes(&mut self, name: &str, bytes: &Bytes) {
        self.bytes_alike(name, bytes, 1);
    }

    /// The same for bytes that so many PEs read.
    pub(super) fn bytes_alike(&mut self, name: &str, bytes: &Bytes, sharing: u64) {
        for transfer in transfers(self.machine, name, bytes) {
            self.bring(transfer, sharing);
        }
    }

    /// Moves elements of so many bytes between two places of HBM, each PE some of them.
    pub(super) fn part(&mut self, name: &str, part: &Part, element_bytes: u64, [from, to]: [u64; 2]) {
        self.settle();
        let scale = |elements: i64| elements.exact_mul(signed(element_bytes));
        let at = |base: u64, first: i64| hbm(base).step(scale(first)).unwrap_or(hbm(base));
        let loops = part.loops.iter().map(|(size, from, to)| (*size, scale(*from), scale(*to))).collect();
        let (source, target) = (at(from, part.from_first), at(to, part.to_first));
        let all = Bytes { source, target, loops, inside: element_bytes };
        let shares =
            if self.alone { vec![all] } else { shares(&all, self.pes(), self.machine.hbm.access_bytes) };
        let (own, alone) = (self.pe, shares.len() == 1);
        let mut written = Vec::new();
        for (pe, share) in shares.into_iter().enumerate() {
            let pe = if alone { own } else { pe };
            for transfer in transfers(self.machine, name, &share) {
                let [read, write] = [touched(&transfer, true), touched(&transfer, false)];
                let number = self.push_transfer(pe, [read, write], transfer);
                written.extend(write.map(|range| (pe, range, number)));
            }
        }
        for (pe, range, number) in written {
            self.signals.wrote(pe, range, number);
        }
    }

    /// Part of each slice's share between HBM, where slices follow each other by a pitch, and data memory.
    pub(super) fn slices(&mut self, name: &str, to_dm: bool, block: &Block) {
        let (hbm, dm) = (hbm(block.hbm), self.dm(block.dm).step(signed(block.first_slice) * SLICE_STRIDE));
        let dm = dm.unwrap_or(hbm);
        let row = |by: u64, to: u64| (signed(by), signed(to));
        let (outer, inner) = (signed(block.pitch_bytes), row(block.hbm_row_bytes, block.dm_row_bytes));
        let loops = if to_dm {
            vec![(block.slices, outer, SLICE_STRIDE), (block.rows, inner.0, inner.1)]
        } else {
            vec![(block.slices, SLICE_STRIDE, outer), (block.rows, inner.1, inner.0)]
        };
        let (source, target) = if to_dm { (hbm, dm) } else { (dm, hbm) };
        self.bytes(name, &Bytes { source, target, loops, inside: block.row_bytes });
    }

    /// Records a command of the tensor unit.
    pub(super) fn exec(&mut self, mut exec: Exec) {
        exec.name = format!("{}_k{}", exec.name, self.kernel);
        exec.pes = self.fused;
        self.ops[self.pe].push(Op::Exec(self.kernel, exec));
    }

    /// Zeros on every slice.
    pub(super) fn clear(&mut self, name: &str, base: u64, bytes: u64) {
        self.clear_slices(name, base, bytes, &[]);
    }

    /// Zeros on some slices of the PE, or on all if none is named.
    pub(super) fn clear_slices(&mut self, name: &str, base: u64, bytes: u64, slices: &[(u64, u64)]) {
        self.clear_lines(name, base, bytes, (1, 0), slices);
    }

    /// The same in each of some lines, so many bytes apart.
    pub(super) fn clear_lines(
        &mut self,
        name: &str,
        base: u64,
        bytes: u64,
        (lines, pitch): (u64, u64),
        slices: &[(u64, u64)],
    ) {
        let width = self.machine.commit.sub_width_bytes;
        let most = self.machine.sequencer.entry_size_max.min(MOST_CLEARED);
        let mut done = 0;
        while done < bytes {
            let words = (bytes - done).div_ceil(width).min(most);
            let loops = [(lines, signed(pitch)), (words, signed(width))];
            let loops = tilewright_tcp_lower::kernels::chain::rows(&loops);
            let commit = Commit {
                memory: Memory::Dm,
                base: base + done,
                loops,
                bytes: width,
                width,
                to_bf16: false,
                relu: false,
                slices: slices.to_vec(),
            };
            let body = ExecBody::Fill(Fill { word: 0, commit });
            let (name, span) = (name.to_string(), Span::default());
            self.exec(Exec { name, context: Context::Sub, pes: 1, body, span });
            done += words * width;
        }
    }

    /// All commands of a program for one PE, in its order.
    pub(super) fn commands_of(&mut self, other: &Program, name: &str) {
        let mut loaded = None;
        for step in other.queues.iter().flat_map(|queue| &queue.steps) {
            match &step.kind {
                StepKind::Push(Command::Load(ExecId(number))) => loaded = other.execs.get(*number as usize),
                StepKind::Push(Command::Exec { .. }) => {
                    if let Some(exec) = loaded {
                        self.exec(Exec { name: format!("{name}_{}", exec.name), ..exec.clone() });
                    }
                }
                _ => {}
            }
        }
    }

    /// Cycles that no order is below: an engine sends one request in a cycle.
    pub(super) fn least_cycles(&self) -> u64 {
        let requests = |op: &Op| match op {
            Op::Transfer(_, transfer) => {
                let packets = transfer.loops.iter().map(|row| row.size.fixed()).product::<u64>();
                packets * transfer.packet.div_ceil(self.machine.tdma.request_bytes.max(1))
            }
            _ => 0,
        };
        self.ops.iter().map(|ops| ops.iter().map(requests).sum::<u64>()).max().unwrap_or_default()
    }

    /// The program.
    pub(super) fn finish(self, without: Without, search: OrderSearch) -> Emitted {
        let busy = |ops: &Vec<Op>| ops.iter().any(|op| !matches!(op, Op::Meet));
        let at_work: Vec<u64> =
            (0_u64..).zip(&self.ops).filter(|(_, ops)| busy(ops)).map(|(pe, _)| pe).collect();
        let machine = self.machine;
        let known = Written::new(&self.ops, &self.signals);
        let all = self.signals.given(self.ops);
        let jobs = |(pe, ops): (u64, &Vec<(Op, Vec<usize>)>)| -> Vec<Job> {
            // A PE without work meets nobody.
            let all = if at_work.contains(&pe) { ops.as_slice() } else { &[] };
            all.iter().map(|(op, waits)| job(machine, pe, op, &known).behind(waits)).collect()
        };
        let lines: Vec<Vec<Job>> = (0_u64..).zip(&all).map(jobs).collect();
        let (cycles, orders) = order(&Figures::new(machine), &lines, without, search);
        let mut queues = Queues::new(machine, 1);
        let (mut transfers, mut execs) = (Vec::new(), Vec::new());
        let lines = lines.into_iter().zip(orders);
        for ((pe, ops), (jobs, order)) in (0_u64..).zip(all).zip(lines) {
            if !at_work.contains(&pe) {
                continue;
            }
            queues.turn_to(PeId { chip: 0, pe });
            let others = at_work.iter().filter(|other| **other != pe);
            let others: Vec<PeId> = others.map(|pe| PeId { chip: 0, pe: *pe }).collect();
            let mut last = None;
            let mut issued = Issued::new(ops.len());
            let mut ops: Vec<Option<Op>> = ops.into_iter().map(|(op, _)| Some(op)).collect();
            for at in order {
                match ops[at].take().or_broken("each command is issued once") {
                    Op::Transfer(kernel, mut transfer) => {
                        transfer.name = format!("{}_k{kernel}", transfer.name);
                        let id = queues.dma(transfer);
                        last = if jobs[at].free { last } else { Some(id) };
                        issued.transfer(at, id);
                        transfers.push(kernel);
                    }
                    Op::Exec(kernel, exec) => {
                        let stays = stays(machine, &exec);
                        if stays {
                            queues.drain();
                        }
                        issued.exec(at, exec.context, queues.exec_now(exec));
                        if stays {
                            queues.drain();
                        }
                        execs.resize(queues.images(), kernel);
                    }
                    Op::Meet if !others.is_empty() => {
                        queues.meet(last.take().as_slice(), &others);
                    }
                    Op::Meet => {}
                    Op::Tell(tell) => {
                        let (transfers, execs) = issued.before(&tell, last);
                        queues.tell(&transfers, &execs, &ids(&tell.to));
                    }
                    Op::Hear(hear) => queues.hear(&ids(&hear.from)),
                    Op::Signal(signal) => {
                        let last = issued.last_of(&signal.after);
                        queues.tell(last.as_slice(), &[], &ids(&signal.to));
                    }
                    Op::Await(from) => queues.hear(&ids(&from)),
                }
            }
        }
        Emitted { program: queues.finish(), transfers, execs, cycles }
    }
}

/// Transfers beside a command that stays at a bank may time out.
fn stays(machine: &Tcp, exec: &Exec) -> bool {
    2 * held_accesses(machine, exec) >= machine.starvation_accesses()
}

fn job(machine: &Tcp, pe: u64, op: &Op, written: &Written) -> Job {
    match op {
        Op::Transfer(_, transfer) => Job::transfer(machine, transfer, written.is_brought(transfer)),
        Op::Exec(_, exec) => Job::exec(machine, pe, exec, stays(machine, exec)),
        Op::Meet => Job::meet(),
        Op::Tell(tell) => Job::tell(&tell.to, &tell.after, tell.execs),
        Op::Hear(hear) => Job::hear(&hear.from, hear.accesses(machine, pe)),
        Op::Signal(signal) => Job::signal(signal),
        Op::Await(from) => Job::wait(from),
    }
}

/// Bytes of HBM that some command writes: last byte by first.
struct Written(BTreeMap<u64, u64>);

impl Written {
    fn new(ops: &[Vec<Op>], signals: &Signals) -> Written {
        let mut all = BTreeMap::new();
        for op in ops.iter().flatten() {
            if let Op::Transfer(_, transfer) = op
                && let Some(range) = signals.written(transfer)
            {
                insert(&mut all, range);
            }
        }
        Written(all)
    }

    /// Whether a transfer brings to data memory what nobody writes.
    fn is_brought(&self, transfer: &Transfer) -> bool {
        let to_dm = touched(transfer, false).is_none() && transfer.index.is_none();
        touched(transfer, true).is_some_and(|(first, last)| {
            to_dm && self.0.range(..last).next_back().is_none_or(|(_, end)| *end <= first)
        })
    }
}

/// Adds a range; those that touch are one.
fn insert(all: &mut BTreeMap<u64, u64>, (mut first, mut last): Range) {
    while let Some((start, end)) = all.range(..=last).next_back().map(|(start, end)| (*start, *end)) {
        if end < first {
            break;
        }
        all.remove(&start);
        (first, last) = (first.min(start), last.max(end));
    }
    all.insert(first, last);
}

/// The loop of which so many PEs each take a part; `None` if one takes all.
pub(super) fn shared_loop(sizes: impl Iterator<Item = u64> + Clone, pes: u64) -> Option<usize> {
    let elements: u64 = sizes.clone().product();
    let mut sizes = sizes;
    sizes.position(|size| size >= pes).filter(|_| pes > 1 && elements >= LEAST_SHARED)
}

/// The same bytes in a share for each PE: the outermost loop that gives each of them something is cut, where
/// access units of so many bytes begin if it can be.
fn shares(all: &Bytes, pes: u64, unit: u64) -> Vec<Bytes> {
    let Some(at) = shared_loop(all.loops.iter().map(|row| row.0), pes) else { return vec![all.clone()] };
    let (size, source, target) = all.loops[at];
    let steps = (1..=unit).find(|steps| (target.unsigned_abs() * steps).is_multiple_of(unit));
    let steps = steps.filter(|steps| size >= steps * pes).unwrap_or(1);
    let edge = |pe: u64| if pe == pes { size } else { size * pe / pes / steps * steps };
    let share = |pe: u64| {
        let (first, end) = (edge(pe), edge(pe + 1));
        let step = |from: Address, by: i64| from.step(by * signed(first)).unwrap_or(from);
        let mut one = all.clone();
        (one.source, one.target) = (step(all.source, source), step(all.target, target));
        one.loops[at].0 = end - first;
        one
    };
    (0..pes).map(share).collect()
}

/// Rows of each slice, at both ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    /// First byte in HBM.
    pub(super) hbm: u64,
    /// First byte in data memory.
    pub(super) dm: u64,
    /// First slice.
    pub(super) first_slice: u64,
    /// How many.
    pub(super) slices: u64,
    /// Bytes from slice to slice in HBM.
    pub(super) pitch_bytes: u64,
    /// Rows of each slice.
    pub(super) rows: u64,
    /// Bytes of a row.
    pub(super) row_bytes: u64,
    /// From row to row in HBM.
    pub(super) hbm_row_bytes: u64,
    /// From row to row in data memory.
    pub(super) dm_row_bytes: u64,
}
