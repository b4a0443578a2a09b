//! What candidates must take at least, before all of their choices are made.
//!
//! Commands cost their overhead. Lanes multiply at most so many elements a cycle, sums leave at most so many
//! a cycle, every slice receives its rows at one flit a cycle and loads its part of the held operand at one
//! flit a cycle. Every product, read and result costs its energy.

use tilewright_notation::syntax::ast::Operand;
use tilewright_tcp_cost::energy::{EnergyCounts, energy_fj};

use crate::cost_math::CostMath;
use crate::target::CostBound;
use crate::tcp::events::energy;
use crate::tcp::nest::FrameContext;
use crate::tcp::operand_transfers::times;
use crate::tcp::point::AxisRole;
use crate::tcp::task::TcpTask;

/// What choices have settled so far.
#[derive(Clone, Copy, Debug)]
pub struct PartialChoice {
    /// Lanes in use; the most if that is open.
    pub lanes: u64,
    /// Rows in a packet, if settled.
    pub packet: Option<(u64, u64)>,
}

/// The bound of a frame, or of those of its choices that agree with what is settled.
pub fn bound(task: &TcpTask<'_>, framed: &FrameContext, settled: PartialChoice) -> CostBound {
    let setup = &task.setup;
    let machine = setup.machine;
    let [batch, held, streamed, summed] = AxisRole::ALL.map(|role| framed.positions(role));
    let bits = setup.element_bits();
    let flit_bytes = machine.network.flit_bytes;
    let bytes = |elements: u64| elements.times_cost(bits).div_ceil(8);
    let lane_rows = ceil_inner(held, framed.share(AxisRole::Held), settled.lanes);
    let (rows, chunks) = match settled.packet {
        Some((columns, tree)) => (
            ceil_inner(streamed, framed.share(AxisRole::Streamed), columns),
            ceil_inner(summed, framed.share(AxisRole::Summed), tree),
        ),
        None => (1, streamed.times_cost(summed).div_ceil(setup.packet_elements())),
    };
    let steps = batch.times_cost(lane_rows).times_cost(rows).times_cost(chunks);
    let results = batch.times_cost(held).times_cost(streamed);
    let drain = results.div_ceil(machine.ce.drain_elements_per_cycle);
    let stream = bytes(batch.times_cost(streamed).times_cost(summed)).div_ceil(flit_bytes);
    let load_bytes = bytes(batch.times_cost(held).times_cost(summed));
    let overhead = machine.command.overhead_cycles.times_cost(2);
    let each = overhead.plus_cost(steps.max(drain).max(stream)).plus_cost(load_bytes.div_ceil(flit_bytes));
    let parts = framed.frame.commands();
    let (bring_cycles, bring_counts) = least_brought(task, framed);
    let cycles = each.times_cost(parts).plus_cost(bring_cycles);
    let counts = least_counts(task, framed, steps);
    let brought_fj = energy_fj(machine, &bring_counts);
    let energy_fj = energy(setup, &counts, cycles, parts)
        .iter()
        .chain(&brought_fj)
        .fold(0, |all: u64, part| all.plus_cost(*part));
    CostBound { ticks: cycles, energy_fj }
}

/// Groups of the innermost axis, times the others.
fn ceil_inner(positions: u64, share: u64, group: u64) -> u64 {
    (positions / share.max(1)).times_cost(share.div_ceil(group.max(1)))
}

/// What every candidate of a frame takes for operands from off-chip memory: each comes whole, the held one
/// for every slice along the streamed axes, at no more than the engine's rate.
fn least_brought(task: &TcpTask<'_>, framed: &FrameContext) -> (u64, EnergyCounts) {
    let machine = task.setup.machine;
    let (mut cycles, mut counts) = (0_u64, EnergyCounts::default());
    for (operand, _) in [Operand::In0, Operand::In1].into_iter().zip(task.from_hbm).filter(|(_, from)| *from)
    {
        let elements =
            task.axes_of(operand).fold(1_u64, |all, axis| all.times_cost(framed.frame.extents[axis]));
        let copies = if operand == framed.stationary() { framed.slices(AxisRole::Streamed) } else { 1 };
        let bytes = (elements.times_cost(task.setup.element_bits()) / 8).times_cost(copies);
        let moved = bytes.div_ceil(machine.tdma.bandwidth_bytes_per_cycle.max(1));
        let times = times(task, &framed.frame, operand);
        let each = machine.tdma.startup_cycles.plus_cost(moved);
        cycles = cycles.plus_cost(each.times_cost(times));
        let bits = bytes.times_cost(8);
        let once = EnergyCounts {
            dm_written_bytes: bytes,
            hbm_read_bytes: bytes,
            hbm_bits: bits,
            noc_bits: bits,
            ..EnergyCounts::default()
        };
        counts.add(&once, times);
    }
    (cycles, counts)
}

/// Events that every candidate of a frame has: each product once, each input read once, each result written
/// once.
fn least_counts(task: &TcpTask<'_>, framed: &FrameContext, steps: u64) -> EnergyCounts {
    use tilewright_num::Dtype;
    let extent = |roles: &[AxisRole]| {
        let axes = (0..task.axes.len()).filter(|axis| roles.contains(&framed.role(*axis)));
        axes.fold(1_u64, |all, axis| all.times_cost(framed.frame.extents[axis]))
    };
    let setup = &task.setup;
    let bytes = |elements: u64| elements.times_cost(setup.element_bits()) / 8;
    let held = bytes(extent(&[AxisRole::Batch, AxisRole::Held, AxisRole::Summed]));
    let streamed = bytes(extent(&[AxisRole::Batch, AxisRole::Streamed, AxisRole::Summed]));
    let macs = extent(&AxisRole::ALL);
    let mut counts = EnergyCounts {
        contraction_cycles: steps.times_cost(setup.slices()),
        trf_written_bytes: held,
        fetch_bytes: held.plus_cost(streamed),
        commit_bytes: extent(&[AxisRole::Batch, AxisRole::Held, AxisRole::Streamed]).times_cost(4),
        ..EnergyCounts::default()
    };
    match setup.dtype {
        Dtype::I4 | Dtype::I5 => counts.macs_int4 = macs,
        Dtype::F8E4M3Fn | Dtype::F8E5M2 => counts.macs_fp8 = macs,
        Dtype::Bf16 => counts.macs_bf16 = macs,
        _ => counts.macs_int8 = macs,
    }
    counts
}
