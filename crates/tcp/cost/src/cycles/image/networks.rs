//! Which data memory networks and ports of PEs a transfer uses, and for how long (vISA book, data memory
//! network; paper section III for the port): the 32 slices of a network share its rate, all slices of a PE
//! share its port to the rest of the chip.

use tilewright_machine::tcp::Tcp;

use tilewright_tcp_isa::capped::{Capped, capped};
use tilewright_tcp_isa::program::transfer::{MemoryInstance, MemoryLocation, SLICE_STRIDE};

/// A transfer's use of a data memory network or of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathUse {
    /// Network or port in use.
    pub path: SharedPath,
    /// Cycles in which it is busy, times 2^32.
    pub cycles_q32: u128,
}

/// What several engines may use at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SharedPath {
    /// A data memory network, numbered over the chip: PE times networks of a PE, plus network.
    Network {
        /// Chip.
        chip: u64,
        /// Network.
        network: u64,
    },
    /// The port of a PE, in one direction.
    Port {
        /// Chip.
        chip: u64,
        /// PE.
        pe: u64,
        /// Into the PE.
        inward: bool,
    },
}

/// How many slices of each network a side of a transfer goes to, as often as it does.
pub(super) fn networks(
    machine: &Tcp,
    slice: u64,
    strides: impl Iterator<Item = (u64, i64)>,
) -> Vec<(u64, u64)> {
    /// Visits looked at; more are taken to be spread over the networks of the first PE.
    const MOST: usize = 4096;
    let per_network = machine.slices_per_dmn().max(1);
    let mut slices = vec![slice];
    for (size, step) in strides {
        let step_slices = step.unsigned_abs() / SLICE_STRIDE.unsigned_abs();
        if step_slices == 0 || size <= 1 {
            continue;
        }
        if slices.len().capped_mul(usize::try_from(size).unwrap_or(MOST)) > MOST {
            let first = slice / machine.pe.slices.max(1) * machine.pe.dmns;
            return (first..first.capped_add(machine.pe.dmns)).map(|network| (network, 1)).collect();
        }
        let steps = |at: u64| {
            (0..size).map(move |index| {
                let away = index.capped_mul(step_slices);
                if step < 0 { at.saturating_sub(away) } else { at.capped_add(away) }
            })
        };
        slices = slices.iter().flat_map(|at| steps(*at)).collect();
    }
    let mut visited: Vec<u64> = slices.iter().map(|slice| slice / per_network).collect();
    visited.sort_unstable();
    visited.chunk_by(|one, other| one == other).map(|alike| (alike[0], alike.len() as u64)).collect()
}

/// One side in data memory or in a scratchpad.
#[derive(Clone, Debug)]
pub(super) struct OnChipSide {
    pub(super) paths: Vec<PathUse>,
    /// PEs whose ports it needs, unless both sides lie in one.
    pub(super) pes: Vec<u64>,
    /// Cycles of the busiest network.
    pub(super) network_cycles: u64,
}

/// The networks of a side, which take so many cycles for each of so many requests.
pub(super) fn reached(
    machine: &Tcp,
    located: MemoryLocation,
    visits: &[(u64, u64)],
    requests: u64,
    request_cycles: u64,
) -> OnChipSide {
    let all = visits.iter().fold(0, |all: u64, (_, count)| all.capped_add(*count)).max(1);
    let share = |count: u64| (u128::from(requests) * u128::from(count)).div_ceil(u128::from(all));
    let (mut paths, mut pes, mut most) = (Vec::new(), Vec::new(), 0);
    for (network, count) in visits {
        let cycles = share(*count).capped_mul(u128::from(request_cycles));
        most = most.max(cycles);
        let path = SharedPath::Network { chip: located.chip, network: *network };
        let cycles_q32 = cycles.capped_mul(1 << 32);
        paths.push(PathUse { path, cycles_q32 });
        pes.push(network / machine.pe.dmns.max(1));
    }
    pes.dedup();
    OnChipSide { paths, pes, network_cycles: capped(most) }
}

/// The ports of the PEs of a side, each with an equal share of the bytes.
pub(super) fn ports(machine: &Tcp, chip: u64, pes: &[u64], bytes: u64, inward: bool) -> Vec<PathUse> {
    let share = bytes.div_ceil(pes.len().max(1) as u64);
    let cycles_q32 = (u128::from(share) << 32).div_ceil(u128::from(machine.noc.pe_bytes_per_cycle.max(1)));
    pes.iter().map(|pe| PathUse { path: SharedPath::Port { chip, pe: *pe, inward }, cycles_q32 }).collect()
}

/// The PE of a scratchpad.
pub(super) fn scratchpad(located: MemoryLocation) -> Vec<u64> {
    match located.medium {
        MemoryInstance::Spm { pe } => vec![pe],
        _ => Vec::new(),
    }
}
