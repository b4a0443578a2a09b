//! What lies outside the slices: tensor DMA, off-chip memory, on-chip network, host links.
//! Rates are from the paper (section III, Table I), geometry and timing from the vISA book.

use crate::keys::machine_keys;
use crate::value::List;

machine_keys! {
    /// Tensor DMA engines, one for each processing element.
    Tdma {
        /// Rate of an engine.
        bandwidth_bytes_per_cycle: u64 [1, 1 << 20],
        /// Start of a command.
        startup_cycles: u64 [0, 1_000_000],
        /// Packets are cut into requests of this size.
        request_bytes: u64 [1, 1 << 20],
        /// Largest packet: the innermost loop of a command.
        packet_max_bytes: u64 [1, 1 << 30],
        /// Requests that an engine may have read and not yet written.
        in_flight_requests: u64 [1, 1 << 20],
        /// Nested loops of a command.
        loops: u64 [1, 64],
        /// Addresses and packets between off-chip and data memory are multiples of this.
        alignment_bytes: u64 [1, 4096],
    }

    /// Off-chip memory.
    Hbm {
        /// Stacks.
        stacks: u64 [1, 64],
        /// Channels of a stack.
        channels_per_stack: u64 [1, 64],
        /// Ranks of a channel, which the vISA book calls slices.
        ranks: u64 [1, 16],
        /// Bank groups of a rank.
        bank_groups: u64 [1, 16],
        /// Banks of a group.
        banks_per_group: u64 [1, 16],
        /// Rows of a bank.
        rows_per_bank: u64 [1, 1 << 20],
        /// Bytes of a row.
        row_bytes: u64 [64, 1 << 16],
        /// Clock of a channel's controller.
        channel_clock_hz: u64 [1_000_000, 10_000_000_000],
        /// Bytes that a channel moves in one cycle of its clock.
        channel_bytes_per_cycle: u64 [1, 4096],
        /// Unit of access; less is still as much.
        access_bytes: u64 [1, 1 << 16],
        /// Requests that wait at a channel and may be reordered, so that ranks change less often.
        queue_entries: u64 [1, 65536],
        /// Change of the open row of a bank.
        row_switch_ns: u64 [0, 10_000],
        /// Clock that the column-to-column times count.
        timing_clock_hz: u64 [1_000_000, 20_000_000_000],
        /// Column to column, another bank group.
        other_group_cycles: u64 [0, 1000],
        /// Column to column, another rank.
        other_rank_cycles: u64 [0, 1000],
        /// Column to column, the same bank group.
        same_group_cycles: u64 [0, 1000],
        /// Time of a write that covers an access unit only in part, in chip cycles.
        partial_write_cycles: u64 [0, 100_000],
        /// Part of the peak that long streams reach, refresh within.
        efficiency: f64 [0.01, 1.0],
        /// Address bits of the stack.
        stack_bit_positions: List [0, 63],
        /// Address bits of the channel, before hashing.
        channel_bit_positions: List [0, 63],
        /// Distances from a channel bit to the address bits that are exclusive-ored into it.
        channel_hash_offsets: List [0, 63],
        /// Address bits of the bank group.
        bank_group_bit_positions: List [0, 63],
        /// Address bits of the bank.
        bank_bit_positions: List [0, 63],
        /// Address bits of the rank.
        rank_bit_positions: List [0, 63],
        /// Address bits of the row.
        row_bit_positions: List [0, 63],
    }

    /// On-chip network between processing elements and memory.
    Noc {
        /// Rate between a processing element and memory or another processing element.
        pe_bytes_per_cycle: u64 [1, 1 << 20],
        /// Time after which an unanswered request resets the cluster.
        timeout_cycles: u64 [1, 1_000_000_000],
        /// Message from one processing element to another of the chip.
        doorbell_ns: u64 [0, 1_000_000_000],
    }

    /// Host and peer links.
    Pcie {
        /// Lanes.
        lanes: u64 [1, 64],
        /// Rate of a lane in one direction, one bit each.
        lane_transfers_per_s: u64 [1, 1_000_000_000_000],
        /// Peak rate between processing elements of two chips in one direction.
        peer_bytes_per_s: u64 [1, 1_000_000_000_000_000],
        /// Rate that peer transfers reach.
        peer_effective_bytes_per_s: u64 [1, 1_000_000_000_000_000],
        /// Latency of a peer transfer.
        peer_ns: u64 [0, 1_000_000_000],
        /// Message from a processing element to one of another chip.
        doorbell_ns: u64 [0, 1_000_000_000],
    }
}
