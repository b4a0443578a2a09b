//! The tactic explorer: from an einsum to the lowered shapes and tactics that are best on a machine (paper sections V-B and VII).
//!
//! - [`task`]: the einsum, its axes by what happens to them;
//! - [`point`], [`nest`]: a candidate and the loop sizes that follow from it;
//! - [`space`]: which candidates there are;
//! - [`legality`], [`refusal`]: which of them fit, and by how much the others miss;
//! - [`cost`], [`events`]: cycles and energy, through the closed forms of the engine;
//! - [`bound`]: what candidates take at least;
//! - [`goal`], [`search`](mod@search): the best and the front, exactly; [`cloud`]: where all others lie;
//! - [`plain`]: the same without bounds or shortcuts, to judge the search by;
//! - [`section`]: the space of the paper's figures 14 and 15, by its own closed forms;
//! - [`told`], [`explain`](mod@explain): one candidate in numbers and in words;
//! - [`neighbours`]: candidates between given shapes, with their bridges;
//! - [`spell`], [`program`]: a candidate as lowered shapes and a tactic, and as commands.
//!
//! Nothing here reads a clock or a file; results are the same for any number of threads.

pub mod bound;
pub mod cloud;
pub mod cost;
pub mod events;
pub mod explain;
pub mod goal;
pub mod legality;
pub mod neighbours;
pub mod nest;
pub mod plain;
pub mod point;
pub mod program;
pub mod refusal;
pub mod search;
pub mod section;
pub mod space;
pub mod spell;
pub mod task;
pub mod told;

pub use goal::{Candidate, Goal, Kept};
pub use point::{Choice, Frame, Nest};
pub use search::{Found, Options, search};
pub use task::Task;
pub use told::Told;
