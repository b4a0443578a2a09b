//! Energy per event at the chip's process node.
//!
//! Literature figures are the 7 nm table of the TPUv4i paper, times 0.7 for logic and 0.8 for
//! SRAM. Only comparisons between programs should be trusted, not watts.

use crate::keys::machine_keys;

machine_keys! {
    /// Energy per event.
    Energy {
        /// Multiply-add of an active lane in INT4, with its share of the tree.
        mac_int4_pj: f64 [0.0, 1000.0],
        /// The same in INT8.
        mac_int8_pj: f64 [0.0, 1000.0],
        /// The same in FP8.
        mac_fp8_pj: f64 [0.0, 1000.0],
        /// The same in BF16.
        mac_bf16_pj: f64 [0.0, 1000.0],
        /// Cycle of an active contraction engine, however many lanes are active.
        ce_active_cycle_pj: f64 [0.0, 100_000.0],
        /// Accumulator read, add and write.
        accumulator_update_pj: f64 [0.0, 1000.0],
        /// The same when the sum leaves at once.
        accumulator_pass_pj: f64 [0.0, 1000.0],
        /// Register file read that reaches the array.
        trf_read_pj_per_byte: f64 [0.0, 1000.0],
        /// Register file read that the cache answers.
        trf_hit_pj_per_byte: f64 [0.0, 1000.0],
        /// Register file write.
        trf_write_pj_per_byte: f64 [0.0, 1000.0],
        /// Data memory read.
        dm_read_pj_per_byte: f64 [0.0, 1000.0],
        /// Data memory write.
        dm_write_pj_per_byte: f64 [0.0, 1000.0],
        /// One hop of the fetch network, from slice to slice.
        network_hop_pj_per_byte: f64 [0.0, 1000.0],
        /// Operation of a vector lane on 32-bit integers.
        ve_int32_pj: f64 [0.0, 1000.0],
        /// Operation of a vector lane on FP32.
        ve_fp32_pj: f64 [0.0, 1000.0],
        /// Exponential of a vector lane.
        ve_exp_pj: f64 [0.0, 1000.0],
        /// Off-chip memory, with its interface.
        hbm_pj_per_bit: f64 [0.0, 1000.0],
        /// On-chip network between a processing element and memory.
        noc_pj_per_bit: f64 [0.0, 1000.0],
        /// A bit from chip to chip over PCIe, both ends and what lies between them.
        link_pj_per_bit: f64 [0.0, 1000.0],
        /// Cycle of an idle slice: clock and leakage.
        slice_idle_cycle_pj: f64 [0.0, 100_000.0],
        /// Control processors, host interface, clocks and leakage outside the slices.
        uncore_w: f64 [0.0, 10_000.0],
        /// A stack of off-chip memory that holds its bytes and moves none: refresh, clocks and leakage.
        hbm_stack_standby_w: f64 [0.0, 1000.0],
    }
}
