//! The Tensor Contraction Processor of the ISCA 2024 paper: the rules of its engines, each written once.
//!
//! - [`setup`]: a machine, how many of its PEs are fused, and the element type of a contraction;
//! - [`contraction`], [`sequencer`], [`banks`], [`memory`]: limits of single engines;
//! - [`groups`]: how an einsum with subscripts is dealt out over groups of PEs;
//! - [`placed`]: a tactic with every loop digit placed on slices, time, lanes or packet;
//! - [`lower`](mod@lower): from low-level einsum to a command program;
//! - [`kernels`]: programs of the layers that models are made of, by hand: norms, activations, attention;
//! - [`program`]: register images, transfers and control steps: what everything that runs is made of;
//! - [`vector`]: which chains the vector engine can hold, and what follows from one;
//! - [`verify`]: whether registers can hold a program and its queues make sense;
//! - [`footprint`]: the bytes that a command reads and writes;
//! - [`findings`]: races and other faults of a run;
//! - [`values`]: the same sums as bulk kernels, bit for bit;
//! - [`run`]: what single commands of a program do to the memories, value by value;
//! - [`cost`]: how long each engine, a whole command or a transfer takes;
//! - [`energy`]: what each command counts, and the energy of it by component;
//! - [`legality`]: whether lowered shapes and a tactic can run, rule by rule, with what to write instead.

pub mod banks;
pub mod contraction;
pub mod cost;
pub mod energy;
pub mod findings;
pub mod flow;
pub mod footprint;
pub mod groups;
pub mod kernels;
pub mod legality;
pub mod lower;
pub mod memory;
pub mod placed;
pub mod program;
pub mod run;
pub mod sequencer;
pub mod setup;
pub mod switch;
pub mod transpose;
pub mod values;
pub mod vector;
pub mod verify;

pub use legality::{Verdict, check};
pub use placed::Placed;
pub use setup::Setup;
pub use verify::verify;
