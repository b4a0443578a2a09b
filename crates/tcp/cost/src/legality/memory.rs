//! What a lowered shape occupies in DM, TRF and VRF (paper sections III and IV, vISA book).

use tilewright_machine::tcp::Tcp;
use tilewright_notation::problem::{Digit, Shape};
use tilewright_notation::syntax::ast::{Operand, Place};

use tilewright_tcp_isa::capped::{Capped, TOO_MANY};
use tilewright_tcp_isa::memory::capacity_bytes;

/// What a shape takes of one memory on each slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShapeFootprint {
    /// Operand that has the shape.
    pub operand: Operand,
    /// Memory that the shape lies in.
    pub place: Place,
    /// Slices that the shape spans, idle places included.
    pub slices: u64,
    /// Elements on each slice, padding places included.
    pub elements: u64,
    /// Bytes on each slice, up to the next whole write granule; padding of rows is what the shape writes with
    /// `#`.
    pub bytes_per_slice: u64,
    /// Bytes that the memory has on each slice.
    pub capacity_bytes: u64,
}

impl ShapeFootprint {
    /// The footprint of a shape whose elements have `bits` bits.
    pub fn of_shape(machine: &Tcp, shape: &Shape, place: Place, bits: u64) -> ShapeFootprint {
        let product = |digits: &[Digit]| digits.iter().fold(1_u64, |all, digit| all.capped_mul(digit.slots));
        let elements = product(&shape.intra);
        let granule = machine.dm.write_granule_bytes;
        let bytes = elements.capped_mul(bits).div_ceil(8);
        ShapeFootprint {
            operand: shape.operand,
            place,
            slices: product(&shape.inter),
            elements,
            bytes_per_slice: bytes.checked_next_multiple_of(granule).unwrap_or(TOO_MANY),
            capacity_bytes: capacity_bytes(machine, place),
        }
    }
}

/// The memory that an operand lives in unless its shape says otherwise.
pub fn default_place(operand: Operand, stationary: bool) -> Place {
    if stationary && operand != Operand::Out { Place::Trf } else { Place::Dm }
}
