//! A whole tensor unit command: overhead, the slowest stage, and what does not overlap (vISA book; the overhead is measured from
//! its MNIST schedule).
//!
//! Stages form a pipeline of one flit a cycle, so the slowest sets the rate and the others add what they delay the stream by.

use tilewright_machine::tcp::Tcp;

use super::cast::{self, Cast};
use super::collect::{self, Collect};
use super::commit::{self, Commit};
use super::contraction::{self, Contraction};
use super::fetch::{self, Fetch};
use super::load::{self, Load};
use super::switch::{self, Switch};
use super::transpose::{self, Transpose};
use super::vector::{self, Vector};

/// The stages that a command uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// Fetch unit.
    pub fetch: Option<Fetch>,
    /// Switch engine.
    pub switch: Option<Switch>,
    /// Collect.
    pub collect: Option<Collect>,
    /// Contraction engine, with its drain.
    pub contraction: Option<Contraction>,
    /// Vector engine.
    pub vector: Option<Vector>,
    /// Cast engine.
    pub cast: Option<Cast>,
    /// Transpose engine.
    pub transpose: Option<Transpose>,
    /// Commit unit.
    pub commit: Option<Commit>,
    /// Register files, where they are what is written.
    pub load: Option<Load>,
}

/// A stage of a command, in the order in which data passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Fetch unit.
    Fetch,
    /// Switch engine.
    Switch,
    /// Collect.
    Collect,
    /// Products, or their feed.
    Contraction,
    /// Sums that leave the contraction engine.
    Drain,
    /// Vector engine.
    Vector,
    /// Cast engine.
    Cast,
    /// Transpose engine.
    Transpose,
    /// Commit unit.
    Commit,
    /// Register file load.
    Load,
}

impl Stage {
    /// All stages.
    pub const ALL: [Stage; 10] = [
        Stage::Fetch,
        Stage::Switch,
        Stage::Collect,
        Stage::Contraction,
        Stage::Drain,
        Stage::Vector,
        Stage::Cast,
        Stage::Transpose,
        Stage::Commit,
        Stage::Load,
    ];
}

/// How long a command takes, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandCycles {
    /// All of it.
    pub total_cycles: u64,
    /// What every command takes.
    pub overhead_cycles: u64,
    /// The slowest stage, the first of them if there are several.
    pub binding: Stage,
    /// Cycles that each stage is busy, in the order of [`Stage::ALL`]; 0 for those that are not used.
    pub stream_cycles: [u64; Stage::ALL.len()],
    /// Cycles that each stage adds after the slowest, in the same order.
    pub tail_cycles: [u64; Stage::ALL.len()],
}

impl CommandCycles {
    /// Cycles that a stage is busy.
    pub fn stage_cycles(&self, stage: Stage) -> u64 {
        self.stream_cycles[stage as usize]
    }
}

/// Overhead, the slowest stage, and every tail.
pub fn command_cycles(machine: &Tcp, command: &Command) -> CommandCycles {
    let stream_cycles = Stage::ALL.map(|stage| stream(machine, command, stage));
    let tail_cycles = Stage::ALL.map(|stage| tail(machine, command, stage));
    let mut binding = Stage::Fetch;
    for stage in Stage::ALL {
        if stream_cycles[stage as usize] > stream_cycles[binding as usize] {
            binding = stage;
        }
    }
    let overhead_cycles = machine.command.overhead_cycles;
    let streamed = overhead_cycles.saturating_add(stream_cycles[binding as usize]);
    let total_cycles = tail_cycles.iter().fold(streamed, |total, &tail| total.saturating_add(tail));
    CommandCycles { total_cycles, overhead_cycles, binding, stream_cycles, tail_cycles }
}

fn stream(machine: &Tcp, command: &Command, stage: Stage) -> u64 {
    let contraction = command.contraction.as_ref();
    let cycles = match stage {
        Stage::Fetch => command.fetch.as_ref().map(|s| fetch::stream_cycles(machine, s)),
        Stage::Switch => command.switch.as_ref().map(switch::stream_cycles),
        Stage::Collect => command.collect.as_ref().map(|s| collect::stream_cycles(machine, s)),
        Stage::Contraction => contraction.map(|s| contraction::stream_cycles(machine, s)),
        Stage::Drain => contraction.map(|s| contraction::drain_cycles(machine, s)),
        Stage::Vector => command.vector.as_ref().map(|s| vector::stream_cycles(machine, s)),
        Stage::Cast => command.cast.as_ref().map(cast::stream_cycles),
        Stage::Transpose => command.transpose.as_ref().map(|s| transpose::stream_cycles(machine, s)),
        Stage::Commit => command.commit.as_ref().map(|s| commit::stream_cycles(machine, s)),
        Stage::Load => command.load.as_ref().map(|s| load::stream_cycles(machine, s)),
    };
    cycles.unwrap_or(0)
}

fn tail(machine: &Tcp, command: &Command, stage: Stage) -> u64 {
    let contraction = command.contraction.as_ref();
    let vector = command.vector.as_ref();
    let cycles = match stage {
        Stage::Fetch => command.fetch.as_ref().map(|s| fetch::latency_cycles(machine, s)),
        Stage::Switch => command.switch.map(|s| {
            switch::fill_cycles(machine, s.topology)
                .saturating_add(switch::bitmap_cycles(machine, s.topology))
        }),
        Stage::Contraction => contraction.map(contraction::latency_cycles),
        Stage::Drain => contraction.map(|s| contraction::tail_cycles(machine, s)),
        Stage::Vector => vector
            .map(|s| vector::latency_cycles(machine, s).saturating_add(vector::reduce_cycles(machine, s))),
        Stage::Collect | Stage::Cast | Stage::Transpose | Stage::Commit | Stage::Load => None,
    };
    cycles.unwrap_or(0)
}
