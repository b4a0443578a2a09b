//! How many packets and flits pass each engine of a stream, from its registers alone (vISA book, engines in
//! order).
//!
//! Sizes must be numbers ([`Exec::resolved`](crate::program::exec::Exec::resolved)); a register counts as 0.

use tilewright_machine::tcp::Tcp;

use crate::capped::Capped;
use crate::contraction::ContractionStage;
use crate::memory::{bytes_of, payload_bits};
use crate::program::exec::{Stream, Switch, iterations};
use crate::switch::{Topology, delivered_packets};

/// What passes each part of a stream, on one slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounts {
    /// Packets that the slice fetches.
    pub packets: u64,
    /// Bytes of a packet in data memory.
    pub read_packet_bytes: u64,
    /// Bytes of a packet on its way to the network.
    pub packet_bytes: u64,
    /// Packets that the slice keeps of what its ring sends.
    pub kept_packets: u64,
    /// Flits that leave collect.
    pub flits: u64,
    /// Flits that enter the vector engine, or whatever comes next.
    pub vector_flits: u64,
    /// Flits that the commit unit writes.
    pub commit_flits: u64,
}

/// Follows the counts of a stream through the engines.
pub fn flow(machine: &Tcp, stream: &Stream) -> FlowCounts {
    let fetch = &stream.fetch;
    // An image with packets of no elements is refused; until then it has none.
    let packets = iterations(&fetch.loops).checked_div(fetch.packet).unwrap_or(0);
    let read_packet_bytes = bytes_of(fetch.packet, payload_bits(fetch.dtype));
    let packet_bytes = bytes_of(fetch.packet, payload_bits(fetch.leaves()));
    let kept_packets = kept_packets(&stream.switch, packets);
    let flits = kept_packets.capped_mul(packet_flits(machine, packet_bytes));
    let contraction =
        stream.contract.as_ref().map(|contract| ContractionStage::of(machine, stream, contract));
    let vector_flits = contraction.map_or(flits, |contraction| contraction.drained_flits(machine));
    let commit_flits = iterations(&stream.commit.loops);
    FlowCounts { packets, read_packet_bytes, packet_bytes, kept_packets, flits, vector_flits, commit_flits }
}

/// Flits of a packet.
pub fn packet_flits(machine: &Tcp, packet_bytes: u64) -> u64 {
    packet_bytes.div_ceil(machine.network.flit_bytes)
}

fn kept_packets(switch: &Switch, packets: u64) -> u64 {
    match switch.topology {
        Topology::Custom(_) => {
            let most = switch.sources.iter().map(Vec::len).max().unwrap_or(0);
            packets.capped_mul(most as u64)
        }
        topology => delivered_packets(topology, packets),
    }
}
