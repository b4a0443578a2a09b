//! What elements take in the memories of a slice, and what DM, TRF and VRF hold (paper sections III and IV,
//! vISA book).

use crate::capped::Capped;
use tilewright_machine::tcp::Tcp;
use tilewright_notation::syntax::ast::Place;
use tilewright_num::Dtype;

/// Bits that an element takes in memory, on its way and in register files: the extra bit of i5 and i9 has a
/// place of its own.
pub fn payload_bits(dtype: Dtype) -> u64 {
    match dtype {
        Dtype::I5 => 4,
        Dtype::I9 => 8,
        other => u64::from(other.storage_bits()),
    }
}

/// Bytes of a memory on one slice.
pub fn capacity_bytes(machine: &Tcp, place: Place) -> u64 {
    match place {
        Place::Dm => machine.dm.capacity_bytes,
        Place::Trf => trf_payload_bytes(machine),
        Place::TrfHalf => trf_payload_bytes(machine) / machine.trf.halves,
        Place::Vrf => machine.vrf.capacity_bytes,
    }
}

/// Data that the register files of a slice hold: with fewer lanes in use each lane has more rows, so the
/// sum does not depend on the lanes.
fn trf_payload_bytes(machine: &Tcp) -> u64 {
    machine.ce.lanes * machine.trf_lane_payload_bytes()
}

/// Bytes of so many elements of so many bits, the last of them begun.
pub fn bytes_of(elements: u64, bits: u64) -> u64 {
    elements.capped_mul(bits).div_ceil(8)
}
