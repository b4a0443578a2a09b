//! Loads of register files: the sub context writes TRF and VRF as wide as it fetches, the main context a flit
//! a cycle (vISA book, tensor register file).

use tilewright_machine::tcp::Tcp;

use tilewright_tcp_isa::program::exec::Context;

/// What a command stores in the register files of each slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadStage {
    /// Context that loads.
    pub context: Context,
    /// Bytes, of all lanes together.
    pub slice_bytes: u64,
}

/// Cycles in which the register file is written.
pub fn stream_cycles(machine: &Tcp, load: &LoadStage) -> u64 {
    load.slice_bytes.div_ceil(match load.context {
        Context::Main => machine.network.flit_bytes,
        Context::Sub => machine.fetch.sub_width_bytes,
    })
}
