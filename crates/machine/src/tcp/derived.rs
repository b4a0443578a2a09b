//! What follows from the figures of a tensor contraction processor.
//!
//! The paper prints 512 TOPS and 384 TB/s for what is 524 and 393 in decimal: it counts K as 1024
//! once and the rest in thousands. Both are derived; the printed kind ends in `_k1024`.

use super::Tcp;
use crate::derived::{DerivedRow, f};

impl Tcp {
    /// Processing elements of the chip.
    pub fn pes(&self) -> u64 {
        self.chip.clusters * self.chip.pes_per_cluster
    }

    /// Slices of the chip, spares left out.
    pub fn slices(&self) -> u64 {
        self.pes() * self.pe.slices
    }

    /// Slices of a group of fused processing elements.
    pub fn fused_slices(&self, pes: u64) -> u64 {
        pes * self.pe.slices
    }

    /// Slices that share a data memory network.
    pub fn slices_per_dmn(&self) -> u64 {
        self.pe.slices / self.pe.dmns
    }

    /// Data memory of the chip.
    pub fn dm_chip_bytes(&self) -> u64 {
        self.slices() * self.dm.capacity_bytes
    }

    /// Rows of a data memory bank.
    pub fn dm_rows_per_bank(&self) -> u64 {
        self.dm.capacity_bytes / (self.dm.banks * self.dm.bank_access_bytes)
    }

    /// Rate of a slice's data memory with all banks busy.
    pub fn dm_bytes_per_cycle(&self) -> u64 {
        self.dm.banks * self.dm.bank_access_bytes
    }

    /// Bytes that the register file of one lane can hold.
    pub fn trf_lane_payload_bytes(&self) -> u64 {
        self.trf.banks * self.trf.rows_per_bank * self.trf.row_payload_bytes
    }

    /// Accumulators of a slice.
    pub fn accumulators(&self) -> u64 {
        self.ce.lanes * self.ce.outputs_per_lane * self.ce.accumulators_per_output
    }

    /// Channels of off-chip memory.
    pub fn hbm_channels(&self) -> u64 {
        self.hbm.stacks * self.hbm.channels_per_stack
    }

    /// Capacity of off-chip memory.
    pub fn hbm_capacity_bytes(&self) -> u64 {
        let banks = self.hbm.ranks * self.hbm.bank_groups * self.hbm.banks_per_group;
        self.hbm_channels() * banks * self.hbm.rows_per_bank * self.hbm.row_bytes
    }

    /// Peak rate of off-chip memory.
    pub fn hbm_bytes_per_s(&self) -> f64 {
        f(self.hbm_channels()) * f(self.hbm.channel_bytes_per_cycle) * f(self.hbm.channel_clock_hz)
    }

    /// Bytes that the register files of a slice give in one cycle, as built.
    fn trf_bytes_per_cycle(&self) -> f64 {
        f(self.ce.lanes * self.trf.banks * self.trf.row_bits) / 8.0
    }

    /// Operations per second of all slices, for that many products of a lane in one cycle.
    fn ops_per_s(&self, elements: u64) -> f64 {
        2.0 * f(self.slices() * self.ce.lanes * elements) * f(self.chip.clock_hz)
    }

    /// Power while nothing runs: control processors, interfaces, clocks and leakage of all slices, and
    /// off-chip memory that refreshes itself.
    pub fn idle_w(&self) -> f64 {
        self.energy.uncore_w
            + f(self.hbm.stacks) * self.energy.hbm_stack_standby_w
            + f(self.slices()) * self.energy.slice_idle_cycle_pj * 1e-12 * f(self.chip.clock_hz)
    }

    fn sram_bytes_per_s(&self) -> f64 {
        f(self.slices()) * (f(self.dm_bytes_per_cycle()) + self.trf_bytes_per_cycle()) * f(self.chip.clock_hz)
    }

    /// Consecutive accesses to one bank after which a DMA request may run into the timeout.
    pub fn starvation_accesses(&self) -> u64 {
        let request_cycles = self.tdma.request_bytes.div_ceil(self.dmn.bandwidth_bytes_per_cycle);
        self.noc.timeout_cycles / (request_cycles * self.slices_per_dmn())
    }
}

const T: f64 = 1e12;
/// A thousand billions, the K of the thousand counted as 1024.
const T_K1024: f64 = 1024e9;
const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * KIB;
const GIB: f64 = 1024.0 * MIB;
const PEAK: &str = "2 x slices x lanes x elements x clock";
const PEAK_K1024: &str = "the same, K counted as 1024";

const fn row(
    name: &'static str,
    unit: &'static str,
    formula: &'static str,
    value: fn(&Tcp) -> f64,
) -> DerivedRow<Tcp> {
    DerivedRow { name, unit, formula, value }
}

pub(crate) const ROWS: &[DerivedRow<Tcp>] = &[
    row("peak_int4_tops", "TOP/s", PEAK, |m| m.ops_per_s(m.ce.int4_elements) / T),
    row("peak_int4_tops_k1024", "TOP/s", PEAK_K1024, |m| m.ops_per_s(m.ce.int4_elements) / T_K1024),
    row("peak_int8_tops", "TOP/s", PEAK, |m| m.ops_per_s(m.ce.int8_elements) / T),
    row("peak_int8_tops_k1024", "TOP/s", PEAK_K1024, |m| m.ops_per_s(m.ce.int8_elements) / T_K1024),
    row("peak_fp8_tflops", "TFLOP/s", PEAK, |m| m.ops_per_s(m.ce.fp8_elements) / T),
    row("peak_fp8_tflops_k1024", "TFLOP/s", PEAK_K1024, |m| m.ops_per_s(m.ce.fp8_elements) / T_K1024),
    row("peak_bf16_tflops", "TFLOP/s", PEAK, |m| m.ops_per_s(m.ce.bf16_elements) / T),
    row("peak_bf16_tflops_k1024", "TFLOP/s", PEAK_K1024, |m| m.ops_per_s(m.ce.bf16_elements) / T_K1024),
    row("pe_int8_tops", "TOP/s", "peak_int8_tops / PEs", |m| {
        m.ops_per_s(m.ce.int8_elements) / f(m.pes()) / T
    }),
    row("pe_int8_tops_k1024", "TOP/s", PEAK_K1024, |m| {
        m.ops_per_s(m.ce.int8_elements) / f(m.pes()) / T_K1024
    }),
    row("macs_int8_per_cycle", "MAC", "slices x lanes x elements", |m| {
        f(m.slices() * m.ce.lanes * m.ce.int8_elements)
    }),
    row("pes", "", "clusters x PEs of a cluster", |m| f(m.pes())),
    row("slices", "", "PEs x slices of a PE", |m| f(m.slices())),
    row("slices_1_pe", "", "slices of a PE", |m| f(m.fused_slices(1))),
    row("slices_2_pes", "", "2 x slices of a PE", |m| f(m.fused_slices(2))),
    row("slices_cluster", "", "PEs of a cluster x slices of a PE", |m| {
        f(m.fused_slices(m.chip.pes_per_cluster))
    }),
    row("slices_per_dmn", "", "slices of a PE / DMNs of a PE", |m| f(m.slices_per_dmn())),
    row("dm_chip_mib", "MiB", "slices x capacity", |m| f(m.dm_chip_bytes()) / MIB),
    row("dm_pe_mib", "MiB", "slices of a PE x capacity", |m| f(m.pe.slices * m.dm.capacity_bytes) / MIB),
    row("dm_rows_per_bank", "", "capacity / (banks x access)", |m| f(m.dm_rows_per_bank())),
    row("dm_slice_bytes_per_cycle", "B/cycle", "banks x access", |m| f(m.dm_bytes_per_cycle())),
    row("dm_tb_per_s", "TB/s", "slices x banks x access x clock", |m| {
        f(m.slices() * m.dm_bytes_per_cycle()) * f(m.chip.clock_hz) / T
    }),
    row("sram_tb_per_s", "TB/s", "slices x (DM + TRF rate) x clock", |m| m.sram_bytes_per_s() / T),
    row("sram_tb_per_s_k1024", "TB/s", PEAK_K1024, |m| m.sram_bytes_per_s() / T_K1024),
    row("trf_raw_kib", "KiB", "lanes x banks x rows x row bits / 8", |m| {
        m.trf_bytes_per_cycle() * f(m.trf.rows_per_bank) / KIB
    }),
    row("trf_payload_kib", "KiB", "lanes x banks x rows x payload", |m| {
        f(m.ce.lanes * m.trf_lane_payload_bytes()) / KIB
    }),
    row("trf_cache_kib", "KiB", "lanes x banks x cache rows x row bits / 8", |m| {
        m.trf_bytes_per_cycle() * f(m.trf.cache_rows) / KIB
    }),
    row("accumulators", "", "lanes x outputs x accumulators of one", |m| f(m.accumulators())),
    row("ve_ways_per_pe", "", "slices of a PE x integer ways", |m| f(m.pe.slices * m.ve.int_ways)),
    row("starvation_accesses", "", "timeout / (request / DMN rate x DMN slices)", |m| {
        f(m.starvation_accesses())
    }),
    row("hbm_channels", "", "stacks x channels", |m| f(m.hbm_channels())),
    row("hbm_gib", "GiB", "channels x banks of one x rows x row", |m| f(m.hbm_capacity_bytes()) / GIB),
    row("hbm_channel_gb_per_s", "GB/s", "channel width x channel clock", |m| {
        f(m.hbm.channel_bytes_per_cycle) * f(m.hbm.channel_clock_hz) / 1e9
    }),
    row("hbm_tb_per_s", "TB/s", "channels x channel width x channel clock", |m| m.hbm_bytes_per_s() / T),
    row("hbm_access_ns", "ns", "access / channel rate", |m| {
        f(m.hbm.access_bytes) * 1e9 / (f(m.hbm.channel_bytes_per_cycle) * f(m.hbm.channel_clock_hz))
    }),
    row("dma_tb_per_s", "TB/s", "PEs x rate of a tensor DMA x clock", |m| {
        f(m.pes() * m.tdma.bandwidth_bytes_per_cycle) * f(m.chip.clock_hz) / T
    }),
    row("pe_gb_per_s", "GB/s", "NoC rate of a PE x clock", |m| {
        f(m.noc.pe_bytes_per_cycle) * f(m.chip.clock_hz) / 1e9
    }),
    row("pcie_gb_per_s", "GB/s", "2 directions x lanes x transfers / 8", |m| {
        2.0 * f(m.pcie.lanes) * f(m.pcie.lane_transfers_per_s) / 8e9
    }),
    row("die_mm2", "mm2", "width x height", |m| m.chip.die_width_mm * m.chip.die_height_mm),
    row("tdp_w", "W", "stated", |m| m.chip.tdp_w),
    row("idle_w", "W", "uncore + stacks x standby + slices x idle cycle x clock", |m| m.idle_w()),
];
