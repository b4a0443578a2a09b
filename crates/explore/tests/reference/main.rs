//! Judges of the explorer: the engine that checks and lowers, the simulator's counts, and a search without
//! shortcuts.

mod agrees;
mod batch;
mod contractions;
mod exhaustive;
mod llama;
mod neuron;
mod off_chip;
mod refused;
mod remedy;
mod setting;
mod widths;
