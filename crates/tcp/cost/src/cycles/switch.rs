//! Switch engine: slices of a ring exchange packets, one flit a link a cycle (paper section IV-B; topologies
//! from the vISA book).
//!
//! Slices are `slice2 x slice1 x slice0`, a ring is `slice1 x slice0`, and every packet travels the whole
//! ring, kept or not: a ring takes its size times the flits that each slice sends. Filling it takes a few
//! cycles for each slice.

use tilewright_machine::tcp::Tcp;

use tilewright_tcp_isa::capped::Capped;
use tilewright_tcp_isa::switch::{Ring, Topology, ring, ring_slices};

/// What a command sends through the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchStage {
    /// Topology by which packets move between slices.
    pub topology: Topology,
    /// Packets that each slice sends.
    pub packets: u64,
    /// Flits of a packet.
    pub packet_flits: u64,
}

/// Cycles in which the ring moves flits.
pub fn stream_cycles(switch: &SwitchStage) -> u64 {
    ring_slices(switch.topology).capped_mul(switch.packets).capped_mul(switch.packet_flits)
}

/// Cycles until a ring is full; forwarding enters none.
///
/// Two for each slice are what it takes to gather packets in one direction and to multicast them in the
/// other. Where slices keep only some packets, the last of them may come earlier, by at most one way around
/// the ring and one step of it: then this is too much.
pub fn fill_cycles(machine: &Tcp, topology: Topology) -> u64 {
    match topology {
        Topology::Forwarding => 0,
        ring => machine.network.fill_cycles_per_slice.capped_mul(ring_slices(ring)),
    }
}

/// Cycles in which a custom bitmap is written before the command starts; DMA and the sub context stall
/// meanwhile.
pub fn bitmap_cycles(machine: &Tcp, topology: Topology) -> u64 {
    match topology {
        Topology::Custom(_) => {
            let bitmap_bytes = machine.network.snoop_entries * machine.command.bitmap_entry_bytes;
            bitmap_bytes.div_ceil(machine.command.bitmap_bytes_per_cycle)
        }
        _ => 0,
    }
}

/// Cycles in which the ring moves flits when its neighbours cannot keep up with a burst and no queue helps
/// them: fetch units that take `fetch_packet_cycles` for a packet, and engines that take `kept_packet_cycles`
/// for one that is kept.
///
/// All packets pass every slice in one order, so a slice that has to wait makes all wait. On average a slice
/// sends or keeps fewer packets than pass, but not evenly: under [`Topology::Broadcast01`] it sends the steps
/// of t0 in a row, under [`Topology::InterTranspose`] it keeps those of one step of t1, under the last two
/// its sources are neighbours.
pub fn burst_cycles(switch: &SwitchStage, fetch_packet_cycles: u64, kept_packet_cycles: u64) -> u64 {
    let Ring { slice1, slice0 } = ring(switch.topology);
    let (flits, kept) = (switch.packet_flits, kept_packet_cycles);
    let step_cycles = match switch.topology {
        Topology::Broadcast01(_, time0) if time0 > 1 => {
            slice1.capped_mul(fetch_packet_cycles.max(slice0.capped_mul(flits.max(kept))))
        }
        Topology::InterTranspose(..) => slice1.capped_mul(kept.max(slice0.capped_mul(flits))),
        Topology::TransposedBroadcast1(_) | Topology::Custom(_) => {
            slice1.capped_mul(slice0).capped_mul(flits.max(kept))
        }
        _ => return stream_cycles(switch),
    };
    switch.packets.capped_mul(step_cycles)
}
