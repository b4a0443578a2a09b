//! The vector engine: which chains its registers can hold, and what follows from a chain (paper section IV-D;
//! vISA book, vector engine). What a chain computes is in `crates/tcp/exec`, how long it takes in
//! `crates/tcp/cost`.
//!
//! | file | owns |
//! |---|---|
//! | [`unit`] | stages, units, word types and operand counts of the operations |
//! | [`fault`] | what can be wrong with a chain |
//! | [`structure`](mod@structure) | rules that need no figures: order, types, operands, stash, pair, reducers |
//! | [`limits`](mod@limits) | rules that need the machine's figures |
//! | [`steps`] | groups, slots and halves of a reduction within a slice |
//! | [`shape`] | how many elements enter each operation |
//! | [`chain_counts`] | what costs and energies are computed from |
//!
//! Assumptions, besides those named in the files: units of one stage come in any order (the vendor's
//! interface asks only that each is used once); a stash may be read by the operation that keeps it;
//! conversions and the filter are no units in the sense of latency; the two groups of pair mode are joined
//! before a reduction.

pub mod chain_counts;
pub mod fault;
mod flit;
pub mod limits;
pub mod shape;
pub mod steps;
pub mod structure;
pub mod unit;

pub use chain_counts::{OpCounts, narrow, op_counts, output, units};
pub use fault::VectorFault;
pub use flit::{FLIT_WORDS, GROUP_TAG, HALF_WORDS};
pub use limits::reads;
pub use shape::{flits_out, misfit};
pub use structure::structure;
pub use unit::{VeStage, VeUnit, stage, unit};

use tilewright_machine::tcp::Tcp;

use crate::program::vector::Vector;

/// Everything that keeps a machine's registers from holding a chain. Sizes still in control registers are not
/// checked: resolve first. Whether loops fit the stream is [`misfit`]'s question.
pub fn check(machine: &Tcp, vector: &Vector) -> Vec<VectorFault> {
    let mut faults = structure(vector);
    faults.extend(limits::limits(machine, vector));
    faults
}
