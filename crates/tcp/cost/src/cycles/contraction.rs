//! Contraction engine: one packet a cycle against all lanes, fed at one flit a cycle, drained at a fixed
//! width (paper section IV-C; feed unit and drain orders from the vISA book).
//!
//! Products take one cycle for each step of the time loops. The feed unit may hold a packet for several of
//! them, and only then do products run faster than flits arrive. Sums leave in groups: while one group
//! drains, the next accumulates, so a group adds the shorter of the two at the end of the command;
//! [`super::batches`] counts what comes before and behind with them.

use tilewright_machine::tcp::Tcp;

use tilewright_tcp_isa::capped::{Capped, capped};
use tilewright_tcp_isa::contraction::{ContractionStage, tree_depth};
use tilewright_tcp_isa::program::exec::Drain;

/// Cycles in which the lanes multiply, or wait for the feed.
pub fn stream_cycles(machine: &Tcp, contraction: &ContractionStage) -> u64 {
    steps(contraction).max(feed_cycles(machine, contraction))
}

/// Cycles in which flits of the streamed operand arrive.
pub fn feed_cycles(machine: &Tcp, contraction: &ContractionStage) -> u64 {
    let packets = steps(contraction).div_ceil(contraction.repeats.max(1));
    packets.capped_mul(contraction.packet_bytes.div_ceil(machine.network.flit_bytes))
}

/// Cycles in which sums leave: one for each flit.
pub fn drain_cycles(machine: &Tcp, contraction: &ContractionStage) -> u64 {
    contraction.drained_flits(machine)
}

/// Cycles between the last operand and the last sum: the depth of the whole tree, whatever part of it adds.
/// The measured overhead of commands holds them already ([`super::command`]).
pub fn latency_cycles(contraction: &ContractionStage) -> u64 {
    u64::from(tree_depth(contraction.packet_elements.min(1 << 63)))
}

/// Cycles that accumulating and draining do not overlap: of the first group, or of the last.
pub fn tail_cycles(machine: &Tcp, contraction: &ContractionStage) -> u64 {
    match contraction.groups {
        0 => 0,
        _ => contraction.group_steps.min(contraction.group_drained_flits(machine)),
    }
}

/// Cycles from one group to the next where groups share one set of accumulators, given those of a group
/// before the sums and behind them, and the steps in a row that add to one slot.
///
/// All other forms assume that a group drains from a copy. The legal sizes let a group take all cells, so a
/// machine without a copy must hold back the next group until slots are free again: as soon as a group takes
/// more than half of them. Which of the two the chip does is not published. By simulation this is an upper
/// bound within 3 %; queues may hide the pace of all but products and drain.
pub fn shared_group_cycles(
    machine: &Tcp,
    contraction: &ContractionStage,
    inner_steps: u64,
    before_cycles: u64,
    behind_cycles: u64,
) -> u64 {
    let slots = contraction.group_output_steps;
    let capacity = match contraction.drain {
        Drain::Interleaved => machine.accumulators() / (machine.ce.lanes * contraction.columns.max(1)),
        Drain::Sequential => machine.ce.outputs_per_lane / contraction.lanes.max(1),
    };
    // The last slot of the next group may be used when so many slots have drained, and is needed after the
    // steps of all others.
    let awaited = slots.capped_mul(2).saturating_sub(capacity);
    let drained = u128::from(awaited) * u128::from(behind_cycles) / u128::from(slots.max(1));
    let earlier_steps = u128::from(slots.saturating_sub(1)) * u128::from(inner_steps);
    let needed = earlier_steps * u128::from(before_cycles) / u128::from(contraction.group_steps.max(1));
    let stall = capped(drained.saturating_sub(needed));
    before_cycles.capped_add(stall).max(behind_cycles)
}

/// The product of all time loops.
fn steps(contraction: &ContractionStage) -> u64 {
    contraction.groups.capped_mul(contraction.group_steps)
}
