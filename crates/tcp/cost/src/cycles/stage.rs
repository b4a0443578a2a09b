//! The stages of a tensor unit command, as the closed forms of the engines take them.

use tilewright_tcp_isa::contraction::ContractionStage;
use tilewright_tcp_isa::transpose::TransposeStage;

use super::cast::Cast;
use super::collect::Collect;
use super::commit::Commit;
use super::fetch::Fetch;
use super::load::Load;
use super::switch::Switch;
use super::vector::Vector;

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
    pub contraction: Option<ContractionStage>,
    /// Vector engine.
    pub vector: Option<Vector>,
    /// Cast engine.
    pub cast: Option<Cast>,
    /// Transpose engine.
    pub transpose: Option<TransposeStage>,
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

    /// Its name in tables and traces.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Fetch => "fetch",
            Stage::Switch => "switch",
            Stage::Collect => "collect",
            Stage::Contraction => "contraction",
            Stage::Drain => "drain",
            Stage::Vector => "vector",
            Stage::Cast => "cast",
            Stage::Transpose => "transpose",
            Stage::Commit => "commit",
            Stage::Load => "load",
        }
    }
}
