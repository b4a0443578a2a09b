//! Commit unit: the valid part of each flit is written to data memory, one write a cycle (paper section IV-D;
//! widths from the vISA book, commit engine).

use tilewright_base::invariant::OrBroken;
use tilewright_machine::tcp::Tcp;

use tilewright_tcp_isa::capped::Capped;
use tilewright_tcp_isa::program::exec::Context;

/// What a command writes on each slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitStage {
    /// Context that the unit belongs to.
    pub context: Context,
    /// Flits that arrive.
    pub flits: u64,
    /// Bytes of a flit that are kept.
    pub valid_bytes: u64,
    /// Bytes of a write of the main unit, from [`write_bytes`]; the sub unit ignores it.
    pub write_bytes: u64,
}

/// Cycles in which the unit writes.
pub fn stream_cycles(machine: &Tcp, commit: &CommitStage) -> u64 {
    let width_bytes = match commit.context {
        Context::Main => commit.write_bytes,
        Context::Sub => machine.commit.sub_width_bytes,
    };
    commit.flits.capped_mul(commit.valid_bytes.div_ceil(width_bytes.max(1)))
}

/// Bytes of one write: the widest that divides both what is kept of a flit and what lies together in memory.
pub fn write_bytes(machine: &Tcp, context: Context, valid_bytes: u64, contiguous_bytes: u64) -> u64 {
    let widths = &machine.commit.main_widths_bytes;
    let fits = |width: &u64| valid_bytes.is_multiple_of(*width) && contiguous_bytes.is_multiple_of(*width);
    match context {
        Context::Sub => machine.commit.sub_width_bytes,
        Context::Main => {
            let widest = widths.iter().copied().filter(fits).max();
            widest.or_else(|| widths.iter().copied().min()).or_broken("a machine has widths of commits")
        }
    }
}
