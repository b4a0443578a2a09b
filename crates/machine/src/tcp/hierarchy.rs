//! Chip, processing elements and their control: counts, clocks, power, command costs.
//! Counts are from the paper (sections III and IV, Table I), command costs from the vISA book.

use crate::keys::machine_keys;
use crate::value::List;

machine_keys! {
    /// The chip as a whole.
    Chip {
        /// Clock of tensor units and on-chip network; one cycle is one period of it.
        clock_hz: u64 [1_000_000, 10_000_000_000],
        /// Clusters: largest groups of processing elements that can be fused.
        clusters: u64 [1, 64],
        /// Processing elements of a cluster.
        pes_per_cluster: u64 [1, 64],
        /// Numbers of processing elements that may be fused into one.
        fused_pes: List [1, 64],
        /// Thermal design power of the chip.
        tdp_w: f64 [0.1, 10_000.0],
        /// Width of the die.
        die_width_mm: f64 [0.1, 100.0],
        /// Height of the die.
        die_height_mm: f64 [0.1, 100.0],
    }

    /// A processing element: control processor, tensor unit, tensor DMA.
    Pe {
        /// Slices that programs use.
        slices: u64 [1, 1024],
        /// Slices that replace faulty ones.
        spare_slices: u64 [0, 1024],
        /// Data memory networks, each shared by an equal part of the slices.
        dmns: u64 [1, 64],
    }

    /// The control processor of a processing element.
    Cpu {
        /// Scratchpad memory that control code runs from.
        spm_bytes: u64 [0, 1 << 30],
        /// Rate of the scratchpad as a DMA medium, for each data memory network.
        spm_bytes_per_cycle: u64 [1, 1 << 16],
    }

    /// The host that starts passes of a model.
    Host {
        /// What a pass of a model costs besides its programs: host, driver and what no rule accounts for.
        pass_ns: u64 [0, 1_000_000_000],
    }

    /// The command queue of a tensor unit.
    Queue {
        /// Commands that it holds.
        entries: u64 [1, 1 << 20],
        /// Time the control processor takes to push a command.
        push_cycles: u64 [0, 1_000_000],
        /// Time a wait or a poll takes when nothing has to be waited for.
        wait_cycles: u64 [0, 1_000_000],
    }

    /// Fixed costs of commands and launches.
    Command {
        /// Overhead of a tensor unit command, hidden only by other contexts.
        overhead_cycles: u64 [0, 1_000_000],
        /// Time from the launch of a kernel to its first command.
        launch_cycles: u64 [0, 1_000_000_000],
        /// Time from the last command to the end of a kernel.
        finish_cycles: u64 [0, 1_000_000_000],
        /// Bytes of one entry of a custom switch bitmap; loading it blocks DMA and the sub context.
        bitmap_entry_bytes: u64 [1, 4096],
        /// Rate at which a custom switch bitmap is loaded.
        bitmap_bytes_per_cycle: u64 [1, 4096],
    }
}
