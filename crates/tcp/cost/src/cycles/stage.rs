//! The stages of a tensor unit command, as the closed forms of the engines take them.

use tilewright_tcp_isa::contraction::ContractionStage;
use tilewright_tcp_isa::transpose::TransposeStage;

use super::cast::CastStage;
use super::collect::CollectStage;
use super::commit::CommitStage;
use super::fetch::FetchStage;
use super::load::LoadStage;
use super::switch::SwitchStage;
use super::vector::VectorStage;

/// The stages that a command uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandStages {
    /// Fetch unit.
    pub fetch: Option<FetchStage>,
    /// Switch engine.
    pub switch: Option<SwitchStage>,
    /// Collect.
    pub collect: Option<CollectStage>,
    /// Contraction engine, with its drain.
    pub contraction: Option<ContractionStage>,
    /// Vector engine.
    pub vector: Option<VectorStage>,
    /// Cast engine.
    pub cast: Option<CastStage>,
    /// Transpose engine.
    pub transpose: Option<TransposeStage>,
    /// Commit unit.
    pub commit: Option<CommitStage>,
    /// Register files, where they are what is written.
    pub load: Option<LoadStage>,
}

/// A stage of a command, in the order in which data passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PipelineStage {
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

impl PipelineStage {
    /// All stages.
    pub const ALL: [PipelineStage; 10] = [
        PipelineStage::Fetch,
        PipelineStage::Switch,
        PipelineStage::Collect,
        PipelineStage::Contraction,
        PipelineStage::Drain,
        PipelineStage::Vector,
        PipelineStage::Cast,
        PipelineStage::Transpose,
        PipelineStage::Commit,
        PipelineStage::Load,
    ];

    /// Its name in tables and traces.
    pub fn name(self) -> &'static str {
        match self {
            PipelineStage::Fetch => "fetch",
            PipelineStage::Switch => "switch",
            PipelineStage::Collect => "collect",
            PipelineStage::Contraction => "contraction",
            PipelineStage::Drain => "drain",
            PipelineStage::Vector => "vector",
            PipelineStage::Cast => "cast",
            PipelineStage::Transpose => "transpose",
            PipelineStage::Commit => "commit",
            PipelineStage::Load => "load",
        }
    }
}
