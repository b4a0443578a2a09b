//! Collect: every packet is padded to whole flits, and every later engine takes one flit a cycle (vISA book,
//! collect engine).

use tilewright_machine::tcp::Tcp;

use tilewright_tcp_isa::capped::Capped;
use tilewright_tcp_isa::flow::packet_flits;

/// What arrives from the network at each slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectStage {
    /// Packets: [`delivered_packets`](tilewright_tcp_isa::switch::delivered_packets) of those that were
    /// fetched.
    pub packets: u64,
    /// Bytes of a packet.
    pub packet_bytes: u64,
}

/// Cycles in which flits leave: as many as there are.
pub fn stream_cycles(machine: &Tcp, collect: &CollectStage) -> u64 {
    collect.packets.capped_mul(packet_flits(machine, collect.packet_bytes))
}

/// Bytes of a packet's flits that hold nothing.
pub fn padding_bytes(machine: &Tcp, packet_bytes: u64) -> u64 {
    let flit_bytes = machine.network.flit_bytes;
    (flit_bytes - packet_bytes % flit_bytes) % flit_bytes
}
