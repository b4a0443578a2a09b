//! Sums over groups of PEs: each group of a team has parts of the same sums, and DMA carries them between PEs
//! (paper section VI-A; DMA is the only way between fused groups).
//!
//! Every member of a team takes one block of the sums: it reads that block of every member into memory of its
//! own, one behind the other, and its vector engine adds them in the order of the group numbers, so floats
//! are rounded in an order that does not depend on time. An output that is split over the team keeps the
//! block (reduce-scatter); otherwise the member writes it to all others (all-reduce). Doorbells say that
//! parts are ready: a member rings for all others once its own commands are done, and waits for all of them.

use tilewright_base::invariant::{Exact, OrBroken, to_index};
use tilewright_base::{Diagnostic, Span};
use tilewright_notation::problem::{Digit, Problem, Shape};
use tilewright_notation::syntax::ast::Operand;
use tilewright_tcp_cost::groups::PeGroups;
use tilewright_tcp_cost::setup::Setup;
use tilewright_tcp_isa::program::control::{Command, ControlExpr, ControlOperand, Step, StepKind};
use tilewright_tcp_isa::program::exec::{Context, Exec, Memory, StepLoop, Stream, Switch};
use tilewright_tcp_isa::program::transfer::{
    Address, MemoryInstance, MemoryLocation, SLICE_STRIDE, Transfer, TransferLoop,
};
use tilewright_tcp_isa::program::vector::{Op, OpKind, Reduce, ReduceOp, Word};
use tilewright_tcp_isa::program::{Count, ExecId, Program, TransferId};

use super::commands::{self, exec, fixed};
use super::loops::SequencerLoop;
use crate::kernels::chain::chain;
use crate::no_lowering::refuse;
use crate::write_widths::{WORD_BYTES, whole_part};

/// Transfers that are under way at once, each with an id of its own.
const IDS: usize = 64;

/// What a team does with its sums.
#[derive(Clone, Debug)]
pub(super) struct SumExchange {
    /// Groups that hold parts of the same sums.
    team: u64,
    /// Where parts lie in every slice.
    parts_base: u64,
    /// Where the output lies in every slice.
    pub(super) result_base: u64,
    /// Where blocks of all members come together.
    scratch_base: u64,
    /// Bytes between them.
    slot_bytes: u64,
    /// First byte and length of each member's block.
    blocks: Vec<(u64, u64)>,
    /// All members have all sums in the end.
    shared: bool,
    /// Digits of the output over slices: values and slices between them.
    slices: Vec<(u64, u64)>,
}

/// The einsum as a group computes it if the output is scattered over its team: with one more digit of each
/// scattered axis outermost, so that a member's part is one block. `None` if the output is what a group
/// computes.
pub(super) fn unscattered(problem: &Problem, groups: &PeGroups) -> Result<Option<Problem>, Box<Diagnostic>> {
    let Some(shape) = problem.shape(Operand::Out).filter(|_| !groups.scattered.is_empty()) else {
        return Ok(None);
    };
    let mut whole = problem.clone();
    let mut intra: Vec<Digit> = Vec::new();
    for id in &groups.scattered {
        let axis = problem.axis(*id);
        let (part, name) = (axis.whole / axis.pes, axis.name);
        let of_axis = shape.inter.iter().chain(&shape.intra).filter(|digit| digit.axis == Some(*id));
        if of_axis.map(|digit| digit.live).product::<u64>() != part {
            let message = format!("the output's digits of `{name}` run past a PE's part of {part}");
            return Err(refuse(problem, &message, &format!("digits of `{name}` that multiply to {part}")));
        }
        let (live, slots) = (axis.pes, axis.pes);
        intra.push(Digit { axis: Some(*id), stride: part, live, slots, padded: false, span: shape.span });
        whole.axes[usize::from(id.0)].extent_in[Operand::Out as usize] = axis.whole;
    }
    intra.extend(shape.intra.iter().copied());
    whole.shapes[Operand::Out as usize] = Some(Shape { intra: intra.into_iter().collect(), ..shape.clone() });
    Ok(Some(whole))
}

/// Whether every byte of the output is a sum that some slice commits.
pub(super) fn filled(problem: &Problem) -> bool {
    let Some(shape) = problem.shape(Operand::Out) else { return false };
    let digits = || shape.inter.iter().chain(&shape.intra).filter(|digit| digit.axis.is_some());
    let axes = problem.tensor(Operand::Out);
    let elements: u64 = axes.iter().map(|id| problem.axis(*id).extent_in[Operand::Out as usize]).product();
    let in_slice: u64 = shape.intra.iter().map(|digit| digit.slots).product();
    digits().map(|digit| digit.slots).product::<u64>() == elements
        && in_slice.is_multiple_of(2)
        && problem.axes.iter().all(|axis| !axis.dynamic)
}

impl SumExchange {
    /// Lays out memory for the exchange behind what a group's program takes; `None` if sums are whole.
    pub(super) fn new(
        setup: &Setup<'_>,
        problem: &Problem,
        groups: &PeGroups,
        parts_base: u64,
        free_byte: u64,
    ) -> Result<Option<SumExchange>, Box<Diagnostic>> {
        let team = groups.team(problem);
        let Some(shape) = problem.shape(Operand::Out).filter(|_| team > 1) else { return Ok(None) };
        let (flit, word) = (setup.machine.network.flit_bytes, setup.machine.dm.write_granule_bytes);
        let elements: u64 = shape.intra.iter().map(|digit| digit.slots).product();
        let part_bytes = elements * WORD_BYTES;
        let bytes = part_bytes.next_multiple_of(word);
        let shared = groups.scattered.is_empty();
        let blocks: Vec<(u64, u64)> = if shared {
            let block = bytes.div_ceil(flit).div_ceil(team) * flit;
            (0..team).map(|at| (at * block, block.min(bytes.saturating_sub(at * block)))).collect()
        } else {
            (0..team).map(|at| (at * part_bytes, bytes)).collect()
        };
        let slot_bytes =
            blocks.iter().map(|block| block.1).max().or_broken("a team has members").next_multiple_of(flit);
        let result_base = if shared { parts_base } else { free_byte };
        let scratch_base = if shared { free_byte } else { free_byte + slot_bytes };
        let capacity = setup.machine.dm.capacity_bytes;
        if scratch_base.exact_add(slot_bytes.exact_mul(team)) > capacity {
            let message = format!("parts of {team} PE groups take more than {capacity} B of data memory");
            return Err(refuse(problem, &message, "smaller tiles, or fewer groups in a sum"));
        }
        let slices = slice_loops(&shape.inter);
        Ok(Some(SumExchange {
            team,
            parts_base,
            result_base,
            scratch_base,
            slot_bytes,
            blocks,
            shared,
            slices,
        }))
    }

    /// Where nothing of the exchange lies any more.
    pub(super) fn end_byte(&self) -> u64 {
        self.scratch_base + self.slot_bytes * self.team
    }

    /// Adds the exchange to a program that has a queue for each group.
    pub(super) fn append(&self, setup: &Setup<'_>, program: &mut Program) {
        let adders: Vec<Option<ExecId>> = (0..self.blocks.len())
            .map(|member| {
                let image = self.adder(setup, member)?;
                program.execs.push(image);
                u32::try_from(program.execs.len() - 1).ok().map(ExecId)
            })
            .collect();
        for index in 0..program.queues.len() {
            let group = index as u64;
            let member = group % self.team;
            let first = group - member;
            let mut steps = barrier(setup, group, first..first + self.team);
            if let Some(adder) = adders.get(index % self.blocks.len()).copied().flatten() {
                let read = (0..self.team).flat_map(|from| self.read_block(setup, group, from));
                moves(read.collect(), &mut program.transfers, &mut steps);
                let added = [
                    Command::Load(adder),
                    Command::Exec { context: Context::Main, id: 0 },
                    Command::WaitE(0),
                ];
                steps.extend(added.into_iter().map(push));
                if self.shared {
                    let others = (0..self.team).filter(|to| *to != member);
                    let written = others.flat_map(|to| self.write_block(setup, group, to));
                    moves(written.collect(), &mut program.transfers, &mut steps);
                }
            }
            program.queues[index].steps.extend(steps);
        }
    }

    fn read_block(&self, setup: &Setup<'_>, group: u64, from: u64) -> Vec<Transfer> {
        let (team, member) = (group - group % self.team, group % self.team);
        let (offset, bytes) = self.block(member);
        let pe = |group: u64| group * setup.fused_pes;
        let name = format!("part_pe{}_to_pe{}", pe(team + from), pe(group));
        let source = at(setup, team + from, self.parts_base + offset);
        let target = at(setup, group, self.scratch_base + from * self.slot_bytes);
        self.transfers(setup, &name, source, target, bytes)
    }

    fn write_block(&self, setup: &Setup<'_>, group: u64, to: u64) -> Vec<Transfer> {
        let (team, member) = (group - group % self.team, group % self.team);
        let (offset, bytes) = self.block(member);
        let pe = |group: u64| group * setup.fused_pes;
        let name = format!("sums_pe{}_to_pe{}", pe(group), pe(team + to));
        let source = at(setup, group, self.result_base + offset);
        let target = at(setup, team + to, self.result_base + offset);
        self.transfers(setup, &name, source, target, bytes)
    }

    fn block(&self, member: u64) -> (u64, u64) {
        self.blocks.get(to_index(member)).copied().or_broken("every member of a team has a block")
    }

    /// The same bytes of every slice of the output, in packets as long as they may be; slices that loops
    /// cannot count are moved one by one.
    fn transfers(
        &self,
        setup: &Setup<'_>,
        name: &str,
        source: Address,
        target: Address,
        bytes: u64,
    ) -> Vec<Transfer> {
        let most = setup.machine.tdma.packet_max_bytes;
        let counted = to_index(setup.machine.tdma.loops).saturating_sub(1);
        let (apart, looped) = self.slices.split_at(self.slices.len().saturating_sub(counted));
        let rows = bytes / most;
        let runs = [(0, rows, most), (rows * most, 1, bytes % most)];
        let mut transfers = Vec::new();
        for slice in offsets(apart) {
            for (first, rows, packet) in runs.into_iter().filter(|run| run.1 > 0 && run.2 > 0) {
                let on = |address: Address| Address(address.0 + slice * SLICE_STRIDE.unsigned_abs() + first);
                let over_slices =
                    looped.iter().map(|(size, stride)| same(*size, *stride * SLICE_STRIDE.unsigned_abs()));
                let over_rows = (rows > 1).then(|| same(rows, packet));
                let name = match transfers.len() {
                    0 => name.to_string(),
                    number => format!("{name}_{number}"),
                };
                let (source, target, span) = (on(source), on(target), Span::default());
                let loops = over_slices.chain(over_rows).collect();
                transfers.push(Transfer { name, source, target, loops, packet, index: None, span });
            }
        }
        transfers
    }

    /// Adds the blocks of all members, in their order; `None` for a member that has none.
    fn adder(&self, setup: &Setup<'_>, member: usize) -> Option<Exec> {
        let (offset, bytes) = self.blocks.get(member).copied().filter(|block| block.1 > 0)?;
        let packet_bytes = whole_part(bytes, setup.machine.network.flit_bytes);
        let (packets, words) = (bytes / packet_bytes, packet_bytes / WORD_BYTES);
        let loops = [
            SequencerLoop::of(packets, words),
            SequencerLoop::of(self.team, self.slot_bytes / WORD_BYTES),
            SequencerLoop::of(words, 1),
        ];
        let fetch = commands::fetch_loops(setup, setup.accumulator_dtype(), self.scratch_base, &loops, words);
        let halves = setup.machine.ve.int_ways / setup.machine.ve.float_ways;
        let loops = [(fixed(packets), false), (fixed(self.team), true), (fixed(halves), false)];
        let steps = loops.map(|(size, summed)| StepLoop { size, summed }).to_vec();
        let reduce = Reduce { op: ReduceOp::Add, tree: false, steps, limits: Vec::new() };
        let op = Op { kind: OpKind::Reduce(reduce), operands: Vec::new(), reversed: false, stash: false };
        let vector = chain(if setup.dtype.is_float() { Word::F32 } else { Word::I32 }, vec![op]);
        let base = if self.shared { self.result_base + offset } else { self.result_base };
        let writes = [SequencerLoop::of(packets, packet_bytes)];
        let commit = commands::commit(setup, Memory::Dm, base, &writes, packet_bytes, self.written());
        let stream = Stream {
            fetch,
            switch: Switch::default(),
            contract: None,
            vector: Some(vector),
            cast: None,
            transpose: None,
            commit,
        };
        let name = format!("add_block_{member}");
        Some(exec(setup, &name, Context::Main, stream))
    }

    /// Slices of the output, as ranges.
    fn written(&self) -> Vec<(u64, u64)> {
        let mut slices = offsets(&self.slices);
        slices.sort_unstable();
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for slice in slices {
            match ranges.last_mut() {
                Some(range) if range.1 == slice => range.1 += 1,
                _ => ranges.push((slice, slice + 1)),
            }
        }
        ranges
    }
}

/// A loop with one stride on both sides.
fn same(size: u64, bytes: u64) -> TransferLoop {
    let stride = i64::try_from(bytes).or_broken("a stride inside a memory fits 63 bits");
    TransferLoop { size: Count::Fixed(size), source: stride, target: stride }
}

/// A byte of the first slice of a group.
pub(super) fn at(setup: &Setup<'_>, group: u64, offset: u64) -> Address {
    Address::new(MemoryLocation {
        chip: 0,
        medium: MemoryInstance::Dm { slice: group * setup.slices() },
        offset,
    })
}

/// A barrier: a group finishes its own work, then waits for the other groups.
pub(super) fn barrier(setup: &Setup<'_>, group: u64, all: impl IntoIterator<Item = u64>) -> Vec<Step> {
    let others = all.into_iter().filter(|other| *other != group);
    let pes: Vec<u64> = others.map(|other| other * setup.fused_pes).collect();
    let value = ControlExpr::Operand(ControlOperand::Number(1));
    let rings = pes.iter().map(|pe| StepKind::Post { chip: 0, pe: *pe, value });
    let answers = pes.iter().map(|pe| StepKind::Receive { chip: 0, pe: *pe, register: None });
    [StepKind::Sync].into_iter().chain(rings).chain(answers).map(step).collect()
}

/// Starts transfers and waits for them, so many at a time as there are ids.
pub(super) fn moves(new: Vec<Transfer>, transfers: &mut Vec<Transfer>, steps: &mut Vec<Step>) {
    let mut started: Vec<u8> = Vec::new();
    for transfer in new {
        if started.len() == IDS {
            steps.extend(started.drain(..).map(|id| push(Command::WaitD(id))));
        }
        let id = u8::try_from(started.len()).or_broken("no more transfers are in flight than there are ids");
        let which =
            TransferId(u32::try_from(transfers.len()).or_broken("transfers of a program fit their ids"));
        transfers.push(transfer);
        steps.push(push(Command::Dma { transfer: which, id }));
        started.push(id);
    }
    steps.extend(started.into_iter().map(|id| push(Command::WaitD(id))));
}

/// Digits over slices as loops, outermost first: values and slices between them, neighbours joined.
fn slice_loops(inter: &[Digit]) -> Vec<(u64, u64)> {
    let mut stride = 1;
    let mut loops: Vec<(u64, u64)> = Vec::new();
    for digit in inter.iter().rev() {
        if digit.live > 1 {
            match loops.last_mut() {
                Some((size, below)) if *size * *below == stride => *size *= digit.live,
                _ => loops.push((digit.live, stride)),
            }
        }
        stride *= digit.slots;
    }
    loops.reverse();
    loops
}

/// The slices that loops reach.
fn offsets(loops: &[(u64, u64)]) -> Vec<u64> {
    let mut slices = vec![0];
    for (size, stride) in loops {
        slices = slices.iter().flat_map(|slice| (0..*size).map(move |at| slice + at * stride)).collect();
    }
    slices
}

fn push(command: Command) -> Step {
    step(StepKind::Push(command))
}

fn step(kind: StepKind) -> Step {
    Step { kind, span: Span::default() }
}
