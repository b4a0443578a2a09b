//! Cast engine: one flit a cycle, behind the vector engine, which it occupies (vISA book, cast engine).
//!
//! Its latency is part of the vector engine's measured depth: the machine file has no figure of its own for
//! it.

/// What a command casts on each slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CastStage {
    /// Flits that arrive, and leave.
    pub flits: u64,
}

/// Cycles in which flits pass.
pub fn stream_cycles(cast: &CastStage) -> u64 {
    cast.flits
}
