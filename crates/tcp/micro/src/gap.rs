//! The closed form of a command beside what the simulation counts.

use tilewright_machine::tcp::Tcp;
use tilewright_tcp_cost::cycles::{
    CommandStages, PipelineStage, command_cycles, contraction, switch, vector, worst_cycles,
};

use crate::command::{MicroCommand, MicroError};
use crate::pipeline::custom_sources;
use crate::simulate::run;
use crate::topology;

/// Cycles that a simulation may take longer than the closed form and its fill.
pub const SLACK_CYCLES: u64 = 64;
/// From here on the difference may be at most [`PERCENT`] of the closed form.
pub const LONG_CYCLES: u64 = 2000;
/// See [`LONG_CYCLES`].
pub const PERCENT: u64 = 3;

/// Both counts of a command, without what it costs before its first access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CycleGap {
    /// By the closed form.
    pub closed_cycles: u64,
    /// By the closed form where no queue hides bursts and alternation; the same for most commands.
    pub worst_cycles: u64,
    /// Cycles by which the last packet that any slice keeps is earlier than the last packet of the ring.
    pub early_cycles: u64,
    /// By the simulation.
    pub simulated_cycles: u64,
    /// Fill of the ring, depth of the tree and of the vector engine.
    pub fill_cycles: u64,
    /// The slowest stage, by the closed form.
    pub binding: PipelineStage,
}

impl CycleGap {
    /// Runs a command alone.
    pub fn of(machine: &Tcp, work: &MicroCommand) -> Result<CycleGap, MicroError> {
        let command = &work.command;
        let cost = command_cycles(machine, command);
        let bitmap = command.switch.map_or(0, |s| switch::bitmap_cycles(machine, s.topology));
        Ok(CycleGap {
            closed_cycles: cost.total_cycles - cost.overhead_cycles - bitmap,
            worst_cycles: worst_cycles(machine, command) - cost.overhead_cycles - bitmap,
            early_cycles: early_cycles(machine, command),
            simulated_cycles: run(machine, Some(work), None)?.cycles(),
            fill_cycles: fill_cycles(machine, command),
            binding: cost.binding,
        })
    }

    /// Cycles by which the simulation is longer; negative if the closed form is no lower bound.
    pub fn cycles(&self) -> i128 {
        i128::from(self.simulated_cycles) - i128::from(self.closed_cycles)
    }

    /// Whether both closed forms agree, so that queues do not matter.
    pub fn is_tight(&self) -> bool {
        self.worst_cycles == self.closed_cycles
    }

    /// Whether the closed form is a lower bound, and as close as it has to be.
    pub fn holds(&self) -> bool {
        let early = i128::from(self.early_cycles);
        let above = i128::from(self.simulated_cycles) - i128::from(self.worst_cycles);
        let near = above <= i128::from(self.fill_cycles + SLACK_CYCLES);
        let long = self.worst_cycles > LONG_CYCLES;
        let share = above * 100 <= i128::from(PERCENT) * i128::from(self.worst_cycles);
        self.cycles() >= -early && near && (!long || share)
    }
}

fn early_cycles(machine: &Tcp, command: &CommandStages) -> u64 {
    let Some(sent) = command.switch.filter(|s| topology::uses_ring(s.topology)) else { return 0 };
    let custom = custom_sources(command);
    topology::early_cycles(sent.topology, custom, sent.packets, sent.packet_flits, machine.network.hop_cycles)
}

fn fill_cycles(machine: &Tcp, command: &CommandStages) -> u64 {
    let ring = command.switch.map_or(0, |s| switch::fill_cycles(machine, s.topology));
    let tree = command.contraction.as_ref().map_or(0, contraction::latency_cycles);
    let chain = command
        .vector
        .as_ref()
        .map_or(0, |v| vector::latency_cycles(machine, v) + vector::reduce_cycles(machine, v));
    ring + tree + chain
}
