//! Fetch unit: one access a cycle, as wide as the addresses allow (vISA book, fetch engine).
//!
//! A packet takes as many cycles as it has accesses. The main unit's width is the rule of
//! [`tilewright_tcp_isa::sequencer::read_bytes`]; the sub unit has one width. A cast while fetching delays
//! the stream once.

use tilewright_base::invariant::OrBroken;
use tilewright_machine::tcp::Tcp;
use tilewright_notation::algebra::access::AccessPattern;

use tilewright_tcp_isa::capped::Capped;
use tilewright_tcp_isa::program::exec::Context;
use tilewright_tcp_isa::sequencer;

/// What a command fetches on each slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchStage {
    /// Context that the unit belongs to.
    pub context: Context,
    /// Packets: the product of the time loops.
    pub packets: u64,
    /// Bytes of a packet, padding included.
    pub packet_bytes: u64,
    /// Bytes of an access of the main unit, from [`read_bytes`]; the sub unit ignores it.
    pub read_bytes: u64,
    /// Elements change their type on the way.
    pub cast: bool,
}

/// Cycles in which the unit reads.
pub fn stream_cycles(machine: &Tcp, fetch: &FetchStage) -> u64 {
    let width_bytes = match fetch.context {
        Context::Main => fetch.read_bytes,
        Context::Sub => machine.fetch.sub_width_bytes,
    };
    fetch.packets.capped_mul(fetch.packet_bytes.div_ceil(width_bytes.max(1)))
}

/// Cycles by which the last packet arrives later than it was read.
pub fn latency_cycles(machine: &Tcp, fetch: &FetchStage) -> u64 {
    if fetch.cast { machine.fetch.cast_cycles } else { 0 }
}

/// Bytes of one access: [`sequencer::read_bytes`] for the main unit, the fixed width for the sub unit.
///
/// A packet whose bits cannot be counted is read by the narrowest access.
pub fn read_bytes(
    machine: &Tcp,
    context: Context,
    merged: &AccessPattern,
    packet_elements: u64,
    element_bits: u64,
) -> u64 {
    let countable = packet_elements > 0 && packet_elements.checked_mul(element_bits).is_some();
    match context {
        Context::Sub => machine.fetch.sub_width_bytes,
        Context::Main if countable => sequencer::read_bytes(machine, merged, packet_elements, element_bits),
        Context::Main => {
            let widths = machine.fetch.main_widths_bytes.iter().copied();
            widths.min().or_broken("a machine has widths of fetches")
        }
    }
}
