//! Who keeps which packet, and in which order packets pass: the generators of the vISA book's switch engine,
//! packet by packet.

use tilewright_tcp_isa::switch::{Ring, Topology};

/// A packet on the ring: the step in which its source sends it, and the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RingPacket {
    pub(crate) step: u64,
    pub(crate) source: u64,
}

/// Slices of a ring.
pub(crate) fn slices(topology: Topology) -> u64 {
    let ring = parts(topology);
    ring.slice1.saturating_mul(ring.slice0)
}

/// Whether packets enter the ring at all.
pub(crate) fn uses_ring(topology: Topology) -> bool {
    topology != Topology::Forwarding
}

/// The packet at a place of the order in which all of them pass.
pub(crate) fn sent(topology: Topology, place: u64) -> RingPacket {
    let ring = parts(topology);
    let all = ring.slice1 * ring.slice0;
    match topology {
        // Time of the result is (t1, s1, t0, s0).
        Topology::Broadcast01(_, time0) => {
            let (rest, slice0) = (place / ring.slice0, place % ring.slice0);
            let (rest, step0) = (rest / time0, rest % time0);
            let (step1, slice1) = (rest / ring.slice1, rest % ring.slice1);
            RingPacket { step: step1 * time0 + step0, source: slice1 * ring.slice0 + slice0 }
        }
        _ => RingPacket { step: place / all, source: place % all },
    }
}

/// Whether a slice of the ring keeps a packet; a custom bitmap keeps `custom_sources` sources from the slice
/// itself on.
pub(crate) fn keeps(topology: Topology, custom_sources: u64, slice: u64, sent: RingPacket) -> bool {
    let ring = parts(topology);
    let (source1, source0) = (sent.source / ring.slice0, sent.source % ring.slice0);
    match topology {
        Topology::Forwarding => sent.source == slice,
        Topology::Broadcast01(..) => true,
        Topology::Broadcast1(_) => source0 == slice % ring.slice0,
        Topology::Transpose(_) => source0 == slice / ring.slice1 && source1 == slice % ring.slice1,
        Topology::InterTranspose(_, time0) => {
            let step1 = sent.step / time0 % ring.slice1;
            step1 == slice / ring.slice0 && source0 == slice % ring.slice0
        }
        Topology::TransposedBroadcast1(_) => source1 == slice % ring.slice1,
        Topology::Custom(all) => (sent.source + all - slice) % all < custom_sources,
    }
}

/// Cycles by which the last packet that a slice keeps arrives earlier than the last packet passes the last
/// slice.
///
/// On the way back the wave passes the last slice first, and not every slice keeps the last packet of the
/// order.
pub(crate) fn early_cycles(
    topology: Topology,
    custom_sources: u64,
    packets: u64,
    flits: u64,
    hop: u64,
) -> u64 {
    let all = slices(topology);
    let last = packets.saturating_mul(all);
    let passes = |place: u64, slice: u64| (place * flits).saturating_add((all - 1 - slice) * hop);
    let last_kept = |slice: u64| {
        (0..last).rev().find(|&place| keeps(topology, custom_sources, slice, sent(topology, place)))
    };
    let latest = (0..all).filter_map(|slice| last_kept(slice).map(|place| passes(place, slice))).max();
    latest.map_or(0, |latest| passes(last.saturating_sub(1), 0).saturating_sub(latest))
}

fn parts(topology: Topology) -> Ring {
    match topology {
        Topology::Forwarding => Ring { slice1: 1, slice0: 1 },
        Topology::Broadcast01(ring, _)
        | Topology::Broadcast1(ring)
        | Topology::Transpose(ring)
        | Topology::InterTranspose(ring, _)
        | Topology::TransposedBroadcast1(ring) => ring,
        Topology::Custom(all) => Ring { slice1: 1, slice0: all },
    }
}
