//! When the instructions of a NeuronCore program run, and what can be told from that. It knows no values.
//!
//! - [`compiler`]: what the compiler of the first dialect changes before;
//! - [`schedule`]: when each instruction runs on the real engines; [`ScheduledProgram`]: both together;
//! - [`analysis`]: utilisation, critical path, energy, suggestions;
//! - [`occupancy`]: memories, HBM and power over time; [`trace`]: the timeline as a Perfetto trace;
//! - [`findings`]: what is wrong though it ran.

pub mod analysis;
pub mod compiler;
pub mod findings;
pub mod occupancy;
pub mod schedule;
mod scheduled_program;
pub mod trace;

pub use scheduled_program::ScheduledProgram;
