//! Engines of a slice, in the order in which data passes them.
//! Widths are from the paper (section IV), limits and depths from the vISA book.

use crate::keys::machine_keys;
use crate::value::List;

machine_keys! {
    /// Fetch units: main and sub.
    Fetch {
        /// Widths of an access of the main unit, one access a cycle.
        main_widths_bytes: List [1, 1024],
        /// Width of an access of the sub unit.
        sub_width_bytes: u64 [1, 1024],
        /// A packet on its way to the network is a multiple of this.
        packet_granule_bytes: u64 [1, 1024],
        /// Tensors that one command may fetch from in turn.
        interleaved_tensors: u64 [1, 16],
        /// Latency of a type cast while fetching.
        cast_cycles: u64 [0, 1000],
        /// Chunks of a packet with a padding count of their own.
        mask_chunks: u64 [0, 256],
        /// Largest padding count in 4-bit cells.
        pad_cells_max: u64 [0, 65536],
        /// Largest padding count in 32-bit elements.
        pad_words_max: u64 [0, 65536],
        /// Entries of the lookup table.
        lookup_entries: u64 [0, 65536],
    }

    /// Loop sequencers of fetch, commit and register files.
    Sequencer {
        /// Nested loops of a command.
        entries: u64 [1, 64],
        /// Largest size of a loop.
        entry_size_max: u64 [1, 1 << 32],
    }

    /// Fetch network: a ring of slices that software cuts into smaller rings.
    Network {
        /// Bytes that a link moves in one cycle.
        flit_bytes: u64 [1, 1024],
        /// Latency of one hop.
        hop_cycles: u64 [0, 1000],
        /// Fill of a ring, for each slice of it.
        fill_cycles_per_slice: u64 [0, 1000],
        /// Source slices that a snoop bitmap can name.
        snoop_entries: u64 [1, 65536],
    }

    /// Contraction engine of a slice.
    Contraction {
        /// Dot-product rows.
        lanes: u64 [1, 64],
        /// Bytes of a packet, the operand of all lanes in one cycle.
        packet_bytes: u64 [1, 4096],
        /// Buffer in which flits become packets.
        flit_buffer_bytes: u64 [1, 4096],
        /// Elements of a packet, and products of a lane in one cycle, in INT4.
        int4_elements: u64 [1, 8192],
        /// The same in INT8.
        int8_elements: u64 [1, 8192],
        /// The same in FP8.
        fp8_elements: u64 [1, 8192],
        /// The same in BF16.
        bf16_elements: u64 [1, 8192],
        /// Outputs of a lane's tree that are kept.
        outputs_per_lane: u64 [1, 4096],
        /// Accumulators behind each output.
        accumulators_per_output: u64 [1, 4096],
        /// Width of an accumulator.
        accumulator_bits: u64 [8, 128],
        /// Accumulators that leave in one cycle.
        drain_elements_per_cycle: u64 [1, 4096],
        /// Latency of a transpose within a flit.
        transpose_cycles: u64 [0, 1000],
        /// Largest shift stride of the convolution mode in INT4.
        int4_shift_max: u64 [0, 1024],
        /// The same in INT8.
        int8_shift_max: u64 [0, 1024],
        /// The same in BF16.
        bf16_shift_max: u64 [0, 1024],
    }

    /// Vector engine of a slice.
    Vector {
        /// 32-bit integers that it takes in one cycle.
        int_ways: u64 [1, 1024],
        /// FP32 numbers that it takes in one cycle.
        float_ways: u64 [1, 1024],
        /// Depth of the pipeline.
        pipeline_cycles: u64 [0, 10_000],
        /// Latency of each unit that a command uses.
        unit_cycles: u64 [0, 1000],
        /// Immediate operands of a command.
        immediates: u64 [0, 64],
        /// Width of the tag that every element carries.
        tag_bits: u64 [0, 64],
        /// Comparisons that may set tags.
        tag_comparisons: u64 [0, 64],
        /// Slots of the temporal accumulation within a slice.
        reduce_slots: u64 [0, 1024],
        /// Time filters of the valid-count generator.
        time_filters: u64 [0, 64],
        /// Packet clippers of the valid-count generator.
        packet_clippers: u64 [0, 64],
    }

    /// Transpose engine of a slice.
    Transpose {
        /// Buffers.
        buffers: u64 [1, 64],
        /// Columns of a buffer.
        buffer_columns: u64 [1, 1024],
        /// Numbers of input columns that it accepts.
        columns: List [1, 1024],
        /// Most input rows of 4-bit elements.
        rows_4bit_max: u64 [1, 1024],
        /// The same for 8-bit elements.
        rows_8bit_max: u64 [1, 1024],
        /// The same for 16-bit elements.
        rows_16bit_max: u64 [1, 1024],
        /// The same for 32-bit elements.
        rows_32bit_max: u64 [1, 1024],
    }

    /// Commit units: main and sub.
    Commit {
        /// Widths of a write of the main unit, one write a cycle.
        main_widths_bytes: List [1, 1024],
        /// Width of a write of the sub unit.
        sub_width_bytes: u64 [1, 1024],
        /// Slices that a write mask can name.
        mask_slices: u64 [1, 65536],
    }
}
