//! What is in flight on one slice: packets or flits as bytes, and beside them the extra bits of i5 and i9.
//!
//! An i5 takes 4 bits and an i9 8, as in the register file (vISA book, tensor register file). The plane of
//! extra bits has a byte for each payload byte: bit 0, and bit 1 for the high nibble, say that the extra bit
//! differs from the sign below it. So plain i4 and i8 need no plane, and whatever is written without one
//! reads as sign-extended.

use tilewright_num::{Dtype, int_pattern, int_value};

use super::fault::{ExecProblem, divide};
use crate::limits::index;

use tilewright_tcp_isa::capped::Capped;
use tilewright_tcp_isa::memory::payload_bits;

/// A sequence of packets of one size, or of flits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packets {
    /// Packet after packet.
    pub bytes: Vec<u8>,
    /// Extra bits, as many bytes; `None` if no element has one.
    pub extra: Option<Vec<u8>>,
    /// Bytes of a packet.
    pub packet_bytes: usize,
}

impl Packets {
    /// Number of packets.
    pub fn count(&self) -> usize {
        // No bytes are no packets of any size, of none too.
        if self.bytes.is_empty() { 0 } else { self.bytes.len() / self.packet_bytes }
    }

    /// The same done to both planes.
    pub(super) fn map(&self, packet_bytes: usize, each: impl Fn(&[u8]) -> Vec<u8>) -> Packets {
        Packets { bytes: each(&self.bytes), extra: self.extra.as_deref().map(&each), packet_bytes }
    }
}

/// Bytes of so many elements in flight; of more than can be counted, more than a command may have.
pub(super) fn flight_bytes(dtype: Dtype, elements: u64) -> u64 {
    elements.capped_mul(payload_bits(dtype)).div_ceil(8)
}

/// Elements of so many bytes in flight.
pub(super) fn flight_elements(dtype: Dtype, bytes: usize) -> usize {
    bytes * 8 / index(payload_bits(dtype))
}

/// Bytes from a place on; none where a memory, which may never have been written, has none.
pub(super) fn bytes_from(bytes: &[u8], at: usize) -> &[u8] {
    bytes.get(at..).unwrap_or(&[])
}

/// Bits `at * bits ..` of little-endian bytes; missing bytes are zero.
pub(super) fn load_bits(bytes: &[u8], bits: u64, at: usize) -> u32 {
    let byte = |index: usize| bytes.get(index).map_or(0, |byte| u32::from(*byte));
    match bits {
        4 => byte(at / 2) >> (4 * (at % 2)) & 0xF,
        8 => byte(at),
        16 => byte(2 * at) | byte(2 * at + 1) << 8,
        _ => (0..4).fold(0, |word, part| word | byte(4 * at + part) << (8 * part)),
    }
}

/// Writes what [`load_bits`] reads; nothing past the end.
pub(super) fn store_bits(bytes: &mut [u8], bits: u64, at: usize, pattern: u32) {
    let pattern = pattern.to_le_bytes();
    if bits == 4 {
        if let Some(byte) = bytes.get_mut(at / 2) {
            let shift = 4 * (at % 2);
            *byte = *byte & !(0xF << shift) | (pattern[0] & 0xF) << shift;
        }
        return;
    }
    let width = index(bits / 8);
    if let Some(place) = bytes.get_mut(at * width..at * width + width) {
        place.copy_from_slice(&pattern[..width]);
    }
}

/// The pattern of element `at`, extra bit included.
pub(super) fn load_element(dtype: Dtype, bytes: &[u8], extra: Option<&[u8]>, at: usize) -> u32 {
    let payload = load_bits(bytes, payload_bits(dtype), at);
    let narrow = match dtype {
        Dtype::I5 => Dtype::I4,
        Dtype::I9 => Dtype::I8,
        _ => return payload,
    };
    let plain = int_pattern(dtype, int_value(narrow, payload));
    plain ^ u32::from(extra_bit(dtype, extra, at)) << (dtype.bits() - 1)
}

fn extra_bit(dtype: Dtype, extra: Option<&[u8]>, at: usize) -> bool {
    let (byte, bit) = if dtype == Dtype::I5 { (at / 2, at % 2) } else { (at, 0) };
    extra.and_then(|extra| extra.get(byte)).is_some_and(|flags| flags >> bit & 1 == 1)
}

/// Writes the pattern of element `at`; makes the plane of extra bits when the first one needs it.
pub(super) fn store_element(dtype: Dtype, packets: &mut Packets, at: usize, pattern: u32) {
    store_bits(&mut packets.bytes, payload_bits(dtype), at, pattern);
    let (byte, bit) = match dtype {
        Dtype::I5 => (at / 2, at % 2),
        Dtype::I9 => (at, 0),
        _ => return,
    };
    let top = dtype.bits() - 1;
    if pattern >> top & 1 != pattern >> (top - 1) & 1 {
        let size = packets.bytes.len();
        if let Some(flags) = packets.extra.get_or_insert_with(|| vec![0; size]).get_mut(byte) {
            *flags |= 1 << bit;
        }
    }
}

/// Flits as 32-bit words.
pub(super) fn words(flits: &Packets) -> Result<Vec<u32>, ExecProblem> {
    divide("bytes of words", flits.bytes.len() as u64, 4)?;
    Ok(flits.bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect())
}

/// Words as flits.
pub(super) fn flits_of(words: &[u32], flit_bytes: usize) -> Packets {
    let mut bytes = vec![0; words.len() * 4];
    for (place, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
        *place = word.to_le_bytes();
    }
    Packets { bytes, extra: None, packet_bytes: flit_bytes }
}
