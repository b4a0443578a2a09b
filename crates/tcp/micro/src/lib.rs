//! A slice of the Tensor Contraction Processor and a ring of up to 64 slices, cycle by cycle, with bounded
//! queues and back-pressure.
//!
//! Its one purpose is to verify the closed forms of `tilewright_tcp_cost::cycles`: it takes their
//! descriptions of commands, calls none of their formulas, and counts the cycles from the first access of the
//! fetch unit to the last write. What a command costs before its first access is not simulated. Flits carry
//! no data. [`dma`] does the same for transfers, request by request. No product uses this crate.

mod banks;
mod command;
mod contraction;
pub mod dma;
mod fetch;
mod fifo;
pub mod gap;
mod pipeline;
mod register_file;
mod ring;
pub mod sample;
mod simulate;
mod sink;
mod stages;
mod topology;

pub use banks::AccessWalk;
pub use command::{MicroCommand, MicroError, MicroOutcome};
pub use contraction::Accumulators;
pub use register_file::RegisterReads;
pub use simulate::{CYCLES_MAX, SLICES_MAX, run};
