//! The contraction engine's limits: tree depth, surviving outputs, accumulators (paper section IV-C; drain orders from the vISA book).

use tilewright_machine::tcp::Tcp;

/// How many partial sums each output of the tree can keep while the loops inside a reduced loop run.
///
/// Interleaved drain gives every lane an equal part of the cells for its columns; sequential drain takes
/// one lane after the other. The better of the two is what a tactic may use.
pub fn slot_capacity(machine: &Tcp, lanes: u64, columns: u64) -> u64 {
    let interleaved = machine.accumulators() / (machine.ce.lanes * columns.max(1));
    let sequential = machine.ce.outputs_per_lane / lanes.max(1);
    interleaved.max(sequential)
}

/// Levels of the adder tree that sum `elements` neighbours.
pub fn tree_depth(elements: u64) -> u32 {
    elements.max(1).next_power_of_two().trailing_zeros()
}
