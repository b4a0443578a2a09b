//! A program in the making: images, transfers, and a queue for each PE, with every wait that the order of
//! memory accesses needs.
//!
//! Queues are written one after the other; images are shared. Commands are given in program order. Before one
//! is issued, whatever is still under way in another unit and touches bytes that it writes, or writes bytes
//! that it touches, is waited for; within a context commands run in order anyway (paper section III-C). With
//! a window, so many commands are held back and issued in the best order of theirs ([`super::window`]);
//! messages, conditions and the ends of kernels are crossed by none.

use std::collections::BTreeMap;
use std::sync::Arc;

use tilewright_base::Span;
use tilewright_base::invariant::OrBroken;
use tilewright_machine::tcp::Tcp;
use tilewright_tcp_cost::cycles::image::{exec_cycles, transfer_cost};
use tilewright_tcp_isa::footprint::{ByteSet, Footprint, MemoryAccess, MemoryKind, of_exec, of_transfer};
use tilewright_tcp_isa::program::control::{
    Command, Condition, ControlExpr, ControlOperand, Queue, Step, StepKind,
};
use tilewright_tcp_isa::program::event::PeId;
use tilewright_tcp_isa::program::exec::Context;
use tilewright_tcp_isa::program::vector::Relation;
use tilewright_tcp_isa::program::{Count, Exec, ExecId, Program, Register, RegisterId, Transfer, TransferId};
use tilewright_tcp_lower::kernels::pass::signed;

use super::window::{self, Clock, Job, Solver};

/// Ids of commands of one kind.
const IDS: u64 = 256;

/// Who runs a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Main,
    Sub,
    Dma = window::DMA as isize,
}

/// A condition that commands are emitted under.
struct Conditional {
    register: Count,
    number: i64,
    /// Steps before it, and what was under way then.
    outer: Vec<Step>,
    live: Vec<Live>,
}

/// A command that is to be issued.
struct Pending {
    unit: Unit,
    command: Command,
    /// The image that is loaded for it.
    image: Option<ExecId>,
    accesses: Vec<MemoryAccess>,
    /// It writes to memories of other PEs, which learn when the last of such transfers has ended: they
    /// keep their order.
    leaves: bool,
    /// How long it takes alone, with most tokens; 0 where nobody asks.
    cycles: u64,
}

/// A command that may still be under way.
#[derive(Clone)]
struct Live {
    unit: Unit,
    id: u8,
    /// When it ends, as far as times are kept.
    end: u64,
    /// Its number among all commands.
    number: u64,
    /// It was issued whatever conditions say.
    certain: bool,
    accesses: Arc<[MemoryAccess]>,
}

/// The program so far.
pub struct Emitter<'m> {
    /// The machine.
    pub machine: &'m Tcp,
    pe: PeId,
    program: Program,
    steps: Vec<Step>,
    queues: Vec<Queue>,
    most: Vec<i64>,
    live: Vec<Live>,
    next_exec: u64,
    next_dma: u64,
    known: BTreeMap<String, Vec<ExecId>>,
    footprints: BTreeMap<u32, Vec<MemoryAccess>>,
    objects: Vec<MemoryAccess>,
    named: BTreeMap<String, u64>,
    issued: u64,
    conditions: Vec<Conditional>,
    /// Commands that are held back at most, to find their order; fewer than two are issued as they come.
    pub window: usize,
    /// Who finds it.
    pub solver: Solver,
    pending: Vec<Pending>,
    clock: Clock,
    solved: BTreeMap<(Vec<Job>, Clock), Vec<usize>>,
    lasts: BTreeMap<u32, u64>,
}

impl<'m> Emitter<'m> {
    /// An empty program for so many chips, at the first PE of the first.
    pub fn new(machine: &'m Tcp, chips: u64) -> Emitter<'m> {
        let pe = PeId { chip: 0, pe: 0 };
        let program = Program { machine: "tcp".to_string(), chips, ..Program::default() };
        Emitter {
            machine,
            pe,
            program,
            steps: Vec::new(),
            queues: Vec::new(),
            most: Vec::new(),
            live: Vec::new(),
            next_exec: 0,
            next_dma: 0,
            known: BTreeMap::new(),
            footprints: BTreeMap::new(),
            objects: Vec::new(),
            named: BTreeMap::new(),
            issued: 0,
            conditions: Vec::new(),
            window: 0,
            solver: Solver::default(),
            pending: Vec::new(),
            clock: Clock::default(),
            solved: BTreeMap::new(),
            lasts: BTreeMap::new(),
        }
    }

    /// Bytes of each HBM that one thing takes: a table of rows leads nowhere else.
    pub fn object(&mut self, start: u64, end: u64) {
        let bytes = Arc::new(ByteSet::range(start, end));
        let of = |chip: u64| {
            let bytes = Arc::clone(&bytes);
            MemoryAccess { memory: MemoryKind::Hbm, chip, slices: (0, 1), write: false, lanes: 0, bytes }
        };
        self.objects.extend((0..self.program.chips).map(of));
    }

    /// Goes on with the queue of another PE.
    pub fn turn_to(&mut self, pe: PeId) {
        self.end_queue();
        self.pe = pe;
        self.live.clear();
        self.clock = Clock::default();
        (self.next_exec, self.next_dma) = (0, 0);
    }

    fn end_queue(&mut self) {
        self.flush();
        let PeId { chip, pe } = self.pe;
        let steps = std::mem::take(&mut self.steps);
        if !steps.is_empty() {
            self.queues.push(Queue { chip, pe, steps, span: Span::default() });
        }
    }

    /// Waits for transfers of this PE, the last of them last, tells others, and waits for theirs (paper
    /// section III-D: messages between PEs). The queue goes on meanwhile.
    pub fn meet(&mut self, transfers: &[u8], others: &[PeId]) {
        self.flush();
        for transfer in transfers {
            let ends = self.live.iter().filter(|live| live.unit == Unit::Dma && live.id == *transfer);
            self.clock.issue = ends.map(|live| live.end).fold(self.clock.issue, u64::max);
            self.step(StepKind::Await { transfer: true, id: *transfer });
            self.transfer_done(*transfer);
        }
        for PeId { chip, pe } in others.iter().copied() {
            let value = ControlExpr::Operand(ControlOperand::Number(0));
            self.step(StepKind::Post { chip, pe, value });
        }
        for PeId { chip, pe } in others.iter().copied() {
            self.step(StepKind::Receive { chip, pe, register: None });
        }
    }

    /// Waits for commands of this PE by their ids, and tells others; the queue goes on meanwhile.
    pub fn tell(&mut self, transfers: &[u8], execs: &[u8], others: &[PeId]) {
        self.flush();
        for id in transfers {
            self.step(StepKind::Await { transfer: true, id: *id });
            self.transfer_done(*id);
        }
        for id in execs {
            self.step(StepKind::Await { transfer: false, id: *id });
            self.live.retain(|live| live.unit == Unit::Dma || live.id != *id);
        }
        for PeId { chip, pe } in others.iter().copied() {
            let value = ControlExpr::Operand(ControlOperand::Number(0));
            self.step(StepKind::Post { chip, pe, value });
        }
    }

    /// Waits for messages of others; the queue goes on meanwhile.
    pub fn hear(&mut self, others: &[PeId]) {
        self.flush();
        for PeId { chip, pe } in others.iter().copied() {
            self.step(StepKind::Receive { chip, pe, register: None });
        }
    }

    /// What follows is done only if a register is above a number, until [`Self::end_if`]. What was under way
    /// before may still be so afterwards, whatever was waited for under the condition.
    pub fn begin_if_above(&mut self, register: Count, number: u64) {
        self.flush();
        let outer = std::mem::take(&mut self.steps);
        let number = signed(number);
        self.conditions.push(Conditional { register, number, outer, live: self.live.clone() });
    }

    /// Ends a condition.
    pub fn end_if(&mut self) {
        self.flush();
        let Some(Conditional { register, number, outer, live }) = self.conditions.pop() else { return };
        let first = live.iter().map(|before| before.number).max().map_or(0, |last| last + 1);
        self.live.iter_mut().filter(|now| now.number >= first).for_each(|now| now.certain = false);
        for before in live {
            if !self.live.iter().any(|now| now.number == before.number) {
                self.live.push(before);
            }
        }
        let then = std::mem::replace(&mut self.steps, outer);
        let Count::Register(register) = register else {
            self.steps.extend(then);
            return;
        };
        let (left, right) = (ControlOperand::Register(register), ControlOperand::Number(number));
        let condition = Condition { left, relation: Relation::Gt, right };
        self.step(StepKind::If { condition, then, otherwise: Vec::new() });
    }

    /// Waits for everything that is under way.
    pub fn drain(&mut self) {
        self.flush();
        while let Some(Live { unit, id, .. }) = self.live.last() {
            self.wait_id(*unit, *id);
        }
    }

    /// Images so far.
    pub fn images(&self) -> usize {
        self.program.execs.len()
    }

    /// Steps of this PE's queue so far.
    pub fn position(&mut self) -> usize {
        self.flush();
        self.steps.len()
    }

    /// A control register with its bounds.
    pub fn register(&mut self, name: &str, least: i64, most: i64) -> Count {
        let id = RegisterId(number_of(self.program.registers.len()));
        let register =
            Register { name: name.to_string(), initial: least, least, most, span: Span::default() };
        self.program.registers.push(register);
        self.most.push(most);
        Count::Register(id)
    }

    /// Issues a tensor unit command.
    pub fn exec(&mut self, exec: Exec) {
        let context = exec.context;
        let unit = if context == Context::Main { Unit::Main } else { Unit::Sub };
        let image = self.image(exec);
        let accesses = self.accesses(image);
        let cycles = if self.window > 1 { self.image_cycles(image) } else { 0 };
        let command = Command::Exec { context, id: 0 };
        self.put(Pending { unit, command, image: Some(image), accesses, leaves: false, cycles });
    }

    /// Issues a tensor unit command without holding it back; gives its id.
    pub fn exec_now(&mut self, exec: Exec) -> u8 {
        self.exec(exec);
        self.flush();
        u8::try_from((self.next_exec + IDS - 1) % IDS).or_broken("an id is below 256")
    }

    /// How long an image takes alone, with most tokens.
    fn image_cycles(&mut self, image: ExecId) -> u64 {
        if let Some(cycles) = self.lasts.get(&image.0) {
            return *cycles;
        }
        let exec = self.program.execs.get(image.0 as usize);
        let cycles =
            exec.map_or(0, |exec| exec_cycles(self.machine, &exec.resolved(&self.most)).total_cycles);
        self.lasts.insert(image.0, cycles);
        cycles
    }

    /// Issues a command, or holds it back until its window is full.
    fn put(&mut self, pending: Pending) {
        self.pending.push(pending);
        if self.pending.len() >= self.window.clamp(1, window::MOST) {
            self.flush();
        }
    }

    /// Issues what was held back, in the best order.
    fn flush(&mut self) {
        let order =
            if self.pending.len() > 1 { self.best_order() } else { (0..self.pending.len()).collect() };
        let mut pending: Vec<Option<Pending>> = self.pending.drain(..).map(Some).collect();
        for at in order {
            if let Some(pending) = pending.get_mut(at).and_then(Option::take) {
                self.issue_pending(pending);
            }
        }
    }

    fn best_order(&mut self) -> Vec<usize> {
        let jobs: Vec<Job> = (0..self.pending.len()).map(|at| self.job(at)).collect();
        let key = (jobs, self.clock.since(self.clock.issue));
        if let Some(known) = self.solved.get(&key) {
            return known.clone();
        }
        let order = window::order(&key.0, key.1, self.solver);
        self.solved.insert(key, order.clone());
        order
    }

    /// What is held back as a job, times from the next issue on.
    fn job(&self, at: usize) -> Job {
        let Some(own) = self.pending.get(at) else { return Job::default() };
        let meets =
            |others: &[MemoryAccess]| others.iter().any(|a| own.accesses.iter().any(|b| conflicts(a, b)));
        let waited = self.live.iter().filter(|live| live.unit != own.unit || own.unit == Unit::Dma);
        let ready = waited.filter(|live| meets(&live.accesses)).map(|live| live.end).max();
        let before = self.pending.iter().take(at).enumerate();
        let kept = |other: &Pending| other.leaves && own.leaves || meets(&other.accesses);
        let after = before.filter(|(_, other)| kept(other)).fold(0, |bits, (i, _)| bits | 1 << i);
        let ready = ready.unwrap_or(0).saturating_sub(self.clock.issue);
        Job { unit: own.unit as usize, cycles: own.cycles, ready, after, behind: 0 }
    }

    fn issue_pending(&mut self, pending: Pending) {
        let Pending { unit, command, image, accesses, cycles, .. } = pending;
        let ready = self.wait_for(unit, &accesses);
        let end = self.clock.issue(unit as usize, cycles, ready);
        let id =
            match command {
                Command::Dma { id, .. } => {
                    self.wait_id(Unit::Dma, id);
                    self.push(command);
                    id
                }
                Command::Exec { context, .. } => {
                    let id = self.exec_id();
                    self.steps.extend(image.map(|image| Step {
                        kind: StepKind::Push(Command::Load(image)),
                        span: Span::default(),
                    }));
                    self.push(Command::Exec { context, id });
                    // The queue is held until the context is free, so what ran there before is done.
                    self.live.retain(|live| live.unit != unit);
                    id
                }
                _ => return,
            };
        self.issue(unit, id, end, accesses);
    }

    /// Issues a transfer; gives its id.
    pub fn dma(&mut self, mut transfer: Transfer) -> u8 {
        // Names tell transfers apart in texts.
        let same = self.named.entry(transfer.name.clone()).or_insert(0);
        if *same > 0 {
            transfer.name = format!("{}_{same}", transfer.name);
        }
        *same += 1;
        let resolved = transfer.resolved(&self.most);
        let accesses = of_transfer(self.machine, &resolved, &self.objects).accesses;
        let cost = (self.window > 1).then(|| transfer_cost(self.machine, &resolved)).flatten();
        let id = u8::try_from(self.next_dma % IDS).or_broken("ids of commands fit a byte");
        self.next_dma = (self.next_dma + 1) % IDS;
        let index = TransferId(number_of(self.program.transfers.len()));
        self.program.transfers.push(transfer);
        let command = Command::Dma { transfer: index, id };
        let cycles = cost.map_or(0, |cost| cost.cycles.total_cycles);
        let leaves = accesses.iter().any(|access| access.write && self.is_others(access));
        self.put(Pending { unit: Unit::Dma, command, image: None, accesses, leaves, cycles });
        id
    }

    /// Whether a memory is of another PE.
    fn is_others(&self, access: &MemoryAccess) -> bool {
        let slices = self.machine.pe.slices;
        let own = (self.pe.pe * slices, (self.pe.pe + 1) * slices);
        let elsewhere =
            access.memory != MemoryKind::Hbm && (access.slices.0 < own.0 || access.slices.1 > own.1);
        access.chip != self.pe.chip || elsewhere
    }

    fn issue(&mut self, unit: Unit, id: u8, end: u64, accesses: Vec<MemoryAccess>) {
        let number = self.issued;
        self.issued += 1;
        self.live.push(Live { unit, id, end, number, certain: true, accesses: accesses.into() });
    }

    /// A transfer is done, and with it all before it, since the engine takes them in order.
    fn transfer_done(&mut self, id: u8) {
        let Some(done) = self.live.iter().position(|live| live.unit == Unit::Dma && live.id == id) else {
            return;
        };
        let Live { number, certain, .. } = self.live.swap_remove(done);
        if certain {
            self.live.retain(|live| live.unit != Unit::Dma || live.number > number);
        }
    }

    /// The program.
    pub fn finish(mut self) -> Program {
        self.end_queue();
        self.program.queues = self.queues;
        self.program
    }

    /// What an image touches on this PE.
    fn accesses(&self, image: ExecId) -> Vec<MemoryAccess> {
        let first = self.pe.pe * self.machine.pe.slices;
        let mut accesses = self.footprints.get(&image.0).cloned().unwrap_or_default();
        for access in &mut accesses {
            access.slices = (access.slices.0 + first, access.slices.1 + first);
            access.chip = self.pe.chip;
        }
        accesses
    }

    fn exec_id(&mut self) -> u8 {
        let id = u8::try_from(self.next_exec % IDS).or_broken("ids of commands fit a byte");
        self.next_exec = (self.next_exec + 1) % IDS;
        self.wait_id(Unit::Main, id);
        self.wait_id(Unit::Sub, id);
        id
    }

    fn image(&mut self, mut exec: Exec) -> ExecId {
        let alike = self.known.entry(exec.name.clone()).or_default();
        let same = |id: &&ExecId| {
            let known = self.program.execs.get(id.0 as usize);
            known.is_some_and(|known| {
                known.body == exec.body && known.context == exec.context && known.pes == exec.pes
            })
        };
        if let Some(id) = alike.iter().find(same) {
            return *id;
        }
        let id = ExecId(number_of(self.program.execs.len()));
        if !alike.is_empty() {
            exec.name = format!("{}_{}", exec.name, alike.len());
        }
        alike.push(id);
        let origin = PeId { chip: self.pe.chip, pe: 0 };
        let Footprint { accesses, .. } = of_exec(self.machine, &exec.resolved(&self.most), origin, &[]);
        self.footprints.insert(id.0, accesses);
        self.program.execs.push(exec);
        id
    }

    /// Waits for everything of other units that a command must come after; gives when that has ended.
    fn wait_for(&mut self, unit: Unit, accesses: &[MemoryAccess]) -> u64 {
        let (mut waits, mut ended) = (Vec::new(), 0);
        for live in &self.live {
            if live.unit != unit || unit == Unit::Dma {
                let conflict = live.accesses.iter().any(|a| accesses.iter().any(|b| conflicts(a, b)));
                if conflict {
                    waits.push((live.number, live.unit, live.id));
                    ended = ended.max(live.end);
                }
            }
        }
        // The last first: it may end those before it.
        waits.sort_unstable_by_key(|(number, ..)| std::cmp::Reverse(*number));
        for (_, unit, id) in waits {
            self.wait_id(unit, id);
        }
        ended
    }

    fn wait_id(&mut self, unit: Unit, id: u8) {
        let before = self.live.len();
        if unit == Unit::Dma {
            self.transfer_done(id);
        } else {
            self.live.retain(|live| live.unit != unit || live.id != id);
        }
        if self.live.len() < before {
            let command = if unit == Unit::Dma { Command::WaitD(id) } else { Command::WaitE(id) };
            self.push(command);
        }
    }

    fn push(&mut self, command: Command) {
        self.step(StepKind::Push(command));
    }

    fn step(&mut self, kind: StepKind) {
        self.steps.push(Step { kind, span: Span::default() });
    }
}

fn conflicts(a: &MemoryAccess, b: &MemoryAccess) -> bool {
    (a.write || b.write) && a.meets(b) && a.bytes.overlap(&b.bytes).is_some()
}

/// The number of what comes behind so many others in a program.
fn number_of(others: usize) -> u32 {
    u32::try_from(others).or_broken("a program has fewer parts than 32 bits count")
}

#[cfg(test)]
mod tests {
    use tilewright_tcp_isa::program::transfer::TransferLoop;

    use super::super::image::{dm, n, transfer};
    use super::*;
    use tilewright_testkit::tcp;

    /// Numbers of the transfers in the order in which they are issued: a long one, then a short one, both to
    /// the slices of a PE.
    fn issued(target_pe: u64) -> Vec<u8> {
        let machine = tcp();
        let mut emit = Emitter::new(&machine, 1);
        emit.window = 4;
        let slice = target_pe * machine.pe.slices;
        for (packets, at) in [(512_u64, 0x1000), (1, 0x40000)] {
            let loops = vec![TransferLoop { size: n(packets), source: 64, target: 64 }];
            emit.dma(transfer("sums", dm(0, 0, at), dm(0, slice, at + 0x20000), loops, 64));
        }
        let program = emit.finish();
        let issued = program.queues[0].steps.iter().filter_map(|step| match &step.kind {
            StepKind::Push(Command::Dma { id, .. }) => Some(*id),
            _ => None,
        });
        issued.collect()
    }

    /// Others are told when the last of several transfers has ended, which says nothing of those behind it.
    #[test]
    fn only_transfers_that_stay_change_their_order() {
        assert_eq!(issued(0), [1, 0], "the short one ends early");
        assert_eq!(issued(1), [0, 1]);
    }
}
