//! The TCP as a target: lowered shapes and tactics (paper sections V-B and VII).
//!
//! - [`task`]: the einsum on a setup; [`walk`]: what the search asks for;
//! - [`point`], [`nest`]: a candidate and the loop sizes that follow from it; [`space`]: which candidates
//!   there are;
//! - [`legality`]: which of them fit; [`cost`], [`events`]: cycles and energy, through the closed forms of
//!   the engine;
//! - [`nest_cost`]: what orders of loops share of them;
//! - [`operand_transfers`]: operands that start in off-chip memory;
//! - [`bound`]: what candidates take at least; [`exhaustive`]: the same space without bounds or shortcuts,
//!   the reference of the search;
//! - [`contractions`]: contractions by themselves, for the paper's figures 14 and 15;
//! - [`report`], [`explain`](mod@explain): one candidate in numbers and in words;
//! - [`neighbours`]: candidates between given shapes, with their bridges;
//! - [`remedy`]: what to change where nothing is legal;
//! - [`spell`], [`program`]: a candidate as lowered shapes and a tactic, and as commands.

pub mod bound;
pub mod contractions;
pub mod cost;
pub mod events;
pub mod exhaustive;
pub mod explain;
pub mod legality;
pub mod neighbours;
pub mod nest;
pub mod nest_cost;
pub mod operand_transfers;
pub mod point;
pub mod program;
pub mod remedy;
pub mod report;
pub mod space;
pub mod spell;
pub mod task;
pub mod walk;

pub use point::{LoopNest, TcpChoice, TcpFrame};
pub use report::TcpReport;
pub use task::TcpTask;

/// A legal candidate with its cost.
pub type TcpCandidate = crate::goal::Candidate<TcpChoice>;
/// What a search found.
pub type TcpSearchResult = crate::search::SearchResult<TcpFrame, TcpChoice>;
