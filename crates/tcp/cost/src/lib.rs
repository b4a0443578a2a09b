//! The Tensor Contraction Processor in closed form: what is legal, how long it takes and how much energy
//! (ISCA 2024 paper; vISA book).
//!
//! - [`setup`]: a machine, how many of its PEs are fused, and the element type of a contraction;
//! - [`placed_tactic`]: a tactic with every loop digit placed on slices, time, lanes or packet;
//! - [`groups`]: how an einsum with subscripts is sharded over groups of PEs;
//! - [`legality`]: whether lowered shapes and a tactic can run, rule by rule, with what to write instead;
//! - [`banks`]: how long accesses hold a bank of data memory;
//! - [`cycles`]: how long each engine, a whole command or a transfer takes;
//! - [`energy`]: what each command counts, and the energy of it by component.

pub mod banks;
pub mod cycles;
pub mod energy;
pub mod groups;
pub mod legality;
pub mod placed_tactic;
pub mod setup;

pub use legality::{Verdict, check};
pub use placed_tactic::PlacedTactic;
pub use setup::Setup;
