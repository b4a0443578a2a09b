//! The switch engine's exchanges: topologies, their rings, and whether a machine's network can make them
//! (paper section IV-B; topologies from the vISA book). Slices are `slice2 x slice1 x slice0`, and a ring is
//! `slice1 x slice0`.

use crate::capped::Capped;
use tilewright_machine::tcp::Tcp;

/// The two parts of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// Slices of the outer part.
    pub slice1: u64,
    /// Slices of the inner part.
    pub slice0: u64,
}

/// How packets move between slices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Topology {
    /// Every slice keeps its own packets.
    #[default]
    Forwarding,
    /// `[s2, s1, s0 | t1, t0]` to `[s2, X, Y | t1, s1, t0, s0]`, for a ring and the steps of t0.
    Broadcast01(Ring, u64),
    /// `[s2, s1, s0 | t0]` to `[s2, X, s0 | t0, s1]`.
    Broadcast1(Ring),
    /// `[s2, s1, s0 | t]` to `[s2, s0, s1 | t]`.
    Transpose(Ring),
    /// `[s2, s1, s0 | t2, t1, t0]` to `[s2, t1, s0 | t2, t0, s1]`, for a ring and the steps of t0; t1 has a
    /// step for each slice of s1.
    InterTranspose(Ring, u64),
    /// `[s2, s1, s0 | t0]` to `[s2, Y, s1 | t0, s0]`.
    TransposedBroadcast1(Ring),
    /// Any exchange that a bitmap of sources describes, within rings of so many slices.
    Custom(u64),
}

/// Why a topology is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchError {
    /// This factor of the slices is no power of two.
    NotPowerOfTwo(u64),
    /// Rings do not divide the slices there are.
    Ring {
        /// Slices of a ring.
        ring_slices: u64,
        /// Slices there are.
        slices: u64,
    },
    /// A ring has more slices than a bitmap of sources can name.
    Bitmap {
        /// Slices of a ring.
        ring_slices: u64,
        /// Slices that can be named.
        entries: u64,
    },
    /// The packets are no multiple of what the topology exchanges.
    Packets {
        /// Packets that each slice sends.
        packets: u64,
        /// What would divide them.
        multiple_of: u64,
    },
}

/// Slices of a ring.
pub fn ring_slices(topology: Topology) -> u64 {
    let ring = ring(topology);
    ring.slice1.capped_mul(ring.slice0)
}

/// Packets that each slice keeps of `packets` sent by each; a custom topology keeps as many as its bitmap
/// says, which the caller knows, and at most those of the whole ring, which is the answer here.
pub fn delivered_packets(topology: Topology, packets: u64) -> u64 {
    let kept = match topology {
        Topology::Forwarding | Topology::Transpose(_) | Topology::InterTranspose(..) => 1,
        Topology::Broadcast01(..) | Topology::Custom(_) => ring_slices(topology),
        Topology::Broadcast1(ring) => ring.slice1,
        Topology::TransposedBroadcast1(ring) => ring.slice0,
    };
    packets.capped_mul(kept)
}

/// Whether `slices` slices can exchange `packets` packets each in this way.
pub fn check(machine: &Tcp, topology: Topology, slices: u64, packets: u64) -> Result<(), SwitchError> {
    let ring = ring(topology);
    if let Some(&factor) = [ring.slice1, ring.slice0, slices].iter().find(|factor| !factor.is_power_of_two())
    {
        return Err(SwitchError::NotPowerOfTwo(factor));
    }
    let ring_slices = ring_slices(topology);
    if !slices.is_multiple_of(ring_slices) {
        return Err(SwitchError::Ring { ring_slices, slices });
    }
    if ring_slices > machine.network.snoop_entries {
        return Err(SwitchError::Bitmap { ring_slices, entries: machine.network.snoop_entries });
    }
    let multiple_of = match topology {
        Topology::Broadcast01(_, time0) => time0,
        Topology::InterTranspose(ring, time0) => ring.slice1.capped_mul(time0),
        _ => 1,
    };
    let exchanged = multiple_of > 0 && packets.is_multiple_of(multiple_of);
    if exchanged { Ok(()) } else { Err(SwitchError::Packets { packets, multiple_of }) }
}

/// The two parts of a topology's rings; forwarding has rings of one slice.
pub fn ring(topology: Topology) -> Ring {
    match topology {
        Topology::Forwarding => Ring { slice1: 1, slice0: 1 },
        Topology::Broadcast01(ring, _)
        | Topology::Broadcast1(ring)
        | Topology::Transpose(ring)
        | Topology::InterTranspose(ring, _)
        | Topology::TransposedBroadcast1(ring) => ring,
        Topology::Custom(ring_slices) => Ring { slice1: 1, slice0: ring_slices },
    }
}
