//! What follows from the figures of a Neuron device.
//!
//! Peak rates are those of the array at its documented clock; the architecture pages round up or
//! count another clock, and the differences are shown, not tuned away.

use super::Neuron;
use crate::derived::{DerivedRow, f};

impl Neuron {
    /// Bytes of a core's state buffer.
    pub fn sbuf_bytes(&self) -> u64 {
        self.sbuf.partitions * self.sbuf.partition_bytes
    }

    /// Bytes of a core's partial-sum buffer.
    pub fn psum_bytes(&self) -> u64 {
        self.sbuf.partitions * self.psum.banks * self.psum.bank_bytes
    }

    /// DMA engines of the device.
    pub fn dma_engines(&self) -> u64 {
        self.chip.cores * self.dma.engines_per_core
    }

    /// Peak rate of off-chip memory.
    pub fn hbm_bytes_per_s(&self) -> f64 {
        f(self.hbm.stacks) * f(self.hbm.stack_bytes_per_s)
    }

    /// Operations per second of one core in BF16.
    fn core_ops_per_s(&self) -> f64 {
        2.0 * f(self.tensor.rows * self.tensor.columns) * f(self.tensor.clock_hz)
    }

    /// Operations per second of the device at a multiple of the BF16 rate.
    fn ops_per_s(&self, rate: u64) -> f64 {
        f(self.chip.cores) * self.core_ops_per_s() * f(rate)
    }
}

const T: f64 = 1e12;
const G: f64 = 1e9;
const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * KIB;
const GIB: f64 = 1024.0 * MIB;

const fn row(
    name: &'static str,
    unit: &'static str,
    formula: &'static str,
    value: fn(&Neuron) -> f64,
) -> DerivedRow<Neuron> {
    DerivedRow { name, unit, formula, value }
}

pub(crate) const ROWS: &[DerivedRow<Neuron>] = &[
    row("peak_bf16_tflops", "TFLOP/s", "cores x 2 x rows x columns x clock", |m| m.ops_per_s(1) / T),
    row("peak_fp8_tflops", "TFLOP/s", "peak_bf16_tflops x fp8_rate", |m| m.ops_per_s(m.tensor.fp8_rate) / T),
    row("peak_fp32_tflops", "TFLOP/s", "peak_bf16_tflops / fp32_row_cycles", |m| {
        m.ops_per_s(1) / f(m.tensor.fp32_row_cycles) / T
    }),
    row("peak_int8_tops", "TOP/s", "peak_bf16_tflops x int8_rate", |m| m.ops_per_s(m.tensor.int8_rate) / T),
    row("peak_mx_tflops", "TFLOP/s", "peak_bf16_tflops x mx_rate", |m| m.ops_per_s(m.tensor.mx_rate) / T),
    row("peak_sparse_tflops", "TFLOP/s", "peak_bf16_tflops x sparse_rate", |m| {
        m.ops_per_s(m.tensor.sparse_rate) / T
    }),
    row("core_bf16_tflops", "TFLOP/s", "2 x rows x columns x clock", |m| m.core_ops_per_s() / T),
    row("core_fp8_tflops", "TFLOP/s", "core_bf16_tflops x fp8_rate", |m| {
        m.core_ops_per_s() * f(m.tensor.fp8_rate) / T
    }),
    row("core_fp32_tflops", "TFLOP/s", "core_bf16_tflops / fp32_row_cycles", |m| {
        m.core_ops_per_s() / f(m.tensor.fp32_row_cycles) / T
    }),
    row("core_mx_tflops", "TFLOP/s", "core_bf16_tflops x mx_rate", |m| {
        m.core_ops_per_s() * f(m.tensor.mx_rate) / T
    }),
    row("core_sparse_tflops", "TFLOP/s", "core_bf16_tflops x sparse_rate", |m| {
        m.core_ops_per_s() * f(m.tensor.sparse_rate) / T
    }),
    row("cores", "", "stated", |m| f(m.chip.cores)),
    row("cc_cores", "", "stated", |m| f(m.chip.cc_cores)),
    row("partitions", "", "stated", |m| f(m.sbuf.partitions)),
    row("sbuf_core_mib", "MiB", "partitions x bytes of a partition", |m| f(m.sbuf_bytes()) / MIB),
    row("sbuf_usable_kib", "KiB", "bytes of a partition - reserved", |m| {
        f(m.sbuf.partition_bytes - m.sbuf.reserved_bytes) / KIB
    }),
    row("psum_core_mib", "MiB", "partitions x banks x bytes of a bank", |m| f(m.psum_bytes()) / MIB),
    row("psum_bank_fp32", "", "bytes of a bank / 4", |m| f(m.psum.bank_bytes) / 4.0),
    row("hbm_gib", "GiB", "stacks x bytes of a stack", |m| f(m.hbm.stacks) * f(m.hbm.stack_bytes) / GIB),
    row("hbm_gb_per_s", "GB/s", "stacks x rate of a stack", |m| m.hbm_bytes_per_s() / G),
    row("hbm_core_gb_per_s", "GB/s", "hbm_gb_per_s / cores", |m| m.hbm_bytes_per_s() / f(m.chip.cores) / G),
    row("dma_engines", "", "cores x engines of a core", |m| f(m.dma_engines())),
    row("dma_gb_per_s", "GB/s", "dma_engines x peak rate of one", |m| {
        f(m.dma_engines()) * f(m.dma.engine_bytes_per_s) / G
    }),
    row("dma_core_achieved_gb_per_s", "GB/s", "engines of a core x achieved rate of one", |m| {
        f(m.dma.engines_per_core) * f(m.dma.achieved_bytes_per_s) / G
    }),
    row("links", "", "stated", |m| f(m.link.links)),
    row("link_gib_per_s", "GiB/s", "links x rate of one, binary", |m| {
        f(m.link.links) * f(m.link.link_bytes_per_s) / GIB
    }),
    row("link_gb_per_s", "GB/s", "links x rate of one", |m| f(m.link.links) * f(m.link.link_bytes_per_s) / G),
];
