//! Programs of the Tensor Contraction Processor (ISCA 2024 paper; vISA book): the program as data, and what
//! its registers mean.
//!
//! - [`program`]: register images, transfers and control steps, with their text and binary forms;
//! - [`verify`](mod@verify): whether registers can hold a program and its queues make sense;
//! - [`switch`], [`contraction`], [`vector`], [`transpose`]: what the registers of single engines say, and
//!   which of them a machine takes;
//! - [`sequencer`], [`memory`]: loops of addresses, and what elements take in the memories of a slice;
//! - [`address_space`]: what a PE may touch;
//! - [`capped`]: counts of images that may hold anything;
//! - [`flow`]: packets and flits from engine to engine;
//! - [`footprint`]: the bytes that a command reads and writes.

pub mod address_space;
pub mod capped;
pub mod contraction;
pub mod flow;
pub mod footprint;
pub mod memory;
pub mod program;
pub mod sequencer;
pub mod switch;
pub mod transpose;
pub mod vector;
pub mod verify;

pub use verify::verify;
