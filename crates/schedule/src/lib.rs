//! The part of the compiler that needs simulated time. The simulator does not know it.
//!
//! - [`timing`]: stage 5. When each command of a compiled program runs, what lies where until when, the bound
//!   of any order of the same commands, and what keeps this one from it;
//! - [`tune`]: autotuning. Compiles a model with different choices, simulates its programs, and keeps what a
//!   goal of the explorer ranks best.

pub mod timing;
pub mod tune;

pub use timing::{TimedSchedule, schedule};
