//! What a run gives back, and what it may be asked for.

use tilewright_base::Span;
use tilewright_base::invariant::Exact;
use tilewright_record::Record;
use tilewright_tcp_cost::energy::{COMPONENTS, EnergyCounts};
use tilewright_tcp_isa::program::event::PeId;

use crate::checks::Violation;
use crate::image_use::ImageUse;

/// How much is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// Contexts and DMA engines, with nothing counted; sums are in the outcome all the same.
    Totals,
    /// Also engines, memories, queues and power over time, flows, and the counts of each command.
    #[default]
    Everything,
}

/// How to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimOptions {
    /// How much is recorded.
    pub detail: Detail,
    /// Steps that all control cores together may take.
    pub max_steps: u64,
    /// Runs [`crate::checks`] at the end.
    pub check: bool,
}

impl Default for SimOptions {
    fn default() -> SimOptions {
        SimOptions { detail: Detail::Everything, max_steps: 1 << 27, check: cfg!(debug_assertions) }
    }
}

/// Outcome of a simulation: its record, cycles, energy, and how it ended.
#[derive(Clone, Debug)]
pub struct SimOutcome {
    /// Tracks, counters and energy over time.
    pub record: Record,
    /// How it ended.
    pub ended: RunEnd,
    /// Cycles from launch to finish.
    pub cycles: u64,
    /// Entries that the queues took.
    pub commands: u64,
    /// Executions that ended.
    pub execs: u64,
    /// Transfers that ended.
    pub transfers: u64,
    /// Steps of control cores.
    pub steps: u64,
    /// Events of all commands together.
    pub counts: EnergyCounts,
    /// What each image took, by the first start of those that ran.
    pub images: Vec<ImageUse>,
    /// Energy by component, in the order of `tilewright_tcp_cost::energy::Component::ALL`.
    pub energy_fj: [u128; COMPONENTS],
    /// How busy each kind of engine was; collect, cast and transpose only if something used them.
    pub utilisation: Vec<EngineUse>,
    /// Commands that were lost because a queue was full, the first of them.
    pub overflows: Vec<QueueOverflow>,
    /// How many were lost.
    pub lost_commands: u64,
    /// Cycles that cores, queues and doorbells took.
    pub latency_cycles: u128,
    /// What should hold but does not: always empty, or this simulator is wrong.
    pub violations: Vec<Violation>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// All cores reached their end, and all commands are done.
    Finished,
    /// Nothing can go on: who waits for whom, from the first core that waits until the chain closes or ends.
    Deadlock(Vec<BlockedCore>),
    /// An observer stopped it.
    Stopped,
}

/// A core that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockedCore {
    /// Whose.
    pub pe: PeId,
    /// The step it waits in.
    pub span: Span,
    /// For what.
    pub on: WaitReason,
}

/// What a core waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// A message of another core.
    Message(PeId),
    /// Room in its queue.
    Room,
    /// Its queue and all commands to end.
    Sync,
    /// One command to end.
    Command {
        /// A transfer, or else an execution.
        transfer: bool,
        /// Its id.
        id: u8,
    },
}

/// A command that was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueOverflow {
    /// Whose queue was full.
    pub pe: PeId,
    /// The step that pushed.
    pub span: Span,
    /// The cycle at which it happened.
    pub at_cycles: u64,
}

/// What can be busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EngineUnit {
    /// Main context.
    Main,
    /// Sub context.
    Sub,
    /// DMA engine.
    Dma,
    /// Fetch units of both contexts.
    Fetch,
    /// Switch engines of both contexts.
    Switch,
    /// Contraction engine.
    Contraction,
    /// Vector engine.
    Vector,
    /// Commit units of both contexts, register files included.
    Commit,
    /// Collect of both contexts.
    Collect,
    /// Cast engine.
    Cast,
    /// Transpose engines of both contexts.
    Transpose,
}

impl EngineUnit {
    /// All of them.
    pub const ALL: [EngineUnit; 11] = [
        EngineUnit::Main,
        EngineUnit::Sub,
        EngineUnit::Dma,
        EngineUnit::Fetch,
        EngineUnit::Switch,
        EngineUnit::Contraction,
        EngineUnit::Vector,
        EngineUnit::Commit,
        EngineUnit::Collect,
        EngineUnit::Cast,
        EngineUnit::Transpose,
    ];

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            EngineUnit::Main => "main",
            EngineUnit::Sub => "sub",
            EngineUnit::Dma => "dma",
            EngineUnit::Fetch => "fetch",
            EngineUnit::Switch => "switch",
            EngineUnit::Contraction => "contraction",
            EngineUnit::Vector => "vector",
            EngineUnit::Commit => "commit",
            EngineUnit::Collect => "collect",
            EngineUnit::Cast => "cast",
            EngineUnit::Transpose => "transpose",
        }
    }

    /// How many a PE has: one for each context, or one in all.
    pub const fn units(self) -> u64 {
        match self {
            EngineUnit::Fetch
            | EngineUnit::Switch
            | EngineUnit::Commit
            | EngineUnit::Collect
            | EngineUnit::Transpose => 2,
            _ => 1,
        }
    }

    /// It is told of only where something used it.
    pub(crate) const fn if_used(self) -> bool {
        matches!(self, EngineUnit::Collect | EngineUnit::Cast | EngineUnit::Transpose)
    }
}

/// How busy a kind of engine was, over all PEs that took part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineUse {
    /// The kind of engine.
    pub engine: EngineUnit,
    /// Cycles in which it was busy, summed over PEs.
    pub busy_cycles: u128,
    /// Cycles that all of them had.
    pub available_cycles: u128,
}

impl EngineUse {
    /// Busy cycles as parts per million of all, rounded down.
    pub fn ppm(&self) -> u64 {
        let parts = self.busy_cycles.exact_mul(1_000_000).checked_div(self.available_cycles);
        parts.and_then(|parts| u64::try_from(parts).ok()).unwrap_or(0)
    }
}
