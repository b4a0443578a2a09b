//! The contraction engine's limits: tree depth, surviving outputs, accumulators (paper section IV-C; drain orders from the vISA book).

use tilewright_machine::tcp::Tcp;

use crate::cost::contraction::Drain;
use crate::program::exec::Contract;

/// How many partial sums each output of the tree can keep while the loops inside a reduced loop run.
///
/// The better of the two drain orders is what a tactic may use.
pub fn slot_capacity(machine: &Tcp, lanes: u64, columns: u64) -> u64 {
    let of = |drain| drain_capacity(machine, drain, lanes, columns);
    of(Drain::Interleaved).max(of(Drain::Sequential))
}

/// The same for one drain order: interleaved gives every lane an equal part of the cells for its columns, sequential takes one lane
/// after the other.
pub fn drain_capacity(machine: &Tcp, drain: Drain, lanes: u64, columns: u64) -> u64 {
    match drain {
        Drain::Interleaved => machine.accumulators() / (machine.ce.lanes * columns.max(1)),
        Drain::Sequential => machine.ce.outputs_per_lane / lanes.max(1),
    }
}

/// Elements of a packet that meet the register file in each step: its walk says how many. The rest of a packet is inactive.
/// `None` if the walk does not come out even.
pub fn active_elements(contract: &Contract) -> Option<u64> {
    let product = |sizes: &mut dyn Iterator<Item = u64>| sizes.fold(1_u64, u64::saturating_mul);
    let walked = product(&mut contract.loops.iter().map(|row| row.size.fixed()));
    let steps = product(&mut contract.steps.iter().map(|step| step.size.fixed()));
    (steps > 0 && walked.is_multiple_of(steps)).then(|| walked / steps)
}

/// Levels of the adder tree that sum `elements` neighbours.
pub fn tree_depth(elements: u64) -> u32 {
    elements.max(1).next_power_of_two().trailing_zeros()
}
