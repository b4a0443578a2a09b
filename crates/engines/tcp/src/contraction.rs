//! The contraction engine's limits: tree depth, surviving outputs, accumulators (paper section IV-C; drain orders from the vISA book).

use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;

use crate::cost::contraction::Drain;
use crate::memory::payload_bits;
use crate::program::exec::{Contract, StepLoop};

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

/// The steps of a contraction in groups: the outermost summed loop and all inside it are one group, the loops outside it repeat it.
/// Without a summed loop each step is a group of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepGroups {
    /// Groups.
    pub groups: u64,
    /// Steps of a group.
    pub steps: u64,
    /// Sums that are open in a group: steps of its surviving loops.
    pub open: u64,
}

impl StepGroups {
    /// Of a contraction whose sizes are numbers.
    pub fn of(steps: &[StepLoop]) -> StepGroups {
        let first = steps.iter().position(|step| step.summed).unwrap_or(steps.len());
        let (outer, inner) = steps.split_at(first);
        let product = |steps: &mut dyn Iterator<Item = &StepLoop>| {
            steps.fold(1_u64, |all, step| all.saturating_mul(step.size.fixed()))
        };
        StepGroups {
            groups: product(&mut outer.iter()),
            steps: product(&mut inner.iter()),
            open: product(&mut inner.iter().filter(|step| !step.summed)),
        }
    }

    /// Steps of all groups.
    pub fn all_steps(&self) -> u64 {
        self.groups.saturating_mul(self.steps)
    }
}

/// Elements of a type in the packets of a contraction: as many as its flits hold.
pub fn packet_elements(machine: &Tcp, dtype: Dtype, contract: &Contract) -> u64 {
    let bits = contract.flits.saturating_mul(machine.network.flit_bytes).saturating_mul(8);
    bits / payload_bits(dtype).max(1)
}

/// Levels of the adder tree that sum `elements` neighbours.
pub fn tree_depth(elements: u64) -> u32 {
    elements.max(1).next_power_of_two().trailing_zeros()
}

/// The most elements between windows of the feed unit's convolution mode; the first starts at most half as many before the buffer
/// (vISA book, contraction engine).
pub fn shift_max(machine: &Tcp, dtype: Dtype) -> u64 {
    match payload_bits(dtype) {
        4 => machine.ce.int4_shift_max,
        8 => machine.ce.int8_shift_max,
        _ => machine.ce.bf16_shift_max,
    }
}
