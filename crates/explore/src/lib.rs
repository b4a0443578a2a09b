//! The explorer: from an einsum to the lowered shapes and tactics, or the tilings, that are best on a
//! machine.
//!
//! - [`axes`]: the axes of the einsum by what happens to them;
//! - [`target`]: what a machine must say to be searched; [`tcp`] and [`neuron`] say it;
//! - [`search`](mod@search), [`goal`]: the best and the front, exactly or within a budget; [`cloud`]: where
//!   all others lie;
//! - [`refusal`]: why candidates do not fit, and by how much they miss.
//!
//! Nothing here reads a clock or a file; results are the same for any number of threads.

pub mod axes;
pub mod batch;
pub mod cloud;
pub mod cost_math;
pub mod goal;
pub mod neuron;
pub mod refusal;
pub mod search;
pub mod target;
pub mod tcp;

pub use goal::{BestCandidates, Candidate, Goal};
pub use search::{SearchOptions, SearchResult, search};
pub use target::{CostBound, SearchTarget};
