//! A whole tensor unit command: overhead, the slowest stage, and what does not overlap (vISA book; the
//! overhead is measured from its MNIST schedule).
//!
//! Stages form a pipeline of one flit a cycle, so the slowest sets the rate and the others add what they
//! delay the stream by: latencies, and what waits for a whole batch ([`super::batches`]). The overhead was
//! measured on copies, loads and a contraction alike, 264 + 50 cycles for 50 flits: it holds the depth of
//! every engine of fixed depth, the tree among them, so none of them has a tail.

use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::switch::ring_slices;

use super::batches::{BatchCycles, alternating_cycles, overlapped_cycles, paced_cycles};
use super::stage::{CommandStages, PipelineStage};
use super::{cast, collect, commit, contraction, fetch, load, switch, transpose, vector};
use tilewright_tcp_isa::capped::Capped;

/// How long a command takes, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandCycles {
    /// All of it.
    pub total_cycles: u64,
    /// What every command takes.
    pub overhead_cycles: u64,
    /// The slowest stage, the first of them if there are several.
    pub binding: PipelineStage,
    /// Cycles that each stage is busy, in the order of [`PipelineStage::ALL`]; 0 for those that are not used.
    pub stream_cycles: [u64; PipelineStage::ALL.len()],
    /// Cycles that each stage adds after the slowest, in the same order.
    pub tail_cycles: [u64; PipelineStage::ALL.len()],
}

impl CommandCycles {
    /// Cycles that a stage is busy.
    pub fn stage_cycles(&self, stage: PipelineStage) -> u64 {
        self.stream_cycles[stage as usize]
    }
}

/// Overhead, the slowest stage, and every tail.
pub fn command_cycles(machine: &Tcp, command: &CommandStages) -> CommandCycles {
    let stream_cycles = PipelineStage::ALL.map(|stage| stream(machine, command, stage));
    let tail_cycles = PipelineStage::ALL.map(|stage| tail(machine, command, stage));
    summed(machine, command, stream_cycles, tail_cycles)
}

/// A contraction as far as neither the widths of its reads and writes nor the grouping of its steps matter:
/// what searches ask once for many commands. For each of them [`ContractionPace::total_cycles`] gives what
/// [`command_cycles`] would.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContractionPace {
    /// Overhead and latencies.
    fixed_cycles: u64,
    /// The slowest stage up to the products, the fetch unit left out.
    arriving_cycles: u64,
    /// The slowest stage from the sums on, the commit unit left out.
    leaving_cycles: u64,
}

impl ContractionPace {
    /// None for commands that do not sum in groups, or that wait for tiles too.
    pub fn new(machine: &Tcp, command: &CommandStages) -> Option<ContractionPace> {
        command.contraction.filter(|contraction| contraction.groups > 0)?;
        if command.transpose.is_some() {
            return None;
        }
        let slowest = |stages: &[PipelineStage]| {
            stages.iter().fold(0, |slowest: u64, &stage| slowest.max(stream(machine, command, stage)))
        };
        let overhead_cycles = machine.command.overhead_cycles;
        let tails = PipelineStage::ALL.into_iter().map(|stage| tail(machine, command, stage));
        Some(ContractionPace {
            fixed_cycles: tails.fold(overhead_cycles, u64::capped_add),
            arriving_cycles: slowest(&[
                PipelineStage::Switch,
                PipelineStage::Collect,
                PipelineStage::Contraction,
            ]),
            leaving_cycles: slowest(&[
                PipelineStage::Drain,
                PipelineStage::Vector,
                PipelineStage::Cast,
                PipelineStage::Load,
            ]),
        })
    }

    /// Everything up to the sums, where the fetch unit takes so long.
    pub fn front_cycles(&self, fetch_cycles: u64) -> u64 {
        self.arriving_cycles.max(fetch_cycles)
    }

    /// Everything behind the sums, where the commit unit takes so long.
    pub fn behind_cycles(&self, commit_cycles: u64) -> u64 {
        self.leaving_cycles.max(commit_cycles)
    }

    /// All of the command, given both sides of the sums with what one group has of each.
    pub fn total_cycles(&self, front: BatchCycles, behind: BatchCycles) -> u64 {
        paced_cycles(front, behind).capped_add(self.fixed_cycles)
    }
}

fn summed(
    machine: &Tcp,
    command: &CommandStages,
    stream_cycles: [u64; PipelineStage::ALL.len()],
    mut tail_cycles: [u64; PipelineStage::ALL.len()],
) -> CommandCycles {
    let mut binding = PipelineStage::Fetch;
    for stage in PipelineStage::ALL {
        if stream_cycles[stage as usize] > stream_cycles[binding as usize] {
            binding = stage;
        }
    }
    let waits = if command.contraction.is_some() { PipelineStage::Drain } else { PipelineStage::Transpose };
    let overlapped = overlapped_cycles(machine, command, &stream_cycles);
    tail_cycles[waits as usize] = overlapped.exact_sub(stream_cycles[binding as usize]);
    let overhead_cycles = machine.command.overhead_cycles;
    let streamed = overhead_cycles.capped_add(stream_cycles[binding as usize]);
    let total_cycles = tail_cycles.iter().fold(streamed, |total, &tail| total.capped_add(tail));
    CommandCycles { total_cycles, overhead_cycles, binding, stream_cycles, tail_cycles }
}

/// Cycles that a command takes at most, where no queue between its stages hides anything: bursts on a ring
/// ([`switch::burst_cycles`]) and tiles that alternate between filling and leaving ([`alternating_cycles`]).
///
/// Equal to the total of [`command_cycles`] for most commands; for the others the truth is between the two.
pub fn worst_cycles(machine: &Tcp, command: &CommandStages) -> u64 {
    let cost = command_cycles(machine, command);
    let mut stream_cycles = cost.stream_cycles;
    let fixed = cost.total_cycles.exact_sub(overlapped_cycles(machine, command, &stream_cycles));
    let mut first_step = 0;
    if let (Some(sent), Some(fetched)) = (&command.switch, &command.fetch) {
        let behind = stream_cycles[PipelineStage::Collect as usize..].iter().max();
        let behind = *behind.or_broken("stages from collect on");
        let kept = command.collect.map_or(0, |collect| collect.packets);
        let fetch_cycles = stream_cycles[PipelineStage::Fetch as usize];
        let packet = |cycles: u64, packets: u64| cycles.div_ceil(packets.max(1));
        let kept_cycles = packet(behind, kept);
        let bursts = switch::burst_cycles(sent, packet(fetch_cycles, fetched.packets), kept_cycles);
        let stream = &mut stream_cycles[PipelineStage::Switch as usize];
        *stream = bursts.max(*stream);
        if kept_cycles > sent.packet_flits {
            // The last packet that is kept may come last, and pass the slower engines alone; or the first may
            // come last of its step.
            *stream = stream.capped_add(kept_cycles);
            first_step = ring_slices(sent.topology).capped_mul(sent.packet_flits);
        }
    }
    let overlapped = overlapped_cycles(machine, command, &stream_cycles);
    let longest = overlapped.max(alternating_cycles(machine, command, &stream_cycles));
    longest.capped_add(first_step).capped_add(fixed)
}

fn stream(machine: &Tcp, command: &CommandStages, stage: PipelineStage) -> u64 {
    let contraction = command.contraction.as_ref();
    let cycles = match stage {
        PipelineStage::Fetch => command.fetch.as_ref().map(|s| fetch::stream_cycles(machine, s)),
        PipelineStage::Switch => command.switch.as_ref().map(switch::stream_cycles),
        PipelineStage::Collect => command.collect.as_ref().map(|s| collect::stream_cycles(machine, s)),
        PipelineStage::Contraction => contraction.map(|s| contraction::stream_cycles(machine, s)),
        PipelineStage::Drain => contraction.map(|s| contraction::drain_cycles(machine, s)),
        PipelineStage::Vector => command.vector.as_ref().map(|s| vector::stream_cycles(machine, s)),
        PipelineStage::Cast => command.cast.as_ref().map(cast::stream_cycles),
        PipelineStage::Transpose => command.transpose.as_ref().map(|s| transpose::stream_cycles(machine, s)),
        PipelineStage::Commit => command.commit.as_ref().map(|s| commit::stream_cycles(machine, s)),
        PipelineStage::Load => command.load.as_ref().map(|s| load::stream_cycles(machine, s)),
    };
    // A stage that the command does not use takes none.
    cycles.unwrap_or(0)
}

fn tail(machine: &Tcp, command: &CommandStages, stage: PipelineStage) -> u64 {
    let vector = command.vector.as_ref();
    let cycles = match stage {
        PipelineStage::Fetch => command.fetch.as_ref().map(|s| fetch::latency_cycles(machine, s)),
        PipelineStage::Switch => command.switch.map(|s| {
            switch::fill_cycles(machine, s.topology).capped_add(switch::bitmap_cycles(machine, s.topology))
        }),
        PipelineStage::Vector => {
            vector.map(|s| vector::latency_cycles(machine, s).capped_add(vector::reduce_cycles(machine, s)))
        }
        // What waits for a batch is counted for the whole command.
        PipelineStage::Drain | PipelineStage::Transpose => None,
        PipelineStage::Contraction => None,
        PipelineStage::Collect | PipelineStage::Cast | PipelineStage::Commit | PipelineStage::Load => None,
    };
    // A stage that the command does not use takes none.
    cycles.unwrap_or(0)
}
