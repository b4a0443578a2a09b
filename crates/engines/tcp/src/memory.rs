//! What a lowered shape occupies in DM, TRF and VRF (paper sections III and IV, vISA book).

use tilewright_machine::tcp::Tcp;
use tilewright_notation::problem::{Digit, Shape};
use tilewright_notation::syntax::ast::{Operand, Place};
use tilewright_num::Dtype;

/// What a shape takes of one memory on each slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// Whose shape.
    pub operand: Operand,
    /// Which memory.
    pub place: Place,
    /// Slices that the shape spans, idle places included.
    pub slices: u64,
    /// Elements on each slice, padding places included.
    pub elements: u64,
    /// Bytes on each slice, up to the next whole write granule; padding of rows is what the shape writes with `#`.
    pub bytes_per_slice: u64,
    /// Bytes that the memory has on each slice.
    pub capacity_bytes: u64,
}

impl Footprint {
    /// The footprint of a shape whose elements have `bits` bits.
    pub fn of_shape(machine: &Tcp, shape: &Shape, place: Place, bits: u64) -> Footprint {
        let product =
            |digits: &[Digit]| digits.iter().fold(1_u64, |all, digit| all.saturating_mul(digit.slots));
        let elements = product(&shape.intra);
        let granule = machine.dm.write_granule_bytes;
        let bytes = elements.saturating_mul(bits).div_ceil(8);
        Footprint {
            operand: shape.operand,
            place,
            slices: product(&shape.inter),
            elements,
            bytes_per_slice: bytes.checked_next_multiple_of(granule).unwrap_or(u64::MAX),
            capacity_bytes: capacity_bytes(machine, place),
        }
    }
}

/// Bits that an element takes in memory, on its way and in register files: the extra bit of i5 and i9 has a place of its own.
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

/// The memory that an operand lives in unless its shape says otherwise.
pub fn default_place(operand: Operand, stationary: bool) -> Place {
    if stationary && operand != Operand::Out { Place::Trf } else { Place::Dm }
}
