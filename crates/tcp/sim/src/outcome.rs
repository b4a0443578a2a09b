//! What a run gives back, and what it may be asked for.

use tilewright_base::Span;
use tilewright_record::Record;
use tilewright_tcp_cost::energy::{COMPONENTS, EnergyCounts};
use tilewright_tcp_isa::program::event::PeId;

use crate::checks::Violation;
use crate::images::ImageUse;

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
pub struct Options {
    /// How much is recorded.
    pub detail: Detail,
    /// Steps that all control cores together may take.
    pub max_steps: u64,
    /// Runs [`crate::checks`] at the end.
    pub check: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { detail: Detail::Everything, max_steps: 1 << 27, check: cfg!(debug_assertions) }
    }
}

/// A run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Tracks, counters and energy over time.
    pub record: Record,
    /// How it ended.
    pub ended: Ended,
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
    pub overflows: Vec<Overflow>,
    /// How many were lost.
    pub lost_commands: u64,
    /// Cycles that cores, queues and doorbells took.
    pub latency_cycles: u128,
    /// What should hold but does not: always empty, or this simulator is wrong.
    pub violations: Vec<Violation>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All cores reached their end, and all commands are done.
    Finished,
    /// Nothing can go on: who waits for whom, from the first core that waits until the chain closes or ends.
    Deadlock(Vec<Waiting>),
    /// A judge stopped it.
    Stopped,
}

/// A core that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Whose.
    pub pe: PeId,
    /// The step it waits in.
    pub span: Span,
    /// For what.
    pub on: WaitsFor,
}

/// What a core waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
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
pub struct Overflow {
    /// Whose queue was full.
    pub pe: PeId,
    /// The step that pushed.
    pub span: Span,
    /// When.
    pub at_cycles: u64,
}

/// What can be busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Engine {
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

impl Engine {
    /// All of them.
    pub const ALL: [Engine; 11] = [
        Engine::Main,
        Engine::Sub,
        Engine::Dma,
        Engine::Fetch,
        Engine::Switch,
        Engine::Contraction,
        Engine::Vector,
        Engine::Commit,
        Engine::Collect,
        Engine::Cast,
        Engine::Transpose,
    ];

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Engine::Main => "main",
            Engine::Sub => "sub",
            Engine::Dma => "dma",
            Engine::Fetch => "fetch",
            Engine::Switch => "switch",
            Engine::Contraction => "contraction",
            Engine::Vector => "vector",
            Engine::Commit => "commit",
            Engine::Collect => "collect",
            Engine::Cast => "cast",
            Engine::Transpose => "transpose",
        }
    }

    /// How many a PE has: one for each context, or one in all.
    pub const fn units(self) -> u64 {
        match self {
            Engine::Fetch | Engine::Switch | Engine::Commit | Engine::Collect | Engine::Transpose => 2,
            _ => 1,
        }
    }

    /// It is told of only where something used it.
    pub(crate) const fn if_used(self) -> bool {
        matches!(self, Engine::Collect | Engine::Cast | Engine::Transpose)
    }
}

/// How busy a kind of engine was, over all PEs that took part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineUse {
    /// Which.
    pub engine: Engine,
    /// Cycles in which it was busy, summed over PEs.
    pub busy_cycles: u128,
    /// Cycles that all of them had.
    pub available_cycles: u128,
}

impl EngineUse {
    /// Busy cycles as parts per million of all, rounded down.
    pub fn ppm(&self) -> u64 {
        let parts = self.busy_cycles.saturating_mul(1_000_000).checked_div(self.available_cycles);
        parts.and_then(|parts| u64::try_from(parts).ok()).unwrap_or(0)
    }
}
