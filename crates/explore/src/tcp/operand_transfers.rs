//! Operands that start in off-chip memory: what it takes to bring them to the data memories, before the
//! commands of a candidate (the transfers are `tilewright_tcp_lower::off_chip`, what they cost
//! `tilewright_tcp_cost::cycles`).
//!
//! One DMA engine brings one operand after the other, and commands wait for both. Groups of PEs do so at the
//! same time and share the channels of off-chip memory. Where the einsum runs in parts, an operand that is
//! the same for all of them comes once.

use std::collections::BTreeMap;

use tilewright_base::invariant::{Exact, to_index};
use tilewright_machine::tcp::Tcp;
use tilewright_notation::syntax::ast::Operand;
use tilewright_tcp_cost::cycles::hbm::reached_q32;
use tilewright_tcp_cost::cycles::image::{TransferCost, transfer_cost};
use tilewright_tcp_cost::energy::{EnergyCounts, counts_transfer};
use tilewright_tcp_isa::program::control::{Command, Queue, Step, StepKind};
use tilewright_tcp_isa::program::{Program, Transfer};
use tilewright_tcp_lower::off_chip::{HbmImage, HbmImageDigit, MOST_DIGITS};

use crate::cost_math::{CostMath, INFINITE};
use crate::refusal::{CandidateRefusal, RefusalReason};
use crate::tcp::cost::bytes;
use crate::tcp::nest::FrameContext;
use crate::tcp::point::{AxisRole, LoopNest, TcpFrame};
use crate::tcp::task::TcpTask;

/// What bringing operands takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperandTransfers {
    /// Cycles for in0 and for in1.
    pub cycles: [u64; 2],
    /// Events of each, on one group.
    pub counts: [EnergyCounts; 2],
}

impl OperandTransfers {
    /// Cycles of one part: both operands.
    pub fn part_cycles(&self) -> u64 {
        self.cycles.iter().fold(0, |all, cycles| all.plus_cost(*cycles))
    }

    /// Cycles of all parts.
    pub fn all_cycles(&self, task: &TcpTask<'_>, frame: &TcpFrame) -> u64 {
        let times = [Operand::In0, Operand::In1].map(|operand| times(task, frame, operand));
        self.cycles.iter().zip(times).fold(0, |all, (cycles, times)| all.plus_cost(cycles.times_cost(times)))
    }

    /// Events of all parts.
    pub fn all_counts(&self, task: &TcpTask<'_>, frame: &TcpFrame) -> EnergyCounts {
        let mut all = EnergyCounts::default();
        for (counts, operand) in self.counts.iter().zip([Operand::In0, Operand::In1]) {
            all.add(counts, times(task, frame, operand));
        }
        all
    }
}

/// How often an operand is brought: once, or for each part if parts have different ones.
pub fn times(task: &TcpTask<'_>, frame: &TcpFrame, operand: Operand) -> u64 {
    let cut = task.axes_of(operand).any(|axis| frame.parts[axis] > 1);
    if cut { frame.commands() } else { 1 }
}

/// Images and what they took: many candidates of a frame bring the same.
pub type TransferMemo = BTreeMap<HbmImage, Result<(u64, EnergyCounts), CandidateRefusal>>;

/// What the operands of a candidate take that start in off-chip memory.
///
/// # Errors
/// More loops than a DMA engine has.
pub fn brought(
    task: &TcpTask<'_>,
    framed: &FrameContext,
    nest: &LoopNest,
    memo: &mut TransferMemo,
) -> Result<OperandTransfers, CandidateRefusal> {
    let mut brought = OperandTransfers::default();
    if task.from_hbm == [false; 2] {
        return Ok(brought);
    }
    let mut hbm_base = 0;
    for (at, operand) in
        [Operand::In0, Operand::In1].into_iter().enumerate().filter(|(at, _)| task.from_hbm[*at])
    {
        let image = image(task, framed, nest, operand, hbm_base);
        let image_bytes = image.end(task.setup.machine).exact_sub(hbm_base);
        hbm_base = hbm_base.plus_cost(image_bytes.times_cost(task.groups));
        let known = memo.entry(image).or_insert_with(|| together(task, &image));
        (brought.cycles[at], brought.counts[at]) = (*known)?;
    }
    Ok(brought)
}

/// An operand as the candidate's slices take it.
pub fn image(
    task: &TcpTask<'_>,
    framed: &FrameContext,
    nest: &LoopNest,
    operand: Operand,
    hbm_base: u64,
) -> HbmImage {
    let held = operand == framed.stationary();
    let mut image = HbmImage {
        digits: [HbmImageDigit::default(); MOST_DIGITS],
        count: 0,
        slice_bytes: bytes(&task.setup, if held { nest.held_elements() } else { nest.streamed_elements() }),
        dm_base: 0,
        slice: 0,
        hbm_base,
    };
    if operand == Operand::In1 {
        let other = if held { nest.streamed_elements() } else { nest.held_elements() };
        let flit_bytes = task.setup.machine.network.flit_bytes.max(1);
        image.dm_base = bytes(&task.setup, other).next_multiple_of(flit_bytes);
    }
    let mut push = |digit: HbmImageDigit| {
        if let Some(slot) = image.digits.get_mut(image.count).filter(|_| digit.slots > 1) {
            *slot = digit;
            image.count += 1;
        }
    };
    let copies = |slots: u64| HbmImageDigit { live: slots, slots, copies: true };
    let parts = |role: AxisRole| {
        let axes = (0..task.axes.len()).filter(move |axis| framed.role(*axis) == role);
        axes.map(|axis| HbmImageDigit {
            live: nest.live[axis],
            slots: 1 << framed.frame.slices_log2[axis],
            copies: false,
        })
    };
    parts(AxisRole::Batch).for_each(&mut push);
    if held {
        push(copies(nest.streamed_slices));
        parts(AxisRole::Held).for_each(&mut push);
    } else {
        parts(AxisRole::Streamed).for_each(&mut push);
        if nest.ring > 1 {
            push(HbmImageDigit { live: nest.ring, slots: nest.ring, copies: false });
        } else {
            push(copies(nest.held_slices));
        }
    }
    parts(AxisRole::Summed).for_each(&mut push);
    image
}

/// One image of each group, all at the same time: cycles, and events of one group.
fn together(task: &TcpTask<'_>, image: &HbmImage) -> Result<(u64, EnergyCounts), CandidateRefusal> {
    let machine = task.setup.machine;
    let stride = image.end(machine).exact_sub(image.hbm_base);
    let of_group = |group: u64| {
        let hbm_base = image.hbm_base.plus_cost(stride.times_cost(group));
        let transfers = HbmImage { hbm_base, ..*image }.transfers(machine, "bring");
        transfers.map_err(|need| CandidateRefusal {
            reason: RefusalReason::Transfer,
            need,
            have: machine.tdma.loops,
        })
    };
    let groups: Result<Vec<Vec<Transfer>>, CandidateRefusal> = (0..task.groups).map(of_group).collect();
    Ok(side_by_side(machine, &groups?))
}

/// Transfers of a program, group by group.
pub fn of_program(machine: &Tcp, program: &Program) -> (u64, EnergyCounts) {
    let started = |queue: &Queue| {
        let dma = |step: &Step| match step.kind {
            StepKind::Push(Command::Dma { transfer, .. }) => {
                program.transfers.get(transfer.0 as usize).cloned()
            }
            _ => None,
        };
        queue.steps.iter().filter_map(dma).collect()
    };
    let groups: Vec<Vec<Transfer>> = program.queues.iter().map(started).collect();
    side_by_side(machine, &groups)
}

/// Groups that each run their transfers one after the other, all groups in step: cycles, and events of one
/// group.
fn side_by_side(machine: &Tcp, groups: &[Vec<Transfer>]) -> (u64, EnergyCounts) {
    let (mut cycles, mut counts) = (0_u64, EnergyCounts::default());
    let Some((first, others)) = groups.split_first() else { return (cycles, counts) };
    for (at, transfer) in first.iter().enumerate() {
        let Some(cost) = transfer_cost(machine, transfer) else { continue };
        let mut shared = channels(machine, &cost);
        for other in others.iter().filter_map(|group| transfer_cost(machine, group.get(at)?)) {
            for (all, one) in shared.iter_mut().zip(channels(machine, &other)) {
                *all = all.exact_add(one);
            }
        }
        // Whoever moves data shares what a channel reaches.
        let busiest_q32 = shared.into_iter().max().unwrap_or(0);
        let memory = busiest_q32.div_ceil(u128::from(reached_q32(machine).max(1)));
        let moved = cost.moved_cycles.max(u64::try_from(memory).unwrap_or(INFINITE));
        cycles = cycles.plus_cost(cost.cycles.startup_cycles).plus_cost(moved);
        counts.add(&counts_transfer(machine, &cost), 1);
    }
    (cycles, counts)
}

/// Time of each channel, times 2^32.
fn channels(machine: &Tcp, cost: &TransferCost) -> Vec<u128> {
    let count = to_index(machine.hbm_channels());
    match &cost.read {
        Some(read) if read.channels_q32.is_empty() => vec![read.busiest_q32; count],
        Some(read) => read.channels_q32.clone(),
        None => vec![0; count],
    }
}
