//! How long an execution takes at most, where what the closed form assumes does not hold.
//!
//! [`exec_cycles`] is what a command takes if queues between its stages are long enough, if its fetch and its
//! commit unit do not meet in banks of data memory, and if a group of sums drains from a copy of its
//! accumulators. Nobody has published how long queues are or whether there is a copy, and whether units meet
//! is a matter of addresses. Each of the three has a bound of its own, held to the simulation by the cycle;
//! the longest of them stands beside the closed form.

use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::program::exec::{Exec, ExecBody, Stream};

use super::accesses::UnitAccesses;
use super::{exec_command, exec_cycles};
use crate::cycles::contention::meeting_cycles;
use crate::cycles::contraction::shared_group_cycles;
use crate::cycles::{CommandCycles, CommandStages, PipelineStage, command_cycles, worst_cycles};
use tilewright_tcp_isa::capped::Capped;

/// What makes a command longer than its closed form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Delay {
    /// Bursts of a ring, or tiles that fill and leave in turn.
    Queues,
    /// Fetch and commit units that want the same bank.
    Banks,
    /// Groups of sums that wait for accumulators.
    Accumulators,
}

impl Delay {
    /// What happens, as the end of a sentence.
    pub const fn words(self) -> &'static str {
        match self {
            Delay::Queues => "its stages wait for each other where queues are short",
            Delay::Banks => "its fetch and commit units meet in banks",
            Delay::Accumulators => "its sums wait for accumulators that are not copied",
        }
    }
}

/// How long an execution takes at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongestCycles {
    /// All of it, at least the total of the closed form.
    pub total_cycles: u64,
    /// Why it is longer than the closed form; `None` if it is not.
    pub delay: Option<Delay>,
}

/// How long an execution takes at most, beside its closed form.
pub fn longest_cycles(machine: &Tcp, exec: &Exec, closed: &CommandCycles) -> LongestCycles {
    let command = exec_command(machine, exec);
    let overlapped = closed.total_cycles;
    // What the image adds to its stages is the same in both.
    let added = overlapped.saturating_sub(command_cycles(machine, &command).total_cycles);
    let queues = worst_cycles(machine, &command).capped_add(added);
    let mut longest = LongestCycles { total_cycles: overlapped, delay: None };
    let ExecBody::Stream(stream) = &exec.body else { return longest };
    let candidates = [
        (Delay::Queues, queues),
        (Delay::Banks, overlapped.capped_add(bank_cycles(machine, exec, stream, closed))),
        (Delay::Accumulators, overlapped.capped_add(accumulator_cycles(machine, &command, stream, closed))),
    ];
    for (delay, total_cycles) in candidates {
        if total_cycles > longest.total_cycles {
            longest = LongestCycles { total_cycles, delay: Some(delay) };
        }
    }
    longest
}

/// The same for an image alone.
pub fn exec_longest_cycles(machine: &Tcp, exec: &Exec) -> LongestCycles {
    longest_cycles(machine, exec, &exec_cycles(machine, exec))
}

/// Cycles that a fetch and a commit unit lose to each other, of the innermost loops of both.
fn bank_cycles(machine: &Tcp, exec: &Exec, stream: &Stream, closed: &CommandCycles) -> u64 {
    let Some(writes) = UnitAccesses::of_commit(machine, exec.context, &stream.commit) else { return 0 };
    let reads = UnitAccesses::of_fetch(machine, exec.context, &stream.fetch);
    let [read, written] =
        [PipelineStage::Fetch, PipelineStage::Commit].map(|stage| closed.stage_cycles(stage));
    let streamed = closed.stage_cycles(closed.binding);
    if read.capped_add(written) <= streamed {
        return 0;
    }
    meeting_cycles(machine, &reads.walk(), read, &writes.walk(), written).saturating_sub(streamed)
}

/// Cycles that groups wait for accumulators if they share them.
fn accumulator_cycles(
    machine: &Tcp,
    command: &CommandStages,
    stream: &Stream,
    closed: &CommandCycles,
) -> u64 {
    let Some(shape) = command.contraction.filter(|shape| shape.groups > 1) else { return 0 };
    let slowest = |stages: &[PipelineStage]| {
        stages.iter().fold(0, |most: u64, &stage| most.max(closed.stage_cycles(stage))) / shape.groups
    };
    let before = slowest(&[
        PipelineStage::Fetch,
        PipelineStage::Switch,
        PipelineStage::Collect,
        PipelineStage::Contraction,
    ]);
    let behind =
        slowest(&[PipelineStage::Drain, PipelineStage::Vector, PipelineStage::Cast, PipelineStage::Commit]);
    let steps = stream.contract.iter().flat_map(|contract| contract.steps.iter().rev());
    let inner_steps =
        steps.take_while(|step| step.summed).fold(1_u64, |all, step| all.capped_mul(step.size.fixed()));
    let period = shared_group_cycles(machine, &shape, inner_steps, before, behind);
    (shape.groups - 1).capped_mul(period.saturating_sub(before.max(behind)))
}
