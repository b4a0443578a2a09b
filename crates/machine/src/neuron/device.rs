//! The device as a whole: cores, links, synchronisation, collectives.
//! From the Neuron architecture pages, the collectives guide and published profiles.

use crate::keys::machine_keys;

machine_keys! {
    /// The device as a whole.
    Chip {
        /// NeuronCores.
        cores: u64 [1, 256],
        /// Generation of the NeuronCore, as in NeuronCore-v2.
        core_generation: u64 [2, 9],
        /// Physical cores that may be presented as one.
        logical_cores_max: u64 [1, 16],
        /// Cores for collective communication.
        cc_cores: u64 [0, 256],
    }

    /// Semaphores and dispatch.
    Sync {
        /// Shortest interval between two instructions of an engine.
        dispatch_cycles: u64 [0, 100_000],
        /// Semaphore from one compute engine to another.
        semaphore_ns: u64 [0, 1_000_000],
        /// Last byte of a transfer to the start of the instruction that waits for it.
        dma_to_compute_ns: u64 [0, 1_000_000],
        /// Semaphore to a transfer, through it, and visible to another engine.
        dma_round_trip_ns: u64 [0, 1_000_000],
        /// Instructions of an engine among which the compiler changes the order.
        schedule_window: u64 [1, 1_000_000],
    }

    /// What an execution takes around its kernel.
    Launch {
        /// From its begin to the first instruction of the kernel.
        preamble_ns: u64 [0, 1_000_000],
        /// From the last result of the kernel to its end.
        tail_ns: u64 [0, 1_000_000],
        /// What executions of this generation take besides, as a whole.
        calibrated_ns: u64 [0, 1_000_000],
    }

    /// Links between devices.
    Link {
        /// NeuronLinks of the device.
        links: u64 [0, 64],
        /// Rate of a NeuronLink.
        link_bytes_per_s: u64 [1, 1_000_000_000_000_000],
    }

    /// Energy of events, for one core unless it says otherwise.
    Energy {
        /// Multiplication with addition in BF16, on the way through the array.
        mac_bf16_pj: f64 [0.0, 1000.0],
        /// The same in FP8.
        mac_fp8_pj: f64 [0.0, 1000.0],
        /// The same of block-scaled elements, with their part of the scale.
        mac_mx_pj: f64 [0.0, 1000.0],
        /// The same in FP32.
        mac_fp32_pj: f64 [0.0, 1000.0],
        /// Lane of the vector engine for a cycle.
        vector_lane_pj: f64 [0.0, 1000.0],
        /// Lane of the scalar engine for a cycle, table and polynomial.
        scalar_lane_pj: f64 [0.0, 1000.0],
        /// Lane of the general-purpose engine for a cycle.
        gpsimd_lane_pj: f64 [0.0, 1000.0],
        /// Byte read from or written to SBUF.
        sbuf_pj_per_byte: f64 [0.0, 1000.0],
        /// Byte read from or written to PSUM.
        psum_pj_per_byte: f64 [0.0, 1000.0],
        /// Bit of a transfer on its way across the chip.
        dma_pj_per_bit: f64 [0.0, 1000.0],
        /// Descriptor read by a DMA engine.
        descriptor_pj: f64 [0.0, 1_000_000.0],
        /// Bit of HBM with its interface.
        hbm_pj_per_bit: f64 [0.0, 1000.0],
        /// Core at rest: clocks and leakage.
        core_idle_w: f64 [0.0, 1000.0],
    }

    /// Collective operations between devices.
    Collectives {
        /// Step between neighbours inside a server.
        hop_ns: u64 [0, 1_000_000_000],
        /// Step between servers.
        server_hop_ns: u64 [0, 1_000_000_000],
        /// Start of a phase of a collective operation: an all-reduce has two, others one.
        fixed_ns: u64 [0, 1_000_000_000],
        /// What the start of a phase takes more if it goes beyond one device.
        device_start_ns: u64 [0, 1_000_000_000],
        /// Rate at which the CC-cores of a rank send, and receive, whatever the links allow.
        rank_bytes_per_s: u64 [1, 1_000_000_000_000_000],
        /// Largest message that is sent over the mesh.
        mesh_max_bytes: u64 [0, 1 << 40],
        /// Largest message for recursive doubling and halving; larger ones take the ring.
        doubling_max_bytes: u64 [0, 1 << 40],
    }
}
