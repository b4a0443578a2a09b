//! Switch engine: slices of a ring exchange packets, one flit a link a cycle (paper section IV-B; topologies from the vISA book).
//!
//! Slices are `slice2 x slice1 x slice0`, a ring is `slice1 x slice0`, and every packet travels the whole ring, kept or not: a
//! ring takes its size times the flits that each slice sends. Filling it takes a few cycles for each slice.

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
    /// `[s2, s1, s0 | t2, t1, t0]` to `[s2, t1, s0 | t2, t0, s1]`, for a ring and the steps of t0; t1 has a step for each
    /// slice of s1.
    InterTranspose(Ring, u64),
    /// `[s2, s1, s0 | t0]` to `[s2, Y, s1 | t0, s0]`.
    TransposedBroadcast1(Ring),
    /// Any exchange that a bitmap of sources describes, within rings of so many slices.
    Custom(u64),
}

/// What a command sends through the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// How.
    pub topology: Topology,
    /// Packets that each slice sends.
    pub packets: u64,
    /// Flits of a packet.
    pub packet_flits: u64,
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

/// Cycles in which the ring moves flits.
pub fn stream_cycles(switch: &Switch) -> u64 {
    ring_slices(switch.topology).saturating_mul(switch.packets).saturating_mul(switch.packet_flits)
}

/// Cycles until a ring is full; forwarding enters none.
///
/// Two for each slice are what it takes to gather packets in one direction and to multicast them in the other. Where slices keep only
/// some packets, the last of them may come earlier, by at most one way around the ring and one step of it: then this is too much.
pub fn fill_cycles(machine: &Tcp, topology: Topology) -> u64 {
    match topology {
        Topology::Forwarding => 0,
        ring => machine.network.fill_cycles_per_slice.saturating_mul(ring_slices(ring)),
    }
}

/// Cycles in which a custom bitmap is written before the command starts; DMA and the sub context stand still meanwhile.
pub fn bitmap_cycles(machine: &Tcp, topology: Topology) -> u64 {
    match topology {
        Topology::Custom(_) => {
            let bitmap_bytes = machine.network.snoop_entries * machine.command.bitmap_entry_bytes;
            bitmap_bytes.div_ceil(machine.command.bitmap_bytes_per_cycle)
        }
        _ => 0,
    }
}

/// Cycles in which the ring moves flits when its neighbours cannot keep up with a burst and no queue helps them: fetch units that
/// take `fetch_packet_cycles` for a packet, and engines that take `kept_packet_cycles` for one that is kept.
///
/// All packets pass every slice in one order, so a slice that has to wait makes all wait. On average a slice sends or keeps
/// fewer packets than pass, but not evenly: under [`Topology::Broadcast01`] it sends the steps of t0 in a row, under
/// [`Topology::InterTranspose`] it keeps those of one step of t1, under the last two its sources are neighbours.
pub fn burst_cycles(switch: &Switch, fetch_packet_cycles: u64, kept_packet_cycles: u64) -> u64 {
    let Ring { slice1, slice0 } = ring(switch.topology);
    let (flits, kept) = (switch.packet_flits, kept_packet_cycles);
    let step_cycles = match switch.topology {
        Topology::Broadcast01(_, time0) if time0 > 1 => {
            slice1.saturating_mul(fetch_packet_cycles.max(slice0.saturating_mul(flits.max(kept))))
        }
        Topology::InterTranspose(..) => slice1.saturating_mul(kept.max(slice0.saturating_mul(flits))),
        Topology::TransposedBroadcast1(_) | Topology::Custom(_) => {
            slice1.saturating_mul(slice0).saturating_mul(flits.max(kept))
        }
        _ => return stream_cycles(switch),
    };
    switch.packets.saturating_mul(step_cycles)
}

/// Slices of a ring.
pub fn ring_slices(topology: Topology) -> u64 {
    let ring = ring(topology);
    ring.slice1.saturating_mul(ring.slice0)
}

/// Packets that each slice keeps of `packets` sent by each; a custom topology keeps as many as its bitmap says, which the caller
/// knows, and at most those of the whole ring, which is the answer here.
pub fn delivered_packets(topology: Topology, packets: u64) -> u64 {
    let kept = match topology {
        Topology::Forwarding | Topology::Transpose(_) | Topology::InterTranspose(..) => 1,
        Topology::Broadcast01(..) | Topology::Custom(_) => ring_slices(topology),
        Topology::Broadcast1(ring) => ring.slice1,
        Topology::TransposedBroadcast1(ring) => ring.slice0,
    };
    packets.saturating_mul(kept)
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
        Topology::InterTranspose(ring, time0) => ring.slice1.saturating_mul(time0),
        _ => 1,
    };
    let exchanged = multiple_of > 0 && packets.is_multiple_of(multiple_of);
    if exchanged { Ok(()) } else { Err(SwitchError::Packets { packets, multiple_of }) }
}

fn ring(topology: Topology) -> Ring {
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
