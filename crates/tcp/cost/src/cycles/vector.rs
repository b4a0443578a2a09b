//! Vector engine: one flit of 32-bit elements a cycle, floats at half the width (paper section IV-D; vISA
//! book, vector engine).
//!
//! A chain with any float, reduce or divide stage splits each flit in parts, unless what the narrow stages
//! cannot take at once is padding anyway. The reducer between slices takes whole flits; where it comes first,
//! the chain gets what it leaves. Depth and units delay the stream once: the published bars of a bias hold
//! fetch cast, units and depth together, so the depth of the machine file is what the other two leave; a
//! reduction between slices adds one hop for each slice of a group.

use tilewright_machine::tcp::Tcp;

use tilewright_tcp_isa::capped::Capped;
use tilewright_tcp_isa::program;
use tilewright_tcp_isa::vector::shape::shapes;
use tilewright_tcp_isa::vector::{narrow, units};

/// What a command computes on each slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorStage {
    /// Flits that enter.
    pub flits: u64,
    /// Flits that enter the chain: fewer, if the reducer between slices comes first and deals them out.
    pub chain_flits: u64,
    /// Any stage between narrow and widen is in use: float, reduction within the slice, division.
    pub narrow: bool,
    /// Elements beyond the narrow width are padding.
    pub upper_half_padding: bool,
    /// Units in use.
    pub units: u64,
    /// Slices whose values the reducer combines; 1 for none.
    pub reduced_slices: u64,
}

impl VectorStage {
    /// Of a chain on a stream of so many flits; a chain that does not fit them takes all of them.
    pub fn of(chain: &program::vector::Vector, flits: u64) -> VectorStage {
        VectorStage {
            flits,
            chain_flits: shapes(chain, flits).map_or(flits, |shapes| shapes.flits),
            narrow: narrow(chain),
            upper_half_padding: chain.trim,
            units: units(chain),
            reduced_slices: chain.between.map_or(1, |between| between.slices),
        }
    }
}

/// Cycles in which flits, or their parts, enter.
pub fn stream_cycles(machine: &Tcp, vector: &VectorStage) -> u64 {
    let split = vector.narrow && !vector.upper_half_padding;
    let parts = if split { machine.ve.int_ways.div_ceil(machine.ve.float_ways) } else { 1 };
    vector.flits.max(vector.chain_flits.capped_mul(parts))
}

/// Cycles between the last flit in and the last flit out of the chain.
pub fn latency_cycles(machine: &Tcp, vector: &VectorStage) -> u64 {
    machine.ve.pipeline_cycles.capped_add(machine.ve.unit_cycles.capped_mul(vector.units))
}

/// Cycles that the reduction between slices adds.
pub fn reduce_cycles(machine: &Tcp, vector: &VectorStage) -> u64 {
    match vector.reduced_slices {
        0 | 1 => 0,
        slices => slices.capped_mul(machine.network.hop_cycles),
    }
}
