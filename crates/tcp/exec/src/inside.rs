//! Parts that tests of this crate look at alone; nobody else uses them.
//!
//! Tests of private functions would have the whole crate built a second time.

pub use crate::byte_runs::{ByteRun, EvenRuns, RunSide};
pub use crate::copy::listed;
pub use crate::state::overlay::{ByteSource, Overlay};
pub use crate::state::pages::{HbmPages, PAGE_BYTES};
pub use crate::values::dot::dot_i8;
pub use crate::values::single_row::SingleRow;
pub use crate::walk::OffsetWalk;
