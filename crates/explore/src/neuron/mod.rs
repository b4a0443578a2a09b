//! The NeuronCore as a target: tilings of an einsum onto the tensor engine (NKI architecture guide;
//! docs/hardware-rules.md#neuroncore).
//!
//! - [`task`]: the einsum on a chip, as a matmul for each batch position; [`walk`]: what the search asks for;
//! - [`point`]: a candidate; [`blocked_axis`]: an axis in blocks of tiles; [`space`]: which candidates there
//!   are;
//! - [`memory_use`]: what a candidate takes of SBUF and PSUM;
//! - [`instruction_cost`], [`cost_table`]: what single instructions take, asked of the engine;
//! - [`timing`]: when they run; [`count`]: how many there are; [`bound`]: what candidates take at least;
//! - [`exhaustive`]: the whole space without bounds, the reference of the search;
//! - [`report`], [`explain`](mod@explain): one candidate in numbers and in words;
//! - [`program`]: a candidate as instructions that have run.
//!
//! Operands start in HBM with the contracted axis outermost, as the loads of the tensor engine want them, and
//! results go back there with the stationary operand's axis outermost. What brings them into that order is
//! not counted.

pub mod blocked_axis;
pub mod bound;
pub mod cost_table;
pub mod count;
pub mod exhaustive;
pub mod explain;
pub mod instruction_cost;
pub mod memory_use;
pub mod point;
pub mod program;
pub mod report;
pub mod space;
pub mod task;
pub mod timing;
pub mod walk;

pub use point::{NeuronChoice, NeuronFrame};
pub use report::NeuronReport;
pub use task::NeuronTask;

/// A legal candidate with its cost.
pub type NeuronCandidate = crate::goal::Candidate<NeuronChoice>;
/// What a search found.
pub type NeuronSearchResult = crate::search::SearchResult<NeuronFrame, NeuronChoice>;
