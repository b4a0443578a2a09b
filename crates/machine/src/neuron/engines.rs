//! Compute engines of a core.
//! Clocks and widths are from the NKI architecture guides, costs from the NKI instruction pages;
//! pipeline latencies are assumptions that published profiles bound.

use crate::keys::machine_keys;

machine_keys! {
    /// Tensor engine: a systolic array.
    Tensor {
        /// Clock.
        clock_hz: u64 [1_000_000, 10_000_000_000],
        /// Rows of processing elements: the contraction.
        rows: u64 [1, 4096],
        /// Columns of processing elements: the outputs.
        columns: u64 [1, 4096],
        /// Largest free size of the stationary tile.
        stationary_free_max: u64 [1, 65536],
        /// Largest free size of the moving tile with FP32 results.
        moving_free_max: u64 [1, 65536],
        /// Shortest time of a multiplication.
        turnaround_cycles: u64 [0, 100_000],
        /// Times as fast that weights load as a multiplication of the same size runs.
        load_speedup: u64 [1, 64],
        /// Time from the last row to the end of the result.
        pipeline_cycles: u64 [0, 100_000],
        /// Cycles of an FP32 row; rows of 16 bits take one.
        fp32_row_cycles: u64 [1, 64],
        /// The same in kernels of the first dialect, as its compiler makes them.
        fp32_compiled_row_cycles: u64 [1, 64],
        /// Cycles of an FP32 row of a transpose.
        fp32_transpose_row_cycles: u64 [1, 64],
        /// True if there is a bit-exact transpose mode.
        exact_transpose: bool,
        /// FP8 rate over BF16 rate.
        fp8_rate: u64 [0, 64],
        /// INT8 rate over BF16 rate; 0 if not offered.
        int8_rate: u64 [0, 64],
        /// MXFP8 and MXFP4 rate over BF16 rate; 0 if not offered.
        mx_rate: u64 [0, 64],
        /// Structured-sparse rate over BF16 rate; 0 if not offered.
        sparse_rate: u64 [0, 64],
        /// Smallest that the longer side of a part of the array may be.
        tile_min: u64 [1, 4096],
        /// Time from idle to full rate.
        ramp_ns: u64 [0, 1_000_000],
        /// Part of the full rate that the ramp starts at.
        ramp_start_fraction: f64 [0.01, 1.0],
        /// Part of the time of a ramp that must be busy, or the array falls back to where the ramp starts.
        ramp_busy_fraction: f64 [0.0, 1.0],
    }

    /// Vector engine.
    Vector {
        /// Clock.
        clock_hz: u64 [1_000_000, 10_000_000_000],
        /// Lanes.
        lanes: u64 [1, 65536],
        /// Static overhead of a short or dependent instruction.
        fixed_cycles: u64 [0, 100_000],
        /// Latency of execution between read and write.
        pipeline_cycles: u64 [0, 100_000],
        /// Elements of 16 bits that a lane takes in one cycle, contiguous and in SBUF.
        fast_rate: u64 [1, 64],
        /// The same when strided, when in PSUM, or with two inputs.
        fast_strided_rate: u64 [1, 64],
        /// Cycles of an element of a reciprocal.
        reciprocal_cycles: u64 [1, 64],
        /// Shortest time of a copy from or to a place that is known at run time.
        dynamic_copy_cycles: u64 [0, 100_000],
        /// Longest row of which statistics are taken.
        statistics_free_max: u64 [1, 65536],
        /// Longest row that is searched for its largest elements.
        search_free_max: u64 [8, 1 << 20],
        /// Cycles of an element of a division, as the compiler makes it of a reciprocal and a product.
        divide_cycles: f64 [1.0, 64.0],
        /// Partitions that a transpose or shuffle stays within.
        transpose_block: u64 [1, 65536],
    }

    /// Scalar engine.
    Scalar {
        /// Clock.
        clock_hz: u64 [1_000_000, 10_000_000_000],
        /// Lanes.
        lanes: u64 [1, 65536],
        /// Shortest time of an instruction.
        turnaround_cycles: u64 [0, 100_000],
        /// Latency of execution between read and write.
        pipeline_cycles: u64 [0, 100_000],
        /// Elements of at most 16 bits that a lane takes in one cycle.
        fast_rate: u64 [1, 64],
        /// Load of another table of functions.
        table_load_ns: u64 [0, 1_000_000],
        /// Read of the running sums.
        accumulator_read_cycles: u64 [0, 100_000],
    }

    /// General-purpose engine.
    Gpsimd {
        /// Clock.
        clock_hz: u64 [1_000_000, 10_000_000_000],
        /// Processors.
        processors: u64 [1, 256],
        /// Partitions that a processor is wired to.
        partitions_per_processor: u64 [1, 4096],
        /// Start of an instruction.
        startup_cycles: u64 [0, 100_000],
        /// A descriptor of a transfer whose rows are picked at run time.
        descriptor_cycles: u64 [0, 100_000],
        /// Rate of the DMA engines inside the processors, both directions; 0 if there are none.
        dma_bytes_per_s: u64 [0, 1_000_000_000_000_000],
        /// Elements of a partition that these move from core to core, at most.
        exchange_elements_max: u64 [0, 65536],
    }
}
