//! When the instructions of a NeuronCore program run, and what can be told from that. It knows no values.
//!
//! - [`compiler`]: what the compiler of the first dialect changes before;
//! - [`schedule`]: when each instruction runs on the real engines; [`run`]: both together;
//! - [`reading`]: utilisation, critical path, energy, suggestions;
//! - [`trace`]: the timeline as a Perfetto trace;
//! - [`findings`]: what is wrong though it ran.

pub mod compiler;
pub mod findings;
pub mod reading;
pub mod run;
pub mod schedule;
#[cfg(test)]
mod testing;
pub mod trace;
