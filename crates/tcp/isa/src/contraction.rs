//! The contraction engine: types, packets, steps and sums of a command, and the limits of tree and
//! accumulators (paper section IV-C; drain orders from the vISA book).

use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;

use crate::capped::Capped;
use crate::memory::payload_bits;
use crate::program::exec::{Contract, Drain, StepLoop, Stream};

/// How many partial sums each output of the tree can keep while the loops inside a reduced loop run.
///
/// The better of the two drain orders is what a tactic may use.
pub fn slot_capacity(machine: &Tcp, lanes: u64, columns: u64) -> u64 {
    let of = |drain| drain_capacity(machine, drain, lanes, columns);
    of(Drain::Interleaved).max(of(Drain::Sequential))
}

/// How many partial sums each output of the tree can keep with one drain order: interleaved gives every lane
/// an equal part of the cells for its columns, sequential takes one lane after the other.
pub fn drain_capacity(machine: &Tcp, drain: Drain, lanes: u64, columns: u64) -> u64 {
    match drain {
        Drain::Interleaved => machine.accumulators() / (machine.ce.lanes * columns.max(1)),
        Drain::Sequential => machine.ce.outputs_per_lane / lanes.max(1),
    }
}

/// Types that the contraction engine multiplies (paper section IV-C).
pub const CONTRACTED: [Dtype; 7] =
    [Dtype::I4, Dtype::I5, Dtype::I8, Dtype::I9, Dtype::F8E4M3Fn, Dtype::F8E5M2, Dtype::Bf16];

/// Elements of a full packet, and multiplications of a lane in one cycle (paper section IV-C); 0 for a type
/// that the contraction engine does not multiply.
pub fn full_packet_elements(machine: &Tcp, dtype: Dtype) -> u64 {
    let ce = &machine.ce;
    match dtype {
        Dtype::I4 | Dtype::I5 => ce.int4_elements,
        Dtype::I8 | Dtype::I9 => ce.int8_elements,
        Dtype::F8E4M3Fn | Dtype::F8E5M2 => ce.fp8_elements,
        Dtype::Bf16 => ce.bf16_elements,
        _ => 0,
    }
}

/// Elements of a packet that meet the register file in each step: its walk says how many. The rest of a
/// packet is inactive. `None` if the walk does not come out even.
pub fn active_elements(contract: &Contract) -> Option<u64> {
    let product = |sizes: &mut dyn Iterator<Item = u64>| sizes.fold(1_u64, u64::capped_mul);
    let walked = product(&mut contract.loops.iter().map(|row| row.size.fixed()));
    let steps = product(&mut contract.steps.iter().map(|step| step.size.fixed()));
    (steps > 0 && walked.is_multiple_of(steps)).then(|| walked / steps)
}

/// The steps of a contraction in groups: the outermost summed loop and all inside it are one group, the loops
/// outside it repeat it. Without a summed loop each step is a group of its own.
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
            steps.fold(1_u64, |all, step| all.capped_mul(step.size.fixed()))
        };
        StepGroups {
            groups: product(&mut outer.iter()),
            steps: product(&mut inner.iter()),
            open: product(&mut inner.iter().filter(|step| !step.summed)),
        }
    }

    /// Steps of all groups.
    pub fn all_steps(&self) -> u64 {
        self.groups.capped_mul(self.steps)
    }
}

/// What a command contracts on each slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContractionStage {
    /// Elements of a full packet of the type: [`full_packet_elements`].
    pub packet_elements: u64,
    /// Bytes of the streamed packet, one or two flits.
    pub packet_bytes: u64,
    /// Consecutive steps for which the feed unit holds a packet.
    pub repeats: u64,
    /// Groups of sums: the time loops around those that a group accumulates over.
    pub groups: u64,
    /// Steps of the time loops of a group, after packing, repeats included.
    pub group_steps: u64,
    /// Steps of them that survive the accumulation.
    pub group_output_steps: u64,
    /// Lanes in use.
    pub lanes: u64,
    /// Columns: sums that leave a lane's tree in one step.
    pub columns: u64,
    /// The order in which sums leave.
    pub drain: Drain,
}

impl ContractionStage {
    /// The contraction of a stream, from its registers.
    pub fn of(machine: &Tcp, stream: &Stream, contract: &Contract) -> ContractionStage {
        let dtype = stream.fetch.leaves();
        let flit_bytes = machine.network.flit_bytes;
        let active = active_elements(contract).unwrap_or_else(|| packet_elements(machine, dtype, contract));
        let groups = StepGroups::of(&contract.steps);
        let (repeats, flits) = match contract.shift {
            Some(shift) => (shift.shifts.capped_mul(contract.repeats.fixed()), shift.pop),
            None => (contract.repeats.fixed(), contract.flits),
        };
        ContractionStage {
            packet_elements: full_packet_elements(machine, dtype),
            packet_bytes: flits.capped_mul(flit_bytes),
            repeats,
            groups: groups.groups,
            group_steps: groups.steps,
            group_output_steps: groups.open,
            lanes: contract.lanes,
            columns: active.div_ceil(contract.tree.max(1)).min(machine.ce.outputs_per_lane),
            drain: contract.drain,
        }
    }

    /// Flits of sums that leave one group, at the drain's fixed width.
    pub fn group_drained_flits(&self, machine: &Tcp) -> u64 {
        let step_flits = match self.drain {
            Drain::Interleaved => self.columns,
            Drain::Sequential => {
                let lane_flits = self.columns.div_ceil(machine.ce.drain_elements_per_cycle);
                self.lanes.capped_mul(lane_flits)
            }
        };
        self.group_output_steps.capped_mul(step_flits)
    }

    /// Flits of sums that leave all groups.
    pub fn drained_flits(&self, machine: &Tcp) -> u64 {
        self.groups.capped_mul(self.group_drained_flits(machine))
    }
}

/// Elements of a type in the packets of a contraction: as many as its flits hold.
pub fn packet_elements(machine: &Tcp, dtype: Dtype, contract: &Contract) -> u64 {
    let bits = contract.flits.capped_mul(machine.network.flit_bytes).capped_mul(8);
    bits / payload_bits(dtype).max(1)
}

/// Levels of the adder tree that sum `elements` neighbours.
pub fn tree_depth(elements: u64) -> u32 {
    elements.max(1).next_power_of_two().trailing_zeros()
}

/// The most elements between windows of the feed unit's convolution mode; the first starts at most half as
/// many before the buffer (vISA book, contraction engine).
pub fn shift_max(machine: &Tcp, dtype: Dtype) -> u64 {
    match payload_bits(dtype) {
        4 => machine.ce.int4_shift_max,
        8 => machine.ce.int8_shift_max,
        _ => machine.ce.bf16_shift_max,
    }
}
