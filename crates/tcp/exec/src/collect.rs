//! Collect: every packet padded to whole flits (vISA book, switch engine).

use super::packets::Packets;

/// Bytes that a packet of so many takes as flits.
pub(super) fn padded(packet_bytes: usize, flit_bytes: usize) -> usize {
    packet_bytes.next_multiple_of(flit_bytes.max(1))
}

/// Packets as flits.
pub(super) fn collect(packets: Packets, flit_bytes: usize) -> Packets {
    let (from, to) = (packets.packet_bytes, padded(packets.packet_bytes, flit_bytes));
    if from == to || from == 0 {
        return Packets { packet_bytes: flit_bytes, ..packets };
    }
    packets.map(flit_bytes, |plane| {
        let mut flits = vec![0; plane.len() / from * to];
        for (flit, packet) in flits.chunks_exact_mut(to).zip(plane.chunks_exact(from)) {
            flit[..from].copy_from_slice(packet);
        }
        flits
    })
}
