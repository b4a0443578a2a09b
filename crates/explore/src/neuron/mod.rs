//! The NeuronCore as a target: tilings of an einsum onto the tensor engine (NKI architecture guide;
//! docs/hardware-rules.md#neuroncore).
//!
//! - [`task`]: the einsum on a chip, as a matmul for each batch position; [`walk`]: what the search asks for;
//! - [`point`]: a candidate; [`cut`]: an axis in blocks of tiles; [`space`]: which candidates there are;
//! - [`room`]: what a candidate takes of SBUF and PSUM;
//! - [`facts`], [`table`]: what single instructions take, asked of the engine;
//! - [`timing`]: when they run; [`count`]: how many there are; [`bound`]: what candidates take at least;
//! - [`plain`]: the whole space without bounds, to judge the search by;
//! - [`told`], [`explain`](mod@explain): one candidate in numbers and in words;
//! - [`program`]: a candidate as instructions that have run.
//!
//! Operands start in HBM with the contracted axis outermost, as the loads of the tensor engine want them, and results go back there with
//! the stationary operand's axis outermost. What brings them into that order is not counted.

pub mod bound;
pub mod count;
pub mod cut;
pub mod explain;
pub mod facts;
pub mod plain;
pub mod point;
pub mod program;
pub mod room;
pub mod space;
pub mod table;
pub mod task;
pub mod timing;
pub mod told;
pub mod walk;

pub use point::{Choice, Frame};
pub use task::Task;
pub use told::Told;

/// A legal candidate with its cost.
pub type Candidate = crate::goal::Candidate<Choice>;
/// What a search found.
pub type Found = crate::search::Found<Frame, Choice>;
