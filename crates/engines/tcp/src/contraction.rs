//! The contraction engine's limits: tree depth, surviving outputs, accumulators (paper section IV-C; drain orders from the vISA book).

use tilewright_machine::tcp::Tcp;

use crate::cost::contraction::Drain;

/// How many partial sums each output of the tree can keep while the loops inside a reduced loop run.
///
/// Interleaved drain gives every lane an equal part of the cells for its columns; sequential drain takes
/// one lane after the other. The better of the two is what a tactic may use.
pub fn slot_capacity(machine: &Tcp, lanes: u64, columns: u64) -> u64 {
    let of = |drain| drain_capacity(machine, drain, lanes, columns);
    of(Drain::Interleaved).max(of(Drain::Sequential))
}

/// The same for one order of draining.
pub fn drain_capacity(machine: &Tcp, drain: Drain, lanes: u64, columns: u64) -> u64 {
    match drain {
        Drain::Interleaved => machine.accumulators() / (machine.ce.lanes * columns.max(1)),
        Drain::Sequential => machine.ce.outputs_per_lane / lanes.max(1),
    }
}

/// Levels of the adder tree that sum `elements` neighbours.
pub fn tree_depth(elements: u64) -> u32 {
    elements.max(1).next_power_of_two().trailing_zeros()
}
