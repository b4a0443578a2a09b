//! One contraction as the tensor unit runs it: what its sequencers step through, and the values that this gives.
//!
//! - [`table`]: the loops of a tactic refined until each has one meaning for every operand; a column is a sequencer;
//! - [`lower`]: from shapes and a placed tactic to the table;
//! - [`values`]: the table followed literally over the memories of the slices.

pub mod lower;
pub mod table;
pub mod values;

pub use lower::lower;
pub use table::Table;
