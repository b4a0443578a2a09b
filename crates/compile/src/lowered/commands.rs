//! What a kernel's commands say: which run, how contractions go, what moves where, and how long it takes by
//! the engines' closed forms.

use std::collections::BTreeMap;
use std::fmt;
use tilewright_base::invariant::{Exact, OrBroken};

use tilewright_machine::tcp::Tcp;
use tilewright_tcp_cost::cycles::image::{exec_cycles, transfer_cost};
use tilewright_tcp_cost::energy::{EnergyCounts, counts, counts_transfer, energy_fj};
use tilewright_tcp_isa::program::control::{Command, Step, StepKind};
use tilewright_tcp_isa::program::exec::{Context, Contract, ExecBody, Stream};
use tilewright_tcp_isa::program::transfer::{MemoryInstance, SLICE_STRIDE};
use tilewright_tcp_isa::program::{Exec, Program, Transfer};
use tilewright_tcp_isa::switch::Topology;

use crate::compiled::{Compiled, ProgramOutline};

/// Commands of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandGroup {
    /// The image's name, without its number.
    pub name: String,
    /// How many.
    pub count: u64,
    /// Cycles of all of them, each alone.
    pub cycles: u64,
}

impl fmt::Display for CommandGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.count == 1 { write!(f, "{}", self.name) } else { write!(f, "{} x {}", self.name, self.count) }
    }
}

/// How data moves between memories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TransferRoute {
    /// From HBM to data memory.
    Fetch,
    /// From data memory to HBM.
    Store,
    /// What each PE has goes to all.
    AllGather,
    /// Each PE sends to each other its part of partial sums.
    ReduceScatter,
    /// Each PE sends all of its partial sums to all.
    AllReduce,
    /// Within a PE.
    Within,
}

impl TransferRoute {
    /// Its name in texts.
    pub const fn name(self) -> &'static str {
        match self {
            TransferRoute::Fetch => "hbm to dm",
            TransferRoute::Store => "dm to hbm",
            TransferRoute::AllGather => "all-gather",
            TransferRoute::ReduceScatter => "reduce-scatter",
            TransferRoute::AllReduce => "all-reduce",
            TransferRoute::Within => "dm to dm",
        }
    }
}

/// Transfers of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferGroup {
    /// How.
    pub way: TransferRoute,
    /// The transfers' name.
    pub name: String,
    /// How many.
    pub count: u64,
    /// Bytes of all.
    pub bytes: u64,
}

impl fmt::Display for TransferGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} x {}, {} B", self.way.name(), self.name, self.count, self.bytes)
    }
}

/// Cycles of units, each command alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnitCycles {
    /// Main context.
    pub main: u64,
    /// Sub context.
    pub sub: u64,
    /// DMA engine.
    pub dma: u64,
}

impl fmt::Display for UnitCycles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "main {} sub {} dma {}", self.main, self.sub, self.dma)
    }
}

/// The commands of one kernel on the first PE.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelSegment {
    /// What runs, in the order of first use.
    pub runs: Vec<CommandGroup>,
    /// How contractions go, one for each image that contracts.
    pub tactics: Vec<String>,
    /// What moves.
    pub moves: Vec<TransferGroup>,
    /// How long it all takes, with registers at their most.
    pub cycles: UnitCycles,
    /// What the commands take of energy, without clock and leakage.
    pub energy_fj: u64,
}

/// The commands of every kernel; what is fetched ahead counts for the kernel that it is for.
pub fn segments(machine: &Tcp, compiled: &Compiled, outline: &ProgramOutline) -> Vec<KernelSegment> {
    let mut all = vec![KernelSegment::default(); compiled.kernels.kernels.len()];
    let Some(program) = compiled.program(outline.name) else { return all };
    let (Some(queue), Some(begins)) = (program.queues.first(), outline.begins.first()) else { return all };
    let intent = compiled.intent(program, outline);
    let most: Vec<i64> = program.registers.iter().map(|register| register.most).collect();
    let mut reader = LoweredReader { machine, program, most, known: BTreeMap::new() };
    for (at, step) in queue.steps.iter().enumerate() {
        let own = begins.partition_point(|first| *first <= at).checked_sub(1);
        let mut pushed = Vec::new();
        commands_of(step, &mut pushed);
        for command in pushed {
            let ahead = match command {
                Command::Dma { transfer, .. } => intent.ahead.get(&transfer).copied(),
                _ => None,
            };
            let index = ahead.or(own).unwrap_or(0);
            let (segment, kernel) = (all.get_mut(index), compiled.kernels.kernels.get(index));
            if let (Some(segment), Some(kernel)) = (segment, kernel) {
                reader.command(command, segment, kernel.kind());
            }
        }
    }
    all
}

/// Commands of a step; conditions hold, since registers are at their most.
fn commands_of(step: &Step, all: &mut Vec<Command>) {
    match &step.kind {
        StepKind::Push(command) => all.push(*command),
        StepKind::If { then, .. } => then.iter().for_each(|step| commands_of(step, all)),
        _ => {}
    }
}

struct LoweredReader<'r> {
    machine: &'r Tcp,
    program: &'r Program,
    most: Vec<i64>,
    /// Cycles, energy and tactics of images.
    known: BTreeMap<u32, (u64, u64, Option<String>)>,
}

impl LoweredReader<'_> {
    fn command(&mut self, command: Command, segment: &mut KernelSegment, kind: &str) {
        match command {
            Command::Load(id) => {
                let Some(exec) = self.program.execs.get(id.0 as usize) else { return };
                let (machine, most) = (self.machine, &self.most);
                let (cycles, energy, tactic) = self.known.entry(id.0).or_insert_with(|| {
                    let exec = exec.resolved(most);
                    let energy = all_fj(machine, &counts(machine, &exec));
                    (exec_cycles(machine, &exec).total_cycles, energy, tactic(&exec))
                });
                segment.energy_fj = segment.energy_fj.exact_add(*energy);
                match exec.context {
                    Context::Main => segment.cycles.main += *cycles,
                    Context::Sub => segment.cycles.sub += *cycles,
                }
                ran(&mut segment.runs, &exec.name, *cycles);
                if let Some(tactic) = tactic.as_ref().filter(|tactic| !segment.tactics.contains(tactic)) {
                    segment.tactics.push(tactic.clone());
                }
            }
            Command::Dma { transfer, .. } => {
                let Some(transfer) = self.program.transfers.get(transfer.0 as usize) else { return };
                let transfer = transfer.resolved(&self.most);
                let Some(cost) = transfer_cost(self.machine, &transfer) else { return };
                segment.cycles.dma += cost.cycles.total_cycles;
                let energy = all_fj(self.machine, &counts_transfer(self.machine, &cost));
                segment.energy_fj = segment.energy_fj.exact_add(energy);
                moved(&mut segment.moves, way(self.machine, &transfer, kind), &transfer.name, cost.bytes);
            }
            _ => {}
        }
    }
}

/// Energy of events of all components.
fn all_fj(machine: &Tcp, counts: &EnergyCounts) -> u64 {
    energy_fj(machine, counts).iter().fold(0, |all: u64, part| all.exact_add(*part))
}

/// A name without the number that tells it from others.
fn base(name: &str) -> &str {
    match name.rsplit_once('_') {
        Some((base, number)) if number.bytes().all(|digit| digit.is_ascii_digit()) => base,
        _ => name,
    }
}

fn ran(runs: &mut Vec<CommandGroup>, name: &str, cycles: u64) {
    let name = base(name);
    match runs.iter_mut().find(|ran| ran.name == name) {
        Some(ran) => {
            ran.count += 1;
            ran.cycles += cycles;
        }
        None => runs.push(CommandGroup { name: name.to_string(), count: 1, cycles }),
    }
}

fn moved(moves: &mut Vec<TransferGroup>, way: TransferRoute, name: &str, bytes: u64) {
    let name = base(name);
    match moves.iter_mut().find(|moved| moved.name == name && moved.way == way) {
        Some(moved) => {
            moved.count += 1;
            moved.bytes += bytes;
        }
        None => moves.push(TransferGroup { way, name: name.to_string(), count: 1, bytes }),
    }
}

/// Which way a transfer goes, by its addresses and loops.
fn way(machine: &Tcp, transfer: &Transfer, kind: &str) -> TransferRoute {
    let medium =
        |address: tilewright_tcp_isa::program::transfer::Address| address.locate().map(|at| at.medium);
    match (medium(transfer.source), medium(transfer.target)) {
        (Some(MemoryInstance::Hbm), _) => return TransferRoute::Fetch,
        (_, Some(MemoryInstance::Hbm)) => return TransferRoute::Store,
        _ => {}
    }
    let pe = SLICE_STRIDE.exact_mul(i64::try_from(machine.pe.slices).or_broken("slices of a PE fit 63 bits"));
    let between = transfer.loops.iter().find(|row| row.target != 0 && row.target % pe == 0);
    match between {
        None => TransferRoute::Within,
        Some(row) if kind == "combine" && row.source != 0 => TransferRoute::ReduceScatter,
        Some(_) if kind == "combine" => TransferRoute::AllReduce,
        Some(_) => TransferRoute::AllGather,
    }
}

/// How a contraction goes through packets and register files.
fn tactic(exec: &Exec) -> Option<String> {
    let ExecBody::Stream(stream) = &exec.body else { return None };
    let contract = stream.contract.as_ref()?;
    let Contract { lanes, repeats, tree, flits, .. } = contract;
    let steps: Vec<String> = contract
        .steps
        .iter()
        .map(|step| format!("{}{}", step.size.fixed(), if step.summed { "+" } else { "" }))
        .collect();
    Some(format!(
        "{}: {} packets of {} {}, {flits} flits each, {}, held {} steps; {lanes} lanes, tree of {tree}; \
         steps {}",
        base(&exec.name),
        packets(stream),
        stream.fetch.packet,
        stream.fetch.leaves(),
        switch(stream.switch.topology),
        repeats.fixed(),
        steps.join(" x ")
    ))
}

fn packets(stream: &Stream) -> u64 {
    let elements = stream.fetch.loops.iter().fold(1_u64, |all, row| all.exact_mul(row.size.fixed()));
    elements / stream.fetch.packet.max(1)
}

fn switch(topology: Topology) -> &'static str {
    match topology {
        Topology::Forwarding => "each slice its own",
        Topology::Broadcast01(..) => "all slices all of them",
        Topology::Broadcast1(_) => "a ring all of its own",
        Topology::Transpose(_) | Topology::InterTranspose(..) => "transposed over slices",
        Topology::TransposedBroadcast1(_) => "transposed, a ring all of its own",
        Topology::Custom(_) => "by a bitmap",
    }
}
