//! Memories of a core and of the device, and the DMA engines between them.
//! Sizes are from the NKI architecture guides, DMA costs from the documentation's DMA pages and
//! published profiles.

use crate::keys::machine_keys;

machine_keys! {
    /// Engine access to on-chip memory.
    Access {
        /// Start of a tensor read, and of a tensor write.
        start_cycles: u64 [0, 100_000],
        /// Innermost stride from which on the port runs at half rate.
        slow_stride_bytes: u64 [1, 65536],
        /// Largest free size of a vector or scalar instruction in SBUF, in elements.
        sbuf_free_max: u64 [1, 1 << 30],
        /// The same in PSUM.
        psum_free_max: u64 [1, 1 << 30],
        /// Tiles of at most this many partitions may start at any multiple of it.
        quadrant_partitions: u64 [1, 4096],
        /// True if the vector and general-purpose engines exclude each other from SBUF.
        vector_gpsimd_exclusive: bool,
        /// True if the vector and scalar engines exclude each other from PSUM.
        vector_scalar_exclusive: bool,
    }

    /// State buffer of a core.
    Sbuf {
        /// Partitions.
        partitions: u64 [1, 4096],
        /// Bytes of a partition.
        partition_bytes: u64 [64, 1 << 30],
        /// Bytes of a partition that the compiler keeps.
        reserved_bytes: u64 [0, 1 << 30],
        /// Part that stays free for what is loaded ahead when tiles are spilled.
        spill_reserve_fraction: f64 [0.0, 0.9],
    }

    /// Partial-sum buffer of a core.
    Psum {
        /// Banks of a partition.
        banks: u64 [1, 1024],
        /// Bytes of a bank in one partition.
        bank_bytes: u64 [4, 1 << 20],
    }

    /// DMA engines.
    Dma {
        /// Engines that serve a core.
        engines_per_core: u64 [1, 4096],
        /// Peak rate of an engine.
        engine_bytes_per_s: u64 [1, 1_000_000_000_000_000],
        /// Rate that large transfers of an engine reach.
        achieved_bytes_per_s: u64 [1, 1_000_000_000_000_000],
        /// Shortest time between two copies of a queue.
        fixed_ns: u64 [0, 1_000_000_000],
        /// Time of a queue for each copy beside its data.
        copy_ns: u64 [0, 1_000_000_000],
        /// Queues of a core that the compiler spreads copies in one direction over, by their line.
        copy_queues: u64 [1, 65536],
        /// Time of each descriptor: one contiguous run.
        descriptor_ns: u64 [0, 1_000_000],
        /// Bytes whose time a descriptor takes at least.
        descriptor_least_bytes: u64 [0, 65536],
        /// Copies of a queue that overlap.
        in_flight: u64 [1, 65536],
        /// Partitions of a tile that one engine moves.
        partitions_per_engine: u64 [1, 4096],
        /// Descriptors of fewer bytes are inefficient.
        small_descriptor_bytes: u64 [1, 1 << 30],
        /// Longest run of a descriptor.
        descriptor_max_bytes: u64 [1, 1 << 30],
        /// Packets of compute traffic.
        packet_bytes: u64 [1, 1 << 30],
        /// Trigger to data, static descriptors.
        trigger_ns: u64 [0, 1_000_000],
        /// Trigger to data, descriptors made by the general-purpose engine.
        software_descriptor_ns: u64 [0, 1_000_000],
        /// Hardware descriptor generators of a core; 0 if there are none.
        hardware_generators: u64 [0, 256],
        /// Instruction of a hardware descriptor generator; 0 if there are none.
        hardware_descriptor_ns: u64 [0, 1_000_000],
        /// Times as long that a transfer takes that accumulates into its target.
        accumulate_factor: u64 [1, 64],
        /// Sources that one transfer adds up, at most.
        sources_max: u64 [1, 4096],
    }

    /// Off-chip memory.
    Hbm {
        /// Stacks.
        stacks: u64 [1, 64],
        /// Bytes of a stack.
        stack_bytes: u64 [1 << 20, 1 << 50],
        /// Rate of a stack.
        stack_bytes_per_s: u64 [1, 1_000_000_000_000_000],
        /// Part of the rate that long streams reach.
        efficiency: f64 [0.01, 1.0],
    }
}
