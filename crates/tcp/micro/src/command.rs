//! What is simulated: a command as the closed forms describe it, and what they do not need to know.

use tilewright_tcp_cost::cycles::CommandStages;

use crate::banks::AccessWalk;
use crate::contraction::Accumulators;
use crate::register_file::RegisterReads;

/// A command of one context, the same on every slice of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MicroCommand {
    /// Stages and their sizes.
    pub command: CommandStages,
    /// Where the fetch unit reads.
    pub fetch: AccessWalk,
    /// Where the commit unit writes.
    pub commit: AccessWalk,
    /// Fetch and commit unit meet in no bank, as the closed forms assume; otherwise they do where they walk.
    pub banks_apart: bool,
    /// What the contraction reads from the register file.
    pub reads: RegisterReads,
    /// Steps in a row that add to one slot of the accumulators.
    pub inner_steps: u64,
    /// Where sums wait.
    pub accumulators: Accumulators,
}

impl MicroCommand {
    /// A command that reads and writes data memory from its start on, without a gap.
    pub fn new(command: CommandStages) -> MicroCommand {
        let fetch_bytes = command.fetch.map_or(0, |fetch| fetch.read_bytes);
        let commit_bytes = command.commit.map_or(0, |commit| commit.write_bytes);
        MicroCommand {
            command,
            fetch: AccessWalk { base_bytes: 0, stride_bytes: fetch_bytes },
            commit: AccessWalk { base_bytes: 0, stride_bytes: commit_bytes },
            banks_apart: true,
            reads: RegisterReads { wide: true, held_steps: 1, units: 1, stride_units: 1 },
            inner_steps: 1,
            accumulators: Accumulators::Copied,
        }
    }
}

/// How long it took, from the first access of any fetch unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MicroOutcome {
    /// Cycles until the last write of the main context.
    pub main_cycles: u64,
    /// Cycles until the last write of the sub context.
    pub sub_cycles: u64,
    /// Steps of the main contraction whose register file read missed the cache, on one slice.
    pub missed_steps: u64,
}

impl MicroOutcome {
    /// Cycles until the last write.
    pub fn cycles(&self) -> u64 {
        self.main_cycles.max(self.sub_cycles)
    }
}

/// Why a command cannot be simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MicroError {
    /// A command fetches nothing, and is neither a fill nor a direct load.
    #[error("a command without a fetch, a commit or a register file load")]
    NoFetch,
    /// A command writes nothing.
    #[error("a command without a commit or a register file load")]
    NoSink,
    /// Stages do not agree on how many flits pass between them.
    #[error("{given} flits where the next stage takes {taken}")]
    Flits {
        /// Flits that arrive.
        given: u64,
        /// Flits that are taken.
        taken: u64,
    },
    /// More slices, or more work, than a simulation by the cycle is for.
    #[error("more than {most} {what}")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// As much as there may be.
        most: u64,
    },
    /// An address at which no memory that takes part lies.
    #[error("no memory of this simulation at address {0:#x}")]
    NoMemory(u64),
    /// Nothing moves any more.
    #[error("stuck in cycle {0}")]
    Stuck(u64),
}
