//! The least that a graph can take on so many PEs: multiply-accumulates at their peak, or bytes that must
//! cross HBM at its peak.

use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::contraction::full_packet_elements;

use super::kernel::{Kernels, Packing, Work};
use super::tactic::multiplied;

/// What a graph has to do whatever is done, on any number of PEs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeastWork {
    /// Multiply-accumulates by the type of what is multiplied.
    pub macs: Vec<(Packing, u64)>,
    /// Bytes that cross HBM.
    pub crossing_bytes: u64,
}

impl LeastWork {
    /// That of some kernels.
    pub fn of(all: &Kernels) -> LeastWork {
        let multiplied = Packing::ALL.into_iter().filter(|packing| packing.is_narrow());
        LeastWork {
            macs: multiplied.map(|packing| (packing, macs(all, packing))).collect(),
            crossing_bytes: crossing_bytes(all),
        }
    }
}

/// Multiply-accumulates of contractions of a type.
pub fn macs(all: &Kernels, operands: Packing) -> u64 {
    let of = |work: &Work| match work {
        Work::Contract { sizes, .. } if sizes.operands == operands => {
            sizes.batch * sizes.rows * sizes.columns * sizes.counted
        }
        _ => 0,
    };
    all.kernels.iter().map(|kernel| of(&kernel.work)).sum()
}

/// Bytes that cross HBM whatever is done: inputs and constants that some kernel reads, and results that some
/// kernel makes.
pub fn crossing_bytes(all: &Kernels) -> u64 {
    let bytes = |value: usize| all.values[value].host_count() * all.values[value].element_bytes();
    let read = |value: usize| all.kernels.iter().any(|kernel| kernel.reads().contains(&value));
    let given =
        (0..all.values.len()).filter(|value| !all.values[*value].origin.is_made() && read(*value)).map(bytes);
    let mut made: Vec<usize> = all.results.iter().map(|result| result.value).collect();
    made.sort_unstable();
    made.dedup();
    let made = made.into_iter().filter(|value| all.values[*value].origin.is_made()).map(bytes);
    given.chain(made).sum()
}

/// Cycles below which no program that does so much ends on so many PEs.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count of cycles from a rate"
)]
pub fn roofline_cycles(machine: &Tcp, least: &LeastWork, pes: u64) -> u64 {
    let lanes = pes * machine.pe.slices * machine.ce.lanes;
    let cycles = |(operands, macs): &(Packing, u64)| {
        let peak = lanes * full_packet_elements(machine, multiplied(*operands));
        macs.div_ceil(peak.max(1))
    };
    let per_cycle = machine.hbm_bytes_per_s() / machine.chip.clock_hz as f64;
    let crossing = (least.crossing_bytes as f64 / per_cycle).ceil() as u64;
    least.macs.iter().map(cycles).sum::<u64>().max(crossing)
}
