//! How heads meet the contraction engine: packets of a head in the register files, columns of values in
//! packets.

use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;

use super::image::bytes;
use super::sizes::Packets;
use crate::CompileError;

/// A head's elements as packets, and where they lie in a register file.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeadPackets {
    /// Packets.
    pub(super) packets: Packets,
    /// Bytes of a head in a register file.
    pub(super) row_bytes: u64,
    /// Elements from packet to packet there.
    pub(super) pitch: u64,
    /// Flits of a head.
    pub(super) flits: u64,
    /// Bytes that are kept of each flit.
    pub(super) kept: u64,
}

impl HeadPackets {
    /// Of heads of so many elements.
    pub(super) fn new(machine: &Tcp, dtype: Dtype, depth: u64) -> HeadPackets {
        let packets = Packets::new(machine, dtype, depth);
        let flit = machine.network.flit_bytes;
        if packets.count == 1 && packets.flits == 1 {
            let row_bytes = bytes(dtype, depth);
            return HeadPackets { packets, row_bytes, pitch: depth, flits: 1, kept: row_bytes };
        }
        let row_bytes = packets.count * packets.flits * flit;
        let pitch = packets.flits * flit * 8 / u64::from(dtype.storage_bits());
        HeadPackets { packets, row_bytes, pitch, flits: packets.count * packets.flits, kept: flit }
    }

    /// Elements of a head in a register file.
    pub(super) fn row(&self, dtype: Dtype) -> u64 {
        self.row_bytes * 8 / u64::from(dtype.storage_bits())
    }
}

/// Columns of values in packets, all kept: no tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns {
    /// Of a packet.
    pub(super) each: u64,
    /// Packets of a head.
    pub(super) packets: u64,
    /// Flits of a packet.
    pub(super) flits: u64,
}

impl Columns {
    /// Of heads of so many elements, on so many lanes.
    ///
    /// # Errors
    /// More packets than there are accumulators for.
    pub(super) fn new(machine: &Tcp, dtype: Dtype, depth: u64, lanes: u64) -> Result<Columns, CompileError> {
        let flit = machine.network.flit_bytes * 8 / u64::from(dtype.storage_bits());
        let most = machine.ce.outputs_per_lane;
        let fits = |each: &u64| depth.is_multiple_of(*each) && *each <= depth;
        let each = [most, flit, 8].into_iter().find(|each| fits(each) && *each <= 2 * flit).unwrap_or(depth);
        let columns = Columns { each, packets: depth / each, flits: each.div_ceil(flit) };
        let open = machine.accumulators() / machine.ce.outputs_per_lane / lanes.max(1);
        if columns.packets > open || !depth.is_multiple_of(8) {
            let allowed = format!("multiples of 8 in at most {open} packets");
            return Err(CompileError::Size { what: "the width of a head", found: depth, allowed });
        }
        Ok(columns)
    }

    /// In how many turns the columns of a head are contracted, if a lane has so many queries; none if they do
    /// not divide.
    pub(super) fn turns(&self, machine: &Tcp, deep: u64) -> Option<u64> {
        let open = machine.accumulators() / machine.ce.outputs_per_lane / machine.ce.lanes;
        let fits = |turns: &u64| self.packets.is_multiple_of(*turns) && self.packets / turns * deep <= open;
        (1..=self.packets).find(fits)
    }
}
