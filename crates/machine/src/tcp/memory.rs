//! Memories inside a slice and the network that DMA reaches them by.
//! Capacities are from the paper (sections III and IV), organisation from the vISA book.

use crate::keys::machine_keys;

machine_keys! {
    /// Data memory of a slice.
    Dm {
        /// Capacity.
        capacity_bytes: u64 [64, 1 << 34],
        /// Banks; consecutive accesses touch them in turn.
        banks: u64 [1, 1024],
        /// Bytes that a bank reads or writes in one cycle.
        bank_access_bytes: u64 [1, 1024],
        /// Smallest aligned write; less is a read, a change and a write.
        write_granule_bytes: u64 [1, 1024],
        /// Times as long that a misaligned write takes.
        misaligned_write_factor: u64 [1, 1000],
    }

    /// Data memory network: a ring of the slices that share it.
    Dmn {
        /// Rate.
        bandwidth_bytes_per_cycle: u64 [1, 1 << 16],
    }

    /// Register file of the contraction engine, for each lane.
    Trf {
        /// Banks; a wide read takes all of them.
        banks: u64 [1, 64],
        /// Rows of a bank when all lanes are in use.
        rows_per_bank: u64 [1, 1 << 20],
        /// Width of a row as built.
        row_bits: u64 [8, 1 << 16],
        /// Bytes of 8-bit or 16-bit data that a row holds.
        row_payload_bytes: u64 [1, 1 << 16],
        /// Rows of each bank that the read cache holds.
        cache_rows: u64 [0, 1 << 16],
        /// Parts of the rows that may be filled and read independently.
        halves: u64 [1, 16],
    }

    /// Register file of the vector engine.
    Vrf {
        /// Capacity.
        capacity_bytes: u64 [32, 1 << 30],
    }
}
